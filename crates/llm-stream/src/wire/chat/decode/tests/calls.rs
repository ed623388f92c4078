//! Tool calls.

use super::*;

fn calls(body: &str) -> Vec<(String, String, String)> {
    let items = items(body);
    let mut shown: Vec<(String, String, String)> = Vec::new();
    for item in &items {
        match item {
            StreamItem::Progress(ToolProgress::Started { id, name }) => {
                shown.push((id.to_string(), name.clone(), String::new()));
            }
            StreamItem::Progress(ToolProgress::Arguments { id, fragment }) => {
                assert!(!fragment.is_empty());
                let call = shown.iter_mut().find(|call| call.0 == id.as_str());
                call.expect("a start before the arguments").2.push_str(fragment);
            }
            StreamItem::Event(_) => {}
        }
    }
    let response = assemble(items);
    assert_eq!(response.error, None, "{body}");
    let complete: Vec<_> =
        response.tool_calls().map(|c| (c.id.to_string(), c.name.clone(), c.arguments.clone())).collect();
    // R1.1, R1.3, R1.4: a start before the fragments, and the fragments are the arguments.
    let sorted = |mut calls: Vec<(String, String, String)>| {
        calls.sort();
        calls
    };
    assert_eq!(sorted(shown), sorted(complete.clone()), "{body}");
    complete
}

/// A piece of a call; what is "absent" is left out.
pub(super) fn piece(index: Value, id: Value, name: Value, arguments: Value) -> Value {
    let object = |fields: Vec<(&str, Value)>| {
        let present = fields.into_iter().filter(|(_, value)| *value != json!("absent"));
        Value::Object(present.map(|(name, value)| (name.to_owned(), value)).collect())
    };
    let function = object(vec![("name", name), ("arguments", arguments)]);
    object(vec![("index", index), ("id", id), ("function", function)])
}

/// One piece a chunk.
pub(super) fn call_stream(pieces: &[Value]) -> String {
    let deltas: Vec<Value> = pieces.iter().map(|piece| json!({ "tool_calls": [piece] })).collect();
    finished(&deltas, "tool_calls")
}

fn expect_calls(pieces: &[Value], expected: &[(&str, &str, &str)]) {
    let expected: Vec<_> =
        expected.iter().map(|(id, name, args)| ((*id).into(), (*name).into(), (*args).into())).collect();
    assert_eq!(calls(&call_stream(pieces)), expected, "one piece a chunk: {pieces:?}");
    let together = finished(&[json!({ "tool_calls": pieces })], "tool_calls");
    assert_eq!(calls(&together), expected, "all in one chunk: {pieces:?}");
    // The finish reason on the chunk of the last piece.
    let choice = json!({ "index": 0, "delta": { "tool_calls": pieces }, "finish_reason": "tool_calls" });
    assert_eq!(calls(&sse(&[json!({ "choices": [choice] })])), expected);
}

#[test]
fn fault_e15_all_calls_labelled_index_0_stay_apart() {
    let a = || json!("absent");
    let two = [("x", "f", "{\"a\":1}"), ("y", "g", "{}")];
    expect_calls(
        &[
            piece(json!(0), json!("x"), json!("f"), json!("{\"a\"")),
            piece(json!(0), a(), a(), json!(":1}")),
            piece(json!(0), json!("y"), json!("g"), json!("")),
            piece(json!(0), a(), a(), json!("{}")),
        ],
        &two,
    );
    // Whole calls at one index, without ids.
    expect_calls(
        &[
            piece(json!(0), json!(""), json!("f"), json!("{\"a\":1}")),
            piece(json!(0), json!(""), json!("f"), json!("{\"a\":2}")),
            piece(json!(0), json!(""), json!("g"), json!("")),
        ],
        &[("call_1", "f", "{\"a\":1}"), ("call_2", "f", "{\"a\":2}"), ("call_3", "g", "")],
    );
    // Pieces of two calls at one index, mixed, told apart by their ids.
    expect_calls(
        &[
            piece(json!(0), json!("x"), json!("f"), json!("{\"a\"")),
            piece(json!(0), json!("y"), json!("g"), json!("{")),
            piece(json!(0), json!("x"), a(), json!(":1}")),
            piece(json!(0), json!("y"), a(), json!("}")),
        ],
        &two,
    );
}

#[test]
fn missing_null_and_sparse_labels_give_the_right_calls() {
    let (a, n) = (|| json!("absent"), || json!(null));
    // No index at all.
    expect_calls(
        &[
            piece(a(), json!("x"), json!("f"), json!("{}")),
            piece(a(), json!("y"), json!("f"), json!("{\"a\"")),
            piece(a(), a(), a(), json!(":1}")),
        ],
        &[("x", "f", "{}"), ("y", "f", "{\"a\":1}")],
    );
    // Neither index nor id, whole calls of one tool.
    expect_calls(
        &[piece(a(), a(), json!("f"), json!("{}")), piece(n(), n(), json!("f"), json!("{\"a\":1}"))],
        &[("call_1", "f", "{}"), ("call_2", "f", "{\"a\":1}")],
    );
    // Sparse indexes, out of order; null and empty continuations.
    expect_calls(
        &[
            piece(json!(7), json!("x"), json!("f"), n()),
            piece(json!(2), json!("y"), json!("g"), a()),
            piece(json!(7), n(), n(), json!("{\"a\"")),
            piece(json!(2), json!(""), json!(""), json!("{}")),
            piece(json!(7), json!(""), n(), json!(":1}")),
        ],
        &[("y", "g", "{}"), ("x", "f", "{\"a\":1}")],
    );
    // The name or the id comes late.
    expect_calls(
        &[
            piece(json!(0), json!("x"), a(), json!("{\"a\"")),
            piece(json!(0), a(), json!("f"), json!(":1}")),
            piece(json!(1), a(), json!("g"), json!("")),
            piece(json!(1), json!("y"), a(), json!("{}")),
        ],
        &[("x", "f", "{\"a\":1}"), ("y", "g", "{}")],
    );
}

#[test]
fn id_and_name_on_each_piece_do_not_double() {
    for index in [json!(0), json!(null)] {
        expect_calls(
            &[
                piece(index.clone(), json!("0"), json!("f"), json!("")),
                piece(index.clone(), json!("0"), json!("f"), json!("{\"a\":")),
                piece(index, json!("0"), json!("f"), json!("1}")),
            ],
            &[("0", "f", "{\"a\":1}")],
        );
    }
}

#[test]
fn ids_are_unique_within_the_answer_and_the_conversation() {
    let pieces = [
        piece(json!(0), json!("x"), json!("f"), json!("{}")),
        piece(json!(1), json!("x"), json!("f"), json!("{}")),
        piece(json!(2), json!("call_4"), json!("f"), json!("{}")),
        piece(json!(3), json!(""), json!("f"), json!("{}")),
    ];
    let id = |id: &str| (id.to_owned(), "f".to_owned(), "{}".to_owned());
    assert_eq!(calls(&call_stream(&pieces)), [id("x"), id("x_2"), id("call_4"), id("call_4_2")]);

    let earlier = Part::ToolCall(ToolCall::new("x", "f", "{}"));
    let message = Message::new(MessageId::from_uuid(Default::default()), Role::Assistant, vec![earlier]);
    let request = LlmRequest { messages: vec![Arc::new(message)], ..LlmRequest::default() };
    let body = call_stream(&pieces[..1]);
    let response = assemble(decode_with(ChatDecoder::for_request("p", &request), [body.as_bytes()]));
    assert_eq!(response.tool_calls().next().unwrap().id.as_str(), "x_2");
}

#[test]
fn fault_e17_absent_arguments_and_arguments_that_are_no_string() {
    for absent in [json!(null), json!(""), json!("absent")] {
        expect_calls(&[piece(json!(0), json!("x"), json!("f"), absent)], &[("x", "f", "")]);
    }
    let object = piece(json!(0), json!("x"), json!("f"), json!({ "a": 1 }));
    expect_calls(&[object], &[("x", "f", "{\"a\":1}")]);
    let legacy = finished(
        &[
            json!({ "function_call": { "name": "f", "arguments": "{" } }),
            json!({ "function_call": { "arguments": "}" } }),
        ],
        "function_call",
    );
    assert_eq!(calls(&legacy), [("call_1".into(), "f".into(), "{}".into())]);
}

#[test]
fn fault_r1_26_a_call_without_a_name_is_an_error_and_an_empty_piece_is_nothing() {
    let nameless = piece(json!(3), json!("x"), json!(null), json!("{}"));
    assert_eq!(error_kind(&call_stream(&[nameless])), ErrorKind::Protocol);
    let empty = piece(json!(0), json!(""), json!(""), json!(""));
    let response = answer(&call_stream(&[empty, json!({}), json!({ "function": null })]));
    assert_eq!((response.error, response.parts.len()), (None, 0));
}

#[test]
fn fault_e27_calls_count_whatever_the_label_says() {
    let call = json!({ "tool_calls": [piece(json!(0), json!("x"), json!("f"), json!("{}"))] });
    for (label, reason) in [
        ("stop", FinishReason::ToolCalls),
        ("eos", FinishReason::ToolCalls),
        ("length", FinishReason::Length),
    ] {
        let response = answer(&finished(std::slice::from_ref(&call), label));
        assert_eq!(
            (response.finish_reason, response.raw_finish_reason.as_deref()),
            (Some(reason), Some(label))
        );
    }
}

#[test]
fn a_call_cut_by_the_output_limit_is_not_lost_and_not_complete_json() {
    let body = finished(
        &[
            json!({ "tool_calls": [piece(json!(0), json!("x"), json!("f"), json!("{}"))] }),
            json!({ "tool_calls": [piece(json!(1), json!("y"), json!("g"), json!("{\"a"))] }),
        ],
        "length",
    );
    let response = answer(&body);
    assert_eq!(response.tool_calls().count(), 2);
    assert!(response.calls_may_run().is_err());
    // A router that says "tool_calls" of an answer that the limit cut upstream.
    let choice = json!({ "delta": {}, "finish_reason": "tool_calls", "native_finish_reason": "length" });
    let response = answer(&sse(&[json!({ "choices": [choice] })]));
    assert_eq!(response.finish_reason, Some(FinishReason::Length));
    assert_eq!(response.raw_finish_reason.as_deref(), Some("tool_calls"));
}

#[test]
fn fault_r1_4_an_argument_of_1_mb_in_small_fragments_is_linear_and_shown_as_it_comes() {
    let argument = format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20));
    let (mut decoder, mut out) = (ChatDecoder::new("p"), Vec::new());
    #[expect(clippy::disallowed_methods, reason = "a test that measures")]
    let started = std::time::Instant::now();
    let begin = call_stream(&[piece(json!(0), json!("x"), json!("f"), json!(""))]);
    decoder.feed(begin.split_inclusive("\n\n").next().unwrap().as_bytes(), &mut out);
    let mut fragments = String::new();
    for part in argument.as_bytes().chunks(8) {
        let part = std::str::from_utf8(part).unwrap();
        // Names on each piece: the costlier way to continue.
        let delta = json!({ "tool_calls": [piece(json!(0), json!("x"), json!("f"), json!(part))] });
        let chunk = sse(&[json!({ "choices": [{ "delta": delta }] })]);
        decoder.feed(chunk.as_bytes(), &mut out);
        for item in out.drain(..) {
            if let StreamItem::Progress(ToolProgress::Arguments { fragment, .. }) = item {
                fragments.push_str(&fragment);
            }
        }
        assert!(!fragments.is_empty(), "shown before the last byte came");
    }
    assert_eq!(fragments, argument);
    decoder.feed(b"data: [DONE]\n\n", &mut out);
    assert_eq!(assemble(out).tool_calls().next().unwrap().arguments, argument);
    // Quadratic work would be 64 GiB of copying. The margin is for slow debug builds.
    assert!(started.elapsed().as_secs() < 20, "{:?}", started.elapsed());
}

#[test]
fn arguments_and_calls_have_caps() {
    use crate::wire::{MAX_ARGUMENT_BYTES, MAX_CALLS};
    let big = "x".repeat(MAX_ARGUMENT_BYTES / 8 + 1);
    let piece = piece(json!(0), json!("x"), json!("f"), json!(big));
    let chunk = sse(&[json!({ "choices": [{ "delta": { "tool_calls": [piece] } }] })]);
    let out = decode_with(ChatDecoder::new("p"), std::iter::repeat_n(chunk.as_bytes(), 8));
    assert_eq!(assemble(out).error.map(|e| e.kind), Some(ErrorKind::TooLarge));

    let pieces: Vec<Value> = (0..=MAX_CALLS)
        .map(|n| json!({ "index": n, "id": n.to_string(), "function": { "name": "f" } }))
        .collect();
    let body = finished(&[json!({ "tool_calls": pieces })], "tool_calls");
    let out = decode_with(ChatDecoder::new("p"), [body.as_bytes()]);
    assert_eq!(assemble(out).error.map(|e| e.kind), Some(ErrorKind::TooLarge));
}
