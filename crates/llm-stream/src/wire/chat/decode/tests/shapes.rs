//! Shapes that are not those of the format, and errors that a stream reports.

use super::*;

#[test]
fn an_error_in_a_list_is_an_error_also_as_an_event() {
    let start = sse(&[json!({ "choices": [{ "delta": { "content": "a" } }] })]);
    for (event, kind) in [
        (r#"data: [{"error":{"code":429,"message":"M"}}]"#, ErrorKind::RateLimited),
        (r#"data: [{"error":{"code":401,"message":"M"}},{"x":1}]"#, ErrorKind::Authentication),
        (r#"[{"error":{"code":503,"message":"M"}}]"#, ErrorKind::Overloaded),
        (r#"data: "M""#, ErrorKind::Server),
        ("data: [{]", ErrorKind::Decode),
    ] {
        let response = answer(&format!("{start}{event}\n\ndata: [DONE]\n\n"));
        let error = response.error.clone().expect("a failure");
        assert_eq!((error.kind, response.text().as_str()), (kind, "a"), "{event}");
        assert!(kind == ErrorKind::Decode || error.message == "M", "{error}");
    }
}

#[test]
fn a_whole_answer_may_come_as_one_event_but_is_no_repetition() {
    let whole = json!({ "choices": [{ "message": { "content": "hello" }, "finish_reason": "stop" }] });
    let response = answer(&sse(std::slice::from_ref(&whole)));
    assert_eq!((response.text().as_str(), response.finish_reason), ("hello", Some(FinishReason::Stop)));
    let delta = json!({ "choices": [{ "delta": { "content": "hello" } }] });
    assert_eq!(answer(&sse(&[delta.clone(), delta, whole.clone()])).text(), "hellohello");
    assert_eq!(answer(&(sse(&[whole.clone(), whole]) + "data: [DONE]\n\n")).text(), "hello");
}

#[test]
fn odd_parts_of_content_spoil_no_other_part() {
    let parts = json!(["a", { "text": "b" }, { "text": 7 }, 7, null, [], ["x"], { "thinking": ["c", 7, { "text": "d" }] }, { "type": 1, "text": "e" }]);
    let response = answer(&finished(&[json!({ "content": parts })], "stop"));
    assert_eq!((response.text().as_str(), response.reasoning().as_str()), ("abe", "cd"));
}

#[test]
fn a_large_error_in_a_stream_is_understood_and_its_message_capped() {
    let padding = "x".repeat(100_000);
    let error = json!({ "a": padding, "error": { "code": "rate_limit_exceeded", "message": padding } });
    let out = decode_with(ChatDecoder::new("p"), [sse(&[error]).as_bytes()]);
    let error = assemble(out).error.unwrap();
    assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::RateLimited, Some("rate_limit_exceeded")));
    assert!(error.message.len() < 600 && error.message.starts_with("xxx"), "{error}");
}

#[test]
fn an_error_that_is_only_a_flag_gets_words() {
    for flag in [json!(true), json!(503)] {
        let error = answer(&sse(&[json!({ "error": flag })])).error.unwrap();
        assert_eq!(error.message, "the provider reported an error in the stream");
    }
    let worded = json!({ "error": true, "message": "M" });
    assert_eq!(answer(&sse(&[worded])).error.unwrap().message, "M");
}

#[test]
fn secrets_are_in_no_error_that_the_stream_reports() {
    let secrets = || Secrets::new(["Token abc/def+ghi"]);
    for event in [
        r#"data: {"error":{"message":"bad abc/def+ghi","code":"abc/def+ghi"}}"#,
        r#"data: {"error":{"message":"bad abc\/def\u002bghi"}}"#,
        "event: error\ndata: bad abc/def+ghi",
        "event: error\ndata: bad abc/de",
        "<html>abc/def+ghi",
    ] {
        let decoder = ChatDecoder::new("p").redacting(secrets());
        let out = decode_with(decoder, [event.as_bytes()]);
        let error = assemble(out).error.unwrap();
        assert!(!format!("{error:?}").contains("abc"), "{error:?}");
    }
}
