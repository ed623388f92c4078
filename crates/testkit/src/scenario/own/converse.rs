//! What Bedrock does.

use serde_json::{Value, json};
use turnwright_core::ErrorKind;

use super::super::{CONVERSE, Play, Scenario, scenario};
use crate::provider::event::{Event, Mark};

pub(in crate::scenario) const ALL: &[Scenario] = &[
    scenario("converse-checksum", "a frame whose checksum is wrong", CONVERSE, |f| {
        Play::breaks(f, &[ErrorKind::Decode], |d| {
            let mut next = d.framing.write(f, &d.events[d.find(Mark::Text)..]).concat();
            let middle = next.len() / 2;
            next[middle] ^= 1;
            d.tail = next;
        })
    }),
    scenario("converse-redacted-thinking", "a block of reasoning that nobody can read", CONVERSE, |f| {
        Play::whole(f, |d| {
            let event = |name: &'static str, data: Value| Event::named(Mark::Odd, name, data);
            let thought = json!({ "reasoningContent": { "redactedContent": "ZW5jcnlwdGVk" } });
            let odd = [
                event("contentBlockDelta", json!({ "contentBlockIndex": 9, "delta": thought })),
                event("contentBlockStop", json!({ "contentBlockIndex": 9 })),
            ];
            let at = d.find(Mark::Finish);
            d.events.splice(at..at, odd);
        })
    }),
    scenario("converse-server-tools", "what the server's own tools do is no call", CONVERSE, |f| {
        Play::whole(f, |d| {
            let event = |name: &'static str, mut data: Value| {
                data["contentBlockIndex"] = 9.into();
                Event::named(Mark::Odd, name, data)
            };
            let tool = json!({ "toolUseId": "s1", "name": "run", "type": "server_tool_use" });
            let odd = [
                event("contentBlockStart", json!({ "start": { "toolUse": tool } })),
                event("contentBlockDelta", json!({ "delta": { "toolUse": { "input": "{}" } } })),
                event("contentBlockStop", json!({})),
            ];
            let at = d.find(Mark::Finish);
            d.events.splice(at..at, odd);
        })
    }),
    scenario("converse-metadata-first", "usage comes before the finish reason", CONVERSE, |f| {
        Play::whole(f, |d| {
            let at = d.find(Mark::Finish);
            d.events.swap(at, at + 1);
        })
    }),
];
