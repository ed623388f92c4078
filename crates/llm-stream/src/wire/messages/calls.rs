//! The calls of an answer.

use std::{borrow::Cow, collections::HashSet};

use serde_json::value::RawValue;
use turnwright_core::{CallId, ErrorInfo, ErrorKind, ToolCall};

use super::event::RawBlock;
use crate::{
    LlmEvent, StreamItem, ToolProgress,
    wire::{
        ids::CallIds,
        limits::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_LABEL_BYTES},
        scan::JsonScan,
        text::nonempty,
    },
};

/// The calls so far. A call is emitted when its block ends; one whose block never does, or whose arguments are not whole,
/// waits for the end of the answer.
#[derive(Debug, Default)]
pub(super) struct Calls {
    calls: Vec<Call>,
    ids: CallIds,
    argument_bytes: usize,
}

#[derive(Debug)]
struct Call {
    id: CallId,
    name: String,
    arguments: String,
    scan: JsonScan,
    /// The arguments as they stood at the begin of the block: all of them if nothing follows.
    at_begin: Option<String>,
    emitted: bool,
}

impl Calls {
    /// Calls none of which will have one of these ids.
    pub(super) fn avoiding(taken: HashSet<CallId>) -> Self {
        Self { ids: CallIds::avoiding(taken), ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Takes the begin of a call. Returns its place.
    pub(super) fn begin(
        &mut self,
        block: &RawBlock<'_>,
        out: &mut Vec<StreamItem>,
    ) -> Result<usize, ErrorInfo> {
        let (id, name) = (nonempty(block.id).unwrap_or_default(), nonempty(block.name).unwrap_or_default());
        if id.len().max(name.len()) > MAX_LABEL_BYTES {
            return Err(too_large("the id or the name of a tool call"));
        }
        if self.calls.len() == MAX_CALLS {
            return Err(too_large("the list of tool calls"));
        }
        if name.is_empty() {
            return Err(ErrorInfo::new(ErrorKind::Protocol, "a tool call has no name"));
        }
        let at_begin = block.input.map(RawValue::get).filter(|input| *input != "null").map(str::to_owned);
        self.count(at_begin.as_ref().map_or(0, String::len))?;
        let at = self.calls.len();
        let id = match &*id {
            "" => self.ids.unique(&format!("call_{}", at + 1)),
            id => self.ids.unique(id),
        };
        let name = name.into_owned();
        out.push(StreamItem::Progress(ToolProgress::Started { id: id.clone(), name: name.clone() }));
        let (arguments, scan) = (String::new(), JsonScan::default());
        self.calls.push(Call { id, name, arguments, scan, at_begin, emitted: false });
        Ok(at)
    }

    /// Takes a piece of the arguments. Returns whether it said anything.
    pub(super) fn piece(
        &mut self,
        at: usize,
        piece: Cow<'_, str>,
        out: &mut Vec<StreamItem>,
    ) -> Result<bool, ErrorInfo> {
        if piece.is_empty() {
            return Ok(false);
        }
        self.count(piece.len())?;
        self.calls[at].append(piece.into_owned(), out);
        Ok(true)
    }

    /// Says that the block of a call ended: the call is complete, unless its arguments are not.
    pub(super) fn end(&mut self, at: usize, out: &mut Vec<StreamItem>) {
        let call = &mut self.calls[at];
        call.fill(out);
        if call.is_whole() {
            call.emit(out);
        }
    }

    /// Emits the calls that wait. Returns whether one of them was cut, though perhaps nobody said so.
    pub(super) fn finish(&mut self, out: &mut Vec<StreamItem>) -> bool {
        let mut has_cut = false;
        for call in self.calls.iter_mut().filter(|call| !call.emitted) {
            call.fill(out);
            has_cut |= call.is_cut();
            call.emit(out);
        }
        has_cut
    }

    fn count(&mut self, bytes: usize) -> Result<(), ErrorInfo> {
        self.argument_bytes += bytes;
        if self.argument_bytes > MAX_ARGUMENT_BYTES {
            return Err(too_large("the arguments of the tool calls"));
        }
        Ok(())
    }
}

impl Call {
    fn append(&mut self, piece: String, out: &mut Vec<StreamItem>) {
        self.scan.push(piece.as_bytes());
        self.arguments.push_str(&piece);
        let id = self.id.clone();
        out.push(StreamItem::Progress(ToolProgress::Arguments { id, fragment: piece }));
    }

    /// Without pieces, what stood at the begin is all.
    fn fill(&mut self, out: &mut Vec<StreamItem>) {
        if let Some(input) = self.at_begin.take()
            && self.arguments.is_empty()
        {
            self.append(input, out);
        }
    }

    /// Whether the arguments are all there, as far as their JSON tells; none at all are whole.
    fn is_whole(&self) -> bool {
        self.scan.is_complete() || self.arguments.trim().is_empty()
    }

    /// Whether their JSON began and did not end.
    fn is_cut(&self) -> bool {
        !self.is_whole() && self.arguments.trim_start().starts_with(['{', '['])
    }

    fn emit(&mut self, out: &mut Vec<StreamItem>) {
        self.emitted = true;
        let (name, arguments) = (std::mem::take(&mut self.name), std::mem::take(&mut self.arguments));
        let call = ToolCall::new(self.id.clone(), name, arguments);
        out.push(LlmEvent::ToolCallComplete(Box::new(call)).into());
    }
}

fn too_large(what: &str) -> ErrorInfo {
    ErrorInfo::new(ErrorKind::TooLarge, format!("{what} outgrew the limit"))
}
