//! The layers, tools and the gate of the sweep's turns.

use std::{sync::Arc, time::Duration};

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::task::yield_now;
use turnwright_core::{
    ApprovalRequest, BoxFuture, CallDigest, ErrorKind, IterationEnd, LegOutcome, Part, ToolCall,
    ToolDefinition, ToolResult, TurnContext, Wants,
};
use turnwright_interceptor::{Around, Exit, Next, scope};
use turnwright_llm_stream::{LlmRequest, LlmResponse};
use turnwright_react_runtime::{
    gate::{Gate, GateDecision},
    tool::{FunctionTool, ToolContext, ToolError, tool},
};

use super::{
    counts::{Body, note},
    scenario::Scenario,
};

#[derive(Deserialize, JsonSchema)]
pub(super) struct Args {
    n: u32,
}

pub(super) fn work_tool(
    name: &str,
    steps: u32,
    scenario: Scenario,
) -> FunctionTool<
    impl Fn(ToolContext, Args) -> BoxFuture<'static, Result<String, ToolError>> + Send + Sync,
    Args,
> {
    tool(name, "Works in steps", move |ctx: ToolContext, args: Args| {
        Box::pin(async move {
            let _body = Body::begin();
            note(|leg| leg.tools += 1);
            for _ in 0..steps {
                yield_now().await;
            }
            match scenario {
                Scenario::ToolPanics if args.n == 1 => panic!("tool"),
                Scenario::AsksForOthers if args.n == 1 && ctx.decisions().is_empty() => {
                    Err(ToolError::asks(vec![others_question()]))
                }
                Scenario::StopsWithTurn if args.n == 1 && ctx.turn().leg() == 1 => {
                    ctx.turn().request_drain();
                    Err(ToolError::stopped())
                }
                Scenario::ToolFails => Err(ToolError::model("bad input")),
                _ => Ok(format!("result {}", args.n)),
            }
        }) as BoxFuture<'static, _>
    })
}

fn others_question() -> ApprovalRequest {
    let call = ToolCall::new("x", "write", "{}");
    ApprovalRequest {
        digest: CallDigest::of("local", &call),
        call,
        source: "local".into(),
        agent: Some("other".into()),
        wants: Wants::Approval,
        reason: "writes".into(),
        expires_at: None,
    }
}

pub(super) struct SweepGate(pub(super) Scenario);
impl Gate for SweepGate {
    async fn decide(
        &self,
        _: &TurnContext,
        call: &ToolCall,
        _: &ToolDefinition,
    ) -> Result<GateDecision, Exit> {
        yield_now().await;
        let asks = match self.0 {
            // Of two calls one is gated: the other runs before the leg suspends.
            Scenario::Suspends | Scenario::SuspendsThenDrains => call.name == "slow",
            Scenario::SuspendsInPart => true,
            Scenario::RewriteAsks => call.arguments.contains("99"),
            _ => false,
        };
        Ok(if asks {
            GateDecision::Ask { reason: "on purpose".into(), expires_at: None }
        } else {
            GateDecision::Allow
        })
    }
}

/// A layer of every call scope.
pub(super) struct Layer(pub(super) Scenario);

impl Layer {
    async fn around<T>(&self, rest: impl Future<Output = Result<T, Exit>>) -> Result<T, Exit> {
        let _body = Body::begin();
        yield_now().await;
        let out = rest.await;
        if matches!(out, Err(Exit::Control(_))) {
            note(|leg| leg.raised = true);
        }
        yield_now().await;
        out
    }
}

impl Around<scope::AgentRun> for Layer {
    async fn around(
        &self,
        _: &TurnContext,
        i: Vec<Part>,
        next: Next<'_, scope::AgentRun>,
    ) -> Result<LegOutcome, Exit> {
        self.around(next.run(i)).await
    }
}
impl Around<scope::Turn> for Layer {
    async fn around(&self, _: &TurnContext, (): (), next: Next<'_, scope::Turn>) -> Result<LegOutcome, Exit> {
        if self.0 == Scenario::TurnShortCircuited {
            yield_now().await;
            let result = turnwright_core::AgentResult::new("cached", turnwright_core::StopReason::Completed);
            return Ok(LegOutcome::Finished(Box::new(result)));
        }
        let rest = async {
            let out = next.run(()).await;
            // In the poll in which the leg was parked.
            note(|leg| leg.parked = matches!(out, Ok(LegOutcome::Suspended { .. } | LegOutcome::Drained)));
            out
        };
        self.around(rest).await
    }
}
impl Around<scope::Iteration> for Layer {
    async fn around(
        &self,
        _: &TurnContext,
        n: u32,
        next: Next<'_, scope::Iteration>,
    ) -> Result<IterationEnd, Exit> {
        if self.0 == Scenario::IterationShortCircuited && n == 2 {
            yield_now().await;
            return Ok(IterationEnd::Skipped);
        }
        self.around(next.run(n)).await
    }
}
impl Around<scope::LlmCall> for Layer {
    async fn around(
        &self,
        _: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        if self.0 == Scenario::SlowLayer {
            let _body = Body::begin();
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
        let rest = async {
            note(|leg| leg.returned = false);
            let out = next.run(request).await;
            note(|leg| leg.returned = true);
            out
        };
        let out = self.around(rest).await;
        match (self.0, out) {
            (Scenario::SwallowsControl, Err(_)) => Ok(LlmResponse::text_only("all is well")),
            (_, out) => out,
        }
    }

    fn is_gating(&self) -> bool {
        self.0 == Scenario::Gated
    }
}
impl Around<scope::ToolCall> for Layer {
    async fn around(
        &self,
        _: &TurnContext,
        mut call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        let key = call.clone();
        match self.0 {
            Scenario::LayerPanics if call.id.as_str() == "t2" => panic!("layer"),
            Scenario::LayerFails if call.id.as_str() == "t2" => {
                return Err(Exit::failed(ErrorKind::Interceptor, "blocked"));
            }
            Scenario::RewriteAsks if call.id.as_str() == "t1" => call.arguments = r#"{"n":99}"#.into(),
            _ => {}
        }
        let out = self.around(next.run(call)).await;
        match (self.0, out) {
            (Scenario::SwallowsControl, Err(_)) => Ok(ToolResult::ok(&key, "hidden")),
            (_, out) => out,
        }
    }
}

const _: fn() = || {
    fn send_sync<T: Send + Sync>() {}
    send_sync::<Arc<Layer>>();
};
