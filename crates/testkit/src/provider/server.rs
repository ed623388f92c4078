//! The server itself.

use std::{
    collections::HashMap,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::TcpListener,
    task::{JoinHandle, JoinSet},
};

use super::{
    Reply, WireFormat,
    draft::Draft,
    serve::{pause, serve},
    state::{Counts, RecordedRequest, Script, Shared},
};
use crate::scenario::Scenario;

/// The server. It speaks one format. It answers the n-th `POST` to the format's path with the n-th reply of its script,
/// and with status 500 once the script is at its end, so that a call too many does not pass unnoticed; anything else with
/// status 404.
///
/// Dropping it closes every connection and ends its tasks.
#[derive(Debug)]
pub struct ProviderServer {
    format: WireFormat,
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl ProviderServer {
    /// Starts a server of chat completions on a free port of 127.0.0.1. Needs a tokio runtime with IO and time.
    ///
    /// # Errors
    /// When no port can be bound.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, no server runs.
    pub async fn start(script: impl IntoIterator<Item = Reply>) -> io::Result<Self> {
        Self::start_as(WireFormat::Chat, script).await
    }

    /// Starts a server of this format.
    ///
    /// # Errors
    /// As [`Self::start`].
    ///
    /// # Cancel safety
    /// As [`Self::start`].
    pub async fn start_as(format: WireFormat, script: impl IntoIterator<Item = Reply>) -> io::Result<Self> {
        let answers = script.into_iter().map(|reply| Draft::of(format, &reply)).collect();
        Self::run(format, Script::Once(answers)).await
    }

    /// Starts a server of chat completions that gives the same reply to every request.
    ///
    /// # Errors
    /// As [`Self::start`].
    ///
    /// # Cancel safety
    /// As [`Self::start`].
    pub async fn start_repeating(reply: Reply) -> io::Result<Self> {
        Self::start_repeating_as(WireFormat::Chat, reply).await
    }

    /// Starts a server of this format that gives the same reply to every request.
    ///
    /// # Errors
    /// As [`Self::start`].
    ///
    /// # Cancel safety
    /// As [`Self::start`].
    pub async fn start_repeating_as(format: WireFormat, reply: Reply) -> io::Result<Self> {
        Self::run(format, Script::Repeating(Box::new(Draft::of(format, &reply)))).await
    }

    /// Starts a server of this format that plays a scenario, once.
    ///
    /// # Errors
    /// As [`Self::start`], and of kind [`io::ErrorKind::Unsupported`] when the format does not have the scenario.
    ///
    /// # Cancel safety
    /// As [`Self::start`].
    pub async fn start_scenario(format: WireFormat, scenario: &Scenario) -> io::Result<Self> {
        let Some(answer) = scenario.draft(format) else {
            let why = format!("{} has no scenario {}", format, scenario.name());
            return Err(io::Error::new(io::ErrorKind::Unsupported, why));
        };
        Self::start_drafts(format, [answer]).await
    }

    /// Starts a server that gives these answers, each once.
    pub(crate) async fn start_drafts(
        format: WireFormat,
        answers: impl IntoIterator<Item = Draft>,
    ) -> io::Result<Self> {
        Self::run(format, Script::Once(answers.into_iter().collect())).await
    }

    /// Starts a server whose answer depends on the model that is asked for, so that one client can hear them all.
    pub(crate) async fn start_by_model(
        format: WireFormat,
        answers: HashMap<String, Draft>,
    ) -> io::Result<Self> {
        Self::run(format, Script::ByModel(answers)).await
    }

    async fn run(format: WireFormat, script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared::new(format, script));
        let task = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self { format, address, shared, task })
    }

    /// The format it speaks.
    pub fn format(&self) -> WireFormat {
        self.format
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a client takes as base URL, for example `http://127.0.0.1:4711/v1`: with a path where the makers of the format
    /// write one.
    pub fn base_url(&self) -> String {
        format!("http://{}{}", self.address, self.format.base_path())
    }

    /// The requests so far, oldest first. A request is recorded once its body is whole.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests()
    }

    /// How many requests there were.
    pub fn request_count(&self) -> usize {
        self.shared.counts.borrow().requests
    }

    /// How many connections there were: fewer than requests when the client reuses them.
    pub fn connection_count(&self) -> usize {
        self.shared.counts.borrow().connections
    }

    /// How many bodies the client closed before their end.
    pub fn client_close_count(&self) -> usize {
        self.shared.counts.borrow().client_closes
    }

    /// Waits until there were so many requests. Without a time limit of its own.
    ///
    /// # Cancel safety
    /// Safe: it only looks.
    pub async fn wait_for_requests(&self, count: usize) {
        self.wait(|counts| counts.requests >= count).await;
    }

    /// Waits until the client closed so many bodies before their end. Without a time limit of its own.
    ///
    /// # Cancel safety
    /// Safe: it only looks.
    pub async fn wait_for_client_closes(&self, count: usize) {
        self.wait(|counts| counts.client_closes >= count).await;
    }

    /// How many requests there were for this model.
    pub(crate) fn requests_for(&self, model: &str) -> usize {
        self.shared.requests_for(model)
    }

    /// Waits until the client closed a body of this model before its end.
    pub(crate) async fn wait_for_close_of(&self, model: &str) {
        self.wait(|_| self.shared.was_closed(model)).await;
    }

    async fn wait(&self, is_enough: impl FnMut(&Counts) -> bool) {
        // The sender lives in `self`, so that the wait ends with the condition only.
        let _ = self.shared.counts.subscribe().wait_for(is_enough).await;
    }
}

impl Drop for ProviderServer {
    fn drop(&mut self) {
        // The connections are in a set that the task owns: they end with it.
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    // Out of file descriptors, most likely: asking again at once would only burn the processor.
                    pause(Duration::from_millis(10)).await;
                    continue;
                };
                // Without this the kernel would gather small frames.
                let _ = stream.set_nodelay(true);
                if shared.resets() {
                    let _ = stream.set_zero_linger();
                }
                shared.counts.send_modify(|counts| counts.connections += 1);
                let shared = shared.clone();
                connections.spawn(async move {
                    let service = service_fn(|request| serve(request, shared.clone()));
                    // A connection that breaks is what half of the faults are about.
                    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
                });
            }
            Some(_) = connections.join_next() => {}
        }
    }
}
