//! What a provider client implements.

use std::{pin::Pin, sync::Arc};

use futures::Stream;
use turnwright_core::TurnContext;

use crate::{LlmRequest, StreamItem};

/// How a client brings a model to answer in the form of [`LlmRequest::output`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputWay {
    /// Its format constrains the text of the answer.
    Native,
    /// By a tool of which the call is the answer; the format can demand calls, and does.
    DemandedTool,
    /// By such a tool, but the model is free to call it: where the format cannot demand calls, or the model refuses.
    OfferedTool,
}

/// A client of one model provider.
///
/// The stream does all its work when polled, from connecting on, and never retries: repeating is a layer's matter.
/// Faults are yielded as [`crate::LlmEvent::StreamFailure`]; end of file, panics and cancels are turned into one by
/// [`crate::OneTerminal`], through which the runtime reads every client.
///
/// # Cancel safety
/// Dropping the stream must close the connection and stop all work for it. What had not been yielded is lost.
pub trait LlmClient: Send + Sync + 'static {
    /// The provider's name as traces show it, for example `openai`.
    fn provider(&self) -> &str;

    /// How this request, which has an [`LlmRequest::output`], is answered in its form. For other ways than
    /// [`OutputWay::Native`] the runtime makes a tool of it, by [`crate::AnswerTool`], before it asks the client.
    fn output_way(&self, _request: &LlmRequest) -> OutputWay {
        OutputWay::OfferedTool
    }

    /// Asks the model. The request is read before this returns; the stream borrows nothing.
    fn stream(
        &self,
        ctx: &TurnContext,
        request: &LlmRequest,
    ) -> impl Stream<Item = StreamItem> + Send + 'static;
}

/// The object-safe twin of [`LlmClient`]; implemented for every client.
pub trait DynLlmClient: Send + Sync {
    /// As [`LlmClient::provider`].
    fn dyn_provider(&self) -> &str;

    /// As [`LlmClient::output_way`].
    fn dyn_output_way(&self, request: &LlmRequest) -> OutputWay;

    /// As [`LlmClient::stream`], boxed.
    fn dyn_stream(
        &self,
        ctx: &TurnContext,
        request: &LlmRequest,
    ) -> Pin<Box<dyn Stream<Item = StreamItem> + Send>>;
}

impl<C: LlmClient> DynLlmClient for C {
    fn dyn_provider(&self) -> &str {
        self.provider()
    }

    fn dyn_output_way(&self, request: &LlmRequest) -> OutputWay {
        self.output_way(request)
    }

    fn dyn_stream(
        &self,
        ctx: &TurnContext,
        request: &LlmRequest,
    ) -> Pin<Box<dyn Stream<Item = StreamItem> + Send>> {
        Box::pin(self.stream(ctx, request))
    }
}

/// A model: a client and the name it knows the model by. Cheap to clone.
#[derive(Clone)]
pub struct ModelHandle {
    client: Arc<dyn DynLlmClient>,
    model: Arc<str>,
}

impl ModelHandle {
    /// A model of this client.
    pub fn new(client: impl LlmClient, model: impl Into<Arc<str>>) -> Self {
        Self { client: Arc::new(client), model: model.into() }
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The provider's name.
    pub fn provider(&self) -> &str {
        self.client.dyn_provider()
    }

    /// The client.
    pub fn client(&self) -> &dyn DynLlmClient {
        &*self.client
    }
}

/// The same model of the same client: of that very one, not of one that is set up alike.
impl PartialEq for ModelHandle {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::addr_eq(Arc::as_ptr(&self.client), Arc::as_ptr(&other.client)) && self.model == other.model
    }
}

impl Eq for ModelHandle {}

impl std::hash::Hash for ModelHandle {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.client).cast::<()>().hash(state);
        self.model.hash(state);
    }
}

impl std::fmt::Debug for ModelHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.client.dyn_provider(), self.model)
    }
}
