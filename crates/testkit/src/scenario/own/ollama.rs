//! What Ollama does.

use serde_json::Value;
use turnwright_llm_stream::FinishReason;

use super::super::{Expected, OLLAMA, Play, Scenario, scenario, usual};
use crate::provider::{
    Reply,
    draft::Draft,
    event::{Event, Mark},
};

pub(in crate::scenario) const ALL: &[Scenario] = &[
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
