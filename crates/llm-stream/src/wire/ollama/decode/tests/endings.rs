//! How answers end, well and badly.

use super::*;

#[test]
fn every_reason_has_a_meaning_and_keeps_its_word() {
    for (raw, reason) in [
        ("stop", FinishReason::Stop),
        ("length", FinishReason::Length),
        ("tool_calls", FinishReason::Stop),
        ("content_filter", FinishReason::ContentFilter),
        ("load", FinishReason::Other),
        ("unload", FinishReason::Other),
        ("of a later version", FinishReason::Other),
    ] {
        let response = answer(&lines(&[done(raw)]));
        assert_eq!(
            (response.finish_reason, response.raw_finish_reason.as_deref()),
            (Some(reason), Some(raw))
        );
    }
}

#[test]
fn fault_e7_the_last_line_ends_the_answer_at_once_and_what_follows_is_ignored() {
    let (mut decoder, mut out) = (OllamaDecoder::new("p"), Vec::new());
    decoder.feed(finished(&[json!({ "content": "a" })], "stop").as_bytes(), &mut out);
    assert!(decoder.is_done() && decoder.finish_seen());
    let count = out.len();
    decoder.feed(b"garbage\n", &mut out);
    decoder.end(&mut out);
    assert_eq!(out.len(), count);
    let two =
        finished(&[json!({ "content": "a" })], "stop") + &finished(&[json!({ "content": "b" })], "stop");
    assert_eq!(answer(&two).text(), "a");
}

#[test]
fn fault_r1_9_d1_a_body_that_ends_early_is_a_cut_answer() {
    let start = lines(&[said(&json!({ "content": "a" }))]);
    let whole = start.clone() + &done("stop").to_string();
    for cut in [start.as_str(), &whole[..start.len() + 1], &whole[..whole.len() - 1]] {
        let response = answer(cut);
        assert_eq!((response.text().as_str(), response.error.unwrap().kind), ("a", ErrorKind::Truncated));
    }
    for nothing in ["", "\n", "{", "{\"mod", "[", "{\n"] {
        assert_eq!(error_kind(nothing), ErrorKind::Truncated, "{nothing}");
    }
}

#[test]
fn fault_e21_r1_27_an_error_in_the_stream_is_one_failure_after_what_came() {
    let start = || lines(&[said(&json!({ "content": "a" }))]);
    for (error, kind) in [
        (r#"{"error":"an error was encountered while running the model"}"#.to_owned(), ErrorKind::Server),
        (r#"{"error":"prompt is too long"}"#.to_owned(), ErrorKind::ContextOverflow),
        (r#"{"error":{"code":429,"message":"slow down"}}"#.to_owned(), ErrorKind::RateLimited),
        (format!("{:#}", json!({ "error": { "code": 503, "message": "M" } })), ErrorKind::Overloaded),
        (r#"{"model":"m","message":{"content":""},"error":"M","done":true}"#.to_owned(), ErrorKind::Server),
        (r#"["M"]"#.to_owned(), ErrorKind::Server),
    ] {
        let response = answer(&format!("{}{error}\n{}", start(), done("stop")));
        let failure = response.error.clone().expect("a failure");
        assert_eq!((failure.kind, failure.provider.as_deref()), (kind, Some("p")), "{error}: {failure}");
        assert_eq!(response.text(), "a", "{error}");
    }
}

#[test]
fn fault_e23_a_json_or_html_body_in_place_of_a_stream() {
    let error = answer(r#"{"error":"model 'x' not found"}"#).error.unwrap();
    assert_eq!(error.message, "model 'x' not found");
    assert_eq!(error_kind(r#"{"message":"Unauthorized"}"#), ErrorKind::Server);
    assert_eq!(error_kind("{\n  \"detail\": \"M\"\n}\n"), ErrorKind::Server);
    assert_eq!(error_kind("<!DOCTYPE html>\n<html></html>"), ErrorKind::UnexpectedContent);
}

#[test]
fn what_is_no_json_is_a_decode_failure_that_does_not_quote_it() {
    let start = lines(&[said(&json!({ "content": "a" }))]);
    for garbage in ["secret garbage\n", "{\"secret\" \"x\"}\n", "7\n", "{} secret\n", "{\"secret\":}\n{}\n"] {
        let response = answer(&format!("{start}{garbage}{}\n", done("stop")));
        let error = response.error.clone().expect("a failure");
        assert_eq!((error.kind, response.text().as_str()), (ErrorKind::Decode, "a"), "{garbage}");
        assert!(!error.message.contains("secret"), "{error}");
    }
    let response = assemble(decode_with(OllamaDecoder::new("p"), [&b"{\"a\":\"\xFF\"}\n"[..]]));
    assert_eq!(response.error.map(|e| e.kind), Some(ErrorKind::Decode));
}

#[test]
fn a_line_that_is_too_long_is_a_typed_error() {
    let (mut decoder, mut out) = (OllamaDecoder::new("p"), Vec::new());
    decoder.feed(b"{\"model\":\"", &mut out);
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..16 {
        decoder.feed(&piece, &mut out);
    }
    assert!(decoder.is_done());
    assert_eq!(assemble(out).error.map(|e| e.kind), Some(ErrorKind::TooLarge));
}

#[test]
fn secrets_are_taken_out_of_errors() {
    let decoder = OllamaDecoder::new("p").redacting(Secrets::new(["hunter2hunter2"]));
    let body = br#"{"error":"key hunter2hunter2 is wrong"}"#;
    let response = assemble(decode_with(decoder, [&body[..]]));
    assert!(!response.error.unwrap().message.contains("hunter2"));
}

#[test]
fn an_error_that_is_named_after_itself_is_one() {
    let body = lines(&[said(&json!({ "content": "a" }))])
        + "{\"error parsing tool call\":\"invalid character 'c' looking for beginning of value\"}\n";
    let response = answer(&body);
    let error = response.error.clone().unwrap();
    assert_eq!((response.text().as_str(), error.kind), ("a", ErrorKind::Server));
    assert_eq!(
        error.message,
        "error parsing tool call: invalid character 'c' looking for beginning of value"
    );
    let body = lines(&[said(&json!({ "content": "a" })), json!({ "of a later version": "x" }), done("stop")]);
    assert_eq!(answer(&body).error, None);
}
