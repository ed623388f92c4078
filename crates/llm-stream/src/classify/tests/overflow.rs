//! Requests that are too large: told from those that may be sent later, and with their figures.

use turnwright_core::ContextSize;

use super::*;

fn size(needed: u64, limit: u64) -> Option<Box<ContextSize>> {
    Some(Box::new(ContextSize { needed: Some(needed), limit: Some(limit), excess: Some(needed - limit) }))
}

#[test]
fn the_figures_come_with_the_error_over_http_and_inside_a_stream() {
    let llama = r#"{"error":{"code":400,"message":"M","type":"exceed_context_size_error","n_ctx":512,"n_prompt_tokens":2009}}"#;
    let anthropic = r#"{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 205000 tokens > 200000 maximum"}}"#;
    let openai = r#"{"error":{"message":"This model's maximum context length is 8192 tokens. However, your messages resulted in 10000 tokens.","type":"invalid_request_error","code":"context_length_exceeded"}}"#;
    let router = r#"{"error":{"code":400,"message":"Provider returned error","metadata":{"provider_name":"P","raw":"{\"type\":\"error\",\"error\":{\"type\":\"invalid_request_error\",\"message\":\"prompt is too long: 205000 tokens > 200000 maximum\"}}"}}}"#;
    let table = [
        (llama, size(2009, 512)),
        (anthropic, size(205_000, 200_000)),
        (openai, size(10_000, 8192)),
        (router, size(205_000, 200_000)),
    ];
    for (body, context) in table {
        for error in [failure(400, body).classify(), in_stream("p", body.as_bytes(), &Secrets::default())] {
            assert_eq!((error.kind, &error.context), (ContextOverflow, &context), "{body}");
            assert_eq!(error.retry, RetryAdvice::Never);
            let json = serde_json::to_string(&error).unwrap();
            assert_eq!(serde_json::from_str::<ErrorInfo>(&json).unwrap(), error);
        }
    }
    let other = r#"{"error":{"message":"max_tokens is too large: 10000 tokens, maximum is 8192","code":"invalid_value"}}"#;
    assert_eq!(failure(400, other).classify().context, None, "no figures with another kind");
}

#[test]
fn a_request_that_is_too_large_is_not_one_that_may_be_sent_later() {
    let typed =
        |kind: &str, message: &str| format!(r#"{{"error":{{"type":"{kind}","message":"{message}"}}}}"#);
    let too_large = [
        "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input length or `max_tokens` and try again",
        "This model's maximum prompt length is 131072 but the request contains 200000 tokens.",
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens and 100 `max_new_tokens`",
        "Input tokens exceed the configured limit of 272000 tokens. Your messages resulted in 300000 tokens.",
        "The context window is full, please try again with a new conversation",
    ];
    for message in too_large {
        let body = typed("invalid_request_error", message);
        assert_eq!(failure(400, &body).classify().kind, ContextOverflow, "{message}");
        assert_eq!(in_stream("p", body.as_bytes(), &Secrets::default()).kind, ContextOverflow, "{message}");
    }
    let later =
        ["Too many tokens, please wait before trying again.", "Too many tokens per minute, try again in 5s"];
    for message in later {
        for body in [typed("rate_limit_error", message), typed("", message)] {
            assert_eq!(failure(429, &body).classify().kind, RateLimited, "{body}");
        }
        let error = in_stream("p", typed("rate_limit_error", message).as_bytes(), &Secrets::default());
        assert_eq!(error.kind, RateLimited, "{message}");
    }
}

#[test]
fn fault_r7_98_a_wait_in_words_counts_where_no_data_says_it_and_never_for_what_is_final() {
    let after = |ms| RetryAdvice::After(Duration::from_millis(ms));
    let limited = r#"{"type":"error","error":{"code":"rate_limit_exceeded","message":"Rate limit reached. Please try again in 11.054s."}}"#;
    assert_eq!(in_stream("p", limited.as_bytes(), &Secrets::default()).retry, after(11_054));
    assert_eq!(failure(429, limited).classify().retry, after(11_054));
    let header = HttpFailure { retry_after: Some("3"), ..failure(429, limited) };
    assert_eq!(header.classify().retry, after(3000), "the header counts more");
    let final_one = r#"{"error":{"code":"insufficient_quota","message":"try again in 5s"}}"#;
    assert_eq!(failure(429, final_one).classify().retry, RetryAdvice::Never);
}

#[test]
fn an_error_that_a_router_passes_on_is_read_in_its_place() {
    let body = |raw: serde_json::Value| {
        serde_json::json!({ "error": { "code": 429, "message": "Provider returned error", "metadata": { "raw": raw } } }).to_string()
    };
    let table = [
        (serde_json::json!("upstream is busy"), RateLimited, "Provider returned error: upstream is busy"),
        (
            serde_json::json!({ "error": { "message": "M", "code": "insufficient_quota" } }),
            QuotaExceeded,
            "Provider returned error: M",
        ),
        (serde_json::json!("{\"error\":{\"code\":\"overloaded\"}}"), Overloaded, "Provider returned error"),
        (serde_json::json!(null), RateLimited, "Provider returned error"),
        (serde_json::json!([]), RateLimited, "Provider returned error"),
    ];
    for (raw, kind, message) in table {
        let error = failure(429, &body(raw.clone())).classify();
        assert_eq!((error.kind, error.message.as_str()), (kind, message), "{raw}");
    }
    let secrets = Secrets::new(["abcdefgh12345678"]);
    let leaky = body(serde_json::json!("{\"error\":\"bad key abcdefgh1234567\\u0038\"}"));
    let error = HttpFailure { secrets: &secrets, ..failure(429, &leaky) }.classify();
    assert!(!error.message.contains("abcdefgh"), "{error}");
}
