//! The real clients, and the layer that shapes requests and writes down what was asked and answered.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::{Value, json};
use turnwright::{
    Agent, AgentBuilder, Around, ErrorInfo, Exit, LlmRequest, LlmResponse, Message, ModelHandle, Next, Part,
    Role, SessionId, Timeouts, TokenUsage, TurnContext, interceptor,
    llm_stream::{
        FinishReason,
        wire::{chat::chat_body, messages::messages_body, responses::responses_body},
    },
    providers::{Chat, Format, HttpClient, Messages, Responses},
    scope,
};

/// The formats that the server speaks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wire {
    Chat,
    Responses,
    Messages,
}

impl Wire {
    pub(crate) const ALL: [Self; 3] = [Self::Chat, Self::Responses, Self::Messages];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Responses => "Responses",
            Self::Messages => "Messages",
        }
    }

    /// The body, as the client sends it.
    fn body(self, request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo> {
        match self {
            Self::Chat => chat_body(request),
            Self::Responses => responses_body(request),
            Self::Messages => messages_body(request),
        }
    }

    /// Whether the last thing in this body is what the call came to.
    pub(crate) fn ends_with_result(self, body: &Value, id: &str, content: &str) -> bool {
        let last = |list: &Value| list.as_array().and_then(|list| list.last().cloned()).unwrap_or_default();
        match self {
            Self::Chat => {
                let said = last(&body["messages"]);
                said["role"] == "tool" && said["tool_call_id"] == id && said["content"] == content
            }
            Self::Responses => {
                let said = last(&body["input"]);
                said["type"] == "function_call_output" && said["call_id"] == id && said["output"] == content
            }
            Self::Messages => {
                let block = last(&last(&body["messages"])["content"]);
                block["type"] == "tool_result"
                    && block["tool_use_id"] == id
                    && (block["content"] == content || last(&block["content"])["text"] == content)
            }
        }
    }
}

/// The server's only model, spoken to in one format.
pub(crate) struct Model {
    handle: ModelHandle,
    pub(crate) wire: Wire,
}

impl Model {
    pub(crate) fn new(base_url: &str, wire: Wire) -> Result<Self, String> {
        let handle = match wire {
            Wire::Chat => client::<Chat>(base_url),
            Wire::Responses => client::<Responses>(base_url),
            Wire::Messages => client::<Messages>(base_url),
        };
        Ok(Self { handle: handle.map_err(|e| e.to_string())?, wire })
    }

    /// An agent whose requests `shape` may change, and the log of its model calls.
    pub(crate) fn agent(&self, shape: Shape) -> (AgentBuilder, Log) {
        let log = Log::default();
        let layer = interceptor!(Watch { shape, wire: self.wire, log: log.clone() });
        (Agent::builder("live", self.handle.clone()).temperature(0.0).interceptor(layer), log)
    }
}

fn client<F: Format>(base_url: &str) -> Result<ModelHandle, ErrorInfo> {
    let limits = Timeouts { first_byte: Duration::from_secs(60), ..Timeouts::default() };
    let client =
        HttpClient::<F>::builder().base_url(base_url).provider("llama.cpp").timeouts(limits).build()?;
    Ok(ModelHandle::new(client, "smollm2"))
}

/// Changes a request on its way out.
pub(crate) type Shape = fn(&TurnContext, &mut LlmRequest);

/// Leaves it alone.
pub(crate) fn plain(_: &TurnContext, _: &mut LlmRequest) {}

/// The newest thing the user said.
pub(crate) fn question(request: &LlmRequest) -> String {
    request.messages.iter().rev().find(|m| m.role == Role::User).map(|m| m.text()).unwrap_or_default()
}

/// Holds the answer to this one word, said without end. The model is too small to judge what it says; so it is told, by a
/// grammar, and by a begin to go on with where the server takes no grammar (for Messages).
pub(crate) fn repeat(word: &str, ctx: &TurnContext, request: &mut LlmRequest) {
    request.extra.insert("grammar".into(), json!(format!("root ::= (\" {word}\")+")));
    let begun = vec![Part::text([word; 24].join(" "))];
    request.messages.push(Arc::new(Message::new(ctx.sources().id(), Role::Assistant, begun)));
}

/// One model call that came to its end.
pub(crate) struct Call {
    pub(crate) session: SessionId,
    /// The body, as the client sends it.
    pub(crate) body: Value,
    pub(crate) finish: Option<FinishReason>,
    pub(crate) usage: TokenUsage,
    pub(crate) response_id: Option<String>,
}

/// The model calls of an agent. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Call>>>);

impl Log {
    /// The calls of one session, in order, taken out.
    pub(crate) fn take(&self, session: &SessionId) -> Vec<Call> {
        self.0.lock().extract_if(.., |call| call.session == *session).collect()
    }
}

struct Watch {
    shape: Shape,
    wire: Wire,
    log: Log,
}

impl Around<scope::LlmCall> for Watch {
    async fn around(
        &self,
        ctx: &TurnContext,
        mut request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        (self.shape)(ctx, &mut request);
        let body = serde_json::from_slice(&self.wire.body(&request).map_err(Exit::Failed)?)?;
        let response = next.run(request).await?;
        self.log.0.lock().push(Call {
            session: ctx.session().clone(),
            body,
            finish: response.finish_reason,
            usage: response.usage,
            response_id: response.response_id.clone(),
        });
        Ok(response)
    }
}
