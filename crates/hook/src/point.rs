//! The fifteen points: one trait a point, one method a trait.
//!
//! Everything beside the context is a shared reference, but for the result of [`AfterTurn`] and the content of
//! [`FinalizeContent`]. Several hooks of one point run one after the other, by priority, then in registration order.
//!
//! # Cancel safety
//! A cancel drops a running hook at its current await; hooks of the points that are then owed run in the unwinding.
//! A hook is begun at most once a firing, also when its leg is cut and unwound.

use std::fmt;

use serde::{Deserialize, Serialize};
use turnwright_core::{AgentResult, ApprovalTransaction, ToolCall, ToolResult, TurnContext};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use crate::{HookError, LegEnd};

/// A lifecycle point.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookPoint {
    /// A leg begins.
    BeforeGraph,
    /// The turn ended; once a terminal leg.
    AfterGraph,
    /// A leg ends, however it does.
    FinallyGraph,
    /// A fresh turn begins.
    StartNodeTurn,
    /// The turn ends.
    EndNodeTurn,
    /// An attempt begins.
    BeforeTurn,
    /// An attempt ends.
    AfterTurn,
    /// An iteration begins.
    BeforeIteration,
    /// An iteration ends, its tools included.
    AfterIteration,
    /// A batch of tools is about to run.
    BeforeToolExecution,
    /// Every call of the batch has a result.
    AfterToolExecution,
    /// The model is about to be asked.
    BeforeLlm,
    /// The model answered, failed or was cut.
    AfterLlmResponse,
    /// The final content is about to be given out.
    FinalizeContent,
    /// A decision was applied and the turn goes on.
    AfterApproval,
}

impl HookPoint {
    /// All points, in the order of a turn.
    pub const ALL: [Self; 15] = [
        Self::BeforeGraph,
        Self::AfterApproval,
        Self::StartNodeTurn,
        Self::BeforeTurn,
        Self::BeforeIteration,
        Self::BeforeLlm,
        Self::AfterLlmResponse,
        Self::BeforeToolExecution,
        Self::AfterToolExecution,
        Self::AfterIteration,
        Self::AfterTurn,
        Self::FinalizeContent,
        Self::EndNodeTurn,
        Self::AfterGraph,
        Self::FinallyGraph,
    ];

    /// The name in plans and logs, for example `before_turn`.
    pub fn name(self) -> &'static str {
        match self {
            Self::BeforeGraph => "before_graph",
            Self::AfterGraph => "after_graph",
            Self::FinallyGraph => "finally_graph",
            Self::StartNodeTurn => "start_node_turn",
            Self::EndNodeTurn => "end_node_turn",
            Self::BeforeTurn => "before_turn",
            Self::AfterTurn => "after_turn",
            Self::BeforeIteration => "before_iteration",
            Self::AfterIteration => "after_iteration",
            Self::BeforeToolExecution => "before_tool_execution",
            Self::AfterToolExecution => "after_tool_execution",
            Self::BeforeLlm => "before_llm",
            Self::AfterLlmResponse => "after_llm_response",
            Self::FinalizeContent => "finalize_content",
            Self::AfterApproval => "after_approval",
        }
    }
}

impl fmt::Display for HookPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What an [`AfterTurn`] hook wants. Of several answers the strongest counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TurnAnswer {
    /// The turn may end.
    #[default]
    Done,
    /// One more attempt, if the limit allows it.
    Continue,
    /// One more attempt, and one more than the limit when it is reached; the runtime bounds how often.
    ContinueAndRenew,
}

/// What the gate said about a call of a batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ToolDecision {
    /// It runs.
    Allowed,
    /// It does not run; the reason goes to the model.
    Denied(String),
    /// It waits for a decision.
    Pending(String),
    /// It cannot run: the response was cut, the tool is unknown, the arguments are broken.
    Unrunnable(String),
}

/// A call with what the gate said about it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DecidedCall {
    /// The call.
    pub call: ToolCall,
    /// What the gate said.
    pub decision: ToolDecision,
}

/// BEFORE_GRAPH: a leg begins. Fires once a leg, resumed ones included.
pub trait BeforeGraph: Send + Sync + 'static {
    /// Called when the leg begins.
    fn before_graph(&self, ctx: &TurnContext) -> impl Future<Output = Result<(), HookError>> + Send;
}

/// AFTER_GRAPH: the turn ended, in whatever way. Fires once a turn, on its terminal leg.
pub trait AfterGraph: Send + Sync + 'static {
    /// Called with the result.
    fn after_graph(
        &self,
        ctx: &TurnContext,
        result: &AgentResult,
    ) -> impl Future<Output = Result<(), HookError>> + Send;
}

/// FINALLY_GRAPH: a leg ends, however it does. Fires once a leg. Hooks that only want the turn's end implement
/// [`crate::OutcomeFinallyHook`] instead.
pub trait FinallyGraph: Send + Sync + 'static {
    /// Called with how the leg ended.
    fn finally_graph(
        &self,
        ctx: &TurnContext,
        end: LegEnd<'_>,
    ) -> impl Future<Output = Result<(), HookError>> + Send;
}

/// START_NODE_TURN: a fresh turn begins. Does not fire on resumed legs.
pub trait StartNodeTurn: Send + Sync + 'static {
    /// Called when the turn begins.
    fn start_node_turn(&self, ctx: &TurnContext) -> impl Future<Output = Result<(), HookError>> + Send;
}

/// END_NODE_TURN: the turn ends. Fires once a turn that was begun.
pub trait EndNodeTurn: Send + Sync + 'static {
    /// Called when the turn ends.
    fn end_node_turn(&self, ctx: &TurnContext) -> impl Future<Output = Result<(), HookError>> + Send;
}

/// BEFORE_TURN: an attempt begins. Fires again for each continuation.
pub trait BeforeTurn: Send + Sync + 'static {
    /// Called when the attempt begins.
    fn before_turn(&self, ctx: &TurnContext) -> impl Future<Output = Result<(), HookError>> + Send;
}

/// AFTER_TURN: an attempt ends. May change the result and ask for a further attempt. Each hook works on a copy that is
/// taken over only when the hook succeeds. When the turn was cut the answer is ignored.
pub trait AfterTurn: Send + Sync + 'static {
    /// Called with the result of the attempt.
    fn after_turn(
        &self,
        ctx: &TurnContext,
        result: &mut AgentResult,
    ) -> impl Future<Output = Result<TurnAnswer, HookError>> + Send;
}

/// BEFORE_ITERATION: an iteration (one model call and the tools it asks for) begins.
pub trait BeforeIteration: Send + Sync + 'static {
    /// Called when the iteration begins.
    fn before_iteration(&self, ctx: &TurnContext) -> impl Future<Output = Result<(), HookError>> + Send;
}

/// AFTER_ITERATION: an iteration ends, its tools included.
pub trait AfterIteration: Send + Sync + 'static {
    /// Called when the iteration ends.
    fn after_iteration(&self, ctx: &TurnContext) -> impl Future<Output = Result<(), HookError>> + Send;
}

/// BEFORE_TOOL_EXECUTION: a batch of tools is about to run. Fires once a batch.
pub trait BeforeToolExecution: Send + Sync + 'static {
    /// Called with the calls and what the gate said about each.
    fn before_tool_execution(
        &self,
        ctx: &TurnContext,
        calls: &[DecidedCall],
    ) -> impl Future<Output = Result<(), HookError>> + Send;
}

/// AFTER_TOOL_EXECUTION: every call of the batch has a result, synthetic ones included. Fires once a batch.
pub trait AfterToolExecution: Send + Sync + 'static {
    /// Called with the results, in model order.
    fn after_tool_execution(
        &self,
        ctx: &TurnContext,
        results: &[ToolResult],
    ) -> impl Future<Output = Result<(), HookError>> + Send;
}

/// BEFORE_LLM: the model is about to be asked. Fires once a logical call, outside its interceptors.
pub trait BeforeLlm: Send + Sync + 'static {
    /// Called with the request as it enters the interceptors.
    fn before_llm(
        &self,
        ctx: &TurnContext,
        request: &LlmRequest,
    ) -> impl Future<Output = Result<(), HookError>> + Send;
}

/// AFTER_LLM_RESPONSE: the model answered, failed or was cut; the response holds what had arrived.
pub trait AfterLlmResponse: Send + Sync + 'static {
    /// Called with the response as it left the interceptors.
    fn after_llm_response(
        &self,
        ctx: &TurnContext,
        response: &LlmResponse,
    ) -> impl Future<Output = Result<(), HookError>> + Send;
}

/// FINALIZE_CONTENT: the final content is about to be given out. Synchronous and chained: each hook gets what the one
/// before it returned. A hook that fails leaves the content as it was. There is no timeout, since nothing can
/// interrupt synchronous code: be short.
pub trait FinalizeContent: Send + Sync + 'static {
    /// Called with the content; returns what is given out.
    ///
    /// # Errors
    /// [`HookError`]. A failure leaves the content as it was, whatever the policy. A control error ends the turn with its
    /// own reason, unless the turn was cut before: then it is recorded.
    fn finalize_content(&self, ctx: &TurnContext, content: String) -> Result<String, HookError>;
}

/// AFTER_APPROVAL: a decision was applied and the turn goes on. Fires right after BEFORE_GRAPH of the resumed leg.
pub trait AfterApproval: Send + Sync + 'static {
    /// Called with the transaction and its decisions.
    fn after_approval(
        &self,
        ctx: &TurnContext,
        transaction: &ApprovalTransaction,
    ) -> impl Future<Output = Result<(), HookError>> + Send;
}
