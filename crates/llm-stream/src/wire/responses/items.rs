//! Which item of the output an event is about.
//!
//! Most servers give an index and an id; some no index, and one another id on each event. Some say index 0 of all. So a
//! known id counts first, then the index, whose newest item it is.

use std::collections::{BTreeSet, HashMap};

use turnwright_core::{ErrorInfo, ErrorKind};

use crate::wire::{
    limits::MAX_LABEL_BYTES,
    list::{MAX_LIST_ITEMS, too_many},
};

/// What an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Message,
    Reasoning,
    /// A call with arguments in JSON.
    Function,
    /// A call with free text.
    Custom,
    /// What the server does for itself, or what we do not know.
    Other,
}

impl Kind {
    pub(super) fn of(word: &str) -> Self {
        match word {
            "message" => Self::Message,
            "reasoning" => Self::Reasoning,
            "function_call" => Self::Function,
            "custom_tool_call" => Self::Custom,
            _ => Self::Other,
        }
    }

    pub(super) fn is_call(self) -> bool {
        matches!(self, Self::Function | Self::Custom)
    }
}

/// How an event names its item.
#[derive(Debug, Clone, Copy)]
pub(super) struct Labels<'a> {
    /// Empty when there is none.
    pub(super) id: &'a str,
    pub(super) index: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Item {
    pub(super) kind: Kind,
    id: Box<str>,
    index: Option<u64>,
    /// The server said that it has all of it.
    pub(super) done: bool,
    /// Which parts of it were said, by their index.
    said: BTreeSet<u64>,
    /// Something was said without an index, so that nobody knows what is missing.
    said_any: bool,
    /// Where among the calls it is, if it is one.
    pub(super) call: Option<usize>,
    /// It was found in the list that the last event has.
    pub(super) listed: bool,
}

/// The items so far.
#[derive(Debug, Default)]
pub(super) struct Items {
    list: Vec<Item>,
    by_id: HashMap<Box<str>, usize>,
    by_index: HashMap<u64, usize>,
    /// The one the last event was about.
    last: Option<usize>,
    /// How many parts are noted in all of them.
    parts: usize,
}

impl Items {
    /// The item of an event; none when it was not begun.
    pub(super) fn find(&mut self, labels: Labels<'_>) -> Option<usize> {
        let found = match self.last {
            // Nearly always the same as before.
            Some(last) if !labels.id.is_empty() && *self.list[last].id == *labels.id => Some(last),
            last => self.by_id.get(labels.id).copied().or_else(|| match labels.index {
                Some(index) => self.by_index.get(&index).copied(),
                None if labels.id.is_empty() => last,
                None => None,
            }),
        };
        self.last = found.or(self.last);
        found
    }

    /// The item of a piece; none when it was not begun. A piece without labels is of the newest item, if that is open.
    pub(super) fn find_open(&mut self, labels: Labels<'_>) -> Option<usize> {
        let has_labels = !labels.id.is_empty() || labels.index.is_some();
        self.find(labels).filter(|at| has_labels || !self.list[*at].done)
    }

    /// The same; a piece without labels may belong to an item of this kind, or of none that is known.
    pub(super) fn find_piece(&mut self, kind: Kind, labels: Labels<'_>) -> Option<usize> {
        let has_labels = !labels.id.is_empty() || labels.index.is_some();
        let may_have = |item: &Item| item.kind == kind || item.kind == Kind::Other;
        self.find_open(labels).filter(|at| has_labels || may_have(&self.list[*at]))
    }

    /// The first open item of this kind of which nothing but the kind is known.
    pub(super) fn unlabelled(&self, kind: Kind) -> Option<usize> {
        let is_one =
            |item: &Item| item.kind == kind && !item.done && item.id.is_empty() && item.index.is_none();
        self.list.iter().position(is_one)
    }

    /// Begins an item. One that is open under the same id goes on, since servers repeat themselves.
    pub(super) fn begin(&mut self, kind: Kind, labels: Labels<'_>) -> Result<usize, ErrorInfo> {
        if let Some(at) = self.by_id.get(labels.id).copied()
            && !self.list[at].done
            && self.list[at].kind == kind
        {
            return Ok(at);
        }
        if self.list.len() == MAX_LIST_ITEMS {
            return Err(too_many());
        }
        let at = self.list.len();
        // Nobody reads an id of an item. One that is too long to keep is none.
        let id = if labels.id.len() <= MAX_LABEL_BYTES { labels.id } else { "" };
        if !id.is_empty() {
            self.by_id.insert(id.into(), at);
        }
        if let Some(index) = labels.index {
            self.by_index.insert(index, at);
        }
        self.list.push(Item {
            kind,
            id: id.into(),
            index: labels.index,
            done: false,
            said: BTreeSet::new(),
            said_any: false,
            call: None,
            listed: false,
        });
        self.last = Some(at);
        Ok(at)
    }

    pub(super) fn get(&mut self, at: usize) -> &mut Item {
        &mut self.list[at]
    }

    /// Whether these labels can be those of an item, rather than of another that shares one of them with it.
    pub(super) fn fits(&self, at: usize, labels: Labels<'_>) -> bool {
        let item = &self.list[at];
        let has_other_index = item.index.zip(labels.index).is_some_and(|(a, b)| a != b);
        let has_other_id = !item.id.is_empty() && !labels.id.is_empty() && *item.id != *labels.id;
        !has_other_index && !has_other_id
    }

    /// Makes an item of no known kind one of this kind, if it is open and no call.
    pub(super) fn becomes(&mut self, at: usize, kind: Kind, labels: Labels<'_>) -> bool {
        let is_unknown = self.list[at].kind == Kind::Other && !self.list[at].done && self.fits(at, labels);
        if is_unknown && !kind.is_call() {
            self.list[at].kind = kind;
        }
        is_unknown && !kind.is_call()
    }

    /// Whether this is a message that was told whole by its end.
    pub(super) fn is_told(&self, at: usize, labels: Labels<'_>) -> bool {
        let item = &self.list[at];
        item.kind == Kind::Message && item.done && self.fits(at, labels)
    }

    /// Notes that a part of an item was said.
    pub(super) fn say(&mut self, at: usize, part: Option<u64>) -> Result<(), ErrorInfo> {
        let item = &mut self.list[at];
        match part {
            None => item.said_any = true,
            Some(part) if item.said.contains(&part) => {}
            Some(_) if self.parts == MAX_LIST_ITEMS => return Err(too_many()),
            Some(part) => {
                self.parts += 1;
                item.said.insert(part);
            }
        }
        Ok(())
    }

    /// Whether a part of an item was said before.
    pub(super) fn has_said(&self, at: usize, part: Option<u64>) -> bool {
        let item = &self.list[at];
        item.said_any || part.map_or(!item.said.is_empty(), |part| item.said.contains(&part))
    }

    /// Whether all of so many parts of an item were said, perhaps under other indexes.
    pub(super) fn has_said_all(&self, at: usize, parts: usize) -> bool {
        let item = &self.list[at];
        item.said_any || item.said.len() >= parts
    }

    /// Whether none of this kind can be the one at this place of the output under other labels.
    pub(super) fn lacks(&self, kind: Kind, index: u64) -> bool {
        let is_shifted = self.by_index.contains_key(&index);
        self.list.iter().all(|item| item.kind != kind || (item.index.is_some() && !is_shifted))
    }
}

/// The error of an event that is about an item of another kind.
pub(super) fn wrong_item(what: &str) -> ErrorInfo {
    ErrorInfo::new(ErrorKind::Protocol, format!("{what} came for an item that is no open call"))
}
