//! The server itself.

use std::{
    collections::VecDeque,
    convert::Infallible,
    io,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use futures::{Stream, stream};
use http_body_util::{BodyExt, Collected, StreamBody};
use hyper::{
    Method, Request, Response,
    body::{Frame, Incoming},
    header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::watch,
    task::{JoinHandle, JoinSet},
};

use super::{
    Reply,
    render::{Answer, Ending},
};

/// A request as the server received it.
#[derive(Debug, Clone)]
pub struct RecordedRequest {
    /// Header names, in lower case, and values, in the order they came.
    pub headers: Vec<(String, String)>,
    /// The body.
    pub body: Bytes,
}

impl RecordedRequest {
    /// The first header of this name, given in lower case.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }

    /// The body as JSON; null when it is none.
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// The server. It answers the n-th `POST /v1/chat/completions` with the n-th reply of its script, and with status 500
/// once the script is at its end, so that a call too many does not pass unnoticed; anything else with status 404.
///
/// Dropping it closes every connection and ends its tasks.
#[derive(Debug)]
pub struct ProviderServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<Script>,
    requests: Mutex<Vec<RecordedRequest>>,
    counts: watch::Sender<Counts>,
}

#[derive(Debug)]
enum Script {
    Once(VecDeque<Reply>),
    Repeating(Reply),
}

#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    connections: usize,
    requests: usize,
    client_closes: usize,
}

impl ProviderServer {
    /// Starts a server on a free port of 127.0.0.1. Needs a tokio runtime with IO and time.
    ///
    /// # Errors
    /// When no port can be bound.
    ///
    /// # Cancel safety
    /// Dropped before it is ready, no server runs.
    pub async fn start(script: impl IntoIterator<Item = Reply>) -> io::Result<Self> {
        Self::run(Script::Once(script.into_iter().collect())).await
    }

    /// Starts a server that gives the same reply to every request.
    ///
    /// # Errors
    /// As [`Self::start`].
    ///
    /// # Cancel safety
    /// As [`Self::start`].
    pub async fn start_repeating(reply: Reply) -> io::Result<Self> {
        Self::run(Script::Repeating(reply)).await
    }

    async fn run(script: Script) -> io::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(Shared {
            script: Mutex::new(script),
            requests: Mutex::default(),
            counts: watch::Sender::new(Counts::default()),
        });
        let task = tokio::spawn(accept(listener, shared.clone()));
        Ok(Self { address, shared, task })
    }

    /// The address it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What a client takes as base URL, for example `http://127.0.0.1:4711/v1`.
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// The requests so far, oldest first. A request is recorded once its body is whole.
    pub fn requests(&self) -> Vec<RecordedRequest> {
        self.shared.requests.lock().clone()
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

type Frames = Pin<Box<dyn Stream<Item = io::Result<Frame<Bytes>>> + Send>>;
type Answered = Response<StreamBody<Frames>>;

async fn serve(request: Request<Incoming>, shared: Arc<Shared>) -> Result<Answered, Infallible> {
    if request.method() != Method::POST || request.uri().path() != "/v1/chat/completions" {
        return Ok(respond(
            Answer::error(404, "there is only POST /v1/chat/completions", "not_found"),
            shared,
        ));
    }
    let headers = request.headers().iter();
    let headers =
        headers.map(|(n, v)| (n.as_str().to_owned(), String::from_utf8_lossy(v.as_bytes()).into_owned()));
    let headers = headers.collect();
    let body = request.into_body().collect().await.map(Collected::to_bytes).unwrap_or_default();
    shared.requests.lock().push(RecordedRequest { headers, body });
    let reply = match &mut *shared.script.lock() {
        Script::Once(replies) => replies.pop_front(),
        Script::Repeating(reply) => Some(reply.clone()),
    };
    shared.counts.send_modify(|counts| counts.requests += 1);
    let answer = match reply {
        Some(reply) => Answer::of(&reply),
        None => Answer::error(500, "the script is at its end", "server_error"),
    };
    Ok(respond(answer, shared))
}

fn respond(answer: Answer, shared: Arc<Shared>) -> Answered {
    let (status, content_type, retry_after) = (answer.status, answer.content_type, answer.retry_after);
    let mut response = Response::new(StreamBody::new(body(answer, shared)));
    *response.status_mut() = hyper::StatusCode::from_u16(status).unwrap_or_default();
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if let Some(pause) = retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(pause.as_secs()));
    }
    response
}

/// Tells a body that was sent to its end from one that the client closed.
struct Watch {
    shared: Arc<Shared>,
    ended: bool,
}

impl Watch {
    fn end(&mut self) {
        self.ended = true;
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if !self.ended {
            self.shared.counts.send_modify(|counts| counts.client_closes += 1);
        }
    }
}

fn body(answer: Answer, shared: Arc<Shared>) -> Frames {
    let Answer { frames, delay, ending, .. } = answer;
    let watch = Watch { shared, ended: false };
    Box::pin(stream::unfold((frames.into_iter(), watch), move |(mut frames, mut watch)| async move {
        if let Some(frame) = frames.next() {
            pause(delay).await;
            return Some((Ok(Frame::data(frame)), (frames, watch)));
        }
        match ending {
            Ending::Stall => std::future::pending().await,
            Ending::Heartbeats(every) => {
                pause(every).await;
                let comment = Bytes::from_static(b": heartbeat\n\n");
                Some((Ok(Frame::data(comment)), (frames, watch)))
            }
            Ending::Abort if !watch.ended => {
                watch.end();
                // Let what was sent arrive before the connection breaks.
                pause(Duration::from_millis(20)).await;
                Some((Err(io::ErrorKind::ConnectionReset.into()), (frames, watch)))
            }
            Ending::Abort | Ending::Clean => {
                watch.end();
                None
            }
        }
    }))
}

async fn pause(duration: Duration) {
    if !duration.is_zero() {
        tokio::time::sleep(duration).await;
    }
}
