//! What a leg with a store has shown and not stored yet.

use turnwright_core::{Timestamp, TurnId};

use crate::{
    event::TurnEventKind,
    record::Record,
    store::{JournalRecord, RecordedEvent},
};

/// Shown bytes that are stored at once; fewer wait for a moment.
const MUCH: usize = 2 << 10;

/// Gathered under the ledger's lock, stored outside of it.
#[derive(Default)]
pub(super) struct Unsaved {
    turn: Option<TurnId>,
    /// The answers of the leg so far.
    answers: u32,
    shown: Vec<JournalRecord>,
    bytes: usize,
    /// How often the history was stored.
    changes: u64,
    /// Whoever stores what is shown should be woken.
    call: bool,
    /// What waits to be stored, in order.
    waiting: Vec<Waiting>,
    /// The history's revision that is stored.
    revision: Option<u64>,
    /// The end of the turn is among the events, and whether it was stored.
    is_end_noted: bool,
    is_end_stored: bool,
}

/// Something that waits to be stored: an event, what observers are told once it is, or both.
struct Waiting {
    event: Option<RecordedEvent>,
    told: Option<Record>,
    is_end: bool,
}

impl Unsaved {
    pub(super) fn of(turn: TurnId) -> Self {
        Self { turn: Some(turn), ..Self::default() }
    }

    pub(super) fn begin_answer(&mut self) {
        self.answers += 1;
    }

    /// Notes what is being shown, and what observers are told of it.
    pub(super) fn note(&mut self, at: Timestamp, kind: &TurnEventKind, told: Option<Record>) {
        let Some(turn) = self.turn else { return };
        match kind {
            TurnEventKind::TextDelta { text } => self.show(text, ""),
            TurnEventKind::ReasoningDelta { text } => self.show("", text),
            TurnEventKind::ToolArgsDelta { .. }
            | TurnEventKind::ToolProgress { .. }
            | TurnEventKind::Lagged { .. } => {}
            recorded => {
                let event = serde_json::to_value(recorded)
                    .map(|event| RecordedEvent { turn, at, event })
                    .inspect_err(|e| tracing::warn!("an event of a turn could not be recorded: {e}"))
                    .ok();
                let is_end = matches!(recorded, TurnEventKind::TurnFinished(_));
                self.waiting.push(Waiting { event, told, is_end });
            }
        }
    }

    /// What observers are told once everything before it is stored.
    pub(super) fn wait(&mut self, told: Record) {
        self.waiting.push(Waiting { event: None, told: Some(told), is_end: false });
    }

    fn show(&mut self, more: &str, thought: &str) {
        let had = self.bytes;
        self.bytes += more.len() + thought.len();
        self.call |= had == 0 || (had < MUCH && self.bytes >= MUCH);
        if let Some(JournalRecord::Shown { answer, text, reasoning }) = self.shown.last_mut()
            && *answer == self.answers
        {
            text.push_str(more);
            reasoning.push_str(thought);
            return;
        }
        let (text, reasoning) = (more.to_owned(), thought.to_owned());
        self.shown.push(JournalRecord::Shown { answer: self.answers, text, reasoning });
    }

    /// Whether whoever stores what is shown should be woken now.
    pub(super) fn take_call(&mut self) -> bool {
        std::mem::take(&mut self.call)
    }

    pub(super) fn is_much(&self) -> bool {
        self.bytes >= MUCH
    }

    pub(super) fn take_shown(&mut self) -> Vec<JournalRecord> {
        self.bytes = 0;
        std::mem::take(&mut self.shown)
    }

    /// It could not be stored: it waits for the next time, unless the history that has it was stored since.
    pub(super) fn put_back(&mut self, mut shown: Vec<JournalRecord>, taken_at: u64) {
        if self.changes != taken_at {
            return;
        }
        let size = |record: &JournalRecord| match record {
            JournalRecord::Shown { text, reasoning, .. } => text.len() + reasoning.len(),
            _ => 0,
        };
        self.bytes += shown.iter().map(size).sum::<usize>();
        shown.append(&mut self.shown);
        self.shown = shown;
    }

    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Whether the end of the turn is to be noted now: it is noted once.
    pub(super) fn take_end(&mut self) -> bool {
        !std::mem::replace(&mut self.is_end_noted, true)
    }

    /// The events that wait.
    pub(super) fn events(&self) -> Vec<RecordedEvent> {
        self.waiting.iter().filter_map(|waiting| waiting.event.clone()).collect()
    }

    /// How much waits.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// So many of what waits wait no more: gives what observers are told.
    pub(super) fn take_told(&mut self, how_many: usize) -> Vec<Record> {
        let n = how_many.min(self.waiting.len());
        self.waiting.drain(..n).filter_map(|waiting| waiting.told).collect()
    }

    /// The history of this revision is stored, and with it so many of what waits. Whatever was shown is in it.
    pub(super) fn stored(&mut self, revision: u64, how_many: usize) {
        self.revision = Some(revision);
        self.changes += 1;
        self.note_stored(how_many);
        (self.shown, self.bytes) = (Vec::new(), 0);
    }

    /// So many of what waits are stored.
    pub(super) fn note_stored(&mut self, how_many: usize) {
        self.is_end_stored |= self.waiting.iter().take(how_many).any(|waiting| waiting.is_end);
    }

    pub(super) fn is_end_stored(&self) -> bool {
        self.is_end_stored
    }

    pub(super) fn is_stored(&self, revision: u64) -> bool {
        self.revision == Some(revision)
    }
}
