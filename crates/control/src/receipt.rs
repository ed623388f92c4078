//! What became of a command.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::watch;
use turnwright_core::{CommandId, clock::Instant};

/// The one thing that happens to a command after it was accepted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fate", rename_all = "snake_case")]
pub enum Fate {
    /// It took effect. A message is in history; a cancel has latched; a turn was asked to drain.
    Applied,
    /// Nobody took it in time.
    Expired,
    /// What it was for is over, or began after it.
    Stale,
    /// It cannot take effect here.
    Rejected {
        /// Why.
        reason: String,
    },
    /// Its message was not used and is the sender's again.
    Returned {
        /// Why.
        reason: String,
    },
}

impl Fate {
    /// Not used; says why.
    pub fn returned(reason: impl Into<String>) -> Self {
        Self::Returned { reason: reason.into() }
    }
}

/// Proof that a command was accepted. Dropping it changes nothing.
#[derive(Clone)]
pub struct Receipt {
    id: CommandId,
    fate: watch::Receiver<Option<Fate>>,
    ends: Option<Ends>,
}

/// When a command's time is over, and how its channel is made to notice.
#[derive(Clone)]
struct Ends {
    at: Instant,
    notice: Arc<dyn Fn() + Send + Sync>,
}

impl std::fmt::Debug for Receipt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Receipt")
            .field("id", &self.id)
            .field("fate", &self.try_fate())
            .finish_non_exhaustive()
    }
}

impl Receipt {
    /// For channels: a receipt, and what tells it the fate. A sender that goes away without a word means returned.
    pub fn new(id: CommandId) -> (watch::Sender<Option<Fate>>, Self) {
        let (tx, fate) = watch::channel(None);
        (tx, Self { id, fate, ends: None })
    }

    /// For channels: another receipt of the same command.
    pub fn of(id: CommandId, fate: &watch::Sender<Option<Fate>>) -> Self {
        Self { id, fate: fate.subscribe(), ends: None }
    }

    /// For channels that look for expired commands only when somebody calls: `notice` is called when the time is over and somebody
    /// still waits for the fate.
    #[must_use]
    pub fn ends_at(mut self, at: Instant, notice: Arc<dyn Fn() + Send + Sync>) -> Self {
        self.ends = Some(Ends { at, notice });
        self
    }

    /// The command.
    pub fn id(&self) -> CommandId {
        self.id
    }

    /// The fate, if it is known already.
    pub fn try_fate(&self) -> Option<Fate> {
        self.fate.borrow().clone()
    }

    /// Waits for the fate.
    ///
    /// # Cancel safety
    /// Safe: the fate is kept and can be asked for again.
    pub async fn fate(&self) -> Fate {
        let mut fate = self.fate.clone();
        // Elsewhere nobody can wait for a time.
        if let Some(ends) = self.ends.as_ref().filter(|_| tokio::runtime::Handle::try_current().is_ok()) {
            tokio::select! {
                biased;
                _ = fate.wait_for(Option::is_some) => {}
                () = tokio::time::sleep_until(ends.at) => (ends.notice)(),
            }
        }
        match fate.wait_for(Option::is_some).await {
            Ok(fate) => fate.clone().unwrap_or(Fate::Expired),
            Err(_) => self.try_fate().unwrap_or_else(|| Fate::returned("the channel is gone")),
        }
    }
}
