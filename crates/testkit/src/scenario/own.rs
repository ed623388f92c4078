//! What servers of a single format do.

use serde_json::{Value, json};
use turnwright_core::ErrorKind;
use turnwright_llm_stream::FinishReason;

use super::{CONVERSE, Expected, GEMINI, MESSAGES, OLLAMA, Play, RESPONSES, Scenario, scenario, two, usual};
use crate::provider::{
    Reply,
    draft::Draft,
    event::{Event, Mark},
};

pub(super) const ALL: &[Scenario] = &[
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
    scenario("gemini-partial-arguments", "arguments come by their paths", GEMINI, |f| {
        Play::whole(f, |d| {
            let at = d.find(Mark::Call);
            d.events.remove(at);
            let arguments = |text: &str, more: bool| {
                json!({ "functionCall": {
                    "partialArgs": [{ "jsonPath": "$.city", "stringValue": text, "willContinue": more }],
                    "willContinue": true,
                } })
            };
            let parts = [
                json!({ "functionCall": { "name": "weather", "willContinue": true }, "thoughtSignature": "c2ln" }),
                arguments("Ro", true),
                arguments("me", false),
                json!({ "functionCall": {} }),
            ];
            let events = parts.map(|part| {
                let content = json!({ "role": "model", "parts": [part] });
                Event::json(Mark::Call, json!({ "candidates": [{ "content": content }] }))
            });
            d.events.splice(at..at, events);
        })
    }),
    scenario("gemini-no-content", "a candidate without content, content without parts", GEMINI, |f| {
        Play::whole(f, |d| {
            let at = d.find(Mark::Finish);
            if let Some(candidate) = d.events[at].value().and_then(|value| value.pointer_mut("/candidates/0"))
            {
                candidate.as_object_mut().map(|candidate| candidate.remove("content"));
            }
            let odd = json!({ "candidates": [{ "content": { "role": "model" } }] });
            d.events.insert(at, Event::json(Mark::Odd, odd));
        })
    }),
    scenario("gemini-blocked", "the prompt is blocked: no candidates, no finish reason", GEMINI, |f| {
        let body = json!({ "promptFeedback": { "blockReason": "SAFETY" }, "usageMetadata": { "promptTokenCount": 1 } });
        let expected = Expected::failure(&[ErrorKind::ContentFilter]);
        Play::of(f, &Reply::new(), expected, |d| d.events = vec![Event::json(Mark::Finish, body)])
    }),
    scenario("gemini-usage-in-parts", "a count that came before is missing later", GEMINI, |f| {
        Play::whole(f, |d| {
            d.edit(Mark::Finish, |value| value["usageMetadata"] = json!({ "promptTokenCount": 10 }));
        })
    }),
    scenario("gemini-array", "an array of events, as without `alt=sse`", GEMINI, |f| {
        Play::whole(f, |d| {
            let values: Vec<Value> = d.values().map(Value::take).collect();
            *d = d.clone().whole("application/json", format!("{:#}", Value::Array(values)));
            d.split = Some(9);
        })
    }),
    scenario("converse-checksum", "a frame whose checksum is wrong", CONVERSE, |f| {
        Play::breaks(f, &[ErrorKind::Decode], |d| {
            let mut next = d.framing.write(f, &d.events[d.find(Mark::Text)..]).concat();
            let middle = next.len() / 2;
            next[middle] ^= 1;
            d.tail = next;
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
    scenario("ollama-generate", "the format of `/api/generate`", OLLAMA, |f| {
        let expected = Expected::text("Hello €", FinishReason::Stop);
        Play::of(f, &Reply::new().text("Hel").text("lo €"), expected, |d| {
            for value in d.values() {
                value["response"] = value["message"]["content"].take();
                value.as_object_mut().map(|line| line.remove("message"));
            }
        })
    }),
    scenario("ollama-arguments-as-text", "arguments are a string of JSON", OLLAMA, |f| {
        Play::whole(f, |d| {
            let at = d.find(Mark::Call);
            let path = "/message/tool_calls/0/function/arguments";
            if let Some(arguments) = d.events[at].value().and_then(|value| value.pointer_mut(path)) {
                *arguments = arguments.to_string().into();
            }
        })
    }),
    scenario("ollama-prompt-cached", "no count of the prompt", OLLAMA, |f| {
        let expected = Expected { usage: Some(None), ..Expected::usual() };
        Play::of(f, &usual(), expected, |d| strip_done(d, "prompt_eval_count"))
    }),
    scenario("ollama-no-reason", "done, and no word of why", OLLAMA, |f| {
        Play::whole(f, |d| strip_done(d, "done_reason"))
    }),
];

fn strip_done(draft: &mut Draft, field: &str) {
    let at = draft.find(Mark::Finish);
    let last = draft.events.get_mut(at).and_then(Event::value).and_then(Value::as_object_mut);
    last.map(|last| last.remove(field));
}
