//! A turn at rest: everything a further leg needs, as a value.

mod form;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use turnwright_core::{
    ApprovalRequest, ApprovalTransaction, BudgetUsed, CallDigest, CallId, Decision, Message, RunId,
    SessionId, Timestamp, TokenUsage, ToolCall, ToolDefinition, ToolResult, TurnId, Wants,
    state::StoredState,
};
use turnwright_hook::ToolDecision;

pub use form::SnapshotError;

use crate::machine::TurnMachine;

/// A suspended or drained turn. A value: restored twice it gives two independent turns.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TurnSnapshot {
    /// The version of this form.
    pub schema: u32,
    /// The session.
    pub session: SessionId,
    /// The agent run.
    pub run: RunId,
    /// The turn.
    pub turn: TurnId,
    /// The agent's name.
    pub agent: String,
    /// When the turn began.
    pub started_at: Timestamp,
    /// The tools the turn was begun with: another set is refused.
    pub tools: ToolFingerprint,
    /// A leg goes on from here: when it is found so and nobody holds the session's lease, the process that ran it is gone.
    #[serde(default)]
    pub running: bool,
    /// Where the turn stands.
    pub machine: TurnMachine,
    /// How many messages of the history belong to earlier turns.
    pub turn_start: usize,
    /// The open batch.
    pub batch: Option<Batch>,
    /// Messages that wait for the batch to close.
    pub deferred: Vec<Message>,
    /// Tokens so far.
    pub usage: TokenUsage,
    /// What of its budget was used so far.
    #[serde(default)]
    pub budget_used: BudgetUsed,
    /// The questions and the decisions made so far.
    pub transaction: Option<ApprovalTransaction>,
    /// Typed state of the turn.
    pub state: BTreeMap<String, StoredState>,
}

impl TurnSnapshot {
    /// The version this program writes.
    pub const SCHEMA: u32 = 2;

    /// How many of its calls wait for somebody outside.
    pub fn pending(&self) -> usize {
        self.transaction.as_ref().map_or(0, |transaction| transaction.pending().count())
    }
}

/// A digest of a set of tools: names, sources and schemas.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ToolFingerprint(String);

impl ToolFingerprint {
    /// The fingerprint of these tools, in whatever order.
    pub fn of<'a>(tools: impl IntoIterator<Item = &'a ToolDefinition>) -> Self {
        let mut lines: Vec<_> =
            tools.into_iter().map(|t| format!("{}\u{0}{}\u{0}{}", t.source, t.name, t.parameters)).collect();
        lines.sort();
        let mut hasher = Sha256::new();
        for line in lines {
            hasher.update((line.len() as u64).to_be_bytes());
            hasher.update(line.as_bytes());
        }
        Self(hasher.finalize().iter().take(16).map(|b| format!("{b:02x}")).collect())
    }
}

/// The calls of one answer and what became of them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Batch {
    /// In model order.
    pub calls: Vec<BatchCall>,
}

/// One call of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct BatchCall {
    /// As the model asked.
    pub call: ToolCall,
    /// What the gate said; none before it was asked.
    pub decision: Option<ToolDecision>,
    /// When the question about it expires; never when none.
    #[serde(default)]
    pub expires_at: Option<Timestamp>,
    /// The digest that may run; none while nothing may.
    pub allowed: Option<CallDigest>,
    /// The call as a layer rewrote it, where the gate asked about the rewrite.
    pub rewritten: Option<ToolCall>,
    /// The call as a person edited it: it enters the chain in place of what the model asked.
    pub edited: Option<ToolCall>,
    /// Whether its tool was entered.
    #[serde(default)]
    pub entered: bool,
    /// It was entered by a process that went away, and nobody knows whether it took effect.
    #[serde(default)]
    pub in_doubt: bool,
    /// The arguments its tool was entered with, where they are not those the model asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran_with: Option<String>,
    /// What its tool waits for, if it waits for somebody outside.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<Wants>,
    /// What its tool came to in a process that went away, before any layer saw it: the call enters the chain again, and this is
    /// what its core answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovered: Option<ToolResult>,
    /// What agents that it started ask, if it waits for that; each call by the id it has there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asks: Vec<ApprovalRequest>,
    /// What was decided about it. Its tool is entered again, with these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decided: Vec<Decision>,
    /// It stopped with the turn in this leg.
    #[serde(skip)]
    pub(crate) stopped: bool,
    /// What it came to.
    pub result: Option<ToolResult>,
}

impl BatchCall {
    /// A call nobody decided about yet.
    pub fn new(call: ToolCall) -> Self {
        Self {
            call,
            decision: None,
            expires_at: None,
            allowed: None,
            rewritten: None,
            edited: None,
            entered: false,
            in_doubt: false,
            ran_with: None,
            waits: None,
            recovered: None,
            asks: Vec::new(),
            decided: Vec::new(),
            stopped: false,
            result: None,
        }
    }

    /// Whether nobody knows yet what it comes to.
    pub fn is_open(&self) -> bool {
        self.result.is_none() && self.recovered.is_none()
    }

    /// Whether it waits for somebody outside: a decision, an answer, a result.
    pub fn is_pending(&self) -> bool {
        self.is_open()
            && (self.waits.is_some()
                || !self.asks.is_empty()
                || matches!(self.decision, Some(ToolDecision::Pending(_))))
    }

    /// The id by which the turn knows a call that is asked about through this one.
    pub(crate) fn surfaced_id(&self, below: &CallId) -> CallId {
        format!("{}/{below}", self.call.id).into()
    }

    /// What is asked through it, as the turn asks it.
    pub(crate) fn surfaced(&self) -> impl Iterator<Item = ApprovalRequest> {
        self.asks.iter().map(|request| {
            let mut request = request.clone();
            request.call.id = self.surfaced_id(&request.call.id);
            request
        })
    }
}
