//! Runtimes, requests and limits for these tests.

use std::{future::Future, sync::Arc, time::Duration};

use futures::{Stream, StreamExt};
use turnwright_core::{CancelToken, Message, SessionId, TurnContext};
use turnwright_llm_stream::{Assembler, EventStream, LlmClient, LlmEvent, LlmRequest, LlmResponse};
use turnwright_providers::{Chat, ChatClient, HttpClientBuilder, Timeouts};
use turnwright_testkit::provider::{ProviderServer, Reply};

/// Runs a test with real time: sockets and a paused clock do not go together. Nothing here may take long.
pub(crate) fn run<F: Future>(test: F) -> F::Output {
    run_for(Duration::from_secs(20), test)
}

/// The same for a test that may take so long.
pub(crate) fn run_for<F: Future>(longest: Duration, test: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let limited = async { tokio::time::timeout(longest, test).await };
    runtime.block_on(limited).unwrap_or_else(|_| panic!("the test hangs"))
}

pub(crate) fn context() -> TurnContext {
    TurnContext::builder(SessionId::new("s").unwrap()).build()
}

pub(crate) fn request() -> LlmRequest {
    let message = Message::user(context().sources().id(), "hi");
    LlmRequest { model: "m".into(), messages: vec![Arc::new(message)], attempt: 1, ..LlmRequest::default() }
}

/// Limits so short that a test can wait for them, each long enough not to be mistaken for another.
pub(crate) fn short() -> Timeouts {
    Timeouts {
        connect: Duration::from_secs(5),
        first_byte: Duration::from_millis(1500),
        idle: Duration::from_millis(500),
        total: Duration::from_secs(5),
        drain: Duration::from_millis(300),
    }
}

pub(crate) fn builder(server: &ProviderServer) -> HttpClientBuilder<Chat> {
    ChatClient::builder().base_url(server.base_url()).api_key("sk-0123456789").timeouts(short())
}

pub(crate) async fn server(reply: Reply) -> ProviderServer {
    ProviderServer::start([reply]).await.unwrap()
}

pub(crate) fn stream(client: &ChatClient) -> EventStream<'static> {
    EventStream::provider(client.stream(&context(), &request()), &CancelToken::new(), None)
}

/// Reads a stream to its end; checks that it ends once.
pub(crate) async fn collect(mut stream: impl Stream<Item = LlmEvent> + Unpin) -> LlmResponse {
    let mut assembler = Assembler::new();
    let mut ended = false;
    while let Some(event) = stream.next().await {
        assert!(!ended, "{event:?} after the end");
        ended = event.is_terminal();
        assembler.feed(event);
    }
    assert!(ended);
    assembler.finish()
}

pub(crate) async fn ask(client: &ChatClient) -> LlmResponse {
    collect(stream(client)).await
}
