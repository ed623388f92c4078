//! How an answer ends, and how it breaks off.

use super::*;

#[test]
fn fault_d1_e8_r1_9_without_a_stop_reason_an_answer_is_truncated() {
    let whole = said("a");
    let told = whole.find("event: message_stop").unwrap();
    let reason_ends = whole[..told].trim_end().len();
    for cut in 0..reason_ends {
        let out = decode_with(MessagesDecoder::new("p"), [&whole.as_bytes()[..cut]]);
        let error = assemble(out).error.unwrap();
        assert_eq!(error.kind, ErrorKind::Truncated, "cut at {cut}");
        assert!(error.is_retryable());
    }
    for cut in reason_ends..whole.len() {
        assert_eq!(answer(&whole[..cut]).finish_reason, Some(FinishReason::Stop), "cut at {cut}");
    }
    let response = answer(&whole[..whole.find("event: message_delta").unwrap()]);
    assert_eq!(response.text(), "a", "and what came is kept");
    assert!(response.usage.partial, "F9");
}

#[test]
fn fault_e6_the_reason_is_known_before_the_end() {
    let (mut decoder, mut out) = (MessagesDecoder::new("p"), Vec::new());
    let body = started() + &text(0, "a");
    decoder.feed(body.as_bytes(), &mut out);
    assert!(!decoder.finish_seen());
    decoder.feed(stopped("end_turn").as_bytes(), &mut out);
    assert!(decoder.finish_seen() && !decoder.is_done());
    let progress = decoder.progress();
    decoder.feed(b"event: ping\ndata: {\"type\":\"ping\"}\n\n", &mut out);
    assert_eq!(decoder.progress(), progress, "a ping is none");
}

#[test]
fn fault_r1_10_an_answer_that_goes_on_is_not_finished() {
    let body = started() + &text(0, "a") + &stopped("end_turn") + &text(0, "b");
    let (mut decoder, mut out) = (MessagesDecoder::new("p"), Vec::new());
    decoder.feed(body.as_bytes(), &mut out);
    assert!(!decoder.finish_seen());
    assert_eq!(error_kind(&body), ErrorKind::Truncated);
    let response = answer(&(body.clone() + &over()));
    assert_eq!((response.text().as_str(), response.finish_reason), ("ab", Some(FinishReason::Stop)));
    let response = answer(&(body.replace("end_turn", "max_tokens") + &stopped("end_turn")));
    assert_eq!(response.finish_reason, Some(FinishReason::Length), "a cut is not forgotten");
}

#[test]
fn fault_e7_r1_7_r1_19_nothing_follows_the_end() {
    let mark = "event: data\ndata: [ DONE ]\n\n";
    let without = started() + &text(0, "a");
    for (body, kind) in [
        (said("a"), None),
        (without.clone() + &stopped("end_turn") + mark, None),
        (without + mark, Some(ErrorKind::Truncated)),
    ] {
        let (mut decoder, mut out) = (MessagesDecoder::new("p"), Vec::new());
        decoder.feed(body.as_bytes(), &mut out);
        assert!(decoder.is_done(), "without waiting for the end of the body");
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
fn fault_r2_35_every_reason_is_told_and_an_empty_answer_is_no_failure() {
    for (word, reason) in [
        ("end_turn", FinishReason::Stop),
        ("max_tokens", FinishReason::Length),
        ("refusal", FinishReason::Refusal),
        ("of a later version", FinishReason::Other),
    ] {
        let response = answer(&(started() + &stopped(word) + &over()));
        assert_eq!(
            (response.finish_reason, response.raw_finish_reason.as_deref()),
            (Some(reason), Some(word))
        );
        assert!(response.is_empty());
    }
    let response = answer(&(started() + &text(0, "a") + &over()));
    assert_eq!((response.finish_reason, response.raw_finish_reason), (Some(FinishReason::Stop), None));
}

#[test]
fn fault_e21_e24_r1_27_r1_32_an_error_inside_the_stream_is_a_failure_of_its_kind() {
    let error =
        |kind: &str| event("error", json!({ "error": { "type": kind, "message": "M" }, "request_id": "q" }));
    let table = [
        (error("overloaded_error"), ErrorKind::Overloaded),
        (error("rate_limit_error"), ErrorKind::RateLimited),
        (error("api_error"), ErrorKind::Server),
        (error("authentication_error"), ErrorKind::Authentication),
        (error("request_too_large"), ErrorKind::ContextOverflow),
        (error("invalid_request_error"), ErrorKind::InvalidRequest),
        (error("overloaded_error").replace("event: error\n", ""), ErrorKind::Overloaded),
        (
            format!("data: {}\n\n", json!({ "error": { "code": 429, "message": "M" } })),
            ErrorKind::RateLimited,
        ),
        ("event: error\ndata: M\n\n".to_owned(), ErrorKind::Server),
        (
            json!({ "type": "error", "error": { "type": "overloaded_error", "message": "M" } }).to_string(),
            ErrorKind::Overloaded,
        ),
        (json!({ "detail": "M" }).to_string(), ErrorKind::Server),
        ("data: [\"M\"]\n\n".to_owned(), ErrorKind::Server),
    ];
    for (end, kind) in table {
        let response = answer(&(started() + &text(0, "a") + &end));
        assert_eq!(response.text(), "a", "with what came before");
        let error = response.error.unwrap();
        assert_eq!((error.kind, error.message.as_str()), (kind, "M"), "{end}");
        assert_eq!(error.provider.as_deref(), Some("p"));
    }
    for (silent, kind) in [
        ("event: error\n\n".to_owned(), ErrorKind::Server),
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
    let out = decode_with(MessagesDecoder::new("p"), [&broken[..]]);
    assert_eq!(assemble(out).error.map(|e| e.kind), Some(ErrorKind::Decode));
}

#[test]
fn errors_hold_no_secrets_and_the_usage_of_a_failed_answer_is_told() {
    let head = event("message_start", json!({ "message": { "usage": { "input_tokens": 5 } } }));
    let body = head + &event("error", json!({ "error": { "message": "bad key zzz/secret+0123" } }));
    let decoder = MessagesDecoder::new("p").redacting(Secrets::new(["zzz/secret+0123"]));
    let response = assemble(decode_with(decoder, [body.as_bytes()]));
    assert_eq!(response.error.unwrap().message, "bad key [redacted]");
    assert_eq!((response.usage.input_tokens, response.usage.partial), (Some(5), true));
}

#[test]
fn fault_e25_a_second_answer_in_the_stream_is_an_error() {
    let other = started().replace("\"r\"", "\"r2\"");
    assert_eq!(error_kind(&(started() + &text(0, "a") + &started())), ErrorKind::Protocol);
    assert_eq!(error_kind(&(started() + &other)), ErrorKind::Protocol);
    assert_eq!(answer(&(started() + &said("a"))).text(), "a", "while nothing was said it is the same");
}

#[test]
fn fault_e5_a_ping_may_say_what_it_likes() {
    let pings = "event: ping\ndata: pong\n\nevent: heartbeat\ndata: 7\n\nevent: keepalive\ndata\n\n";
    let body = started()
        + pings
        + &event("message_delta", json!({ "delta": { "stop_reason": "end_turn" } }))
        + pings;
    let response = answer(&body);
    assert_eq!((response.error, response.finish_reason), (None, Some(FinishReason::Stop)));
}
