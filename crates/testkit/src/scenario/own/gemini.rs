//! What Gemini does.

use serde_json::{Value, json};
use turnwright_core::ErrorKind;
use turnwright_llm_stream::FinishReason;

use super::super::{Expected, GEMINI, Play, Scenario, scenario};
use crate::provider::{
    Reply,
    event::{Event, Mark},
};

pub(in crate::scenario) const ALL: &[Scenario] = &[
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
    scenario("gemini-other-parts", "code, its result and a picture among the parts", GEMINI, |f| {
        Play::whole(f, |d| {
            let parts = json!([
                { "executableCode": { "language": "PYTHON", "code": "print(1)" } },
                { "codeExecutionResult": { "outcome": "OUTCOME_OK", "output": "1" } },
                { "inlineData": { "mimeType": "image/png", "data": "iVBORw0KGgo=" } },
            ]);
            let odd = json!({ "candidates": [{ "content": { "role": "model", "parts": parts } }] });
            let at = d.find(Mark::Text);
            d.events.insert(at, Event::json(Mark::Odd, odd));
        })
    }),
    scenario("gemini-recitation", "it stops because it would recite", GEMINI, |f| {
        let expected = Expected::text("Hel", FinishReason::ContentFilter);
        Play::of(f, &Reply::new().text("Hel").finish("RECITATION"), expected, |_| {})
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
];
