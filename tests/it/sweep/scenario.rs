//! What the turns of the sweep are made of.

use futures::FutureExt;
use turnwright_control::{CommandBody, ControlChannel, ControlCommand, ControlScope, InMemoryControlChannel};
use turnwright_core::{CallId, ErrorInfo, ErrorKind, Part, SessionId, Sources};
use turnwright_hook::{HookPoint, hook};
use turnwright_interceptor::interceptor;
use turnwright_react_runtime::{Agent, AgentBuilder, Session, TurnHandle};
use turnwright_testkit::{
    Reply, ScriptedModel,
    trace::{HookTrace, Misbehaviour, TraceHook},
};

use super::{
    counts::LastToAnswer,
    layers::{Layer, SweepGate, work_tool},
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
    SuspendsThenDrains,
    RewriteAsks,
    /// A tool asks what an agent asks that it started, and is entered again.
    AsksForOthers,
    /// A tool stops with its turn, and is entered again.
    StopsWithTurn,
    Drained,
    Continues,
    /// An answer of a form by a tool, too early at first, then wrong and told so.
    Typed,
}

/// What the typed turn is asked for.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Number {
    #[serde(rename = "n")]
    _n: u8,
}

impl Scenario {
    pub(super) const ALL: [Self; 25] = [
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
        Self::SuspendsThenDrains,
        Self::RewriteAsks,
        Self::AsksForOthers,
        Self::StopsWithTurn,
        Self::Drained,
        Self::Continues,
        Self::Typed,
    ];

    /// Whether the turn is cut from inside although nobody cut it from outside.
    pub(super) fn cuts_itself(self) -> bool {
        matches!(self, Self::LoopDetected | Self::TurnShortCircuited | Self::SlowLayer)
    }

    /// The model, its first `said` replies said in earlier legs.
    pub(super) fn model(self, said: usize) -> ScriptedModel {
        let first = Reply::new()
            .text("Hel")
            .text("lo ")
            .reasoning("hm")
            .call("t1", "slow", r#"{"n":1}"#)
            .call("t2", "fast", r#"{"n":2}"#);
        let first = match self {
            Self::Typed => first.call("t3", "final_answer", r#"{"n":0}"#),
            _ => first,
        };
        let first = first.usage(3, 4).finish();
        let second = Reply::new().text("do").text("ne").usage(5, 6);
        let broken = ErrorInfo::new(ErrorKind::Server, "500");
        let second = match self {
            Self::ProviderFails => second.fail(broken),
            Self::ProviderTruncated => second,
            _ => second.finish(),
        };
        let third = match self {
            Self::Typed => Reply::new().text("so:").call("a", "final_answer", r#"{"n":1}"#).usage(1, 1),
            _ => Reply::new().text("bye"),
        };
        let third = third.finish();
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
        agent = agent.hook(hook!(LastToAnswer(self)).name("last to answer"));
        for _ in 0..2 {
            agent = agent.interceptor(interceptor!(Layer(self)));
        }
        agent
    }

    pub(super) fn start(self, session: &Session) -> TurnHandle {
        match self {
            Self::Typed => session.start_typed::<Number>("hi").unwrap().into_handle(),
            _ => session.start("hi").unwrap(),
        }
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
            // The leg that the decision resumes is drained: the one after it goes on without one.
            Self::SuspendsThenDrains if legs == 1 => send(CommandBody::DrainTurn),
            _ => {}
        }
    }

    pub(super) fn decides(self, first: &CallId, pending: &[CallId]) -> Vec<CallId> {
        if self == Self::SuspendsInPart { vec![first.clone()] } else { pending.to_vec() }
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
