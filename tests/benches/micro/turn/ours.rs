//! The turn by the runtime.

use futures::StreamExt;
use turnwright_core::{Outcome, ToolCall, ToolResult, TurnContext};
use turnwright_interceptor::{Around, AroundStream, Exit, Next, StreamCall, interceptor, scope};
use turnwright_llm_stream::{EventStream, LlmEvent, LlmRequest, LlmResponse, ModelHandle};
use turnwright_providers::ChatClient;
use turnwright_react_runtime::{
    Agent, AgentBuilder, TurnEventKind,
    tool::{ToolContext, tool},
};

use super::{Lookup, QUESTION, SYSTEM, look_up};
use crate::hooks::Nothing;

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Registered {
    Nothing,
    /// Eight hooks at every point, and three layers at each scope.
    Everything,
    /// The built-in hooks.
    BuiltIns,
}

/// A layer that passes everything.
struct Passes;

impl Around<scope::LlmCall> for Passes {
    async fn around(
        &self,
        _: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        next.run(request).await
    }
}
impl Around<scope::ToolCall> for Passes {
    async fn around(
        &self,
        _: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        next.run(call).await
    }
}
impl AroundStream for Passes {
    fn around_stream(
        &self,
        _: &TurnContext,
        _: &LlmRequest,
        _: &StreamCall,
        inner: EventStream<'_>,
    ) -> impl futures::Stream<Item = LlmEvent> + Send {
        inner.map(|event| event)
    }
}

/// The agent, with nothing registered.
pub(super) fn builder(base_url: &str) -> AgentBuilder {
    let client = ChatClient::builder().base_url(base_url).api_key("none").build().unwrap();
    let look_up = async |_: ToolContext, args: Lookup| Ok(look_up(&args.key));
    Agent::builder("bench", ModelHandle::new(client, "gpt-4o-mini"))
        .instructions(SYSTEM)
        .tool(tool("lookup", "Looks an entry up", look_up).parallel())
}

pub(super) fn agent(base_url: &str, registered: Registered) -> Agent {
    let mut agent = builder(base_url);
    if registered == Registered::Everything {
        for _ in 0..8 {
            agent = agent.hook(Nothing);
        }
        for _ in 0..3 {
            agent = agent.interceptor(interceptor!(Passes));
        }
    }
    if registered == Registered::BuiltIns {
        for (_, hook) in crate::builtin::hooks() {
            agent = agent.hook(hook);
        }
    }
    agent.build().unwrap()
}

/// One turn, read to its end. Answers how much text was shown.
pub(super) async fn turn(agent: &Agent) -> usize {
    let mut turn = agent.run(QUESTION).unwrap();
    let mut shown = 0;
    while let Some(event) = turn.next().await {
        match event.kind {
            TurnEventKind::TextDelta { text } => shown += text.len(),
            TurnEventKind::TurnFinished(end) => {
                assert_eq!(end.outcome, Outcome::Completed, "{:?}", end.error);
            }
            _ => {}
        }
    }
    shown
}
