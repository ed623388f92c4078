//! Text and reasoning, as servers of more than one kind send them.

use std::sync::LazyLock;

use serde_json::{Value, json};
use turnwright_llm_stream::FinishReason;

use super::{ALL as EVERY, CHAT, Expected, Play, Scenario, scenario};
use crate::provider::{
    Reply, WireFormat,
    draft::Draft,
    event::{Data, Event, Mark},
    render::SIGNATURE,
};

pub(super) const ALL: &[Scenario] = &[
    scenario("empty-text", "empty pieces of text round a call", EVERY, |f| {
        let reply = Reply::new().text("").reasoning("hm").text("Hello €").text("");
        let reply = reply.tool_call("c1", "weather", r#"{"city":"Rome"}"#).text("");
        Play::of(f, &reply, Expected::usual(), |_| {})
    }),
    scenario("text-after-calls", "text goes on after a call", EVERY, |f| {
        let reply = Reply::new().reasoning("hm").text("Hel");
        let reply = reply.tool_call("c1", "weather", r#"{"city":"Rome"}"#).text("lo €");
        Play::of(f, &reply, Expected::usual(), |_| {})
    }),
    scenario("reasoning-only", "the answer is in the reasoning alone", EVERY, |f| {
        let expected = Expected { reasoning: Some("hm"), ..Expected::text("", FinishReason::Stop) };
        Play::of(f, &Reply::new().reasoning("hm"), expected, |_| {})
    }),
    scenario("nothing-said", "an answer without anything in it", EVERY, |f| {
        Play::of(f, &Reply::new(), Expected::text("", FinishReason::Stop), |_| {})
    }),
    scenario("escapes", "characters as escapes, beyond the first plane too", EVERY, |f| {
        let expected = Expected::text("a😀<b>\u{1F44D}\n\t\"\\", FinishReason::Stop);
        Play::of(f, &Reply::new().text("a😀").text("<b>\u{1F44D}\n\t\"\\"), expected, |d| {
            for event in &mut d.events {
                if let (Mark::Text, Some(value)) = (event.mark, event.value()) {
                    let escaped = escape(&value.to_string());
                    event.data = Data::Text(escaped);
                }
            }
        })
    }),
    scenario("long-text", "a piece of a quarter of a megabyte", EVERY, |f| {
        let expected = Expected::text(&LONG, FinishReason::Stop);
        Play::of(f, &Reply::new().text(LONG.as_str()), expected, |d| d.split = Some(4000))
    }),
    scenario("reasoning-field", "reasoning under `reasoning`", CHAT, |f| {
        Play::whole(f, |d| rename_reasoning(d, |text| json!({ "reasoning": text })))
    }),
    scenario("reasoning-twice", "the same reasoning under three names", CHAT, |f| {
        Play::whole(f, |d| {
            rename_reasoning(d, |text| {
                let details = json!([{ "type": "reasoning.text", "text": text }]);
                json!({ "reasoning": text, "reasoning_content": text, "reasoning_details": details })
            });
        })
    }),
    scenario("reasoning-details", "reasoning in details alone", CHAT, |f| {
        Play::whole(f, |d| {
            rename_reasoning(
                d,
                |text| json!({ "reasoning_details": [{ "type": "reasoning.text", "text": text, "index": 0 }] }),
            );
        })
    }),
    scenario("reasoning-as-parts", "content is a list of parts, then text", CHAT, |f| {
        Play::whole(f, |d| {
            rename_reasoning(d, |text| {
                let thoughts = json!([{ "type": "text", "text": text }]);
                json!({ "content": [{ "type": "thinking", "thinking": thoughts }] })
            });
        })
    }),
    scenario(
        "refusal-deltas",
        "the model declines in a field of its own",
        &[WireFormat::Chat, WireFormat::Responses],
        |f| {
            let expected = Expected::text("I will not.", FinishReason::Refusal);
            Play::of(f, &Reply::new().text("I will not."), expected, |d| {
                // What says the same words once more would say them as text.
                d.events
                    .retain(|event| !matches!(event.name, Some("response.content_part.done" | DONE | SAID)));
                let said = d.find(Mark::Text);
                match f {
                    WireFormat::Responses => {
                        d.events[said].name = Some(REFUSAL);
                        d.edit(Mark::Text, |value| value["type"] = REFUSAL.into());
                        d.edit(Mark::Finish, |value| value["response"]["output"] = json!([]));
                    }
                    _ => {
                        let refusal = json!({ "refusal": "I will not." });
                        d.edit(Mark::Text, |value| value["choices"][0]["delta"] = refusal.clone());
                    }
                }
            })
        },
    ),
    scenario("delta-null", "a delta that is null", CHAT, |f| {
        Play::whole(f, |d| {
            let choices = json!([{ "index": 0, "delta": null, "finish_reason": null }]);
            let at = d.find(Mark::Text) + 1;
            d.events.insert(at, Event::json(Mark::Odd, json!({ "choices": choices })));
        })
    }),
    scenario("delta-absent", "a choice without a delta", CHAT, |f| {
        Play::whole(f, |d| {
            let choices = json!([{ "index": 0, "content_filter_results": {}, "content_filter_offsets": {} }]);
            let at = d.find(Mark::Text) + 1;
            d.events.insert(at, Event::json(Mark::Odd, json!({ "choices": choices })));
        })
    }),
    scenario("first-event-empty", "the first event has no choices and blank labels", CHAT, |f| {
        Play::whole(f, |d| {
            let data =
                json!({ "choices": [], "id": "", "model": "", "object": "", "prompt_filter_results": [] });
            d.events.insert(0, Event::json(Mark::Odd, data));
        })
    }),
    scenario("labels-absent", "no object, no finish reason until the end", CHAT, |f| {
        Play::whole(f, |d| {
            for value in d.values() {
                value.as_object_mut().map(|event| event.remove("object"));
                if value["choices"][0]["finish_reason"].is_null()
                    && let Some(choice) = value.pointer_mut("/choices/0").and_then(Value::as_object_mut)
                {
                    choice.remove("finish_reason");
                }
            }
        })
    }),
    scenario("message-beside-delta", "all of it so far stands beside each piece", CHAT, |f| {
        Play::whole(f, |d| {
            for event in &mut d.events {
                if let (Mark::Text, Some(value)) = (event.mark, event.value()) {
                    value["choices"][0]["message"] = json!({ "role": "assistant", "content": "Hello €" });
                }
            }
        })
    }),
    scenario("another-id-last", "the last events have another id", CHAT, |f| {
        Play::whole(f, |d| {
            let at = d.find(Mark::Finish);
            for value in d.events.iter_mut().skip(at).filter_map(Event::value) {
                value["id"] = "another".into();
            }
        })
    }),
    scenario("two-choices", "a second choice takes turns with the first", CHAT, |f| {
        Play::whole(f, |d| {
            let other = json!([{ "index": 1, "delta": { "content": "No." }, "finish_reason": null }]);
            let at = d.find(Mark::Text) + 1;
            d.events.insert(at, Event::json(Mark::Odd, json!({ "id": "chatcmpl-1", "choices": other })));
        })
    }),
    scenario("done-without-finish", "no finish reason, but the end mark", CHAT, |f| {
        let expected = Expected::text("Hello €", FinishReason::Stop);
        Play::of(f, &Reply::new().text("Hello €"), expected, |d| {
            d.events.retain(|event| event.mark != Mark::Finish);
        })
    }),
];

static LONG: LazyLock<String> = LazyLock::new(|| "x€".repeat(1 << 16));
const REFUSAL: &str = "response.refusal.delta";
const SAID: &str = "response.output_text.done";
const DONE: &str = "response.output_item.done";

/// Says the reasoning as routers do that want it back: in details, signed.
pub(crate) fn sign_reasoning(draft: &mut Draft) {
    rename_reasoning(draft, |text| {
        let detail = json!({ "type": "reasoning.text", "text": text, "signature": SIGNATURE, "index": 0 });
        json!({ "reasoning": text, "reasoning_details": [detail] })
    });
}

/// Says the reasoning in other fields.
fn rename_reasoning(draft: &mut Draft, field: impl Fn(&Value) -> Value) {
    for event in &mut draft.events {
        if let (Mark::Reasoning, Some(value)) = (event.mark, event.value()) {
            let text = value["choices"][0]["delta"]["reasoning_content"].take();
            value["choices"][0]["delta"] = field(&text);
        }
    }
}

/// The same JSON with what is not ASCII as escapes.
fn escape(json: &str) -> String {
    let escaped = |c: char| match c {
        '<' | '>' => format!("\\u{:04x}", u32::from(c)),
        c if c.is_ascii() => c.to_string(),
        c => c.encode_utf16(&mut [0; 2]).iter().map(|unit| format!("\\u{unit:04x}")).collect(),
    };
    json.chars().map(escaped).collect()
}
