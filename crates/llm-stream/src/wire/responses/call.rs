//! One call while it arrives.

use std::borrow::Cow;

use serde_json::Value;
use turnwright_core::CallId;

use crate::wire::scan::JsonScan;

/// How the arguments of a call with free text begin: such a call is one with a single argument, `input`.
const FREE_TEXT_BEGIN: &str = "{\"input\":\"";
const FREE_TEXT_END: &str = "\"}";

#[derive(Debug, Default)]
pub(super) struct Call {
    /// The server's id, by which the result is known to it.
    pub(super) wire_id: String,
    /// The id as we spell it, once the call was announced.
    pub(super) id: Option<CallId>,
    pub(super) name: String,
    pub(super) arguments: String,
    /// How much of them was shown.
    pub(super) shown: usize,
    scan: JsonScan,
    is_free_text: bool,
    /// Its text is over: the end of its JSON is there.
    closed: bool,
    pub(super) emitted: bool,
}

impl Call {
    pub(super) fn new(is_free_text: bool) -> Self {
        let mut call = Self { is_free_text, ..Self::default() };
        if is_free_text {
            call.append(FREE_TEXT_BEGIN);
        }
        call
    }

    /// The piece as it goes into the arguments.
    pub(super) fn spelled<'a>(&self, piece: Cow<'a, str>) -> Cow<'a, str> {
        if !self.is_free_text {
            return piece;
        }
        let quoted = Value::from(piece).to_string();
        quoted[1..quoted.len() - 1].to_owned().into()
    }

    pub(super) fn append(&mut self, spelled: &str) {
        self.scan.push(spelled.as_bytes());
        self.arguments.push_str(spelled);
    }

    /// What is missing of the arguments, given all of them (as they are spelled); nothing when they are others than
    /// those that came.
    pub(super) fn missing<'a>(&self, whole: &'a str) -> Option<&'a str> {
        let known = match self.is_free_text {
            true => &self.arguments[FREE_TEXT_BEGIN.len()..],
            false => &self.arguments,
        };
        match whole.strip_prefix(known) {
            Some(rest) => Some(rest),
            // The server spells them in another way at the end, or forgot them: what came counts.
            None if self.is_whole() || whole.is_empty() => Some(""),
            None => None,
        }
    }

    /// Ends a free text.
    pub(super) fn close(&mut self) {
        if self.is_free_text && !std::mem::replace(&mut self.closed, true) {
            self.append(FREE_TEXT_END);
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Whether the arguments are all there, as far as their JSON tells; none at all are whole.
    pub(super) fn is_whole(&self) -> bool {
        self.scan.is_complete() || self.arguments.trim().is_empty()
    }

    /// Whether their JSON began and did not end.
    pub(super) fn is_cut(&self) -> bool {
        !self.is_whole() && self.arguments.trim_start().starts_with(['{', '['])
    }
}
