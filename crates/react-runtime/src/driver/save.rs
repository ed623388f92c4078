//! Storing a leg while it runs: its checkpoints, its journal, its lease.

use std::{
    sync::atomic::{AtomicBool, Ordering::SeqCst},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::Notify;
use turnwright_control::{Ack, ControlCommand, Fate};
use turnwright_core::{CommandId, LegOutcome};
use turnwright_interceptor::Exit;

use super::LegRt;
use crate::{
    ledger::Leg,
    session::{Landed, Save},
    snapshot::TurnSnapshot,
    store::{JournalRecord, StoreError},
};

/// How long something that was shown may wait to be stored, so that a burst is one record.
const SHOWN_MAY_WAIT: Duration = Duration::from_millis(100);

/// What the writing of a leg shares with its work.
#[derive(Default)]
pub(crate) struct Keeper {
    /// Another writer has the session.
    lost: Mutex<Option<StoreError>>,
    is_lost: Notify,
    /// The leg has stored something: the session is its own to write.
    has_stored: AtomicBool,
    stored: Notify,
    /// Messages of commands that are history, and not stored yet.
    landed: Mutex<Vec<Landed>>,
}

impl Keeper {
    /// With what the leg before left.
    pub(crate) fn with(landed: Vec<Landed>) -> Self {
        Self { landed: Mutex::new(landed), ..Self::default() }
    }
}

impl LegRt {
    /// Whether there is a store to write to.
    pub(super) fn is_kept(&self) -> bool {
        self.agent.store.is_some()
    }

    /// Waits until the leg has stored something.
    pub(super) async fn has_stored(&self) {
        loop {
            let stored = self.keeper.stored.notified();
            if self.keeper.has_stored.load(SeqCst) {
                return;
            }
            stored.await;
        }
    }

    /// Whether this error says that the leg never had the session: it is another writer's, and nothing was stored before.
    pub(super) fn never_had_it(&self, e: &StoreError) -> bool {
        e.is_lost() && !self.keeper.has_stored.load(SeqCst)
    }

    /// Stores the history and this snapshot. Commands whose messages are in it have taken effect then, and are told so.
    pub(crate) async fn commit(&self, snapshot: Option<TurnSnapshot>) -> Result<(), StoreError> {
        if !self.is_kept() {
            return Ok(());
        }
        let (messages, revision, (events, waiting)) =
            self.ledger.read(|leg| (leg.messages().to_vec(), leg.revision(), leg.unsaved_events()));
        let applied: Vec<CommandId> =
            self.keeper.landed.lock().iter().map(|(command, _)| command.id).collect();
        let landed = applied.len();
        let save = Save { messages, snapshot, by_leg: true, events, applied };
        let then = || {
            self.keeper.has_stored.store(true, SeqCst);
            self.keeper.stored.notify_waiters();
            // What was shown is in it: nobody may note it once more.
            self.ledger.with_quietly(|leg| leg.stored(revision, waiting));
        };
        self.session.save_then(save, then).await?;
        self.ledger.tell();
        self.tell_landed(landed, &Fate::Applied);
        Ok(())
    }

    /// Stores the turn where it stands, so that another process can go on from here should this one go away.
    pub(super) async fn checkpoint(&self) -> Result<(), Exit> {
        if !self.is_kept() {
            return Ok(());
        }
        let Some(machine) = self.ledger.read(|leg| leg.machine.at_checkpoint()) else { return Ok(()) };
        let snapshot = self.snapshot()?;
        let snapshot = TurnSnapshot { running: true, machine, ..snapshot };
        self.or_cancel(self.commit(Some(snapshot))).await?.map_err(|e| Exit::Failed(e.into()))
    }

    /// The same where the history is not as it was stored last.
    pub(super) async fn checkpoint_if_changed(&self) -> Result<(), Exit> {
        match self.ledger.read(Leg::is_stored) {
            true => Ok(()),
            false => self.checkpoint().await,
        }
    }

    /// The message of a command is history; its sender is told when it is stored.
    pub(super) fn landed(&self, command: ControlCommand, ack: Ack) {
        self.keeper.landed.lock().push((command, ack));
        if !self.is_kept() {
            self.tell_landed(usize::MAX, &Fate::Applied);
        }
    }

    /// Tells the fate of the first so many commands whose messages are history.
    pub(super) fn tell_landed(&self, how_many: usize, fate: &Fate) {
        let landed: Vec<_> = {
            let mut landed = self.keeper.landed.lock();
            let n = how_many.min(landed.len());
            landed.drain(..n).collect()
        };
        for (command, ack) in landed {
            self.tell(&command, fate);
            ack.settle(fate.clone());
        }
    }

    /// What could not be stored is history here all the same, unless another writer has the session: the next change of the
    /// session stores it, and its senders are told then.
    pub(crate) fn keep_landed(&self, is_lost: bool) {
        if is_lost {
            return self
                .tell_landed(usize::MAX, &Fate::returned("it was said in a turn that could not be stored"));
        }
        let landed = std::mem::take(&mut *self.keeper.landed.lock());
        self.session.keep_landed(landed);
    }

    /// Gives the lease back, with the last events. Should that fail, the lease ends by itself.
    pub(super) async fn release(&self, outcome: &LegOutcome, is_lost: bool) {
        if self.is_kept() {
            let (events, waiting) = self.ledger.with(|leg| leg.last_events(outcome));
            // Of a session that another writer has nothing is recorded.
            if self.session.release(events).await && !is_lost {
                self.ledger.with(|leg| leg.last_stored(waiting));
            }
        }
    }

    /// Notes a step of a call.
    ///
    /// # Errors
    /// What the store says. Where another writer has the session, the leg ends.
    pub(super) async fn note(&self, record: JournalRecord) -> Result<(), StoreError> {
        if !self.is_kept() {
            return Ok(());
        }
        let noted = self.session.note(|| vec![record]).await;
        if let Err(e) = &noted
            && e.is_lost()
        {
            self.keeper.lost.lock().get_or_insert_with(|| e.clone());
            self.keeper.is_lost.notify_one();
        }
        noted
    }

    /// Renews the lease and stores what is shown. Ends when another writer has the session; without a store, never.
    pub(super) async fn keep(&self) -> StoreError {
        if !self.is_kept() {
            return std::future::pending().await;
        }
        let lost = async {
            loop {
                if let Some(lost) = self.keeper.lost.lock().clone() {
                    return lost;
                }
                self.keeper.is_lost.notified().await;
            }
        };
        let (lost, lease, shown) = (Box::pin(lost), Box::pin(self.keep_lease()), Box::pin(self.keep_shown()));
        tokio::select! {
            biased;
            lost = lost => lost,
            lost = lease => lost,
            lost = shown => lost,
        }
    }

    /// A lease that could not be renewed for as long as it lasts is as good as lost.
    async fn keep_lease(&self) -> StoreError {
        let (clock, ttl) = (&self.ctx.sources().clock, self.agent.lease);
        let mut renewed = clock.instant();
        loop {
            tokio::time::sleep(ttl / 3).await;
            match self.session.renew().await {
                Ok(()) => renewed = clock.instant(),
                Err(e) if e.is_lost() => return e,
                Err(e) => {
                    tracing::warn!("the lease of session {} was not renewed: {e}", self.ctx.session());
                    if clock.instant().saturating_duration_since(renewed) >= ttl {
                        return e;
                    }
                }
            }
        }
    }

    async fn keep_shown(&self) -> StoreError {
        let mut has_failed = false;
        loop {
            if has_failed {
                tokio::time::sleep(SHOWN_MAY_WAIT).await;
            } else {
                self.something_to_note().await;
            }
            // Where the store fails it is kept here, and tried again.
            let taken: Mutex<(Vec<JournalRecord>, u64)> = Mutex::default();
            let take = || {
                let shown = self.ledger.with_quietly(Leg::take_shown);
                taken.lock().clone_from(&shown);
                shown.0
            };
            match self.session.note(take).await {
                Ok(()) => has_failed = false,
                Err(e) if e.is_lost() => return e,
                Err(e) => {
                    tracing::warn!("what was shown in session {} is not stored yet: {e}", self.ctx.session());
                    self.ledger.with(|leg| leg.put_back_shown(taken.into_inner()));
                    has_failed = true;
                }
            }
        }
    }

    /// Waits until something was shown, and a little more, so that a burst is one record.
    async fn something_to_note(&self) {
        self.ledger.something_shown().await;
        let much = async {
            while !self.ledger.read(Leg::is_much_shown) {
                self.ledger.something_shown().await;
            }
        };
        let _ = tokio::time::timeout(SHOWN_MAY_WAIT, much).await;
    }
}
