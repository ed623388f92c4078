//! Tool calls out of pieces.
//!
//! Servers label pieces in every way: by index, by id, by both, by neither, with one index for all calls, with the id
//! and the name on each piece or on the first only. The rules here give the right calls for all of them.

use std::collections::HashSet;

use serde_json::value::RawValue;
use turnwright_core::{CallId, ErrorInfo, ErrorKind, ToolCall};

use super::chunk::{CallPiece, FunctionPiece};
use crate::{
    LlmEvent, StreamItem, ToolProgress,
    wire::{
        count::Count,
        ids::CallIds,
        limits::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_LABEL_BYTES},
        scan::JsonScan,
        text::{nonempty, text_of},
    },
};

/// The calls of one answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    ids: CallIds,
    argument_bytes: usize,
}

/// What says of which call a piece is.
#[derive(Debug, Default)]
pub(super) struct Labels {
    index: Count,
    id: String,
    name: String,
}

impl Labels {
    pub(super) fn of(piece: &CallPiece<'_>) -> Self {
        let name = piece.function.and_then(|function| nonempty(function.name));
        let id = nonempty(piece.id);
        Self {
            index: piece.index,
            id: id.unwrap_or_default().into_owned(),
            name: name.unwrap_or_default().into_owned(),
        }
    }
}

#[derive(Debug)]
struct Call {
    index: Option<u64>,
    /// The id as the server spells it; empty when it gave none.
    wire_id: String,
    /// The id as we spell it, once the call was announced.
    id: Option<CallId>,
    name: String,
    arguments: String,
    scan: JsonScan,
}

impl Calls {
    /// Calls none of which will have one of these ids.
    pub(super) fn avoiding(taken: HashSet<CallId>) -> Self {
        Self { ids: CallIds::avoiding(taken), ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes a piece. Returns whether it said anything.
    pub(super) fn piece(
        &mut self,
        piece: &CallPiece<'_>,
        out: &mut Vec<StreamItem>,
    ) -> Result<bool, ErrorInfo> {
        let function = piece.function.unwrap_or(FunctionPiece { name: None, arguments: None });
        let id = nonempty(piece.id).unwrap_or_default();
        let name = nonempty(function.name).unwrap_or_default();
        let arguments = function.arguments.map(arguments_of).unwrap_or_default();
        self.labelled(piece.index, &id, &name, &arguments, out)
    }

    /// Takes a piece under the labels it came with. Returns whether it said anything.
    fn labelled(
        &mut self,
        index: Count,
        id: &str,
        name: &str,
        arguments: &str,
        out: &mut Vec<StreamItem>,
    ) -> Result<bool, ErrorInfo> {
        if id.is_empty() && name.is_empty() && arguments.is_empty() {
            return Ok(false);
        }
        if id.len().max(name.len()) > MAX_LABEL_BYTES {
            return Err(too_large("the id or the name of a tool call"));
        }
        self.argument_bytes += arguments.len();
        if self.argument_bytes > MAX_ARGUMENT_BYTES {
            return Err(too_large("the arguments of the tool calls"));
        }
        let at = match self.find(index.0, id, name, arguments) {
            Some(at) => at,
            None if self.calls.len() == MAX_CALLS => return Err(too_large("the list of tool calls")),
            None => {
                self.calls.push(Call::new(index.0, name));
                self.calls.len() - 1
            }
        };
        let call = &mut self.calls[at];
        if call.wire_id.is_empty() {
            call.wire_id.push_str(id);
        }
        if call.name.is_empty() {
            call.name.push_str(name);
        }
        let known = call.arguments.len();
        call.scan.push(arguments.as_bytes());
        call.arguments.push_str(arguments);
        let announced = call.id.is_some();
        // A call without an id yet waits for its arguments: the id may come with them.
        let is_identified = !call.wire_id.is_empty() || !call.arguments.is_empty();
        let may_begin = !call.name.is_empty() && is_identified;
        if announced || may_begin {
            let id = self.announce(at, out);
            let call = &self.calls[at];
            let fragment = if announced { &call.arguments[known..] } else { &call.arguments };
            if !fragment.is_empty() {
                let fragment = fragment.to_owned();
                out.push(StreamItem::Progress(ToolProgress::Arguments { id, fragment }));
            }
        }
        Ok(true)
    }

    /// Takes a further piece that came under the same labels.
    pub(super) fn more(
        &mut self,
        labels: &Labels,
        arguments: &str,
        out: &mut Vec<StreamItem>,
    ) -> Result<bool, ErrorInfo> {
        self.labelled(labels.index, &labels.id, &labels.name, arguments, out)
    }

    /// Takes a piece in the form that knew only one call.
    pub(super) fn legacy(
        &mut self,
        function: FunctionPiece<'_>,
        out: &mut Vec<StreamItem>,
    ) -> Result<bool, ErrorInfo> {
        self.piece(&CallPiece { index: Count(None), id: None, function: Some(function) }, out)
    }

    /// The call a piece goes on with; none when it begins one.
    fn find(&self, index: Option<u64>, id: &str, name: &str, arguments: &str) -> Option<usize> {
        let last = |matches: &dyn Fn(&Call) -> bool| self.calls.iter().rposition(matches);
        let by_id =
            || last(&|c| c.wire_id == id && (index.is_none() || c.index.is_none() || c.index == index));
        let found = match (index, id) {
            (None, "") => self.calls.len().checked_sub(1),
            (Some(_), "") => last(&|c| c.index == index),
            // An id on a used index is the same call only if it is the same id, or the call had none so far.
            (Some(_), _) => by_id()
                .or_else(|| last(&|c| c.index == index).filter(|at| self.calls[*at].wire_id.is_empty())),
            (None, _) => by_id(),
        };
        found.filter(|at| !self.calls[*at].is_followed_by(id, name, arguments))
    }

    /// Says that a call began, once, and returns its id.
    fn announce(&mut self, at: usize, out: &mut Vec<StreamItem>) -> CallId {
        if let Some(id) = &self.calls[at].id {
            return id.clone();
        }
        let base = match self.calls[at].wire_id.as_str() {
            "" => format!("call_{}", at + 1),
            id => id.to_owned(),
        };
        let id = self.ids.unique(&base);
        self.calls[at].id = Some(id.clone());
        let name = self.calls[at].name.clone();
        out.push(StreamItem::Progress(ToolProgress::Started { id: id.clone(), name }));
        id
    }

    /// Emits the calls, in the order of their indexes.
    pub(super) fn finish(&mut self, out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        for at in 0..self.calls.len() {
            if self.calls[at].name.is_empty() {
                let message = "a tool call has no name";
                return Err(ErrorInfo::new(ErrorKind::Protocol, message));
            }
            self.announce(at, out);
        }
        let mut calls: Vec<_> = std::mem::take(&mut self.calls).into_iter().enumerate().collect();
        calls.sort_by_key(|(at, call)| call.index.unwrap_or(*at as u64));
        for (_, call) in calls {
            let Some(id) = call.id else { continue };
            let call = ToolCall::new(id, call.name, call.arguments);
            out.push(LlmEvent::ToolCallComplete(Box::new(call)).into());
        }
        Ok(())
    }
}

impl Call {
    fn new(index: Option<u64>, name: &str) -> Self {
        Self {
            index,
            wire_id: String::new(),
            id: None,
            name: name.to_owned(),
            arguments: String::new(),
            scan: JsonScan::default(),
        }
    }

    /// Whether a piece with the same labels is not of this call but begins the next.
    fn is_followed_by(&self, id: &str, name: &str, arguments: &str) -> bool {
        if name.is_empty() || self.name.is_empty() {
            return false;
        }
        let is_other = id.is_empty() && name != self.name;
        // Nothing can follow a complete object.
        is_other || (self.scan.is_complete() && !arguments.trim().is_empty())
    }
}

/// A piece of arguments: a string, or the JSON itself where a server forgot to make it one.
fn arguments_of(raw: &RawValue) -> std::borrow::Cow<'_, str> {
    match text_of(raw) {
        Some(text) => text,
        None if raw.get() == "null" => "".into(),
        None => raw.get().into(),
    }
}

fn too_large(what: &str) -> ErrorInfo {
    ErrorInfo::new(ErrorKind::TooLarge, format!("{what} outgrew the limit"))
}
