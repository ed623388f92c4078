//! Hooks that write down which point fired when.

use std::sync::Arc;

use parking_lot::Mutex;
use turnwright_core::{AgentResult, ApprovalTransaction, ToolResult, TurnContext};
use turnwright_hook::{
    DecidedCall, HookError, HookPoint, LegEnd, TurnAnswer, hook_points,
    point::{
        AfterApproval, AfterGraph, AfterIteration, AfterLlmResponse, AfterToolExecution, AfterTurn,
        BeforeGraph, BeforeIteration, BeforeLlm, BeforeToolExecution, BeforeTurn, EndNodeTurn,
        FinalizeContent, FinallyGraph, StartNodeTurn,
    },
};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

/// Which hook was called at which point, in order. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct HookTrace(Arc<Mutex<Vec<(HookPoint, usize)>>>);

impl HookTrace {
    /// An empty trace.
    pub fn new() -> Self {
        Self::default()
    }

    /// What was called so far: the point, and the number of the hook.
    pub fn calls(&self) -> Vec<(HookPoint, usize)> {
        self.0.lock().clone()
    }

    /// The points at which the first hook was called, in order.
    pub fn points(&self) -> Vec<HookPoint> {
        self.0.lock().iter().filter(|(_, hook)| *hook == 0).map(|(point, _)| *point).collect()
    }

    fn note(&self, point: HookPoint, hook: usize) {
        self.0.lock().push((point, hook));
    }
}

/// A hook of all fifteen points that writes itself into a trace, and can misbehave at one of them.
#[derive(Clone)]
pub struct TraceHook {
    number: usize,
    trace: HookTrace,
    misbehave: Option<(HookPoint, Misbehaviour)>,
}

/// How a [`TraceHook`] misbehaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misbehaviour {
    /// It returns an error.
    Fail,
    /// It panics.
    Panic,
    /// It never returns.
    Hang,
    /// It raises a control error.
    Exit,
}

impl TraceHook {
    /// The hook of this number, from 0. The checkers expect the numbers of a runner's hooks to have no gap.
    pub fn new(number: usize, trace: &HookTrace) -> Self {
        Self { number, trace: trace.clone(), misbehave: None }
    }

    /// The same hook, misbehaving at this point.
    #[must_use]
    pub fn misbehave(mut self, point: HookPoint, how: Misbehaviour) -> Self {
        self.misbehave = Some((point, how));
        self
    }

    async fn call(&self, point: HookPoint) -> Result<(), HookError> {
        self.trace.note(point, self.number);
        // A place to be cut, after the hook has begun.
        tokio::task::yield_now().await;
        if let Some((at, how)) = self.misbehave
            && at == point
        {
            match how {
                Misbehaviour::Fail => return Err(HookError::msg("failed on purpose")),
                #[expect(clippy::panic, reason = "a hook that panics is what was asked for")]
                Misbehaviour::Panic => panic!("hook"),
                Misbehaviour::Hang => std::future::pending().await,
                Misbehaviour::Exit => {
                    return Err(turnwright_control::ControlError::loop_detected("on purpose").into());
                }
            }
        }
        Ok(())
    }
}

macro_rules! trace {
    ($($point:ident $method:ident ($($ty:ty)?);)*) => {
        $(impl $point for TraceHook {
            async fn $method(&self, _: &TurnContext $(, _: $ty)?) -> Result<(), HookError> {
                self.call(HookPoint::$point).await
            }
        })*
    };
}
trace! {
    BeforeGraph before_graph ();
    AfterGraph after_graph (&AgentResult);
    FinallyGraph finally_graph (LegEnd<'_>);
    StartNodeTurn start_node_turn ();
    EndNodeTurn end_node_turn ();
    BeforeTurn before_turn ();
    BeforeIteration before_iteration ();
    AfterIteration after_iteration ();
    BeforeToolExecution before_tool_execution (&[DecidedCall]);
    AfterToolExecution after_tool_execution (&[ToolResult]);
    BeforeLlm before_llm (&LlmRequest);
    AfterLlmResponse after_llm_response (&LlmResponse);
    AfterApproval after_approval (&ApprovalTransaction);
}

impl AfterTurn for TraceHook {
    async fn after_turn(&self, _: &TurnContext, _: &mut AgentResult) -> Result<TurnAnswer, HookError> {
        self.call(HookPoint::AfterTurn).await?;
        Ok(TurnAnswer::Done)
    }
}

impl FinalizeContent for TraceHook {
    fn finalize_content(&self, _: &TurnContext, content: String) -> Result<String, HookError> {
        self.trace.note(HookPoint::FinalizeContent, self.number);
        match self.misbehave {
            Some((HookPoint::FinalizeContent, Misbehaviour::Exit)) => {
                Err(turnwright_control::ControlError::loop_detected("on purpose").into())
            }
            #[expect(clippy::panic, reason = "a hook that panics is what was asked for")]
            Some((HookPoint::FinalizeContent, Misbehaviour::Panic)) => panic!("hook"),
            // A synchronous hook cannot hang without hanging its leg: it fails instead.
            Some((HookPoint::FinalizeContent, _)) => Err(HookError::msg("failed on purpose")),
            _ => Ok(content),
        }
    }
}

hook_points!(TraceHook);
