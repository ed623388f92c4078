//! Histories that no server accepts.

use super::*;

#[test]
fn fault_b16_turns_alternate_and_results_come_first() {
    let messages = vec![
        user("a"),
        user("b"),
        assistant(vec![Part::text("x")]),
        calls(&["c1", "c2"]),
        Message::system(id(), "be quick"),
        answered("c2", "two"),
        answered("c1", "one"),
        user("c"),
    ];
    let expected = json!([
        turn("user", json!([words("a"), words("b")])),
        turn("assistant", json!([words("x"), called("c1"), called("c2")])),
        turn(
            "user",
            json!([
                result("c2", "two"),
                result("c1", "one"),
                words("<system_message>be quick</system_message>"),
                words("c")
            ])
        ),
    ]);
    assert_eq!(sent(messages), expected);
}

#[test]
fn fault_r1_28_no_call_is_left_unanswered_and_no_result_is_sent_without_its_call() {
    let none = |id: &str| {
        json!({ "type": "tool_result", "tool_use_id": id, "is_error": true,
            "content": "No result was recorded for this call." })
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
        turn("user", "a".into()),
        turn("assistant", json!([called("c1"), called("c2")])),
        turn(
            "user",
            json!([result("c1", "one"), none("c2"), words("[Result of an earlier call of t] again")])
        ),
        turn("assistant", "x".into()),
        turn("user", "[Result of an earlier call of t] late".into()),
        turn("assistant", json!([called("c3")])),
        turn("user", json!([none("c3")])),
    ]);
    assert_eq!(sent(messages), expected);
}

#[test]
fn a_history_that_begins_with_an_answer_gets_a_turn_before_it() {
    let expected = json!([
        turn("user", "[What was said before is left out.]".into()),
        turn("assistant", json!([called("c")])),
        turn("user", json!([result("c", "r")])),
    ]);
    assert_eq!(sent(vec![calls(&["c"]), answered("c", "r")]), expected);
}

#[test]
fn system_messages_at_the_begin_join_the_system_prompt() {
    let mut request = full();
    request.messages =
        [Message::system(id(), "one"), Message::system(id(), " "), Message::system(id(), "two")]
            .map(Arc::new)
            .into();
    request.messages.push(Arc::new(user("a")));
    assert_eq!(body(&request)["system"], "be brief\n\none\n\ntwo");
    request.system = None;
    assert_eq!(body(&request)["system"], "one\n\ntwo");
    request.messages.drain(..3);
    request.system = Some(" ".into());
    assert_eq!(body(&request).get("system"), None, "blank words are refused");
    assert_eq!(body(&request)["messages"], json!([turn("user", "a".into())]));
}

#[test]
fn blank_text_is_left_out_but_a_turn_stays() {
    let messages =
        vec![user("a"), assistant(vec![Part::text(" \n"), Part::ToolCall(call("c"))]), answered("c", "")];
    let expected = json!([
        turn("user", "a".into()),
        turn("assistant", json!([called("c")])),
        turn("user", json!([result("c", "")])),
    ]);
    assert_eq!(sent(messages), expected);
    assert_eq!(
        sent(vec![user("a"), assistant(vec![]), user(" ")]),
        json!([turn("user", "a".into())]),
        "an empty answer is none"
    );
    let messages = vec![user("a"), assistant(vec![Part::text("x")]), user("\n")];
    assert_eq!(sent(messages)[2], turn("user", "[An empty message.]".into()));
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
        let bytes = messages_body(&LlmRequest { messages, ..LlmRequest::default() }).unwrap();
        let text = String::from_utf8(bytes).unwrap();
        assert!(text.contains(&format!(r#""input":{expected}}}"#)), "{text}");
    }
}

#[test]
fn ids_and_names_that_the_format_does_not_allow_are_spelled_anew_and_still_differ() {
    let ids = ["f.x:0", "f_x_0", "f x 0", ""];
    let mut messages = vec![user("a"), calls(&ids)];
    messages.extend(ids.map(|id| answered(id, id)));
    let sent = sent(messages);
    let legal = ["f_x_0_2", "f_x_0", "f_x_0_3", "_"];
    assert_eq!(sent[1], turn("assistant", legal.map(called).into_iter().collect()));
    let results = legal.iter().zip(ids).map(|(legal, id)| result(legal, id));
    assert_eq!(sent[2], turn("user", results.collect()));

    let long = "n".repeat(129);
    for (name, expected) in [("a b", "a_b"), ("", "_"), (&long, &long[..128]), ("ok-1_", "ok-1_")] {
        let message = assistant(vec![Part::ToolCall(ToolCall::new("c", name, "{}"))]);
        assert_eq!(self::sent(vec![user("a"), message])[1]["content"][0]["name"], expected);
    }
}

#[test]
fn an_interrupted_answer_says_so_once_and_is_escaped() {
    let part = Part::ToolCall(call("c"));
    let mut message = assistant(vec![Part::text("a <"), part.clone(), Part::text(" b")]);
    message.interrupted = Some(Interrupted { reason: "user_stop".into(), pending_tools: vec!["<x>".into()] });
    let expected = concat!(
        r#"<interrupted_response reason="user_stop"><content>a &lt; b</content>"#,
        r#"<pending_tools><tool name="&lt;x&gt;"/></pending_tools></interrupted_response>"#,
    );
    let heard = |message: &Message| sent(vec![user("a"), message.clone(), answered("c", "r")])[1].clone();
    assert_eq!(heard(&message), turn("assistant", json!([words(expected), called("c")])));
    let expected = r#"<interrupted_response reason="error"></interrupted_response>"#;
    message.interrupted = Some(Interrupted { reason: "error".into(), pending_tools: vec![] });
    message.parts = vec![part];
    assert_eq!(heard(&message), turn("assistant", json!([called("c"), words(expected)])));
    message.parts = vec![];
    assert_eq!(heard(&message), turn("assistant", expected.into()));
}

#[test]
fn what_servers_refuse_for_its_blanks_or_its_name_is_mended() {
    let messages =
        vec![user("a"), assistant(vec![Part::text("x \n")]), user("b"), assistant(vec![Part::text("y \n")])];
    let sent = sent(messages);
    assert_eq!(
        (&sent[1]["content"], &sent[3]["content"]),
        (&json!("x \n"), &json!("y")),
        "only the last one"
    );

    let silent = ToolResult::error(&call("c"), ErrorInfo::new(ErrorKind::ToolFailed, " "));
    let sent = self::sent(vec![user("a"), calls(&["c"]), Message::tool(id(), silent)]);
    let failed =
        json!({ "type": "tool_result", "tool_use_id": "c", "content": "The call failed.", "is_error": true });
    assert_eq!(sent[2]["content"], json!([failed]));

    let jpg = Message::new(id(), Role::User, vec![Part::Image(image("data:image/jpg;base64,AA"))]);
    assert_eq!(self::sent(vec![jpg])[0]["content"][0]["source"]["media_type"], "image/jpeg");
}

#[test]
fn a_budget_for_thoughts_is_below_the_figure_for_all_unless_the_request_says_another() {
    let extra = serde_json::from_value(json!({ "thinking": { "type": "enabled", "budget_tokens": 16_000 } }))
        .unwrap();
    let mut request = LlmRequest { extra, max_output_tokens: None, ..full() };
    assert_eq!(body(&request)["max_tokens"], 16_000 + DEFAULT_MAX_TOKENS);
    request.max_output_tokens = Some(9);
    assert_eq!(body(&request)["max_tokens"], 9);
}
