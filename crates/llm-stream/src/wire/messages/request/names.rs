//! Ids and names as the format allows them: letters, digits, `_` and `-`.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use turnwright_core::{CallId, Message};

use crate::wire::ids::CallIds;

/// The most bytes a tool's name may have.
const MAX_NAME_BYTES: usize = 128;

/// Ids in place of those that the format does not allow, as other formats may have made them.
#[derive(Debug)]
pub(super) struct Ids<'a>(HashMap<&'a CallId, CallId>);

impl<'a> Ids<'a> {
    /// Equal histories get equal ids, and no two calls of a history the same.
    pub(super) fn of(messages: &'a [Arc<Message>]) -> Self {
        let calls = || messages.iter().flat_map(|message| message.tool_calls()).map(|call| &call.id);
        let is_legal = |id: &&CallId| !id.as_str().is_empty() && id.as_str().chars().all(is_legal);
        let mut ids = CallIds::avoiding(calls().filter(is_legal).cloned().collect());
        let mut legal = HashMap::new();
        for id in calls().filter(|id| !is_legal(id)) {
            legal.entry(id).or_insert_with(|| ids.unique(&legal_of(id.as_str(), usize::MAX)));
        }
        Self(legal)
    }

    pub(super) fn legal<'b>(&'b self, id: &'b CallId) -> &'b str {
        self.0.get(id).unwrap_or(id).as_str()
    }
}

/// The name of a tool that a model called, which may be one that no tool could have.
pub(super) fn legal_name(name: &str) -> Cow<'_, str> {
    if !name.is_empty() && name.len() <= MAX_NAME_BYTES && name.chars().all(is_legal) {
        name.into()
    } else {
        legal_of(name, MAX_NAME_BYTES).into()
    }
}

fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn legal_of(text: &str, limit: usize) -> String {
    let legal: String = text.chars().take(limit).map(|c| if is_legal(c) { c } else { '_' }).collect();
    if legal.is_empty() { "_".to_owned() } else { legal }
}
