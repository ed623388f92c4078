//! Every shape of error body, and what must not get into a message.

use super::*;
use ErrorKind::*;

mod overflow;
mod words;

static NONE: std::sync::OnceLock<Secrets> = std::sync::OnceLock::new();

fn now() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn failure(status: u16, body: &str) -> HttpFailure<'_> {
    HttpFailure {
        provider: "p",
        status,
        content_type: Some("application/json"),
        retry_after: None,
        retry_after_ms: None,
        error_type: None,
        body: body.as_bytes(),
        secrets: NONE.get_or_init(Secrets::default),
        now: now(),
    }
}

/// Every shape of error body, written by hand after what providers send.
#[test]
fn every_shape_of_body_is_understood() {
    let table = [
        (
            401,
            r#"{"error":{"message":"M","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}"#,
            Authentication,
            "M",
            Some("invalid_api_key"),
        ),
        (
            404,
            r#"{"error":{"message":"M","type":"invalid_request_error","param":null,"code":"model_not_found"}}"#,
            NotFound,
            "M",
            Some("model_not_found"),
        ),
        (
            400,
            r#"{"error":{"message":"M","type":"test_error","code":"test"}}"#,
            InvalidRequest,
            "M",
            Some("test"),
        ),
        (
            400,
            r#"{"error":{"message":"M","type":"invalid_request_error","code":"context_length_exceeded"}}"#,
            ContextOverflow,
            "M",
            Some("context_length_exceeded"),
        ),
        (
            429,
            r#"{"error":{"message":"M","type":"insufficient_quota","code":"insufficient_quota"}}"#,
            QuotaExceeded,
            "M",
            Some("insufficient_quota"),
        ),
        (
            429,
            r#"{"error":{"message":"M","type":"requests","code":"rate_limit_exceeded"}}"#,
            RateLimited,
            "M",
            Some("rate_limit_exceeded"),
        ),
        (
            429,
            r#"{"error":{"message":"Request too large for model","type":"tokens","code":"rate_limit_exceeded"}}"#,
            ContextOverflow,
            "Request too large for model",
            Some("rate_limit_exceeded"),
        ),
        (
            400,
            r#"{"error":{"code":"content_filter","message":"M","innererror":{"code":"ResponsibleAIPolicyViolation"}}}"#,
            ContentFilter,
            "M",
            Some("ResponsibleAIPolicyViolation"),
        ),
        (401, r#"{"error":{"code":"401","message":"M"}}"#, Authentication, "M", None),
        (
            500,
            r#"{"error":{"code":500,"message":"M","type":"server_error"}}"#,
            Server,
            "M",
            Some("server_error"),
        ),
        (
            501,
            r#"{"error":{"code":501,"message":"M","type":"not_supported_error"}}"#,
            InvalidRequest,
            "M",
            Some("not_supported_error"),
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"M","type":"exceed_context_size_error","n_ctx":512}}"#,
            ContextOverflow,
            "M",
            Some("exceed_context_size_error"),
        ),
        (
            400,
            r#"{"error":{"message":"The total length of all messages is too long.","type":"too_many_prompt_tokens","code":400}}"#,
            ContextOverflow,
            "The total length of all messages is too long.",
            Some("too_many_prompt_tokens"),
        ),
        (
            400,
            r#"{"error":{"message":"prompt too long; exceeded max context length by 9 tokens","type":"invalid_request_error","code":null}}"#,
            ContextOverflow,
            "prompt too long; exceeded max context length by 9 tokens",
            Some("invalid_request_error"),
        ),
        (
            400,
            r#"{"error":{"message":"This endpoint's maximum context length is 9 tokens","code":400,"metadata":{"previous_errors":[{"code":400}]}},"user_id":"u"}"#,
            ContextOverflow,
            "This endpoint's maximum context length is 9 tokens",
            None,
        ),
        (
            401,
            r#"{"type":"error","error":{"type":"authentication_error","message":"M"},"request_id":"r"}"#,
            Authentication,
            "M",
            Some("authentication_error"),
        ),
        (
            529,
            r#"{"type":"error","error":{"type":"overloaded_error","message":"M"}}"#,
            Overloaded,
            "M",
            Some("overloaded_error"),
        ),
        (
            400,
            r#"{"error":{"code":400,"message":"M","status":"INVALID_ARGUMENT","details":[{"reason":"API_KEY_INVALID"}]}}"#,
            Authentication,
            "M",
            Some("API_KEY_INVALID"),
        ),
        (
            400,
            r#"[{"error":{"code":400,"message":"M","status":"FAILED_PRECONDITION"}}]"#,
            InvalidRequest,
            "M",
            Some("FAILED_PRECONDITION"),
        ),
        (404, r#"{"error":"M"}"#, NotFound, "M", None),
        (400, r#"{"error":["M"]}"#, InvalidRequest, "M", None),
        (
            400,
            r#"{"code":"invalid-argument","error":"Incorrect API key provided: ab"}"#,
            Authentication,
            "Incorrect API key provided: ab",
            Some("invalid-argument"),
        ),
        (403, r#"{"message":"M"}"#, PermissionDenied, "M", None),
        (
            400,
            r#"{"error_type":"TOO_MANY_TOKENS","id":"i","message":"M"}"#,
            ContextOverflow,
            "M",
            Some("TOO_MANY_TOKENS"),
        ),
        (401, r#"{"detail":"M"}"#, Authentication, "M", None),
        (422, r#"{"detail":[{"msg":"M","loc":["body"]}]}"#, InvalidRequest, "M", None),
        (
            429,
            r#"{"object":"error","message":"M","type":"rate_limited","param":null,"code":null,"raw_status_code":429}"#,
            RateLimited,
            "M",
            Some("rate_limited"),
        ),
        (
            422,
            r#"{"object":"error","message":{"detail":[{"msg":"M"}]},"type":"invalid_request_error"}"#,
            InvalidRequest,
            r#"{"detail":[{"msg":"M"}]}"#,
            Some("invalid_request_error"),
        ),
        (400, r#"{"code":400,"message":"M","type":"Bad Request"}"#, InvalidRequest, "M", Some("Bad Request")),
        (
            403,
            r#"{"error":{"code":"forbidden","message":"M","type":"invalid_request_error"}}"#,
            PermissionDenied,
            "M",
            Some("forbidden"),
        ),
        (
            401,
            r#"{"id":"i","error":{"message":"M","type":"invalid_request_error","code":"invalid_api_key"}}"#,
            Authentication,
            "M",
            Some("invalid_api_key"),
        ),
        (402, "", QuotaExceeded, "the provider answered with HTTP status 402 and no message", None),
        (408, "", Server, "the provider answered with HTTP status 408 and no message", None),
        (413, "too big", ContextOverflow, "too big", None),
        (502, "bad gateway", Server, "bad gateway", None),
        (503, "{}", Overloaded, "the provider answered with HTTP status 503 and no message", None),
        (504, "null", Server, "null", None),
        (302, "", UnexpectedContent, "the provider answered with HTTP status 302 and no message", None),
    ];
    for (status, body, kind, message, code) in table {
        let e = failure(status, body).classify();
        assert_eq!((e.kind, e.message.as_str(), e.code.as_deref()), (kind, message, code), "{status} {body}");
        assert_eq!((e.status, e.provider.as_deref()), (Some(status), Some("p")));
    }
}

#[test]
fn fault_e23_html_is_unexpected_content_when_it_claims_success() {
    for (status, kind) in [(200, UnexpectedContent), (403, PermissionDenied), (502, Server)] {
        for body in ["<html>", "\n <!DOCTYPE html>"] {
            assert_eq!(failure(status, body).classify().kind, kind);
        }
        let by_type = HttpFailure { content_type: Some("Text/HTML; charset=utf-8"), ..failure(status, "x") };
        assert_eq!(by_type.classify().kind, kind);
    }
    assert_eq!(failure(200, r#"{"error":{"code":503,"message":"M"}}"#).classify().kind, Overloaded);
}

#[test]
fn fault_r7_98_retry_after_is_honoured_as_seconds_date_and_milliseconds() {
    let advice = |status, retry_after, retry_after_ms| {
        HttpFailure { retry_after, retry_after_ms, ..failure(status, "{}") }.classify().retry
    };
    let after = |ms| RetryAdvice::After(Duration::from_millis(ms));
    assert_eq!(advice(429, Some(" 2 "), None), after(2000));
    assert_eq!(advice(503, Some("0.5"), None), after(500));
    assert_eq!(advice(429, Some("Thu, 01 Jan 2026 00:01:30 GMT"), None), after(90_000));
    assert_eq!(advice(429, Some("Wed, 31 Dec 2025 00:00:00 GMT"), None), after(0));
    assert_eq!(advice(429, Some("2"), Some("1500")), after(1500));
    for nonsense in ["soon", "-1", "NaN", "1e300", ""] {
        assert_eq!(advice(429, Some(nonsense), None), RetryAdvice::Backoff, "{nonsense}");
    }
    assert_eq!(advice(400, Some("2"), None), RetryAdvice::Never);
    let quota = r#"{"error":{"code":"insufficient_quota"}}"#;
    let quota = HttpFailure { retry_after: Some("2"), ..failure(429, quota) };
    assert_eq!(quota.classify().retry, RetryAdvice::Never);
    let in_body = r#"{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"39.5s"}]}}"#;
    assert_eq!(failure(429, in_body).classify().retry, after(39_500));
}

#[test]
fn messages_are_capped_on_a_character_and_hold_no_keys() {
    let long = format!(r#"{{"error":"{}"}}"#, "é".repeat(9000));
    let message = failure(500, &long).classify().message;
    assert_eq!(message.chars().count(), MAX_MESSAGE_CHARS + 1);
    let e = failure(401, r#"{"error":"bad key: 'sk-abcDEF123456', Authorization: Bearer abc.def\nnext"}"#)
        .classify();
    assert_eq!(e.message, "bad key: '[redacted]', Authorization: Bearer [redacted] next");
    let huge = vec![b'x'; 10 * MAX_BODY_BYTES];
    let huge = HttpFailure { body: &huge, ..failure(500, "") }.classify();
    assert!(huge.message.len() < 600);
}

#[test]
fn a_name_in_a_header_says_more_than_the_body() {
    for (name, kind, code) in [
        ("ThrottlingException:http://internal.test/", RateLimited, "ThrottlingException"),
        ("com.amazon.coral#AccessDeniedException", PermissionDenied, "AccessDeniedException"),
        ("ModelErrorException", Server, "ModelErrorException"),
        (" ", InvalidRequest, "bad"),
    ] {
        let body = r#"{"code":"bad","message":"M"}"#;
        let e = HttpFailure { error_type: Some(name), ..failure(400, body) }.classify();
        assert_eq!((e.kind, e.code.as_deref(), e.message.as_str()), (kind, Some(code), "M"), "{name}");
    }
}

#[test]
fn fault_e21_r1_27_r7_97_an_error_inside_a_stream_needs_no_status() {
    let table = [
        (r#"{"error":{"code":502,"message":"M"}}"#, Server, Some(502)),
        (r#"{"error":{"code":429,"message":"M"}}"#, RateLimited, Some(429)),
        (r#"{"error":{"code":"server_error","message":"M"},"choices":[]}"#, Server, None),
        (r#"{"type":"error","error":{"type":"overloaded_error","message":"M"}}"#, Overloaded, None),
        (r#"{"type":"error","error":{"type":"invalid_request_error","message":"M"}}"#, InvalidRequest, None),
        (r#"{"object":"error","message":"M","code":400}"#, InvalidRequest, Some(400)),
        (r#"{"code":"validationException","message":"M"}"#, InvalidRequest, None),
        (r#"{"code":"accessDeniedException","message":"M"}"#, PermissionDenied, None),
        (r#"{"__type":"com.amazon.coral#ServiceUnavailableException","Message":"M"}"#, Overloaded, None),
        ("M", Server, None),
    ];
    for (body, kind, status) in table {
        let e = in_stream("p", body.as_bytes(), &Secrets::default());
        assert_eq!((e.kind, e.message.as_str(), e.status), (kind, "M", status), "{body}");
    }
    assert!(!in_stream("p", b"", &Secrets::default()).message.is_empty());
    assert_eq!(in_stream("p", b"<html>", &Secrets::default()).kind, UnexpectedContent);
}

#[test]
fn labels_and_statuses_come_before_words() {
    let wait = "Too many tokens, please wait before trying again.";
    let table = [
        (429, "ThrottlingException", wait, RateLimited),
        (429, "", wait, RateLimited),
        (429, "", "Too many tokens in this request; reduce it and try again", ContextOverflow),
        (413, "rate_limit_exceeded", "Request too large. Reduce it and try again", ContextOverflow),
        (401, "authentication_error", "the long context window is not for this key", Authentication),
        (401, "", "the long context window is not for this key", Authentication),
        (404, "", "no model with a 128k context window", NotFound),
        (400, "model_not_found", "no model with a 128k context window", NotFound),
        (403, "", "your plan has no long context window", PermissionDenied),
        (500, "server_error", "the prompt is too long", ContextOverflow),
        (401, "api_error", "M", Authentication),
        (429, "internal_error", "M", RateLimited),
        (403, "provider_error", "M", PermissionDenied),
        (404, "cancelled", "M", NotFound),
        (400, "timeout", "M", InvalidRequest),
        (503, "server_error", "M", Server),
        (502, "internal_whatever", "M", Server),
    ];
    for (status, code, message, kind) in table {
        let body = serde_json::json!({ "error": { "code": code, "message": message } }).to_string();
        let error = failure(status, &body).classify();
        assert_eq!(error.kind, kind, "{status} {body}");
    }
    let throttled = format!(r#"{{"code":"ThrottlingException","message":"{wait}"}}"#);
    assert!(failure(429, &throttled).classify().is_retryable());
    let error = in_stream("p", throttled.as_bytes(), &Secrets::default());
    assert_eq!(error.kind, RateLimited);
    let generic_first = r#"{"error":{"code":"api_error","type":"rate_limit_error","message":"M"}}"#;
    assert_eq!(in_stream("p", generic_first.as_bytes(), &Secrets::default()).kind, RateLimited);
}

#[test]
fn a_wait_longer_than_a_day_is_a_day() {
    let advice = |retry_after, retry_after_ms| {
        HttpFailure { retry_after, retry_after_ms, ..failure(429, "{}") }.classify().retry
    };
    let day = RetryAdvice::After(MAX_RETRY_AFTER);
    assert_eq!(advice(Some("99999999"), None), day);
    assert_eq!(advice(None, Some("99999999999")), day);
    assert_eq!(advice(Some("Thu, 01 Jan 2099 00:00:00 GMT"), None), day);
    let in_body = r#"{"error":{"status":"RESOURCE_EXHAUSTED","details":[{"retryDelay":"9999999s"}]}}"#;
    assert_eq!(failure(429, in_body).classify().retry, day);
}

#[test]
fn no_part_of_a_secret_is_left_by_a_cut_and_keys_go_whole() {
    let secrets = Secrets::new(["Token zzz/secret+0123456789=="]);
    let classify =
        |status, body: &str| HttpFailure { secrets: &secrets, ..failure(status, body) }.classify().message;
    for before in 480..=MAX_MESSAGE_CHARS {
        let message = format!("{} zzz/secret+0123456789== after", "x".repeat(before));
        let quoted = serde_json::json!({ "error": message }).to_string();
        for body in [&message, &quoted, &quoted.replace('/', "\\/").replace('+', "\\u002b")] {
            assert!(!classify(401, body).contains("zzz"), "{before}: {body}");
        }
    }
    let late = format!("{}zzz/secret+0", " ".repeat(MAX_BODY_BYTES - 12));
    assert!(!classify(500, &late).contains("zzz"), "the body is cut in the midst of it");
    assert_eq!(
        classify(401, "key sk-abc/DEF+123456=, Bearer abc/def+ghi at https://h/x"),
        "key [redacted], Bearer [redacted] at https://h/x"
    );
}
