//! A decoder over server-sent events.

use turnwright_core::{ErrorInfo, ErrorKind};

use super::{
    WireDecoder,
    events::{broken, is_done_mark},
    head::Head,
};
use crate::{
    LlmRequest, StreamItem,
    classify::Secrets,
    sse::{Frame, SseFramer},
};

/// Decodes one answer that comes as server-sent events. Use it by the name of its format, such as
/// [`ChatDecoder`](super::chat::ChatDecoder).
#[derive(Debug)]
pub struct SseDecoder<A> {
    framer: SseFramer,
    pub(in crate::wire) answer: A,
}

/// What the events of a format mean for an answer.
pub trait Answer: Send {
    /// An answer to this request, of which nothing came yet.
    fn new(head: Head, request: &LlmRequest) -> Self;

    fn head(&self) -> &Head;

    fn head_mut(&mut self) -> &mut Head;

    /// Takes the data of an event of this name, or what stands `bare` in place of events. `last` says that the input ended
    /// in it, so that it may be cut.
    fn data(
        &mut self,
        name: &[u8],
        json: &str,
        bare: bool,
        last: bool,
        out: &mut Vec<StreamItem>,
    ) -> Result<(), ErrorInfo>;

    /// Takes the end mark.
    fn done_mark(&mut self, out: &mut Vec<StreamItem>) -> Result<(), ErrorInfo>;

    /// Ends the answer with what is known of it, since nothing more comes.
    fn end(&mut self, out: &mut Vec<StreamItem>);

    /// Whether only usage and the end mark may be missing.
    fn finish_seen(&self) -> bool;
}

impl<A: Answer> SseDecoder<A> {
    /// A decoder for one answer. `provider` is the name errors will show.
    pub fn new(provider: impl Into<String>) -> Self {
        Self::for_request(provider, &LlmRequest::default())
    }

    /// A decoder for the answer to this request: its calls get ids that no call of the conversation has, since some
    /// servers count from one in each answer.
    pub fn for_request(provider: impl Into<String>, request: &LlmRequest) -> Self {
        Self { framer: SseFramer::new(), answer: A::new(Head::new(provider.into()), request) }
    }

    /// The same decoder, which takes these secrets out of errors that the stream reports.
    #[must_use]
    pub fn redacting(mut self, secrets: Secrets) -> Self {
        self.answer.head_mut().redact(secrets);
        self
    }
}

impl<A: Answer> WireDecoder for SseDecoder<A> {
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamItem>) {
        let answer = &mut self.answer;
        if answer.head().is_done() {
            return;
        }
        if let Err(error) = self.framer.feed(bytes, |frame| take(answer, frame, false, out)) {
            answer.head_mut().fail(error, out);
        }
    }

    fn end(&mut self, out: &mut Vec<StreamItem>) {
        let answer = &mut self.answer;
        if answer.head().is_done() {
            return;
        }
        if let Err(error) = self.framer.end(|frame| take(answer, frame, true, out)) {
            answer.head_mut().fail(error, out);
        }
        // What was left may have ended it.
        if !answer.head().is_done() {
            answer.end(out);
        }
    }

    fn is_done(&self) -> bool {
        self.answer.head().is_done()
    }

    fn finish_seen(&self) -> bool {
        self.answer.finish_seen()
    }

    fn progress(&self) -> u64 {
        self.framer.progress()
    }
}

/// Takes a frame. `last` says that the input ended in it, so that it may be cut.
pub(in crate::wire) fn take<A: Answer>(
    answer: &mut A,
    frame: Frame<'_>,
    last: bool,
    out: &mut Vec<StreamItem>,
) {
    if answer.head().is_done() {
        return;
    }
    let result = match frame {
        Frame::Event { name: b"error", data } => Err(answer.head().reported(data)),
        // Whatever they say, and some say no JSON.
        Frame::Event { name: b"ping" | b"keepalive" | b"heartbeat", .. } => Ok(()),
        Frame::Event { name, data } => match data.trim_ascii() {
            [] => Ok(()),
            data if is_done_mark(data) => answer.done_mark(out),
            data => text(data).and_then(|json| answer.data(name, json, false, last, out)),
        },
        Frame::Bare(markup @ [b'<', ..]) => Err(answer.head().reported(markup)),
        Frame::Bare(data) => text(data).and_then(|json| answer.data(b"", json, true, last, out)),
    };
    match result {
        Ok(()) => {}
        // The event was cut: the end of the stream says the rest.
        Err(error) if last && error.kind == ErrorKind::Decode => {}
        Err(error) => answer.head_mut().fail(error, out),
    }
}

fn text(data: &[u8]) -> Result<&str, ErrorInfo> {
    std::str::from_utf8(data).map_err(|_| broken("is not valid UTF-8"))
}
