//! Tool calls out of the deltas of their blocks.

use std::collections::{HashMap, HashSet};

use turnwright_core::{CallId, ErrorInfo, ErrorKind, ToolCall};

use super::event::{ToolDelta, ToolStart};
use crate::{
    LlmEvent, StreamItem, ToolProgress,
    wire::{
        ids::CallIds,
        limits::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_LABEL_BYTES},
        scan::JsonScan,
        text::{nonempty, text_of},
    },
};

/// The blocks of one answer that began with a `contentBlockStart`.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    open: HashMap<u64, Block>,
    /// In the order they began.
    calls: Vec<Call>,
    /// How many of them were emitted.
    emitted: usize,
    ids: CallIds,
    argument_bytes: usize,
}

#[derive(Debug, Clone, Copy)]
enum Block {
    /// The call at this place.
    Call(usize),
    /// A tool that the provider runs itself, its result, or what this version does not know.
    Skipped,
}

#[derive(Debug)]
struct Call {
    id: CallId,
    name: String,
    arguments: String,
    ended: bool,
}

impl Blocks {
    /// Blocks none of whose calls will have one of these ids.
    pub(super) fn avoiding(taken: HashSet<CallId>) -> Self {
        Self { ids: CallIds::avoiding(taken), ..Self::default() }
    }

    pub(super) fn has_calls(&self) -> bool {
        !self.calls.is_empty()
    }

    /// Whether the JSON of a call that was not emitted yet began and did not end.
    pub(super) fn has_cut_call(&self) -> bool {
        self.calls[self.emitted..].iter().any(|call| {
            let arguments = call.arguments.trim_start();
            arguments.starts_with(['{', '[']) && JsonScan::default().push(arguments.as_bytes()).is_none()
        })
    }

    /// Begins a block. Returns whether it is a call for us to run. A block of this index that is still open ends.
    pub(super) fn start(
        &mut self,
        index: u64,
        tool: Option<&ToolStart<'_>>,
        out: &mut Vec<StreamItem>,
    ) -> Result<bool, ErrorInfo> {
        self.stop(index);
        // What runs elsewhere has another type.
        let ours = tool.filter(|tool| nonempty(tool.kind).is_none_or(|kind| kind == "tool_use"));
        let block = match ours {
            Some(tool) => Block::Call(self.begin(tool, out)?),
            None => Block::Skipped,
        };
        if self.open.len() == MAX_CALLS {
            return Err(too_large("the list of open blocks"));
        }
        self.open.insert(index, block);
        Ok(ours.is_some())
    }

    fn begin(&mut self, tool: &ToolStart<'_>, out: &mut Vec<StreamItem>) -> Result<usize, ErrorInfo> {
        let at = self.calls.len();
        let wire_id = nonempty(tool.tool_use_id).unwrap_or_else(|| format!("call_{}", at + 1).into());
        let Some(name) = nonempty(tool.name) else {
            return Err(ErrorInfo::new(ErrorKind::Protocol, "a tool call has no name"));
        };
        if wire_id.len().max(name.len()) > MAX_LABEL_BYTES {
            return Err(too_large("the id or the name of a tool call"));
        }
        if at == MAX_CALLS {
            return Err(too_large("the list of tool calls"));
        }
        let (id, name) = (self.ids.unique(&wire_id), name.into_owned());
        out.push(StreamItem::Progress(ToolProgress::Started { id: id.clone(), name: name.clone() }));
        self.calls.push(Call { id, name, arguments: String::new(), ended: false });
        Ok(at)
    }

    /// Takes a piece of the arguments of the call in the block of this index. Returns whether it said anything.
    pub(super) fn delta(
        &mut self,
        index: u64,
        delta: &ToolDelta<'_>,
        out: &mut Vec<StreamItem>,
    ) -> Result<bool, ErrorInfo> {
        let Some(raw) = delta.input else { return Ok(false) };
        let piece = match text_of(raw) {
            Some(text) => text,
            None if raw.get() == "null" => "".into(),
            // The JSON itself, where it was forgotten to make it a string.
            None => raw.get().into(),
        };
        let at = match self.open.get(&index) {
            Some(Block::Call(at)) => *at,
            Some(Block::Skipped) => return Ok(false),
            // Without the start there is no name, and another block's call would be a guess.
            None => {
                let message = format!("arguments came for block {index}, in which no tool call began");
                return Err(ErrorInfo::new(ErrorKind::Protocol, message));
            }
        };
        self.argument_bytes += piece.len();
        if self.argument_bytes > MAX_ARGUMENT_BYTES {
            return Err(too_large("the arguments of the tool calls"));
        }
        if piece.is_empty() {
            return Ok(false);
        }
        let call = &mut self.calls[at];
        call.arguments.push_str(&piece);
        let progress = ToolProgress::Arguments { id: call.id.clone(), fragment: piece.into_owned() };
        out.push(StreamItem::Progress(progress));
        Ok(true)
    }

    /// Ends the block of this index, if it is open.
    pub(super) fn stop(&mut self, index: u64) {
        if let Some(Block::Call(at)) = self.open.remove(&index) {
            self.calls[at].ended = true;
        }
    }

    /// Emits the calls whose blocks have ended, because a part comes that must stand behind them. Not at the end of a
    /// block: a call that the output limit cut has an end too, and then no part follows.
    pub(super) fn emit_ended(&mut self, out: &mut Vec<StreamItem>) {
        while self.calls.get(self.emitted).is_some_and(|call| call.ended) {
            self.emit_next(out);
        }
    }

    /// Emits the calls that are left.
    pub(super) fn finish(&mut self, out: &mut Vec<StreamItem>) {
        while self.emitted < self.calls.len() {
            self.emit_next(out);
        }
    }

    fn emit_next(&mut self, out: &mut Vec<StreamItem>) {
        if let Some(call) = self.calls.get_mut(self.emitted) {
            let (name, arguments) = (std::mem::take(&mut call.name), std::mem::take(&mut call.arguments));
            let call = ToolCall::new(call.id.clone(), name, arguments);
            out.push(LlmEvent::ToolCallComplete(Box::new(call)).into());
            self.emitted += 1;
        }
    }
}

fn too_large(what: &str) -> ErrorInfo {
    ErrorInfo::new(ErrorKind::TooLarge, format!("{what} outgrew the limit"))
}
