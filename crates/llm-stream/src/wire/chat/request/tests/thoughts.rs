//! Reasoning that came as `reasoning_content` goes back where it must, and nowhere else.

use super::*;
use crate::wire::{
    chat::ChatDecoder,
    testing::{assemble, decode_with},
};

/// The answer of a model which thinks, says something and calls.
fn answer(model: &str, field: &str) -> Message {
    let request = LlmRequest { model: model.into(), ..LlmRequest::default() };
    let call = r#"{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}"#;
    let body = [
        format!(r#"{{"choices":[{{"delta":{{"{field}":"Let me "}}}}]}}"#),
        format!(r#"{{"choices":[{{"delta":{{"{field}":"see."}}}}]}}"#),
        r#"{"choices":[{"delta":{"content":"I look."}}]}"#.to_owned(),
        format!(r#"{{"choices":[{{"delta":{{"tool_calls":[{call}]}},"finish_reason":"tool_calls"}}]}}"#),
        "[DONE]".to_owned(),
    ]
    .map(|data| format!("data: {data}\n\n"))
    .concat();
    let items = decode_with(ChatDecoder::for_request("p", &request), [body.as_bytes()]);
    assistant(assemble(items).parts)
}

/// What goes back of the reasoning, of each assistant message.
fn sent(model: &str, history: Vec<Message>) -> Vec<Value> {
    let messages = history.into_iter().map(Arc::new).collect();
    let body = body(&LlmRequest { model: model.into(), messages, ..LlmRequest::default() });
    let answers = body["messages"].as_array().unwrap().iter().filter(|m| m["role"] == "assistant");
    answers.map(|m| m["reasoning_content"].clone()).collect()
}

fn result(answer: &Message) -> Message {
    Message::tool(id(), ToolResult::ok(answer.tool_calls().next().unwrap(), "done"))
}

#[test]
fn reasoning_of_the_running_turns_calls_goes_back_to_the_model_that_gave_it() {
    let call = answer("thinker", "reasoning_content");
    assert_eq!(call.parts.iter().filter(|part| matches!(part, Part::Reasoning(_))).count(), 1);
    let turn = || vec![Message::user(id(), "hi"), call.clone(), result(&call)];
    assert_eq!(sent("thinker", turn()), ["Let me see."]);
    // Many servers refuse a field that they do not know.
    assert_eq!(sent("another", turn()), [Value::Null]);
    // In a turn that is over it is not wanted.
    let mut next = turn();
    next.push(Message::user(id(), "and now?"));
    assert_eq!(sent("thinker", next), [Value::Null]);
}

#[test]
fn reasoning_under_another_name_does_not_go_back_as_reasoning_content() {
    let call = answer("thinker", "reasoning");
    let turn = vec![Message::user(id(), "hi"), call.clone(), result(&call)];
    assert_eq!(sent("thinker", turn), [Value::Null]);
}
