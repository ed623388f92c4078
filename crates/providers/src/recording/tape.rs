//! One exchange being written down.

use std::{
    collections::BTreeMap,
    fs::{File, OpenOptions},
    io::{self, Write},
    sync::Arc,
};

use reqwest::{Response, Url, header::LOCATION};
use turnwright_core::{Clock, clock::Instant};
use turnwright_llm_stream::classify::Secrets;

use super::{
    Recorder,
    head::{Answer, Ending, Head},
    mask::{Masker, masked},
    recorder::{body_path, head_path},
};

/// A longer body is not kept.
const MAX_BODY_BYTES: u64 = 256 * 1024 * 1024;

/// So many pieces are told apart; the rest counts as one.
const MAX_PIECES: usize = 100_000;

/// The headers that say what the body is, when to ask again, and what to tell the provider's people.
const HEADERS: [&str; 7] = [
    "content-type",
    "content-encoding",
    "retry-after",
    "retry-after-ms",
    "x-amzn-errortype",
    "x-request-id",
    "request-id",
];

/// Takes an exchange down as it happens; does nothing unless it is to be recorded. An exchange that is dropped before
/// its end is kept and marked.
#[derive(Default)]
pub(crate) struct Tape(Option<Box<Open>>);

struct Open {
    recorder: Recorder,
    number: u64,
    head: Head,
    body: Option<File>,
    masker: Masker,
    secrets: Secrets,
    clock: Arc<dyn Clock>,
    begun: Instant,
}

impl Tape {
    pub(crate) fn new(
        recorder: Recorder,
        number: u64,
        head: Head,
        secrets: Secrets,
        clock: Arc<dyn Clock>,
    ) -> Self {
        let (masker, begun) = (Masker::new(secrets.clone()), clock.instant());
        Self(Some(Box::new(Open { recorder, number, head, body: None, masker, secrets, clock, begun })))
    }

    /// The head of the answer came.
    pub(crate) fn answered(&mut self, response: &Response) {
        self.write(|open| open.answered(response));
    }

    /// A piece of the body came.
    pub(crate) fn piece(&mut self, bytes: &[u8]) {
        self.write(|open| open.piece(bytes));
    }

    /// The exchange is over. Only the first end counts.
    pub(crate) fn end(&mut self, ending: impl FnOnce() -> Ending) {
        self.write(|open| open.end(ending()));
        self.0 = None;
    }

    /// What is not whole stays marked as unfinished.
    fn write(&mut self, write: impl FnOnce(&mut Open) -> io::Result<()>) {
        if let Some(open) = &mut self.0
            && let Err(e) = write(open)
        {
            let file = head_path(open.recorder.directory(), open.number);
            open.recorder.failed(&format!("the exchange {} is not recorded to its end: {e}", file.display()));
            self.0 = None;
        }
    }
}

impl Drop for Tape {
    fn drop(&mut self) {
        self.end(|| Ending::Dropped);
    }
}

impl Open {
    fn passed(&self) -> u64 {
        let passed = self.clock.instant().saturating_duration_since(self.begun);
        u64::try_from(passed.as_millis()).unwrap_or(u64::MAX)
    }

    fn answered(&mut self, response: &Response) -> io::Result<()> {
        let mut headers = BTreeMap::new();
        for name in HEADERS {
            if let Some(value) = response.headers().get(name).and_then(|value| value.to_str().ok()) {
                headers.insert(name.to_owned(), masked(&self.secrets, value));
            }
        }
        // The rest of an address may be a secret of its own.
        let location = response.headers().get(LOCATION).and_then(|to| to.to_str().ok());
        let location: Option<Url> = location.and_then(|to| response.url().join(to).ok());
        if let Some(location) = location {
            headers.insert("location".into(), location.origin().ascii_serialization());
        }
        self.head.answer = Some(Answer {
            status: response.status().as_u16(),
            headers,
            after_ms: self.passed(),
            bytes: 0,
            masked: 0,
            pieces: Vec::new(),
        });
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        {
            use std::os::unix::fs::OpenOptionsExt;
            // A conversation is its owner's, as the head is.
            options.mode(0o600);
        }
        self.body = Some(options.open(body_path(self.recorder.directory(), self.number))?);
        // So that a body whose process was killed still has its status.
        self.replace_head()
    }

    fn replace_head(&self) -> io::Result<()> {
        let file = self.head.write_beside(self.recorder.directory())?;
        file.persist(head_path(self.recorder.directory(), self.number)).map(drop).map_err(|e| e.error)
    }

    fn piece(&mut self, bytes: &[u8]) -> io::Result<()> {
        let at = self.passed();
        let Some(answer) = &mut self.head.answer else { return Ok(()) };
        let length = bytes.len() as u64;
        answer.bytes += length;
        if answer.bytes > MAX_BODY_BYTES {
            return Err(io::Error::other("its body is longer than 256 MiB"));
        }
        let is_full = answer.pieces.len() >= MAX_PIECES;
        match answer.pieces.last_mut() {
            Some(last) if is_full => last.1 += length,
            _ => answer.pieces.push((at, length)),
        }
        let ready = self.masker.feed(bytes);
        self.put(&ready)
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        match &mut self.body {
            Some(body) => body.write_all(bytes),
            None => Ok(()),
        }
    }

    fn end(&mut self, ending: Ending) -> io::Result<()> {
        let rest = self.masker.end();
        self.put(&rest)?;
        self.head.ended_ms = Some(self.passed());
        self.head.ending = ending;
        if let Some(answer) = &mut self.head.answer {
            answer.masked = self.masker.count;
        }
        self.replace_head()
    }
}
