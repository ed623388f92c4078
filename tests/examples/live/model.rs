//! The real client, and the layer that shapes requests and writes down what was asked and answered.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde_json::{Value, json};
use turnwright::{
    Agent, AgentBuilder, Around, ChatClient, Exit, LlmRequest, LlmResponse, ModelHandle, Next, Role,
    SessionId, Timeouts, TokenUsage, TurnContext, interceptor,
    llm_stream::{FinishReason, wire::chat::chat_body},
    scope,
};

/// The server's only model.
pub(crate) struct Model(ModelHandle);

impl Model {
    pub(crate) fn new(base_url: &str) -> Result<Self, String> {
        let limits = Timeouts { first_byte: Duration::from_secs(60), ..Timeouts::default() };
        let client = ChatClient::builder().base_url(base_url).provider("llama.cpp").timeouts(limits).build();
        Ok(Self(ModelHandle::new(client.map_err(|e| e.to_string())?, "smollm2")))
    }

    /// An agent whose requests `shape` may change, and the log of its model calls.
    pub(crate) fn agent(&self, shape: Shape) -> (AgentBuilder, Log) {
        let log = Log::default();
        let layer = interceptor!(Watch { shape, log: log.clone() });
        (Agent::builder("live", self.0.clone()).temperature(0.0).interceptor(layer), log)
    }
}

/// Changes a request on its way out.
pub(crate) type Shape = fn(&TurnContext, &mut LlmRequest);

/// Leaves it alone.
pub(crate) fn plain(_: &TurnContext, _: &mut LlmRequest) {}

/// The newest thing the user said.
pub(crate) fn question(request: &LlmRequest) -> String {
    request.messages.iter().rev().find(|m| m.role == Role::User).map(|m| m.text()).unwrap_or_default()
}

/// Holds the answer to this one word, said without end. The model is too small to judge what it says; so it is told.
pub(crate) fn repeat(word: &str, request: &mut LlmRequest) {
    request.extra.insert("grammar".into(), json!(format!("root ::= (\"{word} \")+")));
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
        let body = serde_json::from_slice(&chat_body(&request).map_err(Exit::Failed)?)?;
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
