//! What servers of Messages do.

use serde_json::{Value, json};
use turnwright_llm_stream::FinishReason;

use super::super::{Expected, MESSAGES, Play, Scenario, scenario, two, usual};
use crate::provider::{
    Reply,
    event::{Event, Mark},
};

pub(in crate::scenario) const ALL: &[Scenario] = &[
    scenario("messages-input-at-once", "a call's input comes as its block begins", MESSAGES, |f| {
        Play::two(f, &two(), |d| {
            d.events.retain(|event| event.mark != Mark::Call);
            let inputs = [json!({ "city": "Rome" }), json!({ "zone": "UTC" })];
            let begun = d.values();
            let begun = begun.filter(|value| value["content_block"]["type"] == "tool_use");
            begun.zip(inputs).for_each(|(value, input)| value["content_block"]["input"] = input);
        })
    }),
    scenario("messages-all-at-the-start", "the whole answer comes as the message begins", MESSAGES, |f| {
        Play::of(f, &usual(), Expected { reasoning: None, ..Expected::usual() }, |d| {
            let call =
                json!({ "type": "tool_use", "id": "c1", "name": "weather", "input": { "city": "Rome" } });
            d.events.retain(|event| event.mark == Mark::End || event.name == Some("message_start"));
            if let Some(value) = d.events.first_mut().and_then(Event::value) {
                value["message"]["content"] = json!([{ "type": "text", "text": "Hello €" }, call]);
                value["message"]["stop_reason"] = "tool_use".into();
                value["message"]["usage"]["output_tokens"] = 5.into();
            }
        })
    }),
    scenario("messages-start-twice", "the same message begins twice", MESSAGES, |f| {
        Play::whole(f, |d| d.events.insert(0, d.events[0].clone()))
    }),
    scenario("messages-start-null", "the message that begins is null", MESSAGES, |f| {
        Play::whole(f, |d| {
            if let Some(value) = d.values().next() {
                value["message"] = Value::Null;
            }
        })
    }),
    scenario("messages-pings", "pings everywhere, after the end too", MESSAGES, |f| {
        Play::whole(f, |d| {
            let ping = || Event::named(Mark::Odd, "ping", json!({ "type": "ping", "cost": "0" }));
            let events = std::mem::take(&mut d.events).into_iter();
            d.events = events.flat_map(|event| [event, ping()]).collect();
        })
    }),
    scenario("messages-blocks-unknown", "blocks and deltas that are not known", MESSAGES, |f| {
        Play::whole(f, |d| {
            let at = d.find(Mark::Finish);
            let event = |name: &'static str, mut data: Value| {
                data["type"] = name.into();
                data["index"] = 9.into();
                Event::named(Mark::Odd, name, data)
            };
            let block = json!({ "content_block": { "type": "new_tool_result", "content": [{ "a": 1 }] } });
            let delta = json!({ "delta": { "type": "new_delta", "text": "no text" } });
            let odd = [
                event("content_block_start", block),
                event("content_block_delta", delta),
                event("content_block_stop", json!({})),
            ];
            d.events.splice(at..at, odd);
        })
    }),
    scenario(
        "messages-usage-late",
        "the count of the start is wrong, that of the end is right",
        MESSAGES,
        |f| {
            Play::whole(f, |d| {
                if let Some(value) = d.values().next() {
                    value["message"]["usage"] = json!({ "input_tokens": 0, "output_tokens": 0 });
                }
            })
        },
    ),
    scenario("messages-redacted-thinking", "a block of reasoning that nobody can read", MESSAGES, |f| {
        Play::whole(f, |d| {
            let event = |name: &'static str, mut data: Value| {
                data["type"] = name.into();
                data["index"] = 9.into();
                Event::named(Mark::Odd, name, data)
            };
            let block = json!({ "type": "redacted_thinking", "data": "ZW5jcnlwdGVk" });
            let odd = [
                event("content_block_start", json!({ "content_block": block })),
                event("content_block_stop", json!({})),
            ];
            let at = d.find(Mark::Finish);
            d.events.splice(at..at, odd);
        })
    }),
    scenario("messages-server-tools", "what the server's own tools do is no call", MESSAGES, |f| {
        Play::whole(f, |d| {
            let event = |name: &'static str, mut data: Value| {
                data["type"] = name.into();
                data["index"] = 9.into();
                Event::named(Mark::Odd, name, data)
            };
            let tool = json!({ "type": "server_tool_use", "id": "s1", "name": "web_search", "input": {} });
            let found =
                json!({ "type": "web_search_tool_result", "tool_use_id": "s1", "content": [{ "url": "x" }] });
            let query = json!({ "type": "input_json_delta", "partial_json": "{\"query\":\"a\"}" });
            let odd = [
                event("content_block_start", json!({ "content_block": tool })),
                event("content_block_delta", json!({ "delta": query })),
                event("content_block_stop", json!({})),
                event("content_block_start", json!({ "content_block": found })),
                event("content_block_stop", json!({})),
            ];
            let at = d.find(Mark::Finish);
            d.events.splice(at..at, odd);
        })
    }),
    scenario("messages-refusal", "it declines without a word", MESSAGES, |f| {
        let reply = Reply::new().finish_with(FinishReason::Refusal);
        Play::of(f, &reply, Expected::text("", FinishReason::Refusal), |_| {})
    }),
];
