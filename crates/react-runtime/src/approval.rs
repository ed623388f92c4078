//! Approvals: a gate made of parts, and what a denial means.
//!
//! [`Policies`] is a [`Gate`](crate::gate::Gate). Each call is classified once: a [`Classifier`] gives it a [`Tier`], and the
//! tier says what becomes of it: a normal call runs, a hardline one is denied without asking, and any other waits for a
//! person. Guards may make a call's tier higher, never lower. Rules that a person made (*allow this for the session*) lower
//! it to normal, but never a hardline one.
//!
//! ```
//! use turnwright_react_runtime::approval::{ArgumentMatcher, Policies};
//!
//! let policies = Policies::new()
//!     .ask("shell")
//!     .inside("write_file", ArgumentMatcher::below(["."])?)
//!     .never("drop_table", "no tables are dropped here")
//!     .ask_if("send_mail", |call, _| !call.arguments.contains("@example.com"));
//! # let _ = policies;
//! # Ok::<(), turnwright_react_runtime::approval::NoRoot>(())
//! ```

mod command;
mod matcher;
mod policies;
mod rules;

use serde::{Deserialize, Serialize};
use turnwright_core::{ToolCall, ToolDefinition};
use turnwright_hook::ToolDecision;

pub use command::{TextDecision, Unclear};
pub use matcher::{ArgumentMatcher, NoRoot, Paths};
pub use policies::Policies;
pub use rules::{Rule, Rules};

use crate::driver::LegRt;

/// How much a call is to be feared. Ordered: the later, the more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// It runs.
    #[default]
    Normal,
    /// A person decides.
    Sensitive,
    /// A person decides; it could do harm, or it is not known what it touches.
    Dangerous,
    /// It is denied without asking.
    Hardline,
}

/// What a classifier says about a call: one value, from which decision, question, denial and record are made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classification {
    /// How much it is to be feared.
    pub tier: Tier,
    /// Why, in words for a person or the model.
    pub reason: String,
}

impl Classification {
    /// A call that runs.
    pub fn normal() -> Self {
        Self { tier: Tier::Normal, reason: String::new() }
    }

    /// A call of this tier.
    pub fn of(tier: Tier, reason: impl Into<String>) -> Self {
        Self { tier, reason: reason.into() }
    }
}

/// Classifies calls. Synchronous, and asked once a call: once more only for arguments that a layer rewrote or a person
/// edited, which make it another call.
pub trait Classifier: Send + Sync + 'static {
    /// What the call is. Its arguments are valid JSON text, or blank.
    fn classify(&self, call: &ToolCall, tool: &ToolDefinition) -> Classification;
}

impl<F: Fn(&ToolCall, &ToolDefinition) -> Classification + Send + Sync + 'static> Classifier for F {
    fn classify(&self, call: &ToolCall, tool: &ToolDefinition) -> Classification {
        self(call, tool)
    }
}

/// Whether the calls of one answer depend on each other's approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ApprovalBatch {
    /// Calls that nobody is asked about run at once, and a denial is of its own call.
    #[default]
    Independent,
    /// All wait until each is decided, and one denial, by a person or the gate, is a denial of all that have not run. As the
    /// seed's reference does it.
    Atomic,
}

/// What the denial of a call by a person means to its turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum OnDenial {
    /// The model is told, and the turn goes on.
    #[default]
    TellModel,
    /// The turn ends as cancelled, by whoever denied it.
    CancelTurn,
}

/// What becomes of a batch now.
pub(crate) enum BatchVerdict {
    Run,
    Wait,
    Preempt,
}

impl ApprovalBatch {
    pub(crate) fn verdict(self, rt: &LegRt) -> BatchVerdict {
        if self == Self::Independent {
            return BatchVerdict::Run;
        }
        rt.ledger.read(|leg| {
            let calls = || leg.batch.iter().flat_map(|batch| &batch.calls);
            let asked = |decision: &Option<ToolDecision>| matches!(decision, Some(ToolDecision::Pending(_)));
            if calls().any(|call| matches!(call.decision, Some(ToolDecision::Denied(_)))) {
                BatchVerdict::Preempt
            } else if calls().any(|call| call.result.is_none() && asked(&call.decision)) {
                BatchVerdict::Wait
            } else {
                BatchVerdict::Run
            }
        })
    }
}
