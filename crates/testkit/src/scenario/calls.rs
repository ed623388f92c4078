//! Calls, and how servers label them.

use serde_json::Value;
use turnwright_llm_stream::FinishReason;

use super::{ALL as EVERY, CHAT, End, Expected, Play, Scenario, scenario, two, two_whole, usual};
use crate::provider::{
    Reply, WireFormat,
    draft::Draft,
    event::{Event, Mark},
};

pub(super) const ALL: &[Scenario] = &[
    scenario("calls-whole", "two calls, an event each", EVERY, |f| Play::two(f, &two_whole(), |_| {})),
    scenario("calls-in-fragments", "two calls in fragments", EVERY, |f| Play::two(f, &two(), |_| {})),
    scenario(
        "calls-in-one-event",
        "two calls in one event",
        &[WireFormat::Chat, WireFormat::Gemini, WireFormat::Ollama],
        |f| Play::two(f, &two_whole(), together),
    ),
    scenario("calls-interleaved", "fragments of two calls take turns", CHAT, |f| {
        Play::two(f, &two(), |d| {
            let at = d.find(Mark::Call);
            let mut rest = d.events.split_off(at);
            let after = rest.split_off(rest.iter().take_while(|event| event.mark == Mark::Call).count());
            let second = rest.split_off(rest.len() / 2);
            d.events.extend(rest.into_iter().zip(second).flat_map(|(one, two)| [one, two]));
            d.events.extend(after);
        })
    }),
    scenario("call-index-missing", "calls are told apart by their events alone", CHAT, |f| {
        Play::two(f, &two_whole(), |d| {
            each(d, |call, _| {
                call.as_object_mut().map(|call| call.remove("index"));
            });
        })
    }),
    scenario("call-index-sparse", "indexes leave gaps", CHAT, |f| {
        Play::two(f, &two(), |d| {
            each(d, |call, _| call["index"] = (call["index"].as_u64().unwrap_or(0) * 4 + 3).into());
        })
    }),
    scenario("call-index-reused", "every call has index 0; a new id is a new call", CHAT, |f| {
        Play::two(f, &two(), |d| each(d, |call, _| call["index"] = 0.into()))
    }),
    scenario("call-id-blank-later", "further pieces have an empty id", CHAT, |f| {
        Play::two(f, &two(), |d| {
            each(d, |call, first| {
                if !first {
                    call["id"] = "".into();
                }
            });
        })
    }),
    scenario("call-id-null-later", "further pieces have a null id and name", CHAT, |f| {
        Play::two(f, &two(), |d| {
            each(d, |call, first| {
                if !first {
                    call["id"] = Value::Null;
                    call["function"]["name"] = Value::Null;
                }
            });
        })
    }),
    scenario("call-id-on-every-piece", "id and name come with each piece", CHAT, |f| {
        Play::two(f, &two(), |d| {
            let (mut id, mut name) = (Value::Null, Value::Null);
            each(d, |call, first| {
                if first {
                    (id, name) = (call["id"].clone(), call["function"]["name"].clone());
                }
                call["id"] = id.clone();
                call["function"]["name"] = name.clone();
            });
        })
    }),
    scenario(
        "call-id-missing",
        "calls without ids",
        &[WireFormat::Chat, WireFormat::Gemini, WireFormat::Ollama],
        |f| {
            let reply = Reply::new().reasoning("hm").text("Hello €");
            let reply = reply.tool_call("", "weather", r#"{"city":"Rome"}"#);
            Play::two(f, &reply.tool_call("", "time", r#"{"zone":"UTC"}"#), |_| {})
        },
    ),
    scenario("call-id-repeated", "two calls with one id", EVERY, |f| {
        let reply = Reply::new().reasoning("hm").text("Hello €");
        let reply = reply.tool_call("c1", "weather", r#"{"city":"Rome"}"#);
        Play::two(f, &reply.tool_call("c1", "time", r#"{"zone":"UTC"}"#), |_| {})
    }),
    scenario("call-same-tool-twice", "one tool, twice, with the same arguments", EVERY, |f| {
        let calls = vec![("weather", r#"{"city":"Rome"}"#); 2];
        let expected = Expected { calls: Some(calls), ..Expected::usual() };
        Play::of(f, &usual().tool_call("c2", "weather", r#"{"city":"Rome"}"#), expected, |_| {})
    }),
    scenario("call-without-arguments", "a tool without parameters", EVERY, |f| {
        let expected = Expected { calls: Some(vec![("now", "")]), ..Expected::usual() };
        let reply = Reply::new().reasoning("hm").text("Hello €").tool_call("c1", "now", "");
        Play::of(f, &reply, expected, |_| {})
    }),
    scenario(
        "call-arguments-absent",
        "no arguments at all",
        &[WireFormat::Chat, WireFormat::Gemini, WireFormat::Ollama],
        |f| {
            let expected = Expected { calls: Some(vec![("now", "")]), ..Expected::usual() };
            let reply = Reply::new().reasoning("hm").text("Hello €").tool_call("c1", "now", "");
            Play::of(f, &reply, expected, |d| {
                for value in d.values() {
                    let paths = [
                        ("/choices/0/delta/tool_calls/0/function", "arguments"),
                        ("/candidates/0/content/parts/0/functionCall", "args"),
                        ("/message/tool_calls/0/function", "arguments"),
                    ];
                    for (path, name) in paths {
                        value.pointer_mut(path).and_then(Value::as_object_mut).map(|call| call.remove(name));
                    }
                }
            })
        },
    ),
    scenario("call-arguments-null-first", "the first piece has null for arguments", CHAT, |f| {
        Play::two(f, &two(), |d| {
            each(d, |call, first| {
                if first {
                    call["function"]["arguments"] = Value::Null;
                }
            });
        })
    }),
    scenario("finish-on-the-last-piece", "the finish reason comes with the last piece", CHAT, |f| {
        Play::whole(f, |d| {
            d.events.retain(|event| event.mark != Mark::Finish);
            let last = d.events.iter_mut().rfind(|event| event.mark == Mark::Call);
            if let Some(value) = last.and_then(Event::value) {
                value["choices"][0]["finish_reason"] = "tool_calls".into();
            }
        })
    }),
    scenario("stop-though-calls", "the label says it is done; the calls count", EVERY, |f| {
        let expected = Expected::usual();
        Play::of(f, &usual().finish_with(FinishReason::Stop), expected, |_| {})
    }),
    scenario(
        "cut-by-length",
        "the output limit cut the arguments",
        &[WireFormat::Chat, WireFormat::Responses, WireFormat::Messages, WireFormat::Converse],
        |f| {
            let end = End::Finish(FinishReason::Length);
            let expected = Expected { calls: None, end, ..Expected::usual() };
            let reply =
                Reply::new().reasoning("hm").text("Hello €").tool_call("c1", "weather", r#"{"city":"Ro"#);
            Play::of(f, &reply.finish_with(FinishReason::Length), expected, |_| {})
        },
    ),
];

/// Changes each piece of a call; the flag says that it is the first one of its call.
fn each(draft: &mut Draft, mut edit: impl FnMut(&mut Value, bool)) {
    for value in draft.values() {
        if let Some(call) = value.pointer_mut("/choices/0/delta/tool_calls/0") {
            let first = call.get("id").is_some();
            edit(call, first);
        }
    }
}

/// Puts what is in the second call's event into the first one's.
fn together(draft: &mut Draft) {
    let at = draft.find(Mark::Call);
    let mut second = draft.events.remove(at + 1);
    let second = second.value().map(Value::take).unwrap_or_default();
    let first = draft.events.get_mut(at).and_then(Event::value);
    if let Some(first) = first {
        let lists = ["/choices/0/delta/tool_calls", "/candidates/0/content/parts", "/message/tool_calls"];
        for path in lists {
            if let (Some(Value::Array(list)), Some(Value::Array(more))) =
                (first.pointer_mut(path), second.pointer(path))
            {
                list.extend(more.iter().cloned());
            }
        }
    }
}
