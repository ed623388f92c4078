//! Errors in the stream and in its place.

use turnwright_core::RetryAdvice;

use super::*;

fn exception(kind: &str, payload: &str) -> Vec<u8> {
    let headers = [
        (":exception-type", HeaderValue::Text(kind)),
        (":content-type", HeaderValue::Text("application/json")),
        (":message-type", HeaderValue::Text("exception")),
    ];
    encode::message(&headers, payload.as_bytes())
}

fn error(code: &str, message: &str) -> Vec<u8> {
    let headers = [
        (":message-type", HeaderValue::Text("error")),
        (":error-code", HeaderValue::Text(code)),
        (":error-message", HeaderValue::Text(message)),
    ];
    encode::message(&headers, b"")
}

/// Written by hand after the vendor's documentation: no recording has such a message.
#[test]
fn fault_e21_r1_27_r7_97_an_error_in_the_stream_is_one_failure_after_what_came() {
    let plain = r#"{"message":"M"}"#;
    let table = [
        (exception("throttlingException", plain), ErrorKind::RateLimited),
        (exception("serviceUnavailableException", plain), ErrorKind::Overloaded),
        (exception("internalServerException", plain), ErrorKind::Server),
        (exception("modelStreamErrorException", plain), ErrorKind::Server),
        (exception("modelTimeoutException", plain), ErrorKind::Server),
        (exception("validationException", plain), ErrorKind::InvalidRequest),
        (
            exception("validationException", r#"{"message":"Input is too long for requested model."}"#),
            ErrorKind::ContextOverflow,
        ),
        (exception("accessDeniedException", plain), ErrorKind::PermissionDenied),
        (exception("expiredTokenException", plain), ErrorKind::Authentication),
        (exception("resourceNotFoundException", plain), ErrorKind::NotFound),
        (exception("serviceQuotaExceededException", plain), ErrorKind::QuotaExceeded),
        (exception("modelNotReadyException", plain), ErrorKind::Overloaded),
        (exception("exceptionOfNextYear", plain), ErrorKind::Server),
        (exception("throttlingException", "no JSON"), ErrorKind::RateLimited),
        (exception("throttlingException", ""), ErrorKind::RateLimited),
        (exception("", r#"{"Message":"M"}"#), ErrorKind::Server),
        (encode::message(&[(":message-type", HeaderValue::Text("exception"))], b"[]"), ErrorKind::Server),
        (error("ThrottlingException", "M"), ErrorKind::RateLimited),
        (error("InternalError", "M"), ErrorKind::Server),
        (error("503", "M"), ErrorKind::Overloaded),
        (encode::message(&[(":message-type", HeaderValue::Text("error"))], b""), ErrorKind::Server),
    ];
    for (message, kind) in table {
        let response = answer(&[start(), text("a"), message, stop("end_turn"), metadata()].concat());
        let failure = response.error.clone().expect("a failure");
        assert_eq!((failure.kind, failure.provider.as_deref()), (kind, Some("p")), "{failure}");
        assert!(!failure.message.is_empty());
        assert_eq!(response.text(), "a");
    }
}

#[test]
fn the_model_servers_own_words_and_status_are_kept() {
    let payload = r#"{"message":"The model failed.","originalStatusCode":429,"originalMessage":"slow down"}"#;
    let failure = answer(&exception("modelStreamErrorException", payload)).error.expect("a failure");
    assert_eq!((failure.kind, failure.status), (ErrorKind::RateLimited, Some(429)));
    assert_eq!(failure.message, "The model failed.: slow down");
    assert_eq!(failure.code.as_deref(), Some("modelStreamErrorException"));
    assert_eq!(failure.retry, RetryAdvice::Backoff);
}

#[test]
fn secrets_are_taken_out_of_what_the_stream_reports() {
    let body = exception("validationException", r#"{"message":"the key hunter2-hunter2 is odd"}"#);
    let decoder = ConverseDecoder::new("p").redacting(Secrets::new(["hunter2-hunter2"]));
    let failure = assemble(decode_with(decoder, [&body[..]])).error.expect("a failure");
    assert!(!failure.message.contains("hunter2"), "{failure}");
}

#[test]
fn fault_e23_a_json_or_html_body_in_place_of_a_stream() {
    let table = [
        (r#"{"message":"M"}"#, ErrorKind::Server),
        (" \r\n{\"__type\":\"com.amazon#ThrottlingException\",\"Message\":\"M\"}\n", ErrorKind::RateLimited),
        (r#"{"error":{"message":"M","code":"invalid_api_key"}}"#, ErrorKind::Authentication),
        (r#"[{"error":{"code":429,"message":"M"}}]"#, ErrorKind::RateLimited),
        ("<!DOCTYPE html>\n<html></html>", ErrorKind::UnexpectedContent),
        ("{\"message\": \"cut", ErrorKind::Server),
        ("", ErrorKind::Truncated),
        (" \n", ErrorKind::Truncated),
        ("\nupstream failed", ErrorKind::Decode),
        ("upstream failed", ErrorKind::Decode),
    ];
    for (body, kind) in table {
        assert_eq!(kind_of(&answer(body.as_bytes())), Some(kind), "{body}");
    }
    let message = answer(b"{\"message\":\"M\"}").error.expect("a failure").message;
    assert_eq!(message, "M");
    let endless = vec![b'['; 200_000];
    let whole = decode_with(ConverseDecoder::new("p"), [&endless[..]]);
    assert_eq!(decode_with(ConverseDecoder::new("p"), endless.chunks(999)), whole);
    let mut decoder = ConverseDecoder::new("p");
    endless.chunks(999).for_each(|chunk| decoder.feed(chunk, &mut Vec::new()));
    assert!(decoder.is_done() && decoder.progress() <= MAX_BODY_BYTES as u64);
}

#[test]
fn a_wrong_checksum_or_a_broken_payload_is_one_decode_failure_that_does_not_quote_it() {
    let whole = finished(&[text("secret garbage")], "end_turn");
    let before = start().len();
    for at in [before, before + 9, before + 20, before + text("secret garbage").len() - 1] {
        let mut wrong = whole.clone();
        wrong[at] ^= 1;
        assert_eq!(kind_of(&answer(&wrong)), Some(ErrorKind::Decode), "byte {at}");
    }
    for payload in [
        &b"secret garbage"[..],
        b"{\"delta\": {\"text\"",
        b"7",
        b"[]",
        b"null",
        b"",
        b"{\"delta\":7}",
        b"{\"delta\":{\"text\":\"\xFF\"}}",
    ] {
        let response = answer(&[text("a"), event_bytes("contentBlockDelta", payload), text("b")].concat());
        let failure = response.error.clone().expect("a failure");
        assert_eq!((failure.kind, response.text().as_str()), (ErrorKind::Decode, "a"), "{failure}");
        assert!(!failure.message.contains("secret"), "{failure}");
        assert_eq!(failure.provider.as_deref(), Some("p"));
    }
}

#[test]
fn a_message_larger_than_the_limit_is_refused_by_its_prelude() {
    let body = [text("a"), encode::prelude(u32::MAX, 0)].concat();
    let response = answer(&body);
    assert_eq!((kind_of(&response), response.text().as_str()), (Some(ErrorKind::TooLarge), "a"));
}
