//! Decisions about the calls of a suspended turn.

use turnwright_core::{ApprovalRequest, CallId, Decision, DecisionError, ErrorInfo, Verdict};

use super::{Save, Session};
use crate::store::StoreError;

/// Why a decision was not taken. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecideError {
    /// No turn of the session waits for a decision.
    #[error("no turn of the session waits for a decision")]
    NothingPending,
    /// The transaction refused it.
    #[error(transparent)]
    Decision(#[from] DecisionError),
    /// The store refused it.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Session {
    /// Answers a question that a call asks ([`crate::tool::ToolError::ask`]). As [`Session::decide`].
    ///
    /// # Errors
    /// [`DecideError`]; the turn is as it was.
    ///
    /// # Cancel safety
    /// As [`Session::decide`].
    pub async fn answer(
        &self,
        call: impl Into<CallId>,
        answer: impl Into<String>,
        actor: impl Into<String>,
    ) -> Result<Vec<ApprovalRequest>, DecideError> {
        let now = self.0.agent.sources.clock.now();
        self.decide(&Decision::answer(call, answer, actor, now)).await
    }

    /// Gives the result of a call that is completed outside ([`crate::tool::ToolError::later`]). As [`Session::decide`].
    ///
    /// # Errors
    /// [`DecideError`]; the turn is as it was.
    ///
    /// # Cancel safety
    /// As [`Session::decide`].
    pub async fn complete(
        &self,
        call: impl Into<CallId>,
        result: Result<String, ErrorInfo>,
        actor: impl Into<String>,
    ) -> Result<Vec<ApprovalRequest>, DecideError> {
        let (content, error) = match result {
            Ok(content) => (content, None),
            Err(error) => (error.message.clone(), Some(error)),
        };
        let now = self.0.agent.sources.clock.now();
        let mut decision = Decision::answer(call, content.clone(), actor, now);
        decision.verdict = Verdict::Answer { content, error };
        self.decide(&decision).await
    }

    /// Records a decision about calls of the suspended turn: the approval API. Returns what is still undecided; when
    /// that is nothing, [`Session::resume`] goes on.
    ///
    /// # Errors
    /// [`DecideError`]; the turn is as it was.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the decision is not recorded here, though the store may hold it already: decide
    /// again, which overwrites it.
    pub async fn decide(&self, decision: &Decision) -> Result<Vec<ApprovalRequest>, DecideError> {
        // One decision after the other, and none beside a leg that starts: each is made on top of the one before.
        let _turnstile = self.0.turnstile.lock().await;
        match self.decide_once(decision).await {
            // Somebody decided elsewhere: what is stored now says whether this decision still fits.
            Err(DecideError::Store(StoreError::Conflict { .. })) => {
                self.refresh().await?;
                self.decide_once(decision).await
            }
            done => done,
        }
    }

    async fn decide_once(&self, decision: &Decision) -> Result<Vec<ApprovalRequest>, DecideError> {
        let now = self.0.agent.sources.clock.now();
        let (messages, snapshot, pending) = {
            let state = self.0.state.lock();
            let mut snapshot = match &state.snapshot {
                Some(snapshot) if !state.busy && !snapshot.running => snapshot.clone(),
                _ => return Err(DecideError::NothingPending),
            };
            let transaction = snapshot.transaction.as_mut().ok_or(DecideError::NothingPending)?;
            if let Err(e) = transaction.apply(decision, now) {
                // Somebody decides about what was never asked, or twice: for whoever looks into it.
                tracing::warn!(session = %self.0.id, actor = decision.actor, "a decision was refused: {e}");
                return Err(e.into());
            }
            let pending = transaction.pending().cloned().collect();
            (state.messages.clone(), snapshot, pending)
        };
        self.0.save(Save { messages, snapshot: Some(snapshot.clone()), ..Save::default() }).await?;
        self.0.state.lock().snapshot = Some(snapshot);
        Ok(pending)
    }
}
