//! Firing points: with nobody there, with one hook, and all fifteen points with eight hooks each.

use std::{future::ready, hint::black_box};

use turnwright_core::{
    AgentResult, ApprovalTransaction, SessionId, StopReason, ToolResult, TurnContext, TurnId,
};
use turnwright_hook::{
    AnyHook, Dispatch, HookError, HookRunner, LegEnd, TurnAnswer, hook_points,
    point::{
        AfterApproval, AfterGraph, AfterIteration, AfterLlmResponse, AfterToolExecution, AfterTurn,
        BeforeGraph, BeforeIteration, BeforeLlm, BeforeToolExecution, BeforeTurn, DecidedCall, EndNodeTurn,
        FinalizeContent, FinallyGraph, StartNodeTurn,
    },
};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use crate::cpu::{Bench, calls};

/// A hook at every point that does nothing.
#[derive(Clone, Copy)]
pub(crate) struct Nothing;

macro_rules! nothing {
    ($($point:ident $method:ident ($($ty:ty)?);)*) => {
        $(impl $point for Nothing {
            async fn $method(&self, _: &TurnContext $(, _: $ty)?) -> Result<(), HookError> {
                Ok(())
            }
        })*
    };
}
nothing! {
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
impl AfterTurn for Nothing {
    async fn after_turn(&self, _: &TurnContext, _: &mut AgentResult) -> Result<TurnAnswer, HookError> {
        Ok(TurnAnswer::Done)
    }
}
impl FinalizeContent for Nothing {
    fn finalize_content(&self, _: &TurnContext, content: String) -> Result<String, HookError> {
        Ok(content)
    }
}
hook_points!(Nothing);

/// Hooks that are there for one point only.
#[derive(Clone, Copy)]
struct One;
impl BeforeIteration for One {
    async fn before_iteration(&self, _: &TurnContext) -> Result<(), HookError> {
        Ok(())
    }
}
hook_points!(One);

fn runner(hooks: impl IntoIterator<Item = impl AnyHook>) -> HookRunner {
    HookRunner::new(hooks.into_iter().map(Into::into))
}

pub(crate) fn all(c: &mut Bench) {
    let ctx = TurnContext::builder(SessionId::new("s").unwrap()).build();
    let mut group = c.benchmark_group("hook");
    calls(&mut group, "direct", async || black_box(ready(())).await);
    calls(&mut group, "boxed", async || {
        let boxed: turnwright_core::BoxFuture<'_, ()> = Box::pin(black_box(ready(())));
        boxed.await;
    });
    let nobody = runner([One; 0]);
    calls(&mut group, "nobody", async || {
        black_box(&nobody).before_iteration(&ctx, Dispatch::new()).await.is_ok()
    });
    let one = runner([One]);
    calls(&mut group, "one", async || black_box(&one).before_iteration(&ctx, Dispatch::new()).await.is_ok());
    let many = runner([Nothing; 8]);
    calls(&mut group, "15_points_x_8", async || fire_all(black_box(&many), &ctx).await);
    group.finish();
}

/// Each of the fifteen points once.
pub(crate) async fn fire_all(hooks: &HookRunner, ctx: &TurnContext) {
    let mut result = AgentResult::new("", StopReason::Completed);
    let (request, response) = (LlmRequest::default(), LlmResponse::default());
    let turn: TurnId = ctx.turn();
    let transaction = ApprovalTransaction::open(ctx.sources().id(), turn, Vec::new());
    let dispatch = Dispatch::new();
    hooks.before_graph(ctx, dispatch).await.unwrap();
    hooks.start_node_turn(ctx, dispatch).await.unwrap();
    hooks.before_turn(ctx, dispatch).await.unwrap();
    hooks.before_iteration(ctx, dispatch).await.unwrap();
    hooks.before_llm(ctx, &request, dispatch).await.unwrap();
    hooks.after_llm_response(ctx, &response, dispatch).await.unwrap();
    hooks.before_tool_execution(ctx, &[], dispatch).await.unwrap();
    hooks.after_tool_execution(ctx, &[], dispatch).await.unwrap();
    hooks.after_iteration(ctx, dispatch).await.unwrap();
    hooks.after_approval(ctx, &transaction, dispatch).await.unwrap();
    hooks.after_turn(ctx, &mut result, dispatch).await.unwrap();
    let (_, raised) = hooks.finalize_content(ctx, String::new(), dispatch);
    assert!(raised.is_none());
    hooks.end_node_turn(ctx, dispatch).await.unwrap();
    hooks.after_graph(ctx, &result, dispatch).await.unwrap();
    hooks.finally_graph(ctx, LegEnd::Terminal(&result), dispatch).await.unwrap();
}
