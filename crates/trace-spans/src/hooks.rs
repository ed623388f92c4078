//! The hooks, each small, on its points. What they open lives in the leg, which ends it whatever comes.

use std::sync::Arc;

use turnwright_core::{ApprovalTransaction, ToolResult, TurnContext};
use turnwright_hook::{
    DecidedCall, HookError, HookSpec, hook,
    point::{
        AfterApproval, AfterIteration, AfterLlmResponse, AfterToolExecution, BeforeGraph, BeforeIteration,
        BeforeLlm, BeforeToolExecution, StartNodeTurn,
    },
};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use crate::{Tier, traces::Shared};

/// Before everybody else's, so that what other hooks do is inside of the spans.
const FIRST: i32 = i32::MIN;

/// The hooks of a tier, the root's first.
pub(crate) fn of_tier(tier: Tier, shared: &Arc<Shared>) -> Vec<HookSpec> {
    let mut hooks = vec![hook!(Root(shared.clone())).name("trace_root")];
    if tier >= Tier::Standard {
        hooks.push(hook!(Chat(shared.clone())).name("trace_chat"));
        hooks.push(hook!(Tool(shared.clone())).name("trace_tool"));
        hooks.push(hook!(Approval(shared.clone())).name("trace_approval"));
    }
    if tier >= Tier::Full {
        hooks.push(hook!(AgentStart(shared.clone())).name("trace_agent_start"));
        hooks.push(hook!(Iteration(shared.clone())).name("trace_iteration"));
    }
    hooks.into_iter().map(|hook| hook.priority(FIRST)).collect()
}

macro_rules! hooks {
    ($($(#[$doc:meta])* $hook:ident { $($point:ident $method:ident($ctx:ident $(, $given:ident: $type:ty)?) $leg:ident $body:block)* })*) => {
        $(
            $(#[$doc])*
            struct $hook(Arc<Shared>);
            $(
                impl $point for $hook {
                    async fn $method(&self, $ctx: &TurnContext $(, $given: $type)?) -> Result<(), HookError> {
                        if let Some($leg) = self.0.leg($ctx) $body
                        Ok(())
                    }
                }
            )*
        )*
    };
}

hooks! {
    /// Opens the leg's `invoke_agent`. The leg's end ends it.
    Root {
        BeforeGraph before_graph(ctx) leg { leg.open_root(ctx); }
    }
    /// Completes the `chat` spans of calls that broke off, and tells those that a layer answered.
    Chat {
        BeforeLlm before_llm(ctx, request: &LlmRequest) leg { leg.model_asked(ctx, request); }
        AfterLlmResponse after_llm_response(ctx, response: &LlmResponse) leg { leg.model_answered(ctx, response); }
    }
    /// Tells calls that wait, and those that were never entered.
    Tool {
        BeforeToolExecution before_tool_execution(ctx, calls: &[DecidedCall]) leg { leg.batch_begins(ctx, calls); }
        AfterToolExecution after_tool_execution(ctx, results: &[ToolResult]) leg { leg.batch_ends(ctx, results); }
    }
    /// An `approval` for each decision.
    Approval {
        AfterApproval after_approval(ctx, transaction: &ApprovalTransaction) leg { leg.decided(ctx, transaction); }
    }
    /// An event of the root.
    AgentStart {
        StartNodeTurn start_node_turn(ctx) leg { leg.agent_starts(ctx); }
    }
    /// An `iteration` each, beside the calls in it.
    Iteration {
        BeforeIteration before_iteration(ctx) leg { leg.iteration_begins(ctx); }
        AfterIteration after_iteration(_ctx) leg { leg.iteration_ends(); }
    }
}
