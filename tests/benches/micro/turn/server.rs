//! A model server that does next to nothing: it looks how many tool results a request holds and writes the reply that
//! follows, made beforehand.

use std::{
    fmt::Write as _,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
};

use memchr::memmem;

use crate::chat;

/// How a reply comes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// As one piece: the loops have all to do at once, and nothing to wait for.
    Burst,
    /// Each event by itself, as models write: the loops wake for every few of them.
    Paced,
}

impl Flow {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Burst => "burst",
            Self::Paced => "paced",
        }
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const LEAD_IN: usize = 20;
const ANSWER: usize = 120;
const WORD: &str = "some words";
pub(super) const TEXT_BYTES: usize = (3 * LEAD_IN + ANSWER) * WORD.len();

/// Starts it; it ends with the process. Answers its base URL.
pub(super) fn start(flow: Flow) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    let replies = Arc::new(replies());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let replies = replies.clone();
            thread::spawn(move || serve(stream.unwrap(), flow, &replies));
        }
    });
    base_url
}

/// The replies by how many tool results there are: before the first call 0, then 2, 5, and 6 before the answer.
fn replies() -> Vec<(usize, Vec<Vec<u8>>)> {
    let calls = |results: usize, n: usize| {
        let mut events: Vec<_> = (0..LEAD_IN).map(|_| text()).collect();
        for index in 0..n {
            let id = format!("call_{:024}", results + index);
            events.push(chat::call(index, &id, "lookup"));
            let fragments = [r#"{\""#, "key", r#"\":"#, r#"\""#, "entry", " num", "ber", " ", "4", r#"2\"}"#];
            events.extend(fragments.iter().map(|fragment| chat::fragment(index, fragment)));
        }
        (results, with_end(events, "tool_calls"))
    };
    let answer = (6, with_end((0..ANSWER).map(|_| text()).collect(), "stop"));
    vec![calls(0, 2), calls(2, 3), calls(5, 1), answer]
}

fn text() -> String {
    chat::delta(&format!(r#"{{"content":"{WORD}"}}"#))
}

/// The chunks of a whole HTTP body, each framed for chunked encoding.
fn with_end(mut events: Vec<String>, reason: &str) -> Vec<Vec<u8>> {
    events.push(chat::finish(reason));
    let usage = r#"{"prompt_tokens":420,"completion_tokens":77,"total_tokens":497}"#;
    events.push(chat::chunk("[]", usage));
    events.push(chat::END.into());
    let frame = |event: &String| {
        let mut framed = String::new();
        write!(framed, "{:x}\r\n{event}\r\n", event.len()).unwrap();
        framed.into_bytes()
    };
    let mut frames: Vec<_> = events.iter().map(frame).collect();
    frames.last_mut().unwrap().extend_from_slice(b"0\r\n\r\n");
    frames
}

fn serve(stream: TcpStream, flow: Flow, replies: &[(usize, Vec<Vec<u8>>)]) {
    stream.set_nodelay(true).unwrap();
    let mut out = stream.try_clone().unwrap();
    let mut input = BufReader::new(stream);
    while let Some(body) = request(&mut input) {
        let results = memmem::find_iter(&body, br#""role":"tool""#).count();
        let (_, frames) = replies.iter().find(|(n, _)| *n == results).unwrap();
        match flow {
            Flow::Burst => {
                let whole = [HEAD.as_bytes(), &frames.concat()].concat();
                out.write_all(&whole).unwrap();
            }
            Flow::Paced => {
                out.write_all(HEAD.as_bytes()).unwrap();
                for frame in frames {
                    out.write_all(frame).unwrap();
                }
            }
        }
    }
}

/// The body of the next request; none when the client hung up.
fn request(input: &mut impl BufRead) -> Option<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if input.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().unwrap();
        }
        if line == "\r\n" {
            break;
        }
    }
    let mut body = vec![0; length];
    input.read_exact(&mut body).ok()?;
    Some(body)
}
