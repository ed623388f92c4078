//! The calls of an answer. Most come whole, in one part; where the caller asked for it their arguments come in pieces.

use std::collections::HashSet;

use serde_json::{Map, Value, value::RawValue};
use turnwright_core::{CallId, ErrorInfo, ErrorKind, ToolCall};

use super::{chunk::FunctionCall, kept::Kept, partial::Arguments};
use crate::{
    LlmEvent, StreamItem, ToolProgress,
    wire::{
        ids::CallIds,
        limits::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_LABEL_BYTES},
        text::nonempty,
    },
};

/// The calls so far.
#[derive(Debug, Default)]
pub(super) struct Calls {
    count: usize,
    ids: CallIds,
    argument_bytes: usize,
    /// A call of which more comes.
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    id: CallId,
    name: String,
    wire_id: Option<String>,
    signature: Option<String>,
    arguments: Arguments,
}

impl Calls {
    /// Calls none of which will have one of these ids.
    pub(super) fn avoiding(taken: HashSet<CallId>) -> Self {
        Self { ids: CallIds::avoiding(taken), ..Self::default() }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Takes a call, or a piece of one. Returns whether it said anything.
    pub(super) fn piece(
        &mut self,
        function: &FunctionCall<'_>,
        signature: Option<&str>,
        out: &mut Vec<StreamItem>,
    ) -> Result<bool, ErrorInfo> {
        let goes_on = function.will_continue.is_some_and(|raw| raw.get() == "true");
        let pieces = function.partial_args.as_ref().map(|list| &list.0[..]).unwrap_or_default();
        if let Some(name) = nonempty(function.name) {
            // A call whose end mark is missing ends where the next one begins.
            self.close(true, out);
            let wire_id = nonempty(function.id);
            let id = self.begin(&name, wire_id.as_deref(), out)?;
            let arguments = function.args.map(RawValue::get).filter(|json| *json != "null");
            self.spend(arguments.map_or(0, str::len))?;
            if !goes_on && pieces.is_empty() {
                keep(wire_id.as_deref(), signature, out);
                // The format leaves out arguments that are empty.
                complete(id, name.into_owned(), arguments.unwrap_or("{}").to_owned(), out);
                return Ok(true);
            }
            let start: Map<String, Value> =
                arguments.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
            self.open = Some(Open {
                id,
                name: name.into_owned(),
                wire_id: wire_id.map(Into::into),
                signature: None,
                arguments: Arguments::new(start),
            });
        }
        let Some(open) = &mut self.open else {
            // The end mark of a call that was ended already says nothing.
            return match function.args.is_none() && pieces.is_empty() {
                true => Ok(false),
                false => Err(ErrorInfo::new(ErrorKind::Protocol, "a tool call has no name")),
            };
        };
        if open.signature.is_none() {
            open.signature = signature.map(Into::into);
        }
        let mut cost = 0;
        for piece in pieces {
            cost += open.arguments.take(piece)?;
        }
        self.spend(cost)?;
        if !goes_on {
            self.close(true, out);
        }
        Ok(true)
    }

    /// Ends the call of which more was to come, if there is one. Where the answer was cut its arguments lack their last
    /// brace: they must not be taken for whole.
    pub(super) fn close(&mut self, is_whole: bool, out: &mut Vec<StreamItem>) {
        let Some(open) = self.open.take() else { return };
        let mut arguments = open.arguments.into_json();
        if !is_whole {
            arguments.pop();
        }
        keep(open.wire_id.as_deref(), open.signature.as_deref(), out);
        complete(open.id, open.name, arguments, out);
    }

    fn begin(
        &mut self,
        name: &str,
        wire_id: Option<&str>,
        out: &mut Vec<StreamItem>,
    ) -> Result<CallId, ErrorInfo> {
        if name.len().max(wire_id.map_or(0, str::len)) > MAX_LABEL_BYTES {
            return Err(too_large("the id or the name of a tool call"));
        }
        if self.count == MAX_CALLS {
            return Err(too_large("the list of tool calls"));
        }
        self.count += 1;
        let id = match wire_id {
            Some(id) => self.ids.unique(id),
            None => self.ids.unique(&format!("call_{}", self.count)),
        };
        out.push(StreamItem::Progress(ToolProgress::Started { id: id.clone(), name: name.to_owned() }));
        Ok(id)
    }

    fn spend(&mut self, bytes: usize) -> Result<(), ErrorInfo> {
        self.argument_bytes = self.argument_bytes.saturating_add(bytes);
        if self.argument_bytes > MAX_ARGUMENT_BYTES {
            return Err(too_large("the arguments of the tool calls"));
        }
        Ok(())
    }
}

/// Emits what goes back with the call that follows.
fn keep(id: Option<&str>, signature: Option<&str>, out: &mut Vec<StreamItem>) {
    if id.is_some() || signature.is_some() {
        out.push(Kept::Call { id, signature }.delta(String::new()));
    }
}

fn complete(id: CallId, name: String, arguments: String, out: &mut Vec<StreamItem>) {
    out.push(StreamItem::Progress(ToolProgress::Arguments { id: id.clone(), fragment: arguments.clone() }));
    out.push(LlmEvent::ToolCallComplete(Box::new(ToolCall::new(id, name, arguments))).into());
}

fn too_large(what: &str) -> ErrorInfo {
    ErrorInfo::new(ErrorKind::TooLarge, format!("{what} outgrew the limit"))
}
