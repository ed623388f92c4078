//! How bytes are framed and split. A client must cope with all of it.

use serde_json::json;
use turnwright_core::ErrorKind;

use super::{ALL as EVERY, CHAT, MESSAGES, NAMED, Play, RESPONSES, SSE, Scenario, TEXT, scenario};
use crate::provider::{
    WireFormat,
    draft::Ending,
    event::{Event, Mark},
};

pub(super) const ALL: &[Scenario] = &[
    scenario("lf", "lines end in LF", TEXT, |f| Play::whole(f, |d| d.framing.ends = &["\n"])),
    scenario("crlf", "lines end in CRLF", TEXT, |f| Play::whole(f, |d| d.framing.ends = &["\r\n"])),
    scenario("cr", "lines end in CR", SSE, |f| Play::whole(f, |d| d.framing.ends = &["\r"])),
    scenario("line-ends-mixed", "LF, CRLF and CR in one body", SSE, |f| {
        Play::whole(f, |d| d.framing.ends = &["\r\n", "\n", "\r"])
    }),
    scenario("crlf-a-byte-at-a-time", "CR and LF come apart", TEXT, |f| {
        Play::whole(f, |d| {
            d.framing.ends = &["\r\n"];
            d.split = Some(1);
        })
    }),
    scenario("byte-order-mark", "the body begins with one", TEXT, |f| {
        Play::whole(f, |d| d.framing.bom = true)
    }),
    scenario("cr-and-then-silence", "a whole event is not held back for what may follow its CR", SSE, |f| {
        Play::breaks(f, &[ErrorKind::IdleTimeout], |d| {
            d.framing.ends = &["\r"];
            d.ending = Ending::Stall;
        })
    }),
    scenario("comments", "comment lines between events", SSE, |f| {
        Play::whole(f, |d| d.framing.comments = true)
    }),
    scenario("no-space", "no space after the colon", SSE, |f| Play::whole(f, |d| d.framing.space = false)),
    scenario("json-over-lines", "one value spread over lines", EVERY, |f| {
        Play::whole(f, |d| d.framing.spread = true)
    }),
    scenario("blank-lines-first", "blank lines before anything else", TEXT, |f| {
        Play::whole(f, |d| d.framing.blank_first = true)
    }),
    scenario("no-blank-line-last", "the last event is not closed", TEXT, |f| {
        Play::whole(f, |d| d.framing.closed = false)
    }),
    scenario("no-event-names", "the type inside is the only name", NAMED, |f| {
        Play::whole(f, |d| d.framing.names = false)
    }),
    scenario("a-byte-at-a-time", "bytes come one by one", EVERY, |f| Play::whole(f, |d| d.split = Some(1))),
    scenario("three-bytes-at-a-time", "cut in events, lines and characters", EVERY, |f| {
        Play::whole(f, |d| d.split = Some(3))
    }),
    scenario("all-at-once", "the body comes in one piece", EVERY, |f| {
        Play::whole(f, |d| d.split = Some(usize::MAX))
    }),
    scenario("other-fields", "id and retry fields, and one nobody knows", SSE, |f| {
        Play::whole(f, |d| {
            // What stands in a data line ends there.
            d.framing.ends = &["\nid: 1\nretry: 10\nshoe: size\n"];
        })
    }),
    scenario("padding", "members and blanks that carry nothing", EVERY, |f| {
        Play::whole(f, |d| {
            for value in d.values() {
                value["obfuscation"] = "abcdefg".into();
                value["p"] = json!({ "deep": [1, null, {}], "seed": 15_092_511_270_073_158_000_u64 });
            }
        })
    }),
    scenario("unknown-events", "events of types that are not known", EVERY, |f| {
        Play::whole(f, |d| {
            let odd = match f {
                WireFormat::Chat | WireFormat::Gemini => {
                    Event::json(Mark::Odd, json!({ "timings": { "a": 1 } }))
                }
                WireFormat::Ollama => Event::json(Mark::Odd, json!({ "done": false, "timings": { "a": 1 } })),
                WireFormat::Responses => {
                    let data = json!({ "type": "response.new_thing.delta", "delta": "x" });
                    Event::named(Mark::Odd, "response.new_thing.delta", data)
                }
                WireFormat::Converse => {
                    Event::named(Mark::Odd, "newThing", json!({ "contentBlockIndex": 7 }))
                }
                WireFormat::Messages => {
                    Event::named(Mark::Odd, "new_thing", json!({ "type": "new_thing", "index": 7 }))
                }
            };
            let at = d.find(Mark::Text) + 1;
            d.events.insert(at, odd);
        })
    }),
    scenario("done-absent", "the end mark never comes", CHAT, |f| {
        Play::whole(f, |d| d.events.retain(|event| event.mark != Mark::End))
    }),
    scenario("done-padded", "blanks round the end mark", CHAT, |f| {
        Play::whole(f, |d| {
            d.events.retain(|event| event.mark != Mark::End);
            d.events.push(Event::text(Mark::End, "  [DONE]  "));
        })
    }),
    scenario("done-not-last", "an event after the end mark", CHAT, |f| {
        Play::whole(f, |d| d.events.push(Event::json(Mark::Odd, json!({ "choices": [], "cost": "0" }))))
    }),
    scenario("done-in-another-format", "a router ends a stream in the words of chat", MESSAGES, |f| {
        Play::whole(f, |d| {
            d.events.push(Event { name: Some("data"), ..Event::text(Mark::Odd, "[DONE]") });
        })
    }),
    scenario("done-after-the-last-event", "the same", RESPONSES, |f| {
        Play::whole(f, |d| d.events.push(Event::text(Mark::Odd, "[DONE]")))
    }),
];
