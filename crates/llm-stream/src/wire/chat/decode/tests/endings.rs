//! Which of several finish reasons counts, and what is left open at the end.

use super::*;

fn chunk(delta: Value, reason: Value) -> Value {
    let choice = [("delta", delta), ("finish_reason", reason)].map(|(name, value)| (name.to_owned(), value));
    json!({ "id": "r", "choices": [Value::Object(choice.into_iter().collect())] })
}

fn call() -> Value {
    json!({ "tool_calls": [piece(json!(0), json!("x"), json!("f"), json!("{}"))] })
}

#[test]
fn the_calls_of_a_cut_answer_never_run_whatever_follows() {
    let end = "data: [DONE]\n\n";
    for (word, reason) in [
        ("length", FinishReason::Length),
        ("content_filter", FinishReason::ContentFilter),
        ("refusal", FinishReason::Refusal),
    ] {
        let cut = chunk(json!({}), json!(word));
        let more = chunk(json!({ "content": "b" }), json!(null));
        for chunks in [
            vec![chunk(call(), json!(null)), cut.clone(), more.clone()],
            vec![cut.clone(), chunk(call(), json!(null))],
            vec![cut.clone(), chunk(call(), json!("tool_calls"))],
            vec![cut.clone(), more.clone(), chunk(call(), json!("stop")), more.clone()],
            vec![chunk(call(), json!("tool_calls")), cut.clone()],
        ] {
            let response = answer(&(sse(&chunks) + end));
            assert_eq!(response.finish_reason, Some(reason), "{chunks:?}");
            assert_eq!(response.raw_finish_reason.as_deref(), Some(word), "{chunks:?}");
            assert_eq!(response.tool_calls().count(), 1);
            assert!(response.calls_may_run().is_err());
        }
        let choice = json!({ "delta": {}, "finish_reason": "stop", "native_finish_reason": word });
        assert_eq!(answer(&(sse(&[json!({ "choices": [choice] })]) + end)).finish_reason, Some(reason));
    }
    // The newest cut counts; a reason that is none is only a fallback.
    let body = sse(&[chunk(call(), json!("length")), chunk(call(), json!("content_filter"))]) + end;
    assert_eq!(answer(&body).finish_reason, Some(FinishReason::ContentFilter));
    let body = sse(&[chunk(json!({ "content": "a" }), json!("eos")), chunk(call(), json!(null))]) + end;
    assert_eq!(answer(&body).raw_finish_reason.as_deref(), Some("eos"));
}

#[test]
fn a_block_that_is_still_open_at_the_end_keeps_its_details() {
    let detail = json!([{ "type": "reasoning.text", "text": "hm", "id": "i", "format": "f", "index": 0 }]);
    let kept = json!([{ "type": "reasoning.text", "id": "i", "format": "f", "index": 0 }]);
    let thought = json!({ "reasoning_details": detail });
    for deltas in [
        vec![thought.clone()],
        vec![thought.clone(), call()],
        vec![thought.clone(), json!({ "content": "x" }), json!({ "content": "x" })],
    ] {
        let response = answer(&finished(&deltas, "stop"));
        let Some(Part::Reasoning(block)) = response.parts.first() else { panic!("{response:?}") };
        assert_eq!((block.text.as_str(), &block.opaque["reasoning_details"]), ("hm", &kept), "{deltas:?}");
        let blocks = response.parts.iter().filter(|part| matches!(part, Part::Reasoning(_)));
        assert_eq!(blocks.count(), 1, "{deltas:?}");
    }
    let cut = answer(&finished(&[thought], "length"));
    assert!(matches!(&cut.parts[..], [Part::Reasoning(block)] if block.opaque.is_empty()), "{cut:?}");
}
