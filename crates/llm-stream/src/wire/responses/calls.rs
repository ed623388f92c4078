//! The calls of an answer.

use std::{borrow::Cow, collections::HashSet};

use serde_json::value::RawValue;
use turnwright_core::{CallId, ErrorInfo, ErrorKind, ToolCall};

use super::{call::Call, items::wrong_item};
use crate::{
    LlmEvent, StreamItem, ToolProgress,
    wire::{
        ids::CallIds,
        limits::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_LABEL_BYTES},
        text::text_of,
    },
};

/// The calls so far. A call is emitted when its item is done; one whose item never is, or whose arguments are not
/// whole, waits for the end of the answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    ids: CallIds,
    argument_bytes: usize,
}

impl Calls {
    /// Calls none of which will have one of these ids.
    pub(super) fn avoiding(taken: HashSet<CallId>) -> Self {
        Self { ids: CallIds::avoiding(taken), ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether one of the first so many has this id of the server's.
    pub(super) fn has(&self, wire_id: &str, first: usize) -> bool {
        self.calls.iter().take(first).any(|call| !call.wire_id.is_empty() && call.wire_id == wire_id)
    }

    /// Whether a call has this id of the server's.
    pub(super) fn is(&self, at: usize, wire_id: &str) -> bool {
        self.calls[at].wire_id == wire_id
    }

    pub(super) fn begin(&mut self, is_free_text: bool) -> Result<usize, ErrorInfo> {
        if self.calls.len() == MAX_CALLS {
            return Err(too_large("the list of tool calls"));
        }
        let call = Call::new(is_free_text);
        self.argument_bytes += call.arguments.len();
        self.calls.push(call);
        Ok(self.calls.len() - 1)
    }

    /// Takes what the item says of the call, which can be shown from then on.
    pub(super) fn describe(
        &mut self,
        at: usize,
        wire_id: &str,
        name: &str,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        if wire_id.len().max(name.len()) > MAX_LABEL_BYTES {
            return Err(too_large("the id or the name of a tool call"));
        }
        let call = &mut self.calls[at];
        if call.wire_id.is_empty() {
            call.wire_id.push_str(wire_id);
        }
        if call.name.is_empty() {
            call.name.push_str(name);
        }
        self.announce(at, out);
        self.show(at, out);
        Ok(())
    }

    /// Takes a piece of the arguments.
    pub(super) fn piece(
        &mut self,
        at: usize,
        piece: Cow<'_, str>,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        if self.calls[at].emitted || self.calls[at].is_closed() {
            return Err(wrong_item("arguments"));
        }
        let spelled = self.calls[at].spelled(piece);
        self.append(at, &spelled, out)
    }

    /// Takes all of the arguments, of which most or nothing came in pieces.
    pub(super) fn whole(
        &mut self,
        at: usize,
        whole: &RawValue,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo> {
        let call = &self.calls[at];
        if call.emitted || call.is_closed() {
            return Ok(());
        }
        let whole = call.spelled(arguments_of(whole));
        let Some(missing) = call.missing(&whole) else {
            let message = "the pieces of a call's arguments are others than those at its end";
            return Err(ErrorInfo::new(ErrorKind::Protocol, message));
        };
        self.append(at, missing, out)
    }

    /// Says that the item is done: the call is complete, unless it was cut.
    pub(super) fn done(&mut self, at: usize, is_cut: bool, out: &mut Vec<StreamItem>) {
        if is_cut {
            return;
        }
        self.close(at, out);
        let call = &self.calls[at];
        if !call.name.is_empty() && call.is_whole() {
            self.emit(at, out);
        }
    }

    /// Emits the calls that wait. Returns whether one of them was cut, though perhaps nobody said so.
    pub(super) fn finish(&mut self, out: &mut Vec<StreamItem>) -> Result<bool, ErrorInfo> {
        let mut has_cut = false;
        for at in 0..self.calls.len() {
            if self.calls[at].emitted {
                continue;
            }
            if self.calls[at].name.is_empty() {
                return Err(ErrorInfo::new(ErrorKind::Protocol, "a tool call has no name"));
            }
            has_cut |= self.calls[at].is_cut();
            self.announce(at, out);
            self.close(at, out);
            self.emit(at, out);
        }
        Ok(has_cut)
    }

    fn append(&mut self, at: usize, spelled: &str, out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo> {
        self.argument_bytes += spelled.len();
        if self.argument_bytes > MAX_ARGUMENT_BYTES {
            return Err(too_large("the arguments of the tool calls"));
        }
        self.calls[at].append(spelled);
        self.show(at, out);
        Ok(())
    }

    fn close(&mut self, at: usize, out: &mut Vec<StreamItem>) {
        self.calls[at].close();
        self.show(at, out);
    }

    /// Says that the call began, once its name is known.
    fn announce(&mut self, at: usize, out: &mut Vec<StreamItem>) {
        let call = &mut self.calls[at];
        if call.id.is_some() || call.name.is_empty() {
            return;
        }
        let id = match call.wire_id.as_str() {
            "" => self.ids.unique(&format!("call_{}", at + 1)),
            id => self.ids.unique(id),
        };
        call.id = Some(id.clone());
        out.push(StreamItem::Progress(ToolProgress::Started { id, name: call.name.clone() }));
    }

    /// Shows what came of the arguments since.
    fn show(&mut self, at: usize, out: &mut Vec<StreamItem>) {
        let call = &mut self.calls[at];
        if let Some(id) = &call.id
            && call.shown < call.arguments.len()
        {
            let fragment = call.arguments[call.shown..].to_owned();
            call.shown = call.arguments.len();
            out.push(StreamItem::Progress(ToolProgress::Arguments { id: id.clone(), fragment }));
        }
    }

    fn emit(&mut self, at: usize, out: &mut Vec<StreamItem>) {
        let call = &mut self.calls[at];
        if let Some(id) = call.id.clone() {
            call.emitted = true;
            let (name, arguments) = (std::mem::take(&mut call.name), std::mem::take(&mut call.arguments));
            out.push(LlmEvent::ToolCallComplete(Box::new(ToolCall::new(id, name, arguments))).into());
        }
    }
}

/// A piece of arguments: a string, or the JSON itself where a server forgot to make it one.
pub(super) fn arguments_of(raw: &RawValue) -> Cow<'_, str> {
    match text_of(raw) {
        Some(text) => text,
        None if raw.get() == "null" => "".into(),
        None => raw.get().into(),
    }
}

fn too_large(what: &str) -> ErrorInfo {
    ErrorInfo::new(ErrorKind::TooLarge, format!("{what} outgrew the limit"))
}
