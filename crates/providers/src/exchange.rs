//! One call: a request sent, an answer read within its limits and decoded.

use std::{collections::VecDeque, future::poll_fn, sync::Arc, time::Duration};

use futures::{FutureExt, Stream, StreamExt, stream};
use reqwest::{
    Response, StatusCode, Url,
    header::{CONTENT_TYPE, HeaderMap, HeaderName, RETRY_AFTER},
};
use tokio::{sync::OwnedSemaphorePermit, time::timeout_at};
use turnwright_core::{Clock, ErrorInfo, ErrorKind};
use turnwright_llm_stream::{
    LlmEvent, StreamItem,
    classify::{HttpFailure, MAX_BODY_BYTES, Secrets},
    wire::WireDecoder,
};

use crate::{
    limits::{Limit, Limits},
    reading::Reading,
    recording::{Asked, Cut, Ending, Tape, answered_at},
    transport::{Credentials, Transport, root_cause},
    verdict::{Verdict, is_encoded, judge},
};

/// How long the body of a refusal may take.
const REFUSAL_BODY: Duration = Duration::from_secs(5);

/// Makes the call when polled: waits until it may run, fetches the key, sends, reads. The connection is closed when the
/// stream is dropped, and before the terminal event is yielded.
pub(crate) fn exchange<D: WireDecoder + 'static>(
    transport: Arc<Transport>,
    to: Url,
    clock: Arc<dyn Clock>,
    asked: Asked,
    body: Result<Vec<u8>, ErrorInfo>,
    decoder: impl FnOnce(Secrets) -> D + Send + 'static,
) -> impl Stream<Item = StreamItem> + Send + 'static {
    let (items, decoded, secrets, key) = (VecDeque::new(), Vec::new(), Secrets::default(), None);
    let phase = Phase::Send(body.map(|body| Call { to, body, decoder }));
    let tape = Tape::default();
    let call = Exchange { transport, clock, asked, tape, secrets, key, items, decoded, phase, slot: None };
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

struct Exchange<M, D> {
    transport: Arc<Transport>,
    clock: Arc<dyn Clock>,
    asked: Asked,
    /// Writes the exchange down, if it is to be.
    tape: Tape,
    /// What no error may repeat.
    secrets: Secrets,
    /// The key that went out, if a source gave it.
    key: Option<String>,
    items: VecDeque<StreamItem>,
    /// Where the decoder writes; kept for its capacity.
    decoded: Vec<StreamItem>,
    phase: Phase<M, D>,
    /// The right to run, until the call is over.
    slot: Option<OwnedSemaphorePermit>,
}

enum Phase<M, D> {
    Send(Result<Call<M>, ErrorInfo>),
    Read(Reading, D),
    Done,
}

struct Call<M> {
    to: Url,
    body: Vec<u8>,
    /// Makes the decoder, once it is known what it must keep secret.
    decoder: M,
}

impl<D: WireDecoder, M: FnOnce(Secrets) -> D> Exchange<M, D> {
    async fn step(&mut self) {
        if let Phase::Read(..) = self.phase {
            self.read().await;
        } else {
            match std::mem::replace(&mut self.phase, Phase::Done) {
                // In a box of its own, as what is rare in it: what reads is made anew for every item, and moved, and should
                // be small.
                Phase::Send(Ok(call)) => Box::pin(self.send(call)).await,
                Phase::Send(Err(error)) => self.fail(error),
                Phase::Read(..) | Phase::Done => {}
            }
        }
        if matches!(self.phase, Phase::Done) {
            self.slot = None;
        }
    }

    async fn send(&mut self, Call { to, body, decoder }: Call<M>) {
        let began = self.clock.instant();
        match self.transport.slot().await {
            Ok(slot) => self.slot = slot,
            Err(error) => return self.fail(error),
        }
        let total = self.transport.timeouts.total;
        let headers = match timeout_at(began + total, self.transport.credentials(&*self.clock)).await {
            Ok(Ok(Credentials { headers, secrets, key })) => {
                self.secrets = secrets;
                self.key = key;
                headers
            }
            Ok(Err(error)) => return self.fail(error),
            Err(_) => {
                let message = format!("the API key was not there within {total:?}");
                return self.fail(ErrorInfo::new(ErrorKind::TotalTimeout, message));
            }
        };
        let limits = Limits::new(self.transport.timeouts, began, self.clock.instant());
        let (deadline, limit) = limits.next();
        let response = match timeout_at(deadline, self.answer(to, headers, body)).await {
            Ok(Ok(response)) => response,
            Ok(Err(Cut::Limit(limit))) => return self.over(limit),
            Ok(Err(Cut::Failure(error))) => {
                let finished = || self.transport.finish_error(error.clone(), &self.secrets);
                self.tape.end(|| Ending::NoAnswer { error: finished() });
                return self.fail(error);
            }
            Err(_) => return self.over(limit),
        };
        self.tape.answered(&response);
        match judge(&response) {
            Verdict::Stream => {
                let reading = Reading::new(response.bytes_stream(), limits);
                self.phase = Phase::Read(reading, decoder(self.secrets.clone()));
            }
            Verdict::Wrong(error) => {
                let finished = || self.transport.finish_error(error.clone(), &self.secrets);
                self.tape.end(|| Ending::NoAnswer { error: finished() });
                self.fail(error);
            }
            Verdict::Refusal => {
                let error = Box::pin(self.refusal(response, limits)).await;
                self.fail(error);
            }
        }
    }

    /// The head of the answer: from the network, or from a recording.
    async fn answer(&mut self, to: Url, headers: HeaderMap, body: Vec<u8>) -> Result<Response, Cut> {
        let Transport { deck, provider, .. } = &*self.transport;
        if let Some(replayer) = deck.replayer() {
            return Box::pin(replayer.answer(&self.asked, &self.secrets, &body, &*self.clock)).await;
        }
        if let Some(recorder) = deck.recorder() {
            self.tape = recorder.begin(&self.asked, provider, &self.secrets, &body, &self.clock);
        }
        self.transport.send(to, headers, body, self.clock.now()).await.map_err(Cut::Failure)
    }

    /// Reads a refusal's body, as much of it as matters and comes in time, and says what it means.
    async fn refusal(&mut self, response: Response, limits: Limits) -> ErrorInfo {
        let status = response.status().as_u16();
        // Bedrock says of a key that expired that it is forbidden.
        if matches!(response.status(), StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN) {
            self.transport.forget_key(self.key.as_deref());
        }
        let head = response.headers().clone();
        let now = answered_at(&response).unwrap_or_else(|| self.clock.now());
        // The status is known: the words are not worth a long wait.
        let words = REFUSAL_BODY.min(self.transport.timeouts.first_byte);
        let deadline = limits.next().0.min(self.clock.instant() + words);
        let is_encoded = is_encoded(&response);
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
        if is_encoded {
            // Its bytes are no words; the status has to do.
            body.clear();
        }
        let text = |name: &HeaderName| head.get(name).and_then(|value| value.to_str().ok());
        HttpFailure {
            provider: &self.transport.provider,
            status,
            content_type: text(&CONTENT_TYPE),
            retry_after: text(&RETRY_AFTER),
            retry_after_ms: text(&HeaderName::from_static("retry-after-ms")),
            error_type: text(&HeaderName::from_static("x-amzn-errortype")),
            body: &body,
            secrets: &self.secrets,
            now,
        }
        .classify()
    }

    /// Reads on. Leaves the phase when there is nothing more to read.
    async fn read(&mut self) {
        let Phase::Read(reading, decoder) = &mut self.phase else { return };
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
                decoder.feed(&bytes, &mut self.decoded);
            }
        }
        if decoder.is_done() {
            self.tape.end(|| Ending::Enough);
            // The end of the body mostly lies in the same packet: taking it gives the connection back to the pool.
            let _ = reading.body.next().now_or_never();
            self.phase = Phase::Done;
        } else {
            reading.limits.note(self.clock.instant(), decoder.progress(), decoder.finish_seen());
        }
        self.publish();
    }

    /// The body ended, or broke off.
    fn end(&mut self, broken: Option<&reqwest::Error>) {
        let Phase::Read(_, mut decoder) = std::mem::replace(&mut self.phase, Phase::Done) else { return };
        let began = decoder.progress() > 0;
        decoder.end(&mut self.decoded);
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
                failure.error = self.transport.finish_error(failure.error.clone(), &self.secrets);
            }
            self.items.push_back(item);
        }
    }
}
