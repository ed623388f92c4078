//! Ids as the format allows them: letters, digits, `_` and `-`.

use std::{collections::HashMap, sync::Arc};

use turnwright_core::{CallId, Message};

use crate::wire::{
    history::{is_legal, legal_of},
    ids::CallIds,
};

/// Ids in place of those that the format does not allow, as other formats may have made them.
#[derive(Debug)]
pub(super) struct Ids<'a>(HashMap<&'a CallId, CallId>);

impl<'a> Ids<'a> {
    /// Equal histories get equal ids, and no two calls of a history the same.
    pub(super) fn of(messages: &'a [Arc<Message>]) -> Self {
        let calls = || messages.iter().flat_map(|message| message.tool_calls()).map(|call| &call.id);
        let is_fit = |id: &&CallId| !id.as_str().is_empty() && id.as_str().chars().all(is_legal);
        let mut ids = CallIds::avoiding(calls().filter(is_fit).cloned().collect());
        let mut legal = HashMap::new();
        for id in calls().filter(|id| !is_fit(id)) {
            legal.entry(id).or_insert_with(|| ids.unique(&legal_of(id.as_str(), usize::MAX)));
        }
        Self(legal)
    }

    pub(super) fn legal<'b>(&'b self, id: &'b CallId) -> &'b str {
        self.0.get(id).unwrap_or(id).as_str()
    }
}
