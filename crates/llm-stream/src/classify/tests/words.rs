//! What only the words of an error tell.

use super::*;

#[test]
fn too_large_a_request_and_an_empty_purse_are_known_by_the_words_of_each_provider() {
    let table = [
        (
            400,
            "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
            ContextOverflow,
        ),
        (400, "The prompt (length 9000) is longer than the maximum model length of 8192.", ContextOverflow),
        (400, "Your request exceeded model token limit: 262144 (requested: 291351)", ContextOverflow),
        (400, "<400> InternalError.Algo: Range of input length should be [1, 129024]", ContextOverflow),
        (400, "Prompt exceeds max length", ContextOverflow),
        (400, "prompt token count of 130000 exceeds the limit of 128000", ContextOverflow),
        (400, "Input length 9 exceeds the maximum allowed input length of 8 tokens", ContextOverflow),
        (
            400,
            "Number of input tokens exceeds maximum length. Please update the input to try again.",
            ContextOverflow,
        ),
        (400, "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000", ContextOverflow),
        (400, "Your credit balance is too low to access the API.", QuotaExceeded),
        (429, "Insufficient balance or no resource package. Please recharge.", QuotaExceeded),
        (400, "stop: too many", InvalidRequest),
    ];
    for (status, message, kind) in table {
        let body = serde_json::json!({ "error": { "type": "invalid_request_error", "message": message } });
        assert_eq!(failure(status, &body.to_string()).classify().kind, kind, "{message}");
    }
    let spent = r#"{"error":{"type":"usage_limit_reached","message":"M","resets_in_seconds":9}}"#;
    assert_eq!(failure(429, spent).classify().kind, QuotaExceeded);
    for (code, kind) in [
        ("image_parse_error", InvalidRequest),
        ("image_content_policy_violation", ContentFilter),
        ("empty_image_file", InvalidRequest),
    ] {
        let body = format!(r#"{{"type":"error","code":"{code}","message":"M"}}"#);
        assert_eq!(in_stream("p", body.as_bytes(), &Secrets::default()).kind, kind, "{code}");
    }
}

#[test]
fn fault_r7_98_a_wait_that_only_the_words_name_is_kept_and_a_header_wins() {
    let after = |ms| RetryAdvice::After(Duration::from_millis(ms));
    for (words, advice) in [
        ("Rate limit reached. Please try again in 11.054s. Visit x", after(11_054)),
        ("Please try again in 28ms.", after(28)),
        ("Please try again in 1m2.5s, or upgrade", after(62_500)),
        ("Please retry after 60 seconds.", after(60_000)),
        ("Please retry in 39.5s.", after(39_500)),
        ("Please try again in a while", RetryAdvice::Backoff),
        ("Please try again in 5", RetryAdvice::Backoff),
        ("Please try again in 99999999999999999999s", RetryAdvice::Backoff),
        ("Please try again in -5s", RetryAdvice::Backoff),
        ("Please try again in ", RetryAdvice::Backoff),
    ] {
        let body = serde_json::json!({ "code": "rate_limit_exceeded", "message": words }).to_string();
        assert_eq!(in_stream("p", body.as_bytes(), &Secrets::default()).retry, advice, "{words}");
    }
    let body = r#"{"error":{"code":"rate_limit_exceeded","message":"try again in 9s"}}"#;
    let error = HttpFailure { retry_after: Some("2"), ..failure(429, body) }.classify();
    assert_eq!(error.retry, after(2000));
    assert_eq!(failure(400, r#"{"error":"bad, try again in 9s"}"#).classify().retry, RetryAdvice::Never);
}

#[test]
fn an_id_that_is_too_long_is_no_reason_to_shorten_the_conversation() {
    for (limit, kind) in
        [("40, but got 41", InvalidRequest), ("10485760, but got", ContextOverflow), ("", InvalidRequest)]
    {
        let message = format!("string too long. Expected a string with maximum length {limit}");
        let body = serde_json::json!({ "error": { "code": "string_above_max_length", "message": message } });
        assert_eq!(failure(400, &body.to_string()).classify().kind, kind, "{message}");
    }
}
