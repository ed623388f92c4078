//! Histories that no server accepts.

use super::*;

#[test]
fn fault_b16_turns_alternate_begin_with_the_user_and_results_come_first() {
    let messages = vec![
        assistant(vec![Part::text("x")]),
        calls(&["c1", "c2"]),
        Message::system(id(), "be quick"),
        answered("c2", "two"),
        answered("c1", "one"),
        user("c"),
        user("d"),
    ];
    let expected = json!([
        turn("user", [words("[What was said before is left out.]")]),
        turn("assistant", [words("x"), called("c1"), called("c2")]),
        turn(
            "user",
            [
                result("c2", "two"),
                result("c1", "one"),
                words("<system_message>be quick</system_message>"),
                words("c"),
                words("d")
            ]
        ),
    ]);
    assert_eq!(sent(messages), expected);
}

#[test]
fn fault_r1_28_no_call_is_left_unanswered_and_no_result_is_sent_without_its_call() {
    let none = |id: &str| {
        let content = [words("No result was recorded for this call.")];
        json!({ "toolResult": { "toolUseId": id, "content": content, "status": "error" } })
    };
    let messages = vec![
        user("a"),
        calls(&["c1", "c2"]),
        answered("c1", "one"),
        answered("c1", "again"),
        assistant(vec![Part::text("x")]),
        answered("c2", "late"),
        calls(&["c3"]),
    ];
    let expected = json!([
        turn("user", [words("a")]),
        turn("assistant", [called("c1"), called("c2")]),
        turn("user", [result("c1", "one"), none("c2"), words("[Result of an earlier call of t] again")]),
        turn("assistant", [words("x")]),
        turn("user", [words("[Result of an earlier call of t] late")]),
        turn("assistant", [called("c3")]),
        turn("user", [none("c3")]),
    ]);
    assert_eq!(sent(messages), expected);
}

#[test]
fn system_messages_at_the_begin_join_the_system_prompt() {
    let system = ["one", " ", "two"].map(|words| Arc::new(Message::system(id(), words)));
    let mut request = LlmRequest { messages: system.into(), ..full() };
    request.messages.push(Arc::new(user("a")));
    assert_eq!(body(&request)["system"], json!([words("be brief\n\none\n\ntwo")]));
    request.messages.drain(..3);
    request.system = Some(" ".into());
    assert_eq!(body(&request).get("system"), None, "blank words are refused");
}

#[test]
fn blank_text_is_left_out_but_a_turn_and_a_result_stay() {
    let messages = vec![
        user("a"),
        assistant(vec![Part::text(" \n"), Part::ToolCall(call("c"))]),
        answered("c", " "),
        assistant(vec![Part::text("x")]),
        user("\n"),
    ];
    let expected = json!([
        turn("user", [words("a")]),
        turn("assistant", [called("c")]),
        turn("user", [result("c", "[An empty result.]")]),
        turn("assistant", [words("x")]),
        turn("user", [words("[An empty message.]")]),
    ]);
    assert_eq!(sent(messages), expected);
}

#[test]
fn fault_b12_e17_arguments_always_go_out_as_a_json_object() {
    for (arguments, expected) in [
        ("", "{}"),
        (" {\"b\": 1,\n\"a\": 1.0 }", "{\"b\": 1,\n\"a\": 1.0 }"),
        (r#"{"a":"#, r#"{"invalid_arguments":"{\"a\":"}"#),
        ("[1]", r#"{"invalid_arguments":"[1]"}"#),
    ] {
        let messages = vec![Arc::new(assistant(vec![Part::ToolCall(ToolCall::new("c", "t", arguments))]))];
        let bytes = converse_body(&LlmRequest { messages, ..full() }).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(&format!(r#""input":{expected}}}"#)), "{text}");
    }
}

#[test]
fn ids_and_names_are_legal_at_most_64_bytes_long_and_still_differ() {
    let (long, longer) = ("n".repeat(64), "n".repeat(65));
    let ids = ["f.x:0", "f_x_0", "", &long, &longer, &format!("{longer}2")];
    let mut messages = vec![user("a"), calls(&ids)];
    messages.extend(ids.map(|id| answered(id, "r")));
    let sent = sent(messages);
    let cut = "n".repeat(56);
    let legal = ["f_x_0_2", "f_x_0", "_", &long, &cut, &format!("{cut}_2")];
    assert_eq!(sent[1], turn("assistant", legal.map(called)));
    assert_eq!(sent[2], turn("user", legal.map(|id| result(id, "r"))));

    for (name, expected) in [("a b", "a_b"), ("", "_"), (&longer, &*long), ("ok-1_", "ok-1_")] {
        let message = assistant(vec![Part::ToolCall(ToolCall::new("c", name, "{}"))]);
        assert_eq!(self::sent(vec![user("a"), message])[1]["content"][0]["toolUse"]["name"], expected);
    }
}

#[test]
fn an_interrupted_answer_says_so_once_and_is_escaped() {
    let mut message = assistant(vec![Part::text("a <"), Part::ToolCall(call("c")), Part::text(" b")]);
    message.interrupted = Some(Interrupted { reason: "user_stop".into(), pending_tools: vec!["<x>".into()] });
    let expected = concat!(
        r#"<interrupted_response reason="user_stop"><content>a &lt; b</content>"#,
        r#"<pending_tools><tool name="&lt;x&gt;"/></pending_tools></interrupted_response>"#,
    );
    let heard = sent(vec![user("a"), message, answered("c", "r")])[1].take();
    assert_eq!(heard, turn("assistant", [words(expected), called("c")]));
}
