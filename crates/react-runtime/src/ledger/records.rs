//! What observers are to be told of a leg.

use std::{collections::VecDeque, sync::Arc};

use turnwright_core::{ErrorInfo, LegOutcome, Role, SessionId, Timestamp, TurnId};
use turnwright_hook::observe::Observers;

use super::{Ledger, leg::Leg, unsaved::Unsaved};
use crate::{
    event::{FinishedError, TurnEventKind},
    record::{Record, RecordKind},
};

/// Gathered under the ledger's lock, told outside of it.
pub(super) struct Records {
    observers: Observers<Record>,
    session: SessionId,
    turn: TurnId,
    leg: u32,
    seq: u64,
    /// What can be told, in order.
    ready: VecDeque<Arc<Record>>,
    /// Somebody is telling it.
    telling: bool,
    /// The message that began the turn is recorded, or was in an earlier leg.
    has_input: bool,
    /// A model call was told to have started.
    in_model_call: bool,
    /// The end was recorded: nothing follows it.
    over: bool,
}

/// Whose records these are.
pub(crate) struct RecordsOf {
    pub(crate) observers: Observers<Record>,
    pub(crate) session: SessionId,
    pub(crate) turn: TurnId,
    pub(crate) leg: u32,
}

impl Records {
    pub(super) fn of(whose: RecordsOf) -> Self {
        let RecordsOf { observers, session, turn, leg } = whose;
        Self {
            observers,
            session,
            turn,
            leg,
            seq: 0,
            ready: VecDeque::new(),
            telling: false,
            has_input: leg > 1,
            in_model_call: false,
            over: false,
        }
    }

    pub(super) fn is_heard(&self) -> bool {
        self.observers.is_heard() && !self.over
    }

    pub(super) fn make(&mut self, at: Timestamp, kind: RecordKind) -> Record {
        self.seq += 1;
        let (session, turn, leg, seq) = (self.session.clone(), self.turn, self.leg, self.seq);
        Record { session, turn, leg, seq, at, stored: false, kind }
    }

    pub(super) fn ready(&mut self, record: Record, stored: bool) {
        self.ready.push_back(Arc::new(Record { stored, ..record }));
    }

    pub(super) fn waiting(&self) -> usize {
        self.ready.len()
    }
}

impl Leg {
    /// Records something, if anybody observes.
    pub(super) fn record(&mut self, kind: impl FnOnce() -> RecordKind) {
        if !self.records.is_heard() {
            return;
        }
        let record = self.records.make(self.now, kind());
        match &mut self.unsaved {
            Some(unsaved) => unsaved.wait(record),
            None => self.records.ready(record, false),
        }
    }

    /// The turn's first message is what it will stay.
    pub(super) fn record_input(&mut self) {
        if std::mem::replace(&mut self.records.has_input, true) {
            return;
        }
        if let Some(first) = self.messages.get(self.turn_start).filter(|first| first.role == Role::User) {
            let first = first.clone();
            self.record(|| RecordKind::Message(first));
        }
    }

    /// A logical model call begins.
    pub(crate) fn record_model_call(&mut self, model: impl FnOnce() -> String) {
        if self.records.is_heard() {
            self.records.in_model_call = true;
            self.record(|| RecordKind::ModelCallStarted { model: model() });
        }
    }

    /// The model call that was told to have started is over.
    pub(super) fn record_model_end(&mut self, error: Option<&ErrorInfo>) {
        if std::mem::take(&mut self.records.in_model_call) {
            let (usage, error) = (self.usage, error.map(FinishedError::from));
            self.record(|| RecordKind::ModelCallFinished { usage, error });
        }
    }

    /// So many of what waits wait no more: they are told. Says of each whether it is stored.
    pub(super) fn tell_waiting(&mut self, how_many: usize, is_stored: impl Fn(&RecordKind) -> bool) {
        let told = self.unsaved.as_mut().map(|unsaved| unsaved.take_told(how_many)).unwrap_or_default();
        for record in told {
            let is_stored = is_stored(&record.kind);
            self.records.ready(record, is_stored);
        }
    }

    /// The last record of the leg. What waits in vain to be stored is told before it.
    pub(crate) fn record_end(&mut self, outcome: &LegOutcome) {
        self.record_input();
        let is_stored = self.unsaved.as_ref().is_some_and(Unsaved::is_end_stored);
        self.tell_waiting(usize::MAX, |_| false);
        if self.records.is_heard() {
            let finished: TurnEventKind = self.finished(outcome);
            let record = self.records.make(self.now, RecordKind::Event(finished));
            self.records.ready(record, is_stored);
        }
        self.records.over = true;
    }
}

impl Ledger {
    /// Tells observers what can be told. Nobody may hold a lock. What a callback adds is told after it.
    pub(crate) fn tell(&self) {
        loop {
            let (observers, batch) = {
                let mut leg = self.leg.lock();
                let records = &mut leg.records;
                if records.telling || records.ready.is_empty() {
                    return;
                }
                records.telling = true;
                (records.observers.clone(), std::mem::take(&mut records.ready))
            };
            for record in &batch {
                observers.tell(record);
            }
            self.leg.lock().records.telling = false;
        }
    }
}
