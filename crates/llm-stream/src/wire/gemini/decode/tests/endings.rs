//! How answers end, well and badly.

use super::*;

#[test]
fn every_finish_reason_has_a_meaning_and_keeps_its_word() {
    use FinishReason::*;
    let table = [
        ("STOP", Stop),
        ("MAX_TOKENS", Length),
        ("SAFETY", ContentFilter),
        ("RECITATION", ContentFilter),
        ("BLOCKLIST", ContentFilter),
        ("PROHIBITED_CONTENT", ContentFilter),
        ("SPII", ContentFilter),
        ("IMAGE_SAFETY", ContentFilter),
        ("LANGUAGE", Other),
        ("OTHER", Other),
        ("MALFORMED_FUNCTION_CALL", Other),
        ("UNEXPECTED_TOOL_CALL", Other),
        ("TOO_MANY_TOOL_CALLS", Other),
    ];
    for (raw, reason) in table {
        let response = answer(&sse(&[json!({ "candidates": [{ "finishReason": raw }] })]));
        assert_eq!(response.finish_reason, Some(reason));
        assert_eq!(response.raw_finish_reason.as_deref(), Some(raw));
    }
}

#[test]
fn fault_e8_r1_9_the_end_of_the_body_ends_the_answer_only_after_a_finish_reason() {
    let text = json!([{ "text": "a" }]);
    for cut in
        [sse(&[chunk(&text, None)]), format!("[{}", chunk(&text, None)), format!("[{}]", chunk(&text, None))]
    {
        let response = answer(&cut);
        assert_eq!((response.text().as_str(), response.error.unwrap().kind), ("a", ErrorKind::Truncated));
    }
    for nothing in
        ["", "\n\n", "[", "[]", "data: {\"candidates\":", ": comment\n\n", "{\"candidates\":[", "[{"]
    {
        assert_eq!(error_kind(nothing), ErrorKind::Truncated, "{nothing}");
    }
    let whole = sse(&[chunk(&text, Some("STOP"))]);
    for tail in ["", "data: [DONE]\n\n", ": comment\n\n"] {
        assert_eq!(answer(&(whole.clone() + tail)).error, None, "{tail}");
    }
    assert_eq!(answer(whole.trim_end()).error, None, "no blank line last");
}

#[test]
fn fault_e6_r1_10_a_finish_reason_on_every_chunk_is_no_end() {
    let text = |text: &str| json!([{ "text": text }]);
    let mut decoder = GeminiDecoder::new("p");
    let mut out = Vec::new();
    decoder.feed(sse(&[chunk(&text("a"), Some("STOP"))]).as_bytes(), &mut out);
    assert!(decoder.finish_seen() && !decoder.is_done());
    let progress = decoder.progress();
    decoder.feed(b": heartbeat\n\n", &mut out);
    assert_eq!(decoder.progress(), progress);
    decoder.feed(sse(&[chunk(&text("b"), None)]).as_bytes(), &mut out);
    assert!(!decoder.finish_seen() && decoder.progress() > progress);
    let body = sse(&[
        chunk(&text("a"), Some("STOP")),
        chunk(&text("b"), Some("MAX_TOKENS")),
        chunk(&text("c"), Some("STOP")),
    ]);
    let response = answer(&body);
    assert_eq!((response.text().as_str(), response.finish_reason), ("abc", Some(FinishReason::Length)));
}

#[test]
fn fault_e25_a_second_answer_in_the_same_stream_is_an_error() {
    let first = chunk(&json!([{ "text": "a" }]), Some("STOP"));
    let mut second = chunk(&json!([{ "text": "b" }]), None);
    second["responseId"] = "r2".into();
    let response = answer(&sse(&[first, second]));
    assert_eq!(response.error.map(|e| e.kind), Some(ErrorKind::Protocol));
    assert_eq!(response.parts, [Part::text("a")], "nothing of the second answer is shown");
}

#[test]
fn a_blocked_prompt_is_a_failure_with_its_reason() {
    let blocked =
        |feedback: Value| json!({ "promptFeedback": feedback, "usageMetadata": { "promptTokenCount": 3 } });
    let plain = blocked(json!({ "blockReason": "SAFETY", "safetyRatings": [] }));
    for body in [sse(std::slice::from_ref(&plain)), format!("[{plain}]"), plain.to_string()] {
        let response = answer(&body);
        let error = response.error.unwrap();
        assert_eq!((error.kind, error.code.as_deref()), (ErrorKind::ContentFilter, Some("SAFETY")));
        assert_eq!((error.provider.as_deref(), error.is_retryable()), (Some("p"), false));
        assert_eq!(response.usage.input_tokens, Some(3));
    }
    let words = blocked(json!({ "blockReason": "OTHER", "blockReasonMessage": "not\u{7}this" }));
    let error = answer(&sse(&[words])).error.unwrap();
    assert_eq!(error.message, "the prompt was blocked: not this");
}

#[test]
fn fault_e21_r1_27_an_error_in_the_stream_is_one_failure_after_what_came() {
    let start = || sse(&[chunk(&json!([{ "text": "a" }]), Some("STOP"))]);
    let error =
        |code: u16, status: &str| json!({ "error": { "code": code, "message": "M", "status": status } });
    let unavailable = error(503, "UNAVAILABLE");
    let exhausted = error(429, "RESOURCE_EXHAUSTED");
    let array = format!("[{},\n{unavailable:#}\n]", chunk(&json!([{ "text": "a" }]), Some("STOP")));
    for (body, kind) in [
        (start() + &format!("{unavailable:#}\n"), ErrorKind::Overloaded),
        (start() + &format!("data: {exhausted}\n\n"), ErrorKind::RateLimited),
        (start() + &format!("[{exhausted}]\n\n"), ErrorKind::RateLimited),
        (start() + &format!("event: error\ndata: {unavailable}\n\n"), ErrorKind::Overloaded),
        (start() + "event: error\n\n", ErrorKind::Server),
        (array, ErrorKind::Overloaded),
    ] {
        let response = answer(&body);
        let error = response.error.clone().expect("a failure");
        assert_eq!((error.kind, error.provider.as_deref()), (kind, Some("p")), "{body}");
        assert_eq!(response.text(), "a", "{body}");
    }
}

#[test]
fn fault_e23_a_json_or_html_body_in_place_of_a_stream() {
    let error =
        json!({ "error": { "code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT" } });
    for body in [format!("{error:#}"), format!("[{error:#}\n]")] {
        assert_eq!(error_kind(&body), ErrorKind::Authentication);
    }
    assert_eq!(error_kind("<!DOCTYPE html>\n<html></html>"), ErrorKind::UnexpectedContent);
    assert_eq!(error_kind("{\"detail\": \"M\"}"), ErrorKind::Server);
    // An answer that was not streamed.
    let whole = chunk(&json!([{ "text": "a" }]), Some("STOP"));
    assert_eq!(answer(&format!("{whole:#}")).text(), "a");
}

#[test]
fn what_is_no_json_is_a_decode_failure_that_does_not_quote_it() {
    let start = sse(&[chunk(&json!([{ "text": "a" }]), None)]);
    let array = format!("[{},", chunk(&json!([{ "text": "a" }]), None));
    for garbage in [
        start.clone() + "data: secret garbage\n\n",
        start.clone() + "data: {\"candidates\":[{]}\n\n",
        start + "data: 7\n\n",
        array.clone() + "secret",
        array.clone() + "{\"candidates\":7},",
        array + "{\"secret\" \"x\"}",
    ] {
        let response = answer(&garbage);
        let error = response.error.clone().expect("a failure");
        assert_eq!((error.kind, response.text().as_str()), (ErrorKind::Decode, "a"), "{garbage}");
        assert!(!error.message.contains("secret"), "{error}");
    }
    let body = b"data: {\"a\":\"\xFF\"}\n\n";
    let response = assemble(decode_with(GeminiDecoder::new("p"), [&body[..]]));
    assert_eq!(response.error.map(|e| e.kind), Some(ErrorKind::Decode));
}

#[test]
fn an_element_of_an_array_has_a_cap_and_is_no_further_kept() {
    let mut decoder = GeminiDecoder::new("p");
    let mut out = Vec::new();
    decoder.feed(b"[{\"a\":\"", &mut out);
    let piece = vec![b'x'; 1024 * 1024];
    for _ in 0..16 {
        assert!(!decoder.is_done());
        decoder.feed(&piece, &mut out);
    }
    assert!(decoder.is_done());
    assert_eq!(assemble(out).error.map(|e| e.kind), Some(ErrorKind::TooLarge));
}

#[test]
fn secrets_are_taken_out_of_errors() {
    let secrets = Secrets::new(["hunter2hunter2"]);
    let error = json!({ "error": { "code": 403, "message": "key hunter2hunter2 is wrong" } });
    let decoder = GeminiDecoder::new("p").redacting(secrets);
    let response = assemble(decode_with(decoder, [sse(&[error]).as_bytes()]));
    assert!(!response.error.unwrap().message.contains("hunter2"));
}

#[test]
fn a_signature_alone_does_not_reopen_a_finished_answer() {
    let text = chunk(&json!([{ "text": "a" }]), Some("STOP"));
    for last in [json!([{ "text": "", "thoughtSignature": "s" }]), json!([{ "thoughtSignature": "s" }])] {
        let response = answer(&sse(&[text.clone(), chunk(&last, None)]));
        assert_eq!((response.error, response.finish_reason), (None, Some(FinishReason::Stop)));
        assert_eq!(response.parts.len(), 2, "and it is kept: {:?}", response.parts);
    }
    let response = answer(&sse(&[text, chunk(&json!([{ "executableCode": { "code": "x" } }]), None)]));
    assert_eq!(response.error.map(|e| e.kind), Some(ErrorKind::Truncated), "code is more than that");
}

#[test]
fn a_bad_reason_is_not_lost_after_a_good_one() {
    for (later, reason) in
        [("MALFORMED_FUNCTION_CALL", FinishReason::Other), ("SAFETY", FinishReason::ContentFilter)]
    {
        let first = chunk(&json!([{ "functionCall": { "name": "f" } }]), Some("STOP"));
        let last = json!({ "candidates": [{ "finishReason": later }], "responseId": "r" });
        let response = answer(&sse(&[first, last]));
        assert_eq!(response.finish_reason, Some(reason), "{later}");
        assert!(response.calls_may_run().is_err());
    }
}
