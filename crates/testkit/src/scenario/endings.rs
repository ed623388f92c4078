//! Answers that do not end as they should, and answers that never begin.

use std::time::Duration;

use serde_json::json;
use turnwright_core::ErrorKind;

use super::{ALL as EVERY, CHAT, Expected, Play, SSE, Scenario, TEXT, scenario, usual};
use crate::{
    conformance::KEY,
    eventstream,
    provider::{
        WireFormat,
        draft::{Draft, Ending, HTML},
        event::{Event, Mark},
        trouble::Trouble,
    },
};

const OFTEN: Duration = Duration::from_millis(20);

pub(super) const ALL: &[Scenario] = &[
    scenario("stall", "silence in the midst", EVERY, |f| {
        Play::breaks(f, &[ErrorKind::IdleTimeout], |d| d.ending = Ending::Stall)
            .expecting(|e| e.closes = true)
    }),
    scenario("heartbeats-for-ever", "heartbeats in the midst, and nothing else", TEXT, |f| {
        Play::breaks(f, &[ErrorKind::IdleTimeout], |d| {
            d.ending = Ending::Repeat { every: OFTEN, bytes: d.heartbeat() };
        })
        .expecting(|e| e.closes = true)
    }),
    scenario("slow-drip", "an event now and then, for ever", EVERY, |f| {
        Play::breaks(f, &[ErrorKind::TotalTimeout], |d| {
            let again = d.events[d.find(Mark::Text)].clone();
            let bytes = d.framing.write(f, &[again]).concat().into();
            d.ending = Ending::Repeat { every: Duration::from_millis(100), bytes };
        })
        .expecting(|e| {
            e.text = None;
            e.closes = true;
        })
    }),
    scenario("no-answer", "the head of the answer never comes", EVERY, |f| {
        let draft = Draft { mute: true, ..Draft::of(f, &usual()) };
        Play::refuses(draft, &[ErrorKind::FirstByteTimeout]).expecting(|e| e.closes = true)
    }),
    scenario("no-body", "the head comes, the body never", EVERY, |f| {
        let draft = empty(f, Ending::Stall);
        Play::refuses(draft, &[ErrorKind::FirstByteTimeout]).expecting(|e| e.closes = true)
    }),
    scenario("heartbeats-alone", "heartbeats, and never an answer", TEXT, |f| {
        let mut draft = empty(f, Ending::Stall);
        draft.ending = Ending::Repeat { every: OFTEN, bytes: draft.heartbeat() };
        Play::refuses(draft, &[ErrorKind::FirstByteTimeout]).expecting(|e| e.closes = true)
    }),
    scenario("end-in-the-midst", "the body ends between two events", EVERY, |f| {
        Play::breaks(f, &[ErrorKind::Truncated], |_| {})
    }),
    scenario("end-at-once", "the body is empty", EVERY, |f| {
        Play::refuses(empty(f, Ending::Clean), &[ErrorKind::Truncated])
    }),
    scenario("end-in-json", "the body ends inside a value", EVERY, |f| {
        Play::breaks(f, &[ErrorKind::Truncated], |d| {
            let mut next = next_text(d);
            next.truncate(next.len() / 2);
            d.tail = next;
        })
    }),
    scenario("end-in-a-character", "the body ends inside a character", EVERY, |f| {
        Play::breaks(f, &[ErrorKind::Truncated], |d| {
            let mut next = next_text(d);
            // The first byte of the euro sign.
            let at = next.iter().position(|byte| *byte == 0xE2).unwrap_or_default();
            next.truncate(at + 1);
            d.tail = next;
        })
    }),
    scenario("break-in-the-midst", "the connection breaks", EVERY, |f| {
        Play::breaks(f, &[ErrorKind::Truncated, ErrorKind::Connection], |d| d.ending = Ending::Abort)
    }),
    scenario("reset-in-the-midst", "the connection is reset", EVERY, |f| {
        // A reset may overtake what was sent before it.
        Play::breaks(f, &[ErrorKind::Truncated, ErrorKind::Connection], |d| d.ending = Ending::Reset)
            .expecting(|e| (e.text, e.reasoning) = (None, None))
    }),
    scenario("break-at-once", "the connection breaks before the answer", EVERY, |f| {
        Play::refuses(empty(f, Ending::Abort), &[ErrorKind::Connection, ErrorKind::Truncated])
    }),
    scenario(
        "break-in-a-call",
        "the connection breaks while a call arrives: it is none",
        &[WireFormat::Chat, WireFormat::Responses, WireFormat::Messages, WireFormat::Converse],
        |f| {
            let kinds = &[ErrorKind::Truncated, ErrorKind::Connection];
            let expected =
                Expected { text: Some("Hello €"), reasoning: Some("hm"), ..Expected::failure(kinds) };
            Play::of(f, &usual(), expected, |d| {
                d.events.truncate(d.find(Mark::Call) + 2);
                d.ending = Ending::Abort;
            })
        },
    ),
    scenario("error-in-the-midst", "the server reports an error in the stream", EVERY, |f| {
        Play::breaks(f, &[ErrorKind::Server], |d| d.events.push(Trouble::Server.event(f, "the model failed")))
            .expecting(|e| e.says = Some("the model failed"))
    }),
    scenario("error-at-once", "the first event is an error", EVERY, |f| {
        let kinds: &[ErrorKind] = match f {
            // Nothing but words: that the model is overloaded is not data there.
            WireFormat::Ollama => &[ErrorKind::Server, ErrorKind::Overloaded],
            _ => &[ErrorKind::Overloaded],
        };
        let mut draft = empty(f, Ending::Clean);
        draft.events = vec![Trouble::Overloaded.event(f, "come back later")];
        Play::refuses(draft, kinds).expecting(|e| e.says = Some("come back later"))
    }),
    scenario("error-beside-a-finish", "an error, and the finish reason `error`", CHAT, |f| {
        Play::breaks(f, &[ErrorKind::Server], |d| {
            let mut body = Trouble::Server.body_saying(f, "the model failed");
            body["choices"] = json!([{ "index": 0, "delta": { "content": "" }, "finish_reason": "error" }]);
            d.events.push(Event::json(Mark::Odd, body));
        })
    }),
    scenario("error-without-data", "an error event that says nothing", SSE, |f| {
        Play::breaks(f, &[ErrorKind::Server], |d| d.tail = b"event: error\n\n".to_vec())
    }),
    scenario("error-out-of-frame", "a bare error object after good events", SSE, |f| {
        Play::breaks(f, &[ErrorKind::Server], |d| {
            let body = Trouble::Server.body_saying(f, "the model failed");
            d.tail = format!("{body:#}\n").into_bytes();
        })
        .expecting(|e| e.says = Some("the model failed"))
    }),
    scenario("error-repeats-the-key", "an error in the stream repeats the key", EVERY, |f| {
        let kinds: &[ErrorKind] = match f {
            WireFormat::Ollama => &[ErrorKind::Server, ErrorKind::Authentication],
            WireFormat::Gemini => &[ErrorKind::InvalidRequest, ErrorKind::Authentication],
            _ => &[ErrorKind::Authentication],
        };
        Play::breaks(f, kinds, |d| {
            d.events.push(Trouble::Key.event(f, &format!("no such key: '{KEY}'.")));
        })
    }),
    scenario("garbage", "an event that is no JSON", EVERY, |f| {
        Play::breaks(f, &[ErrorKind::Decode], |d| d.events.push(Event::text(Mark::Odd, "no json")))
    }),
    scenario("garbage-bytes", "an event that is no text", EVERY, |f| {
        Play::breaks(f, &[ErrorKind::Decode], |d| {
            let json = b"{\"a\":\"\xFF\xFE\"}";
            d.tail = match f {
                WireFormat::Ollama => [json, &b"\n"[..]].concat(),
                WireFormat::Converse => {
                    let headers = [(":message-type", "event"), (":event-type", "contentBlockDelta")];
                    eventstream::message(&headers, json)
                }
                _ => [&b"data: "[..], json, b"\n\n"].concat(),
            };
        })
    }),
    scenario("event-without-end", "an event grows and grows; a client must have had enough", TEXT, |f| {
        Play::breaks(f, &[ErrorKind::TooLarge], |d| {
            d.tail = if f.is_sse() { b"data: \"".to_vec() } else { b"{\"a\":\"".to_vec() };
            d.ending = Ending::Repeat { every: Duration::ZERO, bytes: vec![b'x'; 1 << 20].into() };
        })
        .expecting(|e| e.closes = true)
    }),
    scenario("page-in-the-midst", "an HTML page after good events", TEXT, |f| {
        Play::breaks(f, &[ErrorKind::UnexpectedContent], |d| d.tail = HTML.into())
    }),
];

/// An answer with a head and no body.
fn empty(format: WireFormat, ending: Ending) -> Draft {
    Draft { events: Vec::new(), ending, ..Draft::of(format, &usual()) }
}

/// The bytes of the second text of the usual answer.
fn next_text(draft: &Draft) -> Vec<u8> {
    let events = Draft::of(draft.format, &usual()).events;
    let second = events.into_iter().filter(|event| event.mark == Mark::Text).nth(1);
    draft.framing.write(draft.format, second.as_slice()).concat()
}
