//! What one event may cost.

use super::*;
use crate::wire::MAX_LABEL_BYTES;

fn kind_of(body: &str) -> Option<ErrorKind> {
    let out = decode_with(ChatDecoder::new("p"), [body.as_bytes()]);
    assemble(out).error.map(|error| error.kind)
}

/// A list of so many of these items.
fn list(item: &str, count: usize) -> String {
    format!("[{}]", vec![item; count].join(","))
}

#[test]
fn a_list_of_too_many_items_is_a_typed_error_wherever_it_stands() {
    let deltas = |delta: &str, count: usize| match delta {
        "choices" => list("{}", count),
        "calls" => format!(r#"[{{"delta":{{"tool_calls":{}}}}}]"#, list("{}", count)),
        "details" => format!(r#"[{{"delta":{{"reasoning_details":{}}}}}]"#, list("{}", count)),
        "content" => format!(r#"[{{"delta":{{"content":{}}}}}]"#, list("{}", count)),
        "thoughts" => format!(r#"[{{"delta":{{"content":[{{"thinking":{}}}]}}}}]"#, list("{}", count - 1)),
        "message" => format!(r#"[{{"message":{{"tool_calls":{}}}}}]"#, list("{}", count)),
        "calls of two choices" => {
            let choice = |count| format!(r#"{{"delta":{{"tool_calls":{}}}}}"#, list("{}", count));
            format!("[{},{}]", choice(count / 2), choice(count - count / 2))
        }
        _ => {
            let choice = |count| format!(r#"{{"delta":{{"reasoning_details":{}}}}}"#, list("{}", count));
            format!("[{},{}]", choice(count / 2), choice(count - count / 2))
        }
    };
    for place in [
        "choices",
        "calls",
        "details",
        "content",
        "thoughts",
        "message",
        "calls of two choices",
        "details of two choices",
    ] {
        let body = |count| format!("data: {{\"choices\":{}}}\n\ndata: [DONE]\n\n", deltas(place, count));
        assert_eq!(kind_of(&body(4096)), None, "{place}");
        assert_eq!(kind_of(&body(4097)), Some(ErrorKind::TooLarge), "{place}");
    }
}

#[test]
fn an_event_of_millions_of_empty_items_is_refused_at_once() {
    #[expect(clippy::disallowed_methods, reason = "a test that measures")]
    let started = std::time::Instant::now();
    let items = list("{}", 1_000_000);
    for body in [
        format!("data: {{\"choices\":{items}}}\n\n"),
        format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":{items}}}}}]}}\n\n"),
        format!("data: {{\"choices\":[{{\"delta\":{{\"reasoning_details\":{items}}}}}]}}\n\n"),
    ] {
        assert_eq!(kind_of(&body), Some(ErrorKind::TooLarge));
    }
    assert!(started.elapsed().as_secs() < 10, "{:?}", started.elapsed());
}

#[test]
fn ids_and_names_have_a_cap_and_copies_of_an_id_are_told_apart() {
    let long = "x".repeat(MAX_LABEL_BYTES);
    let too_long = format!("{long}x");
    let stream = |id: &str, name: &str| call_stream(&[piece(json!(0), json!(id), json!(name), json!("{}"))]);
    assert_eq!(kind_of(&stream(&long, &long)), None);
    assert_eq!(kind_of(&stream(&too_long, "f")), Some(ErrorKind::TooLarge));
    assert_eq!(kind_of(&stream("x", &too_long)), Some(ErrorKind::TooLarge));

    let pieces: Vec<Value> =
        (0..1024).map(|n| piece(json!(n), json!(long), json!("f"), json!("{}"))).collect();
    let body = finished(&[json!({ "tool_calls": pieces })], "tool_calls");
    let response = assemble(decode_with(ChatDecoder::new("p"), [body.as_bytes()]));
    let last = response.tool_calls().last().unwrap();
    assert_eq!(last.id.as_str(), format!("{long}_1024"));
}
