//! Tool calls out of their pieces.

use serde_json::{Value, json};
use turnwright_core::ErrorKind;
use turnwright_llm_stream::{FinishReason, LlmEvent, StreamItem, ToolProgress};

use crate::{
    format::{ALL, Format, Frame, Say},
    read::{assemble, decode, failure, items},
};

/// Those whose arguments come in pieces.
const IN_PIECES: [Format; 3] = [Format::Chat, Format::Responses, Format::Messages];

/// What was shown of the calls: id, name, arguments.
fn shown(items: &[StreamItem]) -> Vec<(String, String, String)> {
    let mut shown: Vec<(String, String, String)> = Vec::new();
    for item in items {
        match item {
            StreamItem::Progress(ToolProgress::Started { id, name }) => {
                shown.push((id.to_string(), name.clone(), String::new()));
            }
            StreamItem::Progress(ToolProgress::Arguments { id, fragment }) => {
                shown.iter_mut().find(|(known, ..)| known == id.as_str()).unwrap().2.push_str(fragment);
            }
            _ => {}
        }
    }
    shown
}

fn complete(items: &[StreamItem]) -> Vec<(String, String, String)> {
    let of = |item: &StreamItem| match item {
        StreamItem::Event(LlmEvent::ToolCallComplete(call)) => {
            Some((call.id.to_string(), call.name.clone(), call.arguments.clone()))
        }
        _ => None,
    };
    items.iter().filter_map(of).collect()
}

fn expected(calls: &[(&str, &str, &str)]) -> Vec<(String, String, String)> {
    calls.iter().map(|(id, name, arguments)| ((*id).into(), (*name).into(), (*arguments).into())).collect()
}

#[test]
fn fault_r1_1_r1_3_r1_6_fragments_follow_the_name_and_come_to_the_arguments_byte_for_byte() {
    let says = [
        Say::Text("a"),
        Say::Call("c1", "f", "{ \"a\" : \"é\\u00e9\\n\" }"),
        Say::Call("c2", "g", "{}"),
        Say::Call("c3", "f", "{\"b\":{\"c\":[1.50,null]}}"),
    ];
    for format in ALL {
        let items = items(format, &format.body(&format.answer(&says)));
        let (complete, shown) = (complete(&items), shown(&items));
        assert_eq!(complete, shown, "{format:?}: what is shown is what is called, and nothing else");
        let ids: Vec<_> = complete.iter().map(|(id, name, _)| (id.as_str(), name.as_str())).collect();
        assert_eq!(ids, [("c1", "f"), ("c2", "g"), ("c3", "f")], "{format:?}");
        if IN_PIECES.contains(&format) {
            assert_eq!(complete[0].2, "{ \"a\" : \"é\\u00e9\\n\" }", "{format:?}: the model's own spelling");
            let fragments = items
                .iter()
                .filter(|item| matches!(item, StreamItem::Progress(ToolProgress::Arguments { .. })));
            assert!(fragments.count() > 6, "{format:?}: each piece is shown as it comes");
        }
    }
}

#[test]
fn fault_r1_4_arguments_of_1_mb_are_shown_before_they_are_whole() {
    let argument = format!("{{\"a\":\"{}\"}}", "x".repeat(1 << 20));
    for format in IN_PIECES {
        let frames = format.answer(&[Say::Call("c", "f", &argument)]);
        let (mut decoder, mut out, mut early) = (format.decoder(), Vec::new(), None);
        let body = format.body(&frames);
        for (n, piece) in body.as_bytes().chunks(64 * 1024).enumerate() {
            decoder.feed(piece, &mut out);
            if early.is_none() && shown(&out).iter().any(|(.., arguments)| !arguments.is_empty()) {
                early = Some((n + 1) * 64 * 1024);
            }
        }
        decoder.end(&mut out);
        assert!(early.is_some_and(|bytes| bytes < body.len() * 2 / 3), "{format:?}: {early:?}");
        assert!(complete(&out)[0].2 == argument, "{format:?}");
    }
}

#[test]
fn fault_r1_17_r1_18_b15_equal_and_missing_ids_give_calls_of_their_own() {
    let says = [
        Say::Call("x", "f", "{\"a\":1}"),
        Say::Call("x", "f", "{\"a\":2}"),
        Say::Call("", "f", "{\"a\":3}"),
        Say::Call("", "f", "{\"a\":4}"),
    ];
    for format in ALL {
        let items = items(format, &format.body(&format.answer(&says)));
        let calls = complete(&items);
        let arguments: Vec<_> = calls.iter().map(|(.., arguments)| arguments.as_str()).collect();
        assert_eq!(arguments, ["{\"a\":1}", "{\"a\":2}", "{\"a\":3}", "{\"a\":4}"], "{format:?}");
        let mut ids: Vec<_> = calls.iter().map(|(id, ..)| id.clone()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!((ids.len(), ids.iter().any(String::is_empty)), (4, false), "{format:?}: {calls:?}");
    }
}

#[test]
fn fault_r1_18_two_calls_in_one_event_are_two() {
    let f = json!({ "name": "f", "args": { "a": 1 }, "arguments": { "a": 1 } });
    let chat = json!({ "index": 0, "id": "x", "function": { "name": "f", "arguments": "{\"a\":1}" } });
    let chat_2 = json!({ "index": 1, "id": "y", "function": { "name": "f", "arguments": "{\"a\":1}" } });
    for (format, event) in [
        (Format::Chat, json!({ "id": "r", "choices": [{ "delta": { "tool_calls": [chat, chat_2] } }] })),
        (
            Format::Gemini,
            json!({ "candidates": [{ "content": { "parts": [{ "functionCall": f }, { "functionCall": f }] } }] }),
        ),
        (Format::Ollama, json!({ "message": { "tool_calls": [{ "function": f }, { "function": f }] } })),
    ] {
        let mut frames: Vec<Frame> = vec![("", event)];
        frames.extend(format.finish(FinishReason::Stop, None));
        let calls = complete(&items(format, &format.body(&frames)));
        assert_eq!(calls.len(), 2, "{format:?}");
        assert!(calls[0].0 != calls[1].0 && calls[0].2 == calls[1].2, "{format:?}: {calls:?}");
    }
}

/// The frames of two calls, one frame of each in turn, and ended in the other order.
fn interleaved(format: Format) -> Vec<Frame> {
    let (mut a, mut b) =
        (format.say(0, Say::Call("c1", "f", "{\"a\":1}")), format.say(1, Say::Call("c2", "g", "{\"b\":2}")));
    let ends_itself = format != Format::Chat;
    let ends = if ends_itself { [b.pop(), a.pop()] } else { [None, None] };
    let turns = a.into_iter().zip(b).flat_map(|(a, b)| [a, b]);
    let mut frames = format.start("r");
    frames.extend(turns.chain(ends.into_iter().flatten()));
    frames.extend(format.finish(FinishReason::ToolCalls, None));
    frames
}

#[test]
fn fault_r1_26_r1_29_pieces_go_to_the_call_they_name_and_not_to_the_last() {
    for format in IN_PIECES {
        let items = items(format, &format.body(&interleaved(format)));
        let mut calls = complete(&items);
        calls.sort();
        assert_eq!(calls, expected(&[("c1", "f", "{\"a\":1}"), ("c2", "g", "{\"b\":2}")]), "{format:?}");
    }
}

#[test]
fn fault_r1_26_pieces_for_an_unknown_call_are_an_error_and_no_guess() {
    let known = Say::Call("c1", "f", "{\"a\":1}");
    for format in IN_PIECES {
        // The second piece of a call whose begin was lost.
        let stray = format.say(7, Say::Call("c2", "g", "{\"b\":2}"));
        let mut frames = format.unfinished(&[known]);
        frames.push(stray[2].clone());
        frames.extend(format.finish(FinishReason::ToolCalls, None));
        assert_eq!(failure(format, &format.body(&frames)).kind, ErrorKind::Protocol, "{format:?}");
    }
}

#[test]
fn fault_e15_calls_that_all_have_index_0_stay_apart() {
    let relabel = |frames: Vec<Frame>| -> Vec<Frame> {
        let zero = |value: &mut Value, names: &[&str]| {
            for name in names {
                if value.get(*name).is_some() {
                    value[*name] = json!(0);
                }
            }
        };
        let relabel = |(name, mut data): Frame| {
            zero(&mut data, &["index", "output_index"]);
            if let Some(calls) = data.pointer_mut("/choices/0/delta/tool_calls").and_then(Value::as_array_mut)
            {
                calls.iter_mut().for_each(|call| zero(call, &["index"]));
            }
            (name, data)
        };
        frames.into_iter().map(relabel).collect()
    };
    let says =
        [Say::Call("c1", "f", "{\"a\":1}"), Say::Call("c2", "f", "{\"a\":2}"), Say::Call("c3", "g", "")];
    for format in ALL {
        let frames = relabel(format.answer(&says));
        let items = items(format, &format.body(&frames));
        let calls = complete(&items);
        assert_eq!(shown(&items).len(), 3, "{format:?}");
        let of: Vec<_> = calls.iter().map(|(id, name, _)| (id.as_str(), name.as_str())).collect();
        assert_eq!(of, [("c1", "f"), ("c2", "f"), ("c3", "g")], "{format:?}");
        assert_eq!((calls[0].2.as_str(), calls[1].2.as_str()), ("{\"a\":1}", "{\"a\":2}"), "{format:?}");
    }
}

#[test]
fn fault_e17_a_call_without_arguments_is_one_with_none() {
    for format in ALL {
        for arguments in ["", " ", "{}"] {
            let body = format.body(&format.answer(&[Say::Call("c", "f", arguments)]));
            let response = assemble(&items(format, &body));
            let call = response.tool_calls().next().unwrap_or_else(|| panic!("{format:?}"));
            assert_eq!(call.arguments_value().unwrap(), json!({}), "{format:?} {arguments:?}");
            assert_eq!(response.calls_may_run(), Ok(()), "{format:?} {arguments:?}");
        }
    }
}

#[test]
fn fault_e27_calls_count_and_not_the_label() {
    for format in ALL {
        let body = format.body(&format.answer(&[Say::Text("a"), Say::Call("c", "f", "{}")]));
        let response = assemble(&items(format, &body));
        assert_eq!(response.finish_reason, Some(FinishReason::ToolCalls), "{format:?}");
        // A label that promises calls, and there are none.
        let mut frames = format.unfinished(&[Say::Text("a")]);
        frames.extend(format.finish(FinishReason::ToolCalls, None));
        let response = assemble(&items(format, &format.body(&frames)));
        assert_eq!((&response.error, response.text().as_str()), (&None, "a"), "{format:?}");
    }
}

#[test]
fn fault_r2_36_the_calls_of_a_cut_answer_do_not_run() {
    for format in ALL {
        let mut frames = format.unfinished(&[Say::Call("c1", "f", "{}"), Say::Call("c2", "g", "{\"a\":1}")]);
        frames.extend(format.finish(FinishReason::Length, None));
        let response = assemble(&items(format, &format.body(&frames)));
        assert!(response.calls_may_run().is_err(), "{format:?}");
        assert_eq!(response.finish_reason, Some(FinishReason::Length), "{format:?}");
    }
    // Cut in the midst, whether or not the label says so: never arguments that look whole.
    for format in IN_PIECES {
        for reason in [FinishReason::Length, FinishReason::Stop, FinishReason::ToolCalls] {
            let call = format.say(0, Say::Call("c", "f", "{\"path\":\"dir/x\"}"));
            let mut frames = format.start("r");
            frames.extend_from_slice(&call[..3]);
            frames.extend(format.finish(reason, None));
            let response = assemble(&decode(format, [format.body(&frames).as_bytes()]));
            let runs = response.calls_may_run().is_ok()
                && response.tool_calls().any(|call| call.arguments_value().is_ok());
            assert!(!runs, "{format:?} {reason:?}: {response:?}");
        }
    }
}
