//! Ids of tool calls: unique in an answer, and beside those of the conversation.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use turnwright_core::{CallId, Message};

/// Gives every call an id that no other has: some servers count from one in each answer, and some repeat an id.
#[derive(Debug, Default)]
pub(in crate::wire) struct CallIds {
    /// Ids that are taken: by earlier calls of the conversation and by calls of this answer.
    taken: HashSet<CallId>,
    /// With which suffix to look for the next id that is free, for each id that was taken already.
    copies: HashMap<String, usize>,
}

impl CallIds {
    /// Ids that are none of these.
    pub(in crate::wire) fn avoiding(taken: HashSet<CallId>) -> Self {
        Self { taken, copies: HashMap::new() }
    }

    /// The id as the server spells it, or, where it is taken, with a number appended.
    pub(in crate::wire) fn unique(&mut self, base: &str) -> CallId {
        let mut id = CallId::from(base);
        if !self.taken.insert(id.clone()) {
            let copy = self.copies.entry(base.to_owned()).or_insert(1);
            while !self.taken.insert(id.clone()) {
                *copy += 1;
                id = format!("{base}_{copy}").into();
            }
        }
        id
    }
}

/// Ids in place of those that are too long for a format, as other formats may have made them.
#[derive(Debug)]
pub(in crate::wire) struct ShortIds<'a>(HashMap<&'a CallId, CallId>);

impl<'a> ShortIds<'a> {
    /// Numbered in the order of the history, so that a longer history gives its beginning the same ids.
    pub(in crate::wire) fn of(messages: &'a [Arc<Message>], max_bytes: usize) -> Self {
        let calls = || messages.iter().flat_map(|message| message.tool_calls()).map(|call| &call.id);
        let is_long = |id: &&CallId| id.as_str().len() > max_bytes;
        let mut long = calls().filter(is_long).peekable();
        // Nearly always.
        if long.peek().is_none() {
            return Self(HashMap::new());
        }
        let mut ids = CallIds::avoiding(calls().filter(|id| !is_long(id)).cloned().collect());
        let mut short = HashMap::new();
        for id in long {
            short.entry(id).or_insert_with(|| ids.unique("call_long"));
        }
        Self(short)
    }

    /// The id as it goes out.
    pub(in crate::wire) fn short<'b>(&'b self, id: &'b CallId) -> &'b str {
        self.0.get(id).unwrap_or(id).as_str()
    }
}
