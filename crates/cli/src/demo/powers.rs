//! The three powers, as small as they get: a hook that watches, an interceptor that wraps, a command from outside.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;
use turnwright::{
    AgentResult, Around, CommandBody, ControlChannel, ControlCommand, ControlScope, Exit, HookError,
    InMemoryControlChannel, Next, Part, Sources, ToolCall, ToolResult, TurnAnswer, TurnContext,
    hook::{
        DecidedCall,
        point::{AfterTurn, BeforeToolExecution},
    },
    scope,
};

use crate::view::{counted, seconds};

/// What the person in front of the demonstration would say.
pub(super) const STEER: &str = "Two sentences will do.";

/// Who has something to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Power {
    Hook,
    Interceptor,
}

/// Lines of hook and interceptor. The screen takes them in their place among the events.
#[derive(Debug, Clone, Default)]
pub(super) struct Notes(Arc<Mutex<Vec<(Power, String)>>>);

impl Notes {
    fn add(&self, power: Power, line: String) {
        self.0.lock().push((power, line));
    }

    pub(super) fn take(&self) -> Vec<(Power, String)> {
        std::mem::take(&mut self.0.lock())
    }
}

/// The hook: sees, and changes nothing.
pub(super) struct Watcher(pub(super) Notes);

impl BeforeToolExecution for Watcher {
    async fn before_tool_execution(&self, _: &TurnContext, calls: &[DecidedCall]) -> Result<(), HookError> {
        let calls = counted(calls.len() as u64, "call");
        self.0.add(Power::Hook, format!("saw at before_tool_execution: {calls}, none has run yet"));
        Ok(())
    }
}

impl AfterTurn for Watcher {
    async fn after_turn(&self, _: &TurnContext, result: &mut AgentResult) -> Result<TurnAnswer, HookError> {
        let calls = counted(result.iterations.into(), "model call");
        self.0.add(Power::Hook, format!("saw at after_turn: {calls}; could ask for another attempt"));
        Ok(TurnAnswer::Done)
    }
}

/// The interceptor: stands around every tool call and times it.
pub(super) struct Timer(pub(super) Notes);

impl Around<scope::ToolCall> for Timer {
    async fn around(
        &self,
        ctx: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        let name = call.name.clone();
        let clock = ctx.sources().clock.clone();
        let began = clock.instant();
        let result = next.run(call).await?;
        let took = seconds(clock.instant().duration_since(began));
        self.0.add(Power::Interceptor, format!("wrapped {name}: {took}; could change or block the call"));
        Ok(result)
    }
}

/// The command: sent from outside while the model speaks.
pub(super) struct Steer {
    pub(super) sources: Sources,
    pub(super) channel: Arc<InMemoryControlChannel>,
    pub(super) scope: ControlScope,
}

impl Steer {
    pub(super) async fn once(self, when: Arc<Notify>) {
        when.notified().await;
        let body = CommandBody::InjectSteer { parts: vec![Part::text(STEER)] };
        let command = ControlCommand::new(&self.sources, self.scope, "you", body);
        // Whether it was taken shows as an event of the turn.
        drop(self.channel.send(command).await);
    }
}
