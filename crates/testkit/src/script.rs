//! A model that follows a script.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::{Stream, StreamExt, stream};
use parking_lot::Mutex;
use turnwright_core::{ErrorInfo, ErrorKind, SessionId, TokenUsage, ToolCall, TurnContext};
use turnwright_llm_stream::{
    Finish, FinishReason, LlmClient, LlmEvent, LlmRequest, ModelHandle, OutputWay, StreamItem, ToolProgress,
};

/// One answer, step by step. Starts empty; ends with [`Reply::finish`], a failure, or just so, which is a truncated
/// stream.
#[derive(Debug, Clone, Default)]
pub struct Reply {
    steps: Vec<Step>,
    calls: bool,
}

#[derive(Debug, Clone)]
enum Step {
    Item(StreamItem),
    Wait(Duration),
    Silence,
    Panic(String),
}

impl Reply {
    /// An empty answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// A piece of text.
    #[must_use]
    pub fn text(self, text: impl Into<String>) -> Self {
        self.event(LlmEvent::text(text))
    }

    /// A piece of reasoning.
    #[must_use]
    pub fn reasoning(self, text: impl Into<String>) -> Self {
        self.event(LlmEvent::reasoning(text))
    }

    /// A tool call, announced on the progress lane before it is complete.
    #[must_use]
    pub fn call(mut self, id: &str, name: &str, arguments: &str) -> Self {
        self.calls = true;
        let started = ToolProgress::Started { id: id.into(), name: name.into() };
        let fragment = ToolProgress::Arguments { id: id.into(), fragment: arguments.into() };
        self.steps.push(Step::Item(StreamItem::Progress(started)));
        self.steps.push(Step::Item(StreamItem::Progress(fragment)));
        self.event(LlmEvent::ToolCallComplete(Box::new(ToolCall::new(id, name, arguments))))
    }

    /// A usage snapshot.
    #[must_use]
    pub fn usage(self, input: u64, output: u64) -> Self {
        let usage =
            TokenUsage { input_tokens: Some(input), output_tokens: Some(output), ..TokenUsage::UNKNOWN };
        self.event(LlmEvent::UsageSnapshot(Box::new(usage)))
    }

    /// Any event.
    #[must_use]
    pub fn event(mut self, event: LlmEvent) -> Self {
        self.steps.push(Step::Item(event.into()));
        self
    }

    /// The end the calls, or their absence, suggest.
    #[must_use]
    pub fn finish(self) -> Self {
        let reason = if self.calls { FinishReason::ToolCalls } else { FinishReason::Stop };
        self.finish_with(reason)
    }

    /// The end, for this reason.
    #[must_use]
    pub fn finish_with(self, reason: FinishReason) -> Self {
        let model = Some("scripted".to_owned());
        self.event(LlmEvent::Finish(Box::new(Finish { reason, raw_reason: None, model, response_id: None })))
    }

    /// A failure in mid-stream.
    #[must_use]
    pub fn fail(self, error: ErrorInfo) -> Self {
        self.event(LlmEvent::failure(error))
    }

    /// A pause.
    #[must_use]
    pub fn wait(mut self, pause: Duration) -> Self {
        self.steps.push(Step::Wait(pause));
        self
    }

    /// Silence for ever.
    #[must_use]
    pub fn silence(mut self) -> Self {
        self.steps.push(Step::Silence);
        self
    }

    /// A panic in the client.
    #[must_use]
    pub fn panic(mut self, message: impl Into<String>) -> Self {
        self.steps.push(Step::Panic(message.into()));
        self
    }
}

/// A model that answers the n-th call of each session with the n-th reply, and fails once the script is over. It yields
/// to the executor before every step, so that each step is a place where a turn can be cut.
#[derive(Clone)]
pub struct ScriptedModel(Arc<Inner>, OutputWay);

struct Inner {
    replies: Vec<Reply>,
    asked: Mutex<HashMap<SessionId, usize>>,
    requests: Mutex<Vec<LlmRequest>>,
}

impl ScriptedModel {
    /// A model with this script.
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let inner = Inner {
            replies: replies.into_iter().collect(),
            asked: Mutex::default(),
            requests: Mutex::default(),
        };
        Self(Arc::new(inner), OutputWay::OfferedTool)
    }

    /// The same model, that answers in a given form in this way: by a tool that it is offered, when nothing is said.
    #[must_use]
    pub fn output_way(mut self, way: OutputWay) -> Self {
        self.1 = way;
        self
    }

    /// The model as agents take it.
    pub fn handle(&self) -> ModelHandle {
        ModelHandle::new(self.clone(), "scripted")
    }

    /// What it was asked so far, by all sessions.
    pub fn requests(&self) -> Vec<LlmRequest> {
        self.0.requests.lock().clone()
    }

    /// How often it was asked so far.
    pub fn calls(&self) -> usize {
        self.0.requests.lock().len()
    }
}

impl LlmClient for ScriptedModel {
    fn provider(&self) -> &str {
        "scripted"
    }

    fn output_way(&self, _request: &LlmRequest) -> OutputWay {
        self.1
    }

    fn stream(
        &self,
        ctx: &TurnContext,
        request: &LlmRequest,
    ) -> impl Stream<Item = StreamItem> + Send + 'static {
        self.0.requests.lock().push(request.clone());
        let mut asked = self.0.asked.lock();
        let n = asked.entry(ctx.session().clone()).or_default();
        let reply = self.0.replies.get(*n).cloned().unwrap_or_else(|| {
            Reply::new()
                .fail(ErrorInfo::new(ErrorKind::Server, format!("the script has no reply {}", *n + 1)))
        });
        *n += 1;
        stream::iter(reply.steps).filter_map(|step| async {
            tokio::task::yield_now().await;
            match step {
                Step::Item(item) => Some(item),
                Step::Wait(pause) => {
                    tokio::time::sleep(pause).await;
                    None
                }
                Step::Silence => std::future::pending().await,
                #[expect(clippy::panic, reason = "a client that panics is what the script asks for")]
                Step::Panic(message) => panic!("{message}"),
            }
        })
    }
}
