//! What somebody allowed for the whole session.

use turnwright_core::{Remember, ToolDefinition};

use super::{Save, Session, SessionInner};
use crate::{approval::Rule, driver::Granted, store::StoreError};

impl Session {
    /// Rules that people made for this session with [`Remember::Session`](turnwright_core::Remember::Session), oldest first:
    /// calls they cover run where the gate would ask. They are stored with the session; forks and exports do not have them.
    pub fn rules(&self) -> Vec<Rule> {
        self.0.state.lock().rules.clone()
    }

    /// Takes rules back, at once: those for which this is true. Stored now, or with the next change of a turn that runs.
    ///
    /// # Errors
    /// [`StoreError`]; the rules are as they were.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, the rules are gone here, and in the store with the next change at the latest.
    pub async fn revoke(&self, is_meant: impl Fn(&Rule) -> bool) -> Result<(), StoreError> {
        let _turnstile = self.0.turnstile.lock().await;
        match self.revoke_once(&is_meant).await {
            // Somebody wrote elsewhere: what is stored now has the rules.
            Err(StoreError::Conflict { .. }) => {
                self.refresh().await?;
                self.revoke_once(&is_meant).await
            }
            done => done,
        }
    }

    async fn revoke_once(&self, is_meant: &impl Fn(&Rule) -> bool) -> Result<(), StoreError> {
        // What is called is not ours: it runs outside of the lock.
        let meant: Vec<Rule> = self.rules().into_iter().filter(is_meant).collect();
        let (before, save) = {
            let mut state = self.0.state.lock();
            let before = state.rules.clone();
            state.rules.retain(|rule| !meant.contains(rule));
            if state.busy || state.rules == before {
                return Ok(());
            }
            let (messages, snapshot) = (state.messages.clone(), state.snapshot.clone());
            (before, Save { messages, snapshot, ..Save::default() })
        };
        let saved = self.0.save(save).await;
        if saved.is_err() {
            self.0.state.lock().rules = before;
        }
        saved
    }
}

impl SessionInner {
    pub(crate) fn is_allowed(&self, tool: &ToolDefinition) -> bool {
        self.state.lock().rules.iter().any(|rule| rule.covers(tool))
    }

    /// Keeps what was approved of for the whole session; the leg's first change stores it.
    pub(super) fn allow(&self, granted: &[Granted]) {
        let mut state = self.state.lock();
        for (request, decision) in granted {
            if decision.remember == Some(Remember::Session) {
                Rule::of(request, decision).add_to(&mut state.rules);
            }
        }
    }
}
