//! One call: a request sent, an answer read within its limits and decoded.

use std::{collections::VecDeque, future::poll_fn, sync::Arc, time::Duration};

use futures::{FutureExt, Stream, StreamExt, stream};
use reqwest::{
    Response, Url,
    header::{CONTENT_TYPE, HeaderName, LOCATION, RETRY_AFTER},
};
use tokio::time::timeout_at;
use turnwright_core::{Clock, ErrorInfo, ErrorKind};
use turnwright_llm_stream::{
    LlmEvent, StreamItem,
    classify::{HttpFailure, MAX_BODY_BYTES},
    wire::WireDecoder,
};

use crate::{
    limits::{Limit, Limits},
    reading::Reading,
    recording::{Asked, Cut, Ending, Tape, answered_at},
    transport::{Transport, root_cause},
};

/// How long the body of a refusal may take.
const REFUSAL_BODY: Duration = Duration::from_secs(5);

/// Makes the call when polled. The connection is closed when the stream is dropped, and before the terminal event is
/// yielded.
pub(crate) fn exchange<D: WireDecoder + 'static>(
    transport: Arc<Transport>,
    to: Url,
    clock: Arc<dyn Clock>,
    asked: Asked,
    body: Result<Vec<u8>, ErrorInfo>,
    decoder: D,
) -> impl Stream<Item = StreamItem> + Send + 'static {
    let (items, decoded) = (VecDeque::new(), Vec::new());
    let phase = Phase::Send(body.map(|body| (to, body)));
    let tape = Tape::default();
    let call = Exchange { transport, clock, asked, tape, decoder, items, decoded, phase };
    stream::unfold(Box::new(call), |mut call| async move {
        loop {
            if let Some(item) = call.items.pop_front() {
                return Some((item, call));
            }
            if matches!(call.phase, Phase::Done) {
                return None;
            }
            call.step().await;
        }
    })
}

struct Exchange<D> {
    transport: Arc<Transport>,
    clock: Arc<dyn Clock>,
    asked: Asked,
    /// Writes the exchange down, if it is to be.
    tape: Tape,
    decoder: D,
    items: VecDeque<StreamItem>,
    /// Where the decoder writes; kept for its capacity.
    decoded: Vec<StreamItem>,
    phase: Phase,
}

enum Phase {
    Send(Result<(Url, Vec<u8>), ErrorInfo>),
    Read(Reading),
    Done,
}

impl<D: WireDecoder> Exchange<D> {
    async fn step(&mut self) {
        if let Phase::Read(_) = self.phase {
            return self.read().await;
        }
        match std::mem::replace(&mut self.phase, Phase::Done) {
            Phase::Send(Ok((to, body))) => self.send(to, body).await,
            Phase::Send(Err(error)) => self.fail(error),
            Phase::Read(_) | Phase::Done => {}
        }
    }

    async fn send(&mut self, to: Url, body: Vec<u8>) {
        let limits = Limits::new(self.transport.timeouts, self.clock.instant());
        let (deadline, limit) = limits.next();
        let response = match timeout_at(deadline, self.answer(to, body)).await {
            Ok(Ok(response)) => response,
            Ok(Err(Cut::Limit(limit))) => return self.over(limit),
            Ok(Err(Cut::Failure(error))) => {
                self.tape.end(|| Ending::NoAnswer { error: self.transport.finish_error(error.clone()) });
                return self.fail(error);
            }
            Err(_) => return self.over(limit),
        };
        self.tape.answered(&response);
        match self.check(&response) {
            Answer::Stream => {
                self.phase = Phase::Read(Reading::new(response.bytes_stream(), limits));
            }
            Answer::Wrong(error) => {
                self.tape.end(|| Ending::Enough);
                self.fail(error);
            }
            Answer::Refusal => {
                let error = self.refusal(response, limits).await;
                self.fail(error);
            }
        }
    }

    /// The head of the answer: from the network, or from a recording.
    async fn answer(&mut self, to: Url, body: Vec<u8>) -> Result<Response, Cut> {
        let Transport { deck, secrets, provider, .. } = &*self.transport;
        if let Some(replayer) = deck.replayer() {
            return replayer.answer(&self.asked, secrets, &body, &*self.clock).await;
        }
        if let Some(recorder) = deck.recorder() {
            self.tape = recorder.begin(&self.asked, provider, secrets, &body, &self.clock);
        }
        self.transport.send(to, body).await.map_err(Cut::Failure)
    }

    fn check(&self, response: &Response) -> Answer {
        let status = response.status();
        if status.is_redirection() {
            let error = ErrorInfo::new(ErrorKind::UnexpectedContent, redirect_message(response));
            return Answer::Wrong(error.status(status.as_u16()));
        }
        let content_type = header(response, &CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
        let content_type = content_type.split(';').next().unwrap_or_default().trim();
        match content_type {
            _ if !status.is_success() => Answer::Refusal,
            "text/html" => Answer::Refusal,
            // JSON is an error, or an answer from a server that does not stream. The rest is how proxies and small
            // servers label streams.
            ""
            | "text/event-stream"
            | "application/json"
            | "text/plain"
            | "application/octet-stream"
            | "application/stream+json"
            | "application/x-ndjson" => Answer::Stream,
            other => {
                let message = format!("the answer is of the type {other}, not an event stream");
                let error = ErrorInfo::new(ErrorKind::UnexpectedContent, message);
                Answer::Wrong(error.status(status.as_u16()))
            }
        }
    }

    /// Reads a refusal's body, as much of it as matters and comes in time, and says what it means.
    async fn refusal(&mut self, response: Response, limits: Limits) -> ErrorInfo {
        let status = response.status().as_u16();
        let head = response.headers().clone();
        let now = answered_at(&response).unwrap_or_else(|| self.clock.now());
        // The status is known: the words are not worth a long wait.
        let words = REFUSAL_BODY.min(self.transport.timeouts.first_byte);
        let deadline = limits.next().0.min(self.clock.instant() + words);
        let mut body = Vec::new();
        let mut chunks = Box::pin(response.bytes_stream());
        loop {
            let chunk = match timeout_at(deadline, chunks.next()).await {
                Ok(Some(Ok(chunk))) => chunk,
                Ok(None) => break self.tape.end(|| Ending::End),
                Ok(Some(Err(error))) => break self.tape.end(|| Ending::broken(&error)),
                Err(_) => break self.tape.end(|| Ending::Enough),
            };
            self.tape.piece(&chunk);
            body.extend_from_slice(&chunk[..chunk.len().min(MAX_BODY_BYTES - body.len())]);
            if body.len() == MAX_BODY_BYTES || self.clock.instant() >= deadline {
                break self.tape.end(|| Ending::Enough);
            }
        }
        let text = |name: &HeaderName| head.get(name).and_then(|value| value.to_str().ok());
        HttpFailure {
            provider: &self.transport.provider,
            status,
            content_type: text(&CONTENT_TYPE),
            retry_after: text(&RETRY_AFTER),
            retry_after_ms: text(&HeaderName::from_static("retry-after-ms")),
            body: &body,
            secrets: &self.transport.secrets,
            now,
        }
        .classify()
    }

    /// Reads on. Leaves the phase when there is nothing more to read.
    async fn read(&mut self) {
        let Phase::Read(reading) = &mut self.phase else { return };
        // A flood leaves no chance to a timer that is asked second.
        let (deadline, limit) = reading.limits.next();
        let next = match self.clock.instant() >= deadline {
            true => Err(limit),
            false => poll_fn(|cx| reading.poll_next(cx)).await,
        };
        match next {
            Err(limit) => return self.over(limit),
            Ok(None) => {
                self.tape.end(|| Ending::End);
                return self.end(None);
            }
            Ok(Some(Err(error))) => {
                self.tape.end(|| Ending::broken(&error));
                return match Cut::of(&error) {
                    Some(Cut::Limit(limit)) => self.over(limit),
                    Some(Cut::Failure(error)) => self.fail(error),
                    None => self.end(Some(&error)),
                };
            }
            Ok(Some(Ok(bytes))) => {
                self.tape.piece(&bytes);
                self.decoder.feed(&bytes, &mut self.decoded);
            }
        }
        if self.decoder.is_done() {
            self.tape.end(|| Ending::Enough);
            // The end of the body mostly lies in the same packet: taking it gives the connection back to the pool.
            let _ = reading.body.next().now_or_never();
            self.phase = Phase::Done;
        } else {
            reading.limits.note(self.clock.instant(), self.decoder.progress(), self.decoder.finish_seen());
        }
        self.publish();
    }

    /// The body ended, or broke off.
    fn end(&mut self, broken: Option<&reqwest::Error>) {
        self.phase = Phase::Done;
        let began = self.decoder.progress() > 0;
        self.decoder.end(&mut self.decoded);
        if let (Some(cause), Some(StreamItem::Event(LlmEvent::StreamFailure(failure)))) =
            (broken, self.decoded.last_mut())
            && failure.error.kind == ErrorKind::Truncated
        {
            let cause = root_cause(cause);
            failure.error = if began {
                let message = format!("the connection broke in the midst of the answer: {cause}");
                ErrorInfo::new(ErrorKind::Truncated, message)
            } else {
                let message = format!("the connection broke before the answer began: {cause}");
                ErrorInfo::new(ErrorKind::Connection, message)
            };
        }
        self.publish();
    }

    fn over(&mut self, limit: Limit) {
        self.tape.end(|| limit.into());
        match limit {
            Limit::Drained => self.end(None),
            Limit::Failure(kind, after) => {
                let message = match kind {
                    ErrorKind::FirstByteTimeout => format!("nothing came within {after:?}"),
                    ErrorKind::IdleTimeout => format!("nothing came for {after:?}"),
                    _ => format!("the answer was not whole within {after:?}"),
                };
                self.fail(ErrorInfo::new(kind, message));
            }
        }
    }

    fn fail(&mut self, error: ErrorInfo) {
        self.phase = Phase::Done;
        self.decoded.push(LlmEvent::failure(error).into());
        self.publish();
    }

    /// Hands on what was decoded.
    fn publish(&mut self) {
        for mut item in self.decoded.drain(..) {
            if let StreamItem::Event(LlmEvent::StreamFailure(failure)) = &mut item {
                failure.error = self.transport.finish_error(failure.error.clone());
            }
            self.items.push_back(item);
        }
    }
}

enum Answer {
    Stream,
    Refusal,
    Wrong(ErrorInfo),
}

fn header<'a>(response: &'a Response, name: &HeaderName) -> Option<&'a str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

fn redirect_message(response: &Response) -> String {
    let target = header(response, &LOCATION).and_then(|to| response.url().join(to).ok());
    let target = target.as_ref().map(Url::origin).map(|origin| origin.ascii_serialization());
    match target {
        Some(origin) => format!("the server redirects to {origin}, which is not followed; set the base URL"),
        None => "the server redirects, which is not followed; set the base URL".into(),
    }
}
