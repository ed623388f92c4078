//! What the turns of the sweep are made of.

use std::{cell::Cell, sync::Arc, time::Duration};

use futures::FutureExt;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio::task::yield_now;
use turnwright_control::{CommandBody, ControlChannel, ControlCommand, ControlScope, InMemoryControlChannel};
use turnwright_core::{
    CallId, ErrorInfo, ErrorKind, IterationEnd, LegOutcome, Part, SessionId, Sources, ToolCall,
    ToolDefinition, ToolResult, TurnContext,
};
use turnwright_hook::{HookPoint, hook};
use turnwright_interceptor::{Around, Exit, Next, interceptor, scope};
use turnwright_llm_stream::{LlmRequest, LlmResponse};
use turnwright_react_runtime::{
    Agent, AgentBuilder,
    gate::{Gate, GateDecision},
    tool::{ToolError, tool},
};
use turnwright_testkit::{
    Reply, ScriptedModel,
    trace::{HookTrace, Misbehaviour, TraceHook},
};

/// Hooks at every point.
pub(super) const HOOKS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scenario {
    Plain,
    ToolFails,
    ToolPanics,
    LayerPanics,
    LayerFails,
    HookPanics,
    HookHangs,
    LoopDetected,
    SwallowsControl,
    SlowLayer,
    IterationShortCircuited,
    TurnShortCircuited,
    ProviderFails,
    ProviderTruncated,
    Gated,
    Steered,
    Suspends,
    SuspendsInPart,
    RewriteAsks,
    Drained,
}

impl Scenario {
    pub(super) const ALL: [Self; 20] = [
        Self::Plain,
        Self::ToolFails,
        Self::ToolPanics,
        Self::LayerPanics,
        Self::LayerFails,
        Self::HookPanics,
        Self::HookHangs,
        Self::LoopDetected,
        Self::SwallowsControl,
        Self::SlowLayer,
        Self::IterationShortCircuited,
        Self::TurnShortCircuited,
        Self::ProviderFails,
        Self::ProviderTruncated,
        Self::Gated,
        Self::Steered,
        Self::Suspends,
        Self::SuspendsInPart,
        Self::RewriteAsks,
        Self::Drained,
    ];

    /// Whether the turn is cut from inside although nobody cut it from outside.
    pub(super) fn cuts_itself(self) -> bool {
        matches!(self, Self::LoopDetected | Self::TurnShortCircuited)
    }

    /// The model, its first `said` replies said in earlier legs.
    pub(super) fn model(self, said: usize) -> ScriptedModel {
        let first = Reply::new()
            .text("Hel")
            .text("lo ")
            .reasoning("hm")
            .call("t1", "slow", r#"{"n":1}"#)
            .call("t2", "fast", r#"{"n":2}"#)
            .usage(3, 4)
            .finish();
        let second = Reply::new().text("do").text("ne").usage(5, 6);
        let broken = ErrorInfo::new(ErrorKind::Server, "500");
        let second = match self {
            Self::ProviderFails => second.fail(broken),
            Self::ProviderTruncated => second,
            _ => second.finish(),
        };
        let third = Reply::new().text("bye").finish();
        ScriptedModel::new([first, second, third].into_iter().skip(said))
    }

    pub(super) fn agent(self, model: &ScriptedModel, trace: &HookTrace) -> AgentBuilder {
        let mut agent = Agent::builder("sweep", model.handle())
            .tool(work_tool("slow", 5, self).parallel())
            .tool(work_tool("fast", 2, self).parallel())
            .gate(SweepGate(self));
        for number in 0..HOOKS {
            let hook = TraceHook::new(number, trace);
            let hook = match (self, number) {
                (Self::HookPanics, 1) => hook.misbehave(HookPoint::BeforeTurn, Misbehaviour::Panic),
                (Self::HookPanics, 2) => hook.misbehave(HookPoint::FinallyGraph, Misbehaviour::Panic),
                (Self::HookHangs, 1) => hook.misbehave(HookPoint::AfterLlmResponse, Misbehaviour::Hang),
                (Self::HookHangs, 2) => hook.misbehave(HookPoint::AfterTurn, Misbehaviour::Hang),
                (Self::LoopDetected, 1) => hook.misbehave(HookPoint::BeforeToolExecution, Misbehaviour::Exit),
                _ => hook,
            };
            agent = agent.hook(hook!(hook).name(format!("trace {number}")));
        }
        for _ in 0..2 {
            agent = agent.interceptor(interceptor!(Layer(self)));
        }
        agent
    }

    /// Commands that wait when the leg begins.
    pub(super) fn before_leg(
        self,
        channel: &InMemoryControlChannel,
        sources: &Sources,
        session: &SessionId,
        legs: usize,
    ) {
        let send = |body| {
            let command = ControlCommand::new(sources, ControlScope::session(session.clone()), "ann", body);
            channel.send(command).now_or_never().unwrap().unwrap();
        };
        let parts = |text: &str| vec![Part::text(text)];
        match self {
            Self::Steered if legs == 0 => {
                send(CommandBody::InjectSteer { parts: parts("left") });
                send(CommandBody::InjectUserMessage { parts: parts("and then?") });
            }
            Self::Drained if legs < 4 => send(CommandBody::DrainTurn),
            _ => {}
        }
    }

    pub(super) fn decides(self, first: &CallId, pending: &[CallId]) -> Vec<CallId> {
        if self == Self::SuspendsInPart { vec![first.clone()] } else { pending.to_vec() }
    }
}

thread_local! {
    /// Bodies that are alive: layers and tools that began and did not end. Each sweep runs on one thread.
    static ALIVE: Cell<i64> = const { Cell::new(0) };
}

pub(super) fn alive() -> i64 {
    ALIVE.get()
}

struct Body;
impl Body {
    fn new() -> Self {
        ALIVE.set(ALIVE.get() + 1);
        Self
    }
}
impl Drop for Body {
    fn drop(&mut self) {
        ALIVE.set(ALIVE.get() - 1);
    }
}

/// The panics these scenarios ask for are not printed; any other is.
pub(crate) fn quiet_panics() {
    let default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        let said = info.payload().downcast_ref::<&str>().copied().unwrap_or_default();
        if !["hook", "layer", "tool"].contains(&said) {
            default(info);
        }
    }));
}

#[derive(Deserialize, JsonSchema)]
struct Args {
    n: u32,
}

fn work_tool(
    name: &str,
    steps: u32,
    scenario: Scenario,
) -> turnwright_react_runtime::tool::FunctionTool<
    impl Fn(
        turnwright_react_runtime::tool::ToolContext,
        Args,
    ) -> turnwright_core::BoxFuture<'static, Result<String, ToolError>>
    + Send
    + Sync,
    Args,
> {
    tool(name, "Works in steps", move |_ctx, args: Args| {
        Box::pin(async move {
            let _body = Body::new();
            for _ in 0..steps {
                yield_now().await;
            }
            match scenario {
                Scenario::ToolPanics if args.n == 1 => panic!("tool"),
                Scenario::ToolFails => Err(ToolError::model("bad input")),
                _ => Ok(format!("result {}", args.n)),
            }
        }) as turnwright_core::BoxFuture<'static, _>
    })
}

struct SweepGate(Scenario);
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
            Scenario::Suspends => call.name == "slow",
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
struct Layer(Scenario);

impl Layer {
    async fn around<T>(&self, rest: impl Future<Output = Result<T, Exit>>) -> Result<T, Exit> {
        let _body = Body::new();
        yield_now().await;
        let out = rest.await;
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
        self.around(next.run(())).await
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
            let _body = Body::new();
            tokio::time::sleep(Duration::from_secs(3600)).await;
        }
        let out = self.around(next.run(request)).await;
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
