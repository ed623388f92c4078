//! What each way writes, and that any text in any bound is JSON without what must not be seen.

use std::borrow::Cow;

use proptest::prelude::*;
use serde_json::Value;
use turnwright_core::{Part, Role, Sources, ToolCall, ToolResult};

use super::*;

fn said() -> Vec<Message> {
    let sources = Sources::default();
    let call = ToolCall::new("c", "look", r#"{"q":1}"#);
    let mut messages: Vec<_> =
        (0..9).map(|n| Message::user(sources.id(), format!("{n} {}", "é".repeat(3000)))).collect();
    messages.insert(0, Message::system(sources.id(), "be short"));
    messages.push(Message::new(sources.id(), Role::Assistant, vec![Part::ToolCall(call.clone())]));
    messages.push(Message::tool(sources.id(), ToolResult::ok(&call, "seen")));
    messages
}

fn value(attributes: &[KeyValue]) -> Value {
    assert_eq!(attributes.len(), 1);
    serde_json::from_str(&attributes[0].value.as_str()).unwrap()
}

#[test]
fn each_way_writes_what_it_says() {
    let said = said();
    assert_eq!(Content::default().input(said.iter(), None), []);
    let hash = Content::all(Capture::Hash).input(said.iter(), None);
    assert_eq!(hash[0].value.as_str().len(), 16);
    assert_eq!((hash[0].key.as_str(), hash[1].key.as_str()), (names::INPUT_HASH, names::INPUT_LENGTH));
    let summary = value(&Content::all(Capture::Summary).input(said.iter(), None));
    let parts = summary.as_array().unwrap();
    assert_eq!(parts.len(), 6);
    assert_eq!(parts[0]["parts"][0]["content"].as_str().unwrap().chars().count(), 2000);
    assert_eq!(parts[4]["parts"][0]["arguments"]["q"], 1);
    assert_eq!((&parts[5]["role"], &parts[5]["parts"][0]["response"]), (&"tool".into(), &"seen".into()));
    let full = value(&Content::all(Capture::Full).input(said.iter(), None));
    assert_eq!((full.as_array().unwrap().len(), &full[0]["role"]), (12, &"system".into()));
}

#[test]
fn the_switch_has_the_words_of_old_and_new_libraries() {
    for (word, how) in [
        ("SPAN_ONLY", Capture::Full),
        ("span_and_event", Capture::Full),
        ("true", Capture::Full),
        ("EVENT_ONLY", Capture::Off),
        ("NO_CONTENT", Capture::Off),
        ("false", Capture::Off),
        ("", Capture::Off),
    ] {
        assert_eq!(Content::of_switch(word), Content::all(how), "{word}");
    }
}

proptest! {
    /// Whatever is cut stays JSON and within its bound, and what must not be seen is not there.
    #[test]
    fn fault_g16_any_text_in_any_bound_is_json(texts in prop::collection::vec(any::<String>(), 0..6), max in 2_usize..400) {
        let sources = Sources::default();
        let secret = |text: &str| format!("{text}hunter2{text}");
        let messages: Vec<_> = texts.iter().map(|text| Message::user(sources.id(), secret(text))).collect();
        let redact = |text: &str| -> Cow<'_, str> { text.replace("hunter2", "…").into() };
        let by: Option<&dyn Redactor> = Some(&Fixed(redact));
        let content = Content::all(Capture::Full).max_bytes(max);
        let call = ToolCall::new("c", "t", secret(&texts.concat()));
        let answer = LlmResponse { parts: vec![Part::ToolCall(call)], ..LlmResponse::default() };
        for attributes in [content.input(messages.iter(), by), content.output(&answer, "stop", by)] {
            let text = attributes[0].value.as_str().into_owned();
            prop_assert!(text.len() <= max && !text.contains("hunter2"), "{text}");
            prop_assert!(serde_json::from_str::<Value>(&text).is_ok(), "{text}");
        }
    }
}

struct Fixed(fn(&str) -> Cow<'_, str>);
impl Redactor for Fixed {
    fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        (self.0)(text)
    }
}
