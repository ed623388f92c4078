//! Ids of tool calls: unique in an answer, and beside those of the conversation.

use std::collections::{HashMap, HashSet};

use turnwright_core::CallId;

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
