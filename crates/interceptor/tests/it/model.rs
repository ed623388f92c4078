//! A model made of a script of outcomes, and a chain of its layers.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{Stream, stream};
use turnwright_core::{
    ErrorInfo, ErrorKind, SessionId, Sources, TurnContext,
    clock::{Instant, SeededRandom, SystemClock},
};
use turnwright_interceptor::{Around, CallState, Chain, Core, Exit, scope};
use turnwright_llm_stream::{LlmClient, LlmRequest, LlmResponse, ModelHandle, StreamItem};

pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// What an attempt comes to.
#[derive(Clone)]
pub(crate) enum Turnout {
    Says(&'static str),
    Fails(ErrorInfo),
    /// Fails in an answer that carries the error.
    Broken(ErrorInfo),
    /// Shows something, then fails.
    Shows(ErrorInfo),
    Leaves,
}

pub(crate) use Turnout::{Broken, Fails, Leaves, Says, Shows};

/// A core that follows a script, and notes who was asked, and when.
#[derive(Clone, Default)]
pub(crate) struct Model(Arc<Mutex<Inner>>);

#[derive(Default)]
struct Inner {
    script: VecDeque<Turnout>,
    takes: Duration,
    asked: Vec<(String, u32, Instant)>,
    running: usize,
    most: usize,
}

impl Model {
    pub(crate) fn new(script: impl IntoIterator<Item = Turnout>) -> Self {
        let script = script.into_iter().collect();
        Self(Arc::new(Mutex::new(Inner { script, ..Inner::default() })))
    }
    /// The same, each attempt taking so long.
    pub(crate) fn takes(self, time: Duration) -> Self {
        self.0.lock().unwrap().takes = time;
        self
    }
    pub(crate) fn calls(&self) -> usize {
        self.0.lock().unwrap().asked.len()
    }
    pub(crate) fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().asked.iter().map(|(who, ..)| who.clone()).collect()
    }
    pub(crate) fn attempts(&self) -> Vec<u32> {
        self.0.lock().unwrap().asked.iter().map(|(_, attempt, _)| *attempt).collect()
    }
    pub(crate) fn times(&self) -> Vec<Instant> {
        self.0.lock().unwrap().asked.iter().map(|(.., at)| *at).collect()
    }
    /// How long it was between one attempt and the next.
    pub(crate) fn waits(&self) -> Vec<Duration> {
        self.times().windows(2).map(|w| w[1] - w[0]).collect()
    }
    /// The most that ran at once.
    pub(crate) fn most(&self) -> usize {
        self.0.lock().unwrap().most
    }
}

struct Running(Model);
impl Drop for Running {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().running -= 1;
    }
}

impl Core<scope::LlmCall> for Model {
    async fn call(
        &self,
        ctx: &TurnContext,
        request: LlmRequest,
        call: &CallState<scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        let takes = {
            let mut inner = self.0.lock().unwrap();
            inner.asked.push((request.asked(), call.attempt(), ctx.sources().clock.instant()));
            inner.running += 1;
            inner.most = inner.most.max(inner.running);
            inner.takes
        };
        let _running = Running(self.clone());
        if !takes.is_zero() {
            tokio::time::sleep(takes).await;
        }
        let turnout = self.0.lock().unwrap().script.pop_front();
        match turnout.unwrap_or(Says("fine")) {
            Says(text) => Ok(LlmResponse::text_only(text)),
            Fails(error) => Err(Exit::Failed(error)),
            Broken(error) => Ok(LlmResponse::failed(error)),
            Shows(error) => {
                call.mark_visible();
                Err(Exit::Failed(error))
            }
            Leaves => Err(crate::support::control("enough")),
        }
    }
}

/// A client that is never asked: the core above stands in for all.
pub(crate) struct Named(pub(crate) &'static str);
impl LlmClient for Named {
    fn provider(&self) -> &str {
        self.0
    }
    fn stream(&self, _: &TurnContext, _: &LlmRequest) -> impl Stream<Item = StreamItem> + Send + 'static {
        stream::empty()
    }
}

pub(crate) fn handle(provider: &'static str, model: &str) -> ModelHandle {
    ModelHandle::new(Named(provider), model)
}

/// A request to the agent's own model.
pub(crate) fn request() -> LlmRequest {
    LlmRequest::default().for_model(handle("main", "large"))
}

pub(crate) fn error(kind: ErrorKind) -> ErrorInfo {
    ErrorInfo::new(kind, "no luck")
}

/// A turn on the paused clock that must be over after this time, if after any.
pub(crate) fn turn(seed: u64, deadline: Option<Duration>) -> TurnContext {
    let sources = Sources::new(SystemClock, SeededRandom::new(seed));
    let deadline = deadline.map(|d| sources.clock.instant() + d);
    TurnContext::builder(SessionId::new("s").unwrap()).sources(sources).deadline(deadline).build()
}

pub(crate) fn chain(layer: impl Around<scope::LlmCall>) -> Chain<scope::LlmCall> {
    let chain = Chain::default();
    chain.register(layer).keep();
    chain
}

/// The answer, or the error.
pub(crate) fn said(out: Result<LlmResponse, Exit>) -> String {
    match out {
        Ok(LlmResponse { error: Some(error), .. }) => error.to_string(),
        Ok(response) => response.text(),
        Err(exit) => exit.to_string(),
    }
}
