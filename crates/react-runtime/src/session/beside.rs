//! What working for a session beside its turns needs.

use std::{
    any::{Any, TypeId},
    collections::HashMap,
    sync::Arc,
};

use parking_lot::Mutex;
use turnwright_core::{HistoryError, Message, MessageId, TokenUsage, history};

use super::Session;

/// Why a summary was not taken. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SummaryError {
    /// No turn of the session runs.
    #[error("no turn of the session runs")]
    NotRunning,
    /// Another summary stands for that message already, or there is no such message.
    #[error("models are not sent message {0} any more: another summary stands for it")]
    Covered(MessageId),
    /// The history refused it.
    #[error(transparent)]
    Refused(#[from] HistoryError),
}

impl Session {
    /// What models are sent: of the turn that runs, or as of the end of the last leg, with a summary in the place of what it
    /// stands for. [`Session::messages`] has all of them.
    pub fn view(&self) -> Vec<Arc<Message>> {
        let messages = match self.0.running() {
            Some(running) => running.ctx.history().snapshot().messages,
            None => self.messages(),
        };
        history::view(messages)
    }

    /// Puts a summary in the place of everything up to this message, in one step: see [`turnwright_core::History::collapse`].
    /// For summaries that were made beside the turns: whatever was said meanwhile stays as it is. A turn must run, and it
    /// stores the change.
    ///
    /// # Errors
    /// [`SummaryError`]; nothing was changed.
    pub fn summarise(&self, through: MessageId, summary: impl Into<String>) -> Result<(), SummaryError> {
        let running = self.0.running().ok_or(SummaryError::NotRunning)?;
        let (history, summary) = (running.ctx.history(), summary.into());
        let now = history.snapshot();
        if !history::view(now.messages).iter().any(|message| message.id == through) {
            return Err(SummaryError::Covered(through));
        }
        let summary = Message::user(running.ctx.sources().id(), summary);
        history.collapse(through, summary, now.revision)?;
        Ok(())
    }

    /// Adds usage to that of the turn which runs, and to its budget: of model calls that were made for the session beside its
    /// turns, and for what. Says whether one runs.
    pub fn count_usage(&self, usage: TokenUsage, purpose: &str) -> bool {
        let Some(running) = self.0.running() else { return false };
        running.ledger.with(|leg| leg.count_extra(usage, purpose))
    }

    /// The session's own value of this type: made when it is first asked for, dropped with the session. For whatever works for
    /// a session between its turns, and must end with it; it must not hold the session.
    pub fn own<T: Default + Any + Send + Sync>(&self) -> Arc<T> {
        self.0.owned.get()
    }
}

/// Values that belong to a session, one of a type.
#[derive(Default)]
pub(super) struct Owned(Mutex<HashMap<TypeId, Arc<dyn Any + Send + Sync>>>);

impl Owned {
    fn get<T: Default + Any + Send + Sync>(&self) -> Arc<T> {
        let there = self.0.lock().get(&TypeId::of::<T>()).cloned();
        if let Some(there) = there.and_then(|value| value.downcast().ok()) {
            return there;
        }
        // Made outside of the lock. Should somebody else be first, that one counts.
        let made = Arc::new(T::default());
        let value = self.0.lock().entry(TypeId::of::<T>()).or_insert_with(|| made.clone()).clone();
        value.downcast().unwrap_or(made)
    }
}
