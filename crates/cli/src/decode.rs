//! `decode`: a recorded body as events, or as the answer they make. No network.

mod answer;
mod formats;
mod input;
mod sniff;
mod usage;

use std::{
    io::{self, Read, Write},
    process::ExitCode,
};

use turnwright::{
    ErrorInfo, ErrorKind, LlmEvent, Sources,
    llm_stream::{
        StreamItem,
        classify::{HttpFailure, MAX_BODY_BYTES, Secrets},
        wire::WireDecoder,
    },
};

pub(crate) use self::formats::names;
use self::{answer::Answer, formats::Format, input::Input, sniff::Sniffer, usage::RawUsage};
use crate::{Global, Refusal, args::DecodeArgs, exit, output};

/// So much is read at once.
const PIECE_BYTES: usize = 64 * 1024;

/// Decodes and prints.
pub(crate) fn run(global: &Global, args: &DecodeArgs) -> Result<ExitCode, Refusal> {
    let mut input = Input::open(args)?;
    let mut out = Printer::new(args.assemble);
    let decoded = if let Some(error) = input.no_answer() {
        out.take(&LlmEvent::failure(error));
        Ok(())
    } else if input.is_refusal() {
        refusal(&mut input, &mut out)
    } else {
        stream(&mut input, &mut out)
    };
    let printed = match decoded {
        Err(Stop::Refused(refusal)) => return Err(refusal),
        Err(Stop::Unread(e)) => return Err(input.unreadable(&e)),
        Err(Stop::Unwritten(e)) => Err(e),
        Ok(()) => out.finish(),
    };
    match printed {
        Ok(end) => Ok(end.into()),
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(exit::CANCELLED.into()),
        Err(e) => {
            output::refuse(&Refusal::new(format!("standard output cannot be written: {e}")), global.color);
            Ok(exit::FAILED.into())
        }
    }
}

/// Why decoding did not come to its end.
enum Stop {
    Refused(Refusal),
    Unread(io::Error),
    Unwritten(io::Error),
}

/// The body of a refusal, as much of it as matters.
fn refusal(input: &mut Input, out: &mut Printer) -> Result<(), Stop> {
    let mut body = Vec::new();
    input.reader.by_ref().take(MAX_BODY_BYTES as u64).read_to_end(&mut body).map_err(Stop::Unread)?;
    let failure = HttpFailure {
        provider: input.provider(),
        status: input.status,
        content_type: input.header("content-type"),
        retry_after: input.header("retry-after"),
        retry_after_ms: input.header("retry-after-ms"),
        error_type: input.header("x-amzn-errortype"),
        body: &body,
        secrets: &Secrets::default(),
        now: input.answered_at().unwrap_or_else(|| Sources::default().clock.now()),
    };
    out.take(&LlmEvent::failure(failure.classify()));
    Ok(())
}

fn stream(input: &mut Input, out: &mut Printer) -> Result<(), Stop> {
    let mut piece = vec![0; PIECE_BYTES];
    let (format, head) = match input.format {
        Some(format) => (format, Vec::new()),
        None => sniff(input, &mut piece)?,
    };
    let mut decoding = Decoding::new(format, input.provider_of(format), out);
    decoding.feed(&head)?;
    drop(head);
    while !decoding.decoder.is_done() {
        match read(input, &mut piece)? {
            [] => break,
            bytes => decoding.feed(bytes)?,
        }
    }
    decoding.end()
}

/// Reads on until the format is known; gives what was read too.
fn sniff(input: &mut Input, piece: &mut [u8]) -> Result<(&'static Format, Vec<u8>), Stop> {
    let mut sniffer = Sniffer::default();
    let found = loop {
        let bytes = read(input, piece)?;
        let found = if bytes.is_empty() { sniffer.end() } else { sniffer.feed(bytes) };
        match found {
            Ok(None) => {}
            Ok(Some(name)) => break formats::find(name).map_err(Refusal::new),
            Err(refusal) => break Err(refusal),
        }
    };
    Ok((found.map_err(Stop::Refused)?, sniffer.into_bytes()))
}

fn read<'a>(input: &mut Input, piece: &'a mut [u8]) -> Result<&'a [u8], Stop> {
    loop {
        match input.reader.read(piece) {
            Ok(count) => return Ok(&piece[..count]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(Stop::Unread(e)),
        }
    }
}

struct Decoding<'a> {
    decoder: Box<dyn WireDecoder>,
    items: Vec<StreamItem>,
    usage: RawUsage,
    out: &'a mut Printer,
}

impl<'a> Decoding<'a> {
    fn new(format: &'static Format, provider: &str, out: &'a mut Printer) -> Self {
        let decoder = (format.decoder)(provider);
        Self { decoder, items: Vec::new(), usage: RawUsage::new(format), out }
    }

    fn feed(&mut self, bytes: &[u8]) -> Result<(), Stop> {
        self.decoder.feed(bytes, &mut self.items);
        if self.out.is_assembled() {
            self.usage.feed(bytes);
        }
        self.publish()
    }

    fn end(mut self) -> Result<(), Stop> {
        // Does nothing when the answer is over.
        self.decoder.end(&mut self.items);
        self.publish()?;
        self.out.raw_usage(self.usage.end());
        Ok(())
    }

    fn publish(&mut self) -> Result<(), Stop> {
        self.items.drain(..).for_each(|item| self.out.item(item));
        self.out.flush().map_err(Stop::Unwritten)
    }
}

/// Prints events as they come, or the answer when it is over.
struct Printer {
    lines: Vec<u8>,
    answer: Option<Answer>,
    end: Option<LlmEvent>,
}

impl Printer {
    fn new(assemble: bool) -> Self {
        Self { lines: Vec::new(), answer: assemble.then(Answer::default), end: None }
    }

    fn is_assembled(&self) -> bool {
        self.answer.is_some()
    }

    fn item(&mut self, item: StreamItem) {
        match (item, &mut self.answer) {
            (StreamItem::Event(event), _) => self.take(&event),
            (StreamItem::Progress(progress), Some(answer)) => answer.progress(progress),
            (StreamItem::Progress(_), None) => {}
        }
    }

    fn take(&mut self, event: &LlmEvent) {
        if event.is_terminal() {
            self.end = Some(event.clone());
        }
        match &mut self.answer {
            Some(answer) => answer.event(event),
            // Nothing in an event is no JSON.
            None => {
                if serde_json::to_writer(&mut self.lines, event).is_ok() {
                    self.lines.push(b'\n');
                }
            }
        }
    }

    fn raw_usage(&mut self, usage: Option<serde_json::Value>) {
        if let Some(answer) = &mut self.answer {
            answer.raw_usage = usage;
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(&self.lines)?;
        self.lines.clear();
        stdout.flush()
    }

    /// Prints what is left. Answers the exit code.
    fn finish(mut self) -> io::Result<u8> {
        if let Some(answer) = self.answer.take() {
            serde_json::to_writer(&mut self.lines, &answer.finish())?;
            self.lines.push(b'\n');
        }
        self.flush()?;
        Ok(match self.end {
            Some(LlmEvent::StreamFailure(failure)) => code(&failure.error),
            _ => 0,
        })
    }
}

fn code(error: &ErrorInfo) -> u8 {
    match error.kind {
        ErrorKind::Truncated => exit::TRUNCATED,
        _ => exit::FAILED,
    }
}
