//! What servers of Responses do.

use serde_json::{Value, json};
use turnwright_core::ErrorKind;
use turnwright_llm_stream::FinishReason;

use super::super::{Expected, Play, RESPONSES, Scenario, scenario, two, usual};
use crate::provider::{
    Reply,
    event::{Event, Mark},
};

pub(in crate::scenario) const ALL: &[Scenario] = &[
    scenario("responses-output-empty", "the last event lists no items", RESPONSES, |f| {
        Play::whole(f, |d| d.edit(Mark::Finish, |value| value["response"]["output"] = json!([])))
    }),
    scenario("responses-only-the-last", "the last event alone has the answer", RESPONSES, |f| {
        Play::two(f, &two(), |d| d.events.retain(|event| event.mark == Mark::Finish))
    }),
    scenario("responses-no-deltas", "items come whole", RESPONSES, |f| {
        Play::two(f, &two(), |d| {
            d.events.retain(|event| !event.name.is_some_and(|name| name.ends_with(".delta")));
        })
    }),
    scenario("responses-only-deltas", "no item says that it begins or is done", RESPONSES, |f| {
        Play::of(
            f,
            &Reply::new().text("Hel").text("lo €"),
            Expected::text("Hello €", FinishReason::Stop),
            |d| {
                d.events.retain(|event| event.mark != Mark::Frame);
            },
        )
    }),
    scenario("responses-ids-differ", "each event names its item anew", RESPONSES, |f| {
        Play::two(f, &two(), |d| {
            for (n, value) in d.values().enumerate() {
                for path in ["/item_id", "/item/id", "/response/id"] {
                    if let Some(id) = value.pointer_mut(path) {
                        *id = format!("id-{n}").into();
                    }
                }
            }
        })
    }),
    scenario(
        "responses-reasoning-text",
        "reasoning in a part of its own, not in a summary",
        RESPONSES,
        |f| {
            Play::whole(f, |d| {
                d.edit(Mark::Reasoning, |value| value["type"] = "response.reasoning_text.delta".into());
                for event in d.events.iter_mut().filter(|event| event.mark == Mark::Reasoning) {
                    event.name = Some("response.reasoning_text.delta");
                }
            })
        },
    ),
    scenario("responses-encrypted-only", "reasoning that nobody can read", RESPONSES, |f| {
        Play::of(f, &usual(), Expected { reasoning: Some(""), ..Expected::usual() }, |d| {
            d.events.retain(|event| !event.name.is_some_and(|name| name.contains("reasoning_summary")));
            for path in ["/item", "/response/output/0"] {
                let items = d.values().filter_map(|value| value.pointer_mut(path));
                let thoughts = items.filter(|item| item["type"] == "reasoning");
                thoughts.for_each(|item| item["summary"] = json!([]));
            }
        })
    }),
    scenario("responses-bare-end", "the last event says no status and no usage", RESPONSES, |f| {
        Play::of(f, &usual(), Expected { usage: Some(None), ..Expected::usual() }, |d| {
            d.edit(Mark::Finish, |value| value["response"] = json!({ "id": "resp_1" }));
        })
    }),
    scenario("responses-custom-tool", "a tool whose input is free text", RESPONSES, |f| {
        let calls = Some(vec![("patch", r#"{"input":"+ a \"b\""}"#)]);
        Play::of(f, &usual(), Expected { calls, ..Expected::usual() }, |d| {
            let (from, to) = (d.find(Mark::Call) - 1, d.find(Mark::Finish));
            let item = |input: &str| json!({ "id": "ct", "type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": input });
            let of_item = |kind: &'static str, mut data: Value| {
                data["type"] = kind.into();
                data["output_index"] = 2.into();
                Event::named(Mark::Call, kind, data)
            };
            let events = [
                of_item("response.output_item.added", json!({ "item": item("") })),
                of_item("response.custom_tool_call_input.delta", json!({ "item_id": "ct", "delta": "+ a " })),
                of_item(
                    "response.custom_tool_call_input.delta",
                    json!({ "item_id": "ct", "delta": "\"b\"" }),
                ),
                of_item(
                    "response.custom_tool_call_input.done",
                    json!({ "item_id": "ct", "input": "+ a \"b\"" }),
                ),
                of_item("response.output_item.done", json!({ "item": item("+ a \"b\"") })),
            ];
            d.events.splice(from..to, events);
            d.edit(Mark::Finish, |value| value["response"]["output"] = json!([]));
        })
    }),
    scenario("responses-server-tools", "what the server's own tools do is no call", RESPONSES, |f| {
        Play::whole(f, |d| {
            let item = json!({ "id": "ws", "type": "web_search_call", "status": "completed", "action": { "query": "a" } });
            let event = |kind: &'static str| {
                Event::named(Mark::Odd, kind, json!({ "type": kind, "output_index": 9, "item": item }))
            };
            let searching = "response.web_search_call.searching";
            let at = d.find(Mark::Finish);
            let odd = ["response.output_item.added", searching, "response.output_item.done"].map(event);
            d.events.splice(at..at, odd);
        })
    }),
    scenario("responses-failed", "the last event says that it failed", RESPONSES, |f| {
        Play::breaks(f, &[ErrorKind::Server], |d| {
            let error = json!({ "code": "server_error", "message": "the model failed" });
            let response = json!({ "id": "resp_1", "status": "failed", "error": error });
            let data = json!({ "type": "response.failed", "response": response });
            d.events.push(Event::named(Mark::Odd, "response.failed", data));
        })
    }),
];
