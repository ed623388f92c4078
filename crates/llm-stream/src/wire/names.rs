//! Ids of calls and names of tools for formats that allow letters, digits, `_` and `-` in them.

use std::{borrow::Cow, collections::HashMap, sync::Arc};

use turnwright_core::{CallId, Message};

use crate::wire::ids::CallIds;

/// What is left free behind an id that is cut, for a number that makes it differ from others.
const ROOM: usize = 8;

/// Ids in place of those that the format does not allow, as other formats may have made them.
#[derive(Debug)]
pub(in crate::wire) struct Ids<'a>(HashMap<&'a CallId, CallId>);

impl<'a> Ids<'a> {
    /// Equal histories get equal ids, and no two calls of a history the same. None is longer than this many bytes.
    pub(in crate::wire) fn of(messages: &'a [Arc<Message>], max_bytes: usize) -> Self {
        let calls = || messages.iter().flat_map(|message| message.tool_calls()).map(|call| &call.id);
        let is_legal = |id: &&CallId| is_legal_text(id.as_str(), max_bytes);
        let mut ids = CallIds::avoiding(calls().filter(is_legal).cloned().collect());
        let mut legal = HashMap::new();
        for id in calls().filter(|id| !is_legal(id)) {
            legal.entry(id).or_insert_with(|| ids.unique(&legal_of(id.as_str(), max_bytes - ROOM)));
        }
        Self(legal)
    }

    pub(in crate::wire) fn legal<'b>(&'b self, id: &'b CallId) -> &'b str {
        self.0.get(id).unwrap_or(id).as_str()
    }
}

/// The name of a tool that a model called, which may be one that no tool could have; cut to this many bytes.
pub(in crate::wire) fn legal_name(name: &str, max_bytes: usize) -> Cow<'_, str> {
    if is_legal_text(name, max_bytes) { name.into() } else { legal_of(name, max_bytes).into() }
}

fn is_legal_text(text: &str, max_bytes: usize) -> bool {
    !text.is_empty() && text.len() <= max_bytes && text.chars().all(is_legal)
}

fn is_legal(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

fn legal_of(text: &str, limit: usize) -> String {
    let legal: String = text.chars().take(limit).map(|c| if is_legal(c) { c } else { '_' }).collect();
    if legal.is_empty() { "_".to_owned() } else { legal }
}
