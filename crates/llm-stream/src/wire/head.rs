//! What every decoder does alike, whatever the format.

use std::collections::HashSet;

use serde::{Deserialize, de::IgnoredAny};
use turnwright_core::{CallId, ErrorInfo, ErrorKind};

use super::{
    events::{broken, invalid},
    list,
};
use crate::{
    Finish, FinishReason, LlmEvent, LlmRequest, StreamItem,
    classify::{self, Secrets},
};

/// What is known of an answer as a whole.
#[derive(Debug)]
pub struct Head {
    provider: String,
    secrets: Secrets,
    done: bool,
    pub(in crate::wire) response_id: Option<String>,
    pub(in crate::wire) model: Option<String>,
}

impl Head {
    pub(in crate::wire) fn new(provider: String) -> Self {
        Self { provider, secrets: Secrets::default(), done: false, response_id: None, model: None }
    }

    pub(in crate::wire) fn provider(&self) -> &str {
        &self.provider
    }

    /// Takes these out of errors that the stream reports.
    pub(in crate::wire) fn redact(&mut self, secrets: Secrets) {
        self.secrets = secrets;
    }

    /// Whether the terminal event was appended.
    pub(in crate::wire) fn is_done(&self) -> bool {
        self.done
    }

    /// The error that this data reports.
    pub(in crate::wire) fn reported(&self, data: &[u8]) -> ErrorInfo {
        classify::in_stream(&self.provider, data, &self.secrets)
    }

    /// Reads an object. Other JSON would be read as its fields in their order; here it holds an error, if anything.
    pub(in crate::wire) fn object<'a, T: Deserialize<'a>>(&self, json: &'a str) -> Result<T, ErrorInfo> {
        if json.starts_with('{') {
            return serde_json::from_str(json).map_err(|e| list::too_long(&e).unwrap_or_else(|| invalid(&e)));
        }
        Err(match serde_json::from_str::<IgnoredAny>(json) {
            Ok(_) if json.starts_with(['[', '"']) => self.reported(json.as_bytes()),
            Ok(_) => broken("is no JSON object"),
            Err(e) => invalid(&e),
        })
    }

    /// Ends the answer with its finish.
    pub(in crate::wire) fn finish(
        &mut self,
        reason: FinishReason,
        raw_reason: Option<String>,
        out: &mut Vec<StreamItem>,
    ) {
        self.done = true;
        let (model, response_id) = (self.model.take(), self.response_id.take());
        out.push(LlmEvent::Finish(Box::new(Finish { reason, raw_reason, model, response_id })).into());
    }

    /// Ends it with a failure, unless it is over.
    pub(in crate::wire) fn fail(&mut self, error: ErrorInfo, out: &mut Vec<StreamItem>) {
        if !std::mem::replace(&mut self.done, true) {
            let error = if error.provider.is_some() { error } else { error.provider(self.provider.as_str()) };
            out.push(LlmEvent::failure(error).into());
        }
    }
}

/// The failure of an answer that ended before its finish.
pub(in crate::wire) fn truncated() -> ErrorInfo {
    ErrorInfo::new(ErrorKind::Truncated, "the stream ended before the answer was finished")
}

/// The ids that no call of the answer may have: those of the conversation.
pub(in crate::wire) fn taken_ids(request: &LlmRequest) -> HashSet<CallId> {
    request.messages.iter().flat_map(|m| m.tool_calls()).map(|call| CallId::clone(&call.id)).collect()
}
