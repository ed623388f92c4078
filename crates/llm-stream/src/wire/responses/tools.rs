//! Which tools of free text an answer may call.

use std::collections::HashSet;

use serde_json::Value;

use crate::LlmRequest;

/// The names of the custom tools of a request; none when it is not known what tools there are.
#[derive(Debug)]
pub(super) struct Tools(Option<HashSet<String>>);

impl Tools {
    pub(super) fn of(request: &LlmRequest) -> Self {
        let extra = request.extra.get("tools").and_then(Value::as_array);
        let is_known = extra.is_some() || !request.tools.is_empty();
        let name = |tool: &Value| Some(tool.get("name")?.as_str()?.to_owned());
        Self(is_known.then(|| extra.into_iter().flatten().filter_map(name).collect()))
    }

    /// Whether a custom tool of this name may be ours.
    pub(super) fn may_have(&self, name: &str) -> bool {
        self.0.as_ref().is_none_or(|names| names.contains(name))
    }
}
