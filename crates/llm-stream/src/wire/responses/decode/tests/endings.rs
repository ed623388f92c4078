//! How an answer ends, and how it breaks off.

use super::*;

#[test]
fn fault_d1_e8_r1_9_without_its_last_event_an_answer_is_truncated() {
    let whole = said("a");
    let last = whole.find("event: response.completed").unwrap();
    let end = whole.trim_end().len();
    for cut in 0..end {
        let out = decode_with(ResponsesDecoder::new("p"), [&whole.as_bytes()[..cut]]);
        let error = assemble(out).error.unwrap();
        assert_eq!(error.kind, ErrorKind::Truncated, "cut at {cut}");
        assert!(error.is_retryable());
    }
    assert_eq!(answer(&whole[..end]).error, None, "the last blank line may be missing");
    let response = answer(&whole[..last]);
    assert_eq!(response.text(), "a", "and what came is kept");
    assert!(response.usage.partial, "F9");
}

#[test]
fn fault_e7_r1_7_r1_19_nothing_follows_the_end() {
    let mark = "data: [ DONE ]\n\n";
    for (body, kind) in [(said("a"), None), (created() + &text(0, "a") + mark, Some(ErrorKind::Truncated))] {
        let (mut decoder, mut out) = (ResponsesDecoder::new("p"), Vec::new());
        decoder.feed(body.as_bytes(), &mut out);
        assert!(decoder.is_done() && decoder.finish_seen(), "without waiting for the end of the body");
        let count = out.len();
        decoder.feed((mark.to_owned() + &said("b")).as_bytes(), &mut out);
        decoder.feed(b"data: garbage\n\n", &mut out);
        decoder.end(&mut out);
        assert_eq!(out.len(), count);
        let response = assemble(out);
        assert_eq!((response.text().as_str(), response.error.map(|e| e.kind)), ("a", kind));
    }
}

#[test]
fn fault_r2_35_a_cut_answer_says_why() {
    let incomplete = |reason: Value| {
        let response = json!({ "status": "incomplete", "incomplete_details": { "reason": reason } });
        created() + &text(0, "a") + &event("response.incomplete", json!({ "response": response }))
    };
    for (word, reason) in [
        ("max_output_tokens", FinishReason::Length),
        ("content_filter", FinishReason::ContentFilter),
        ("of a later version", FinishReason::Other),
    ] {
        let response = answer(&incomplete(json!(word)));
        assert_eq!(response.finish_reason, Some(reason));
        assert_eq!(response.raw_finish_reason.as_deref(), Some(word));
        assert!(response.calls_may_run().is_err());
    }
    let response = answer(&incomplete(Value::Null));
    assert_eq!(response.finish_reason, Some(FinishReason::Other));
    assert_eq!(response.raw_finish_reason.as_deref(), Some("incomplete"));
}

#[test]
fn as_many_tokens_as_allowed_are_a_cut_though_the_server_says_nothing() {
    let usage = json!({ "response": { "status": "completed", "usage": { "output_tokens": 8 } } });
    let body = text(0, "a") + &event("response.completed", usage);
    let extra = |limit: Value| LlmRequest {
        max_output_tokens: Some(8),
        extra: serde_json::Map::from_iter([("max_output_tokens".to_owned(), limit)]),
        ..LlmRequest::default()
    };
    for (request, reason) in [
        (LlmRequest::default(), FinishReason::Stop),
        (LlmRequest { max_output_tokens: Some(9), ..LlmRequest::default() }, FinishReason::Stop),
        (LlmRequest { max_output_tokens: Some(8), ..LlmRequest::default() }, FinishReason::Length),
        (extra(json!(9)), FinishReason::Stop),
    ] {
        let decoder = ResponsesDecoder::for_request("p", &request);
        let response = assemble(decode_with(decoder, [body.as_bytes()]));
        assert_eq!(response.finish_reason, Some(reason), "{request:?}");
        assert_eq!(response.raw_finish_reason.as_deref(), Some("completed"));
    }
}

#[test]
fn a_refusal_is_text_and_a_reason() {
    let delta = json!({ "output_index": 0, "content_index": 0, "delta": "no" });
    let refused =
        json!({ "type": "message", "id": "msg", "content": [{ "type": "refusal", "refusal": "no" }] });
    for body in [
        event("response.refusal.delta", delta)
            + &done(0, refused.clone())
            + &completed(json!([refused.clone()])),
        event("response.refusal.done", json!({ "output_index": 0, "content_index": 0, "refusal": "no" }))
            + &completed(json!([])),
        completed(json!([refused])),
    ] {
        let response = answer(&body);
        assert_eq!((response.text().as_str(), response.finish_reason), ("no", Some(FinishReason::Refusal)));
    }
}

#[test]
fn fault_e21_e24_r1_27_r1_32_an_error_inside_the_stream_is_a_failure_of_its_kind() {
    let overloaded =
        json!({ "type": "service_unavailable_error", "code": "server_is_overloaded", "message": "M" });
    let failed = |error: Value| json!({ "response": { "status": "failed", "error": error, "id": "r" } });
    let table = [
        (
            event("error", json!({ "code": "rate_limit_exceeded", "message": "M", "param": null })),
            ErrorKind::RateLimited,
        ),
        (event("error", json!({ "error": overloaded })), ErrorKind::Overloaded),
        (
            format!("data: {}\n\n", json!({ "error": { "code": 429, "message": "M" } })),
            ErrorKind::RateLimited,
        ),
        (
            format!("event: error\ndata: {}\n\n", json!({ "type": "invalid_request_error", "message": "M" })),
            ErrorKind::InvalidRequest,
        ),
        ("event: error\ndata: M\n\n".to_owned(), ErrorKind::Server),
        (
            event("response.error", json!({ "error": { "code": "server_error", "message": "M" } })),
            ErrorKind::Server,
        ),
        (
            event("response.failed", failed(json!({ "code": "server_error", "message": "M" }))),
            ErrorKind::Server,
        ),
        (
            event("response.failed", failed(json!({ "code": "context_length_exceeded", "message": "M" }))),
            ErrorKind::ContextOverflow,
        ),
        (
            event("response.failed", failed(json!({ "code": "invalid_prompt", "message": "M" }))),
            ErrorKind::InvalidRequest,
        ),
        (
            event("response.completed", failed(json!({ "code": "insufficient_quota", "message": "M" }))),
            ErrorKind::QuotaExceeded,
        ),
        (json!({ "detail": "M" }).to_string(), ErrorKind::Server),
        ("data: [\"M\"]\n\n".to_owned(), ErrorKind::Server),
    ];
    for (end, kind) in table {
        let response = answer(&(created() + &text(0, "a") + &end));
        assert_eq!(response.text(), "a", "with what came before");
        let error = response.error.unwrap();
        assert_eq!((error.kind, error.message.as_str()), (kind, "M"), "{end}");
        assert_eq!(error.provider.as_deref(), Some("p"));
    }
    for (silent, kind) in [
        ("event: error\n\n".to_owned(), ErrorKind::Server),
        (event("response.failed", json!({ "response": null })), ErrorKind::Server),
        (event("response.cancelled", json!({ "response": { "status": "cancelled" } })), ErrorKind::Server),
        ("<html>\n".to_owned(), ErrorKind::UnexpectedContent),
        ("data: {]}\n\n".to_owned(), ErrorKind::Decode),
        ("data: {\"type\":\"a\",\"type\":\"b\"}\n\n".to_owned(), ErrorKind::Decode),
    ] {
        let error = answer(&(text(0, "a") + &silent)).error.unwrap();
        assert_eq!(error.kind, kind, "{silent}");
        assert!(!error.message.is_empty());
    }
    let mut broken = b"data: {\"a\":\"".to_vec();
    broken.extend_from_slice(b"\xff\"}\n\n");
    let out = decode_with(ResponsesDecoder::new("p"), [&broken[..]]);
    assert_eq!(assemble(out).error.map(|e| e.kind), Some(ErrorKind::Decode));
}

#[test]
fn errors_hold_no_secrets_and_the_usage_of_a_failed_answer_is_told() {
    let failed = json!({ "response": { "status": "failed", "usage": { "input_tokens": 5 },
        "error": { "message": "bad key zzz/secret+0123" } } });
    let decoder = ResponsesDecoder::new("p").redacting(Secrets::new(["zzz/secret+0123"]));
    let body = event("response.failed", failed);
    let response = assemble(decode_with(decoder, [body.as_bytes()]));
    assert_eq!(response.error.unwrap().message, "bad key [redacted]");
    assert_eq!(response.usage.input_tokens, Some(5));
}

#[test]
fn fault_e25_a_second_answer_in_the_stream_is_an_error() {
    assert_eq!(error_kind(&(created() + &text(0, "a") + &created() + &text(0, "b"))), ErrorKind::Protocol);
    assert_eq!(
        answer(&(created() + &created() + &said("a"))).text(),
        "a",
        "while nothing was said it is the same"
    );
    // One server gives another id on each event.
    let other = event("response.in_progress", json!({ "response": { "id": "r2" } }));
    let body = created() + &other + &text(0, "a") + &completed(json!([]));
    assert_eq!(answer(&body).response_id.as_deref(), Some("r"));
}
