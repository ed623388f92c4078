//! Any bytes, any order of messages, any split.

use super::*;

/// Messages that a server may send, and some that it should not.
fn any_message() -> impl Strategy<Value = Vec<u8>> {
    let index = 0u64..3;
    prop_oneof![
        Just(start()),
        any::<String>().prop_map(|words| text(&words)),
        (index.clone(), "[a-c]{0,2}", "[fg]?").prop_map(|(index, id, name)| tool_start(index, &id, &name)),
        (index.clone(), "[{}\\\\\"a]{0,4}").prop_map(|(index, piece)| input(index, &piece)),
        (index.clone(), "[a-z]{0,4}", "(s|=)?", "([A-D]{4}|AA==)?").prop_map(
            |(index, text, signature, data)| {
                let fields = json!({ "text": text, "signature": signature, "redactedContent": data });
                delta(index, &json!({ "reasoningContent": fields }))
            }
        ),
        index.prop_map(block_stop),
        prop_oneof![Just("end_turn"), Just("tool_use"), Just("max_tokens"), Just("?")].prop_map(stop),
        Just(metadata()),
        ("[a-zA-Z]{0,9}", any::<Vec<u8>>()).prop_map(|(kind, payload)| event_bytes(&kind, &payload)),
        any::<Vec<u8>>().prop_map(|payload| event_bytes("contentBlockDelta", &payload)),
        (any::<Vec<u8>>(), any::<Vec<u8>>()).prop_map(|(headers, payload)| encode::raw(&headers, &payload)),
        any::<Vec<u8>>(),
    ]
}

proptest! {
    #[test]
    fn fault_r1_21_any_bytes_at_any_split_end_in_one_terminal_event(
        parts in proptest::collection::vec(any_message(), 0..12), size in 1usize..60,
    ) {
        let body = parts.concat();
        let whole = decode_with(ConverseDecoder::new("p"), [&body[..]]);
        prop_assert_eq!(whole, decode_with(ConverseDecoder::new("p"), body.chunks(size)));
    }

    #[test]
    fn text_in_place_of_a_stream_gives_the_same_at_any_split(
        body in "[\\[{<\n \"a\\\\:}\\]]{0,40}", size in 1usize..9,
    ) {
        let whole = decode_with(ConverseDecoder::new("p"), [body.as_bytes()]);
        prop_assert_eq!(whole, decode_with(ConverseDecoder::new("p"), body.as_bytes().chunks(size)));
    }

    #[test]
    fn what_was_said_is_what_is_read_at_any_split(
        script in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<String>(), 1..4)), 1..6),
        size in 1usize..99,
    ) {
        let (mut events, mut said, mut called) = (Vec::new(), String::new(), Vec::new());
        for (index, (is_call, pieces)) in (0..).zip(script) {
            if is_call {
                events.push(tool_start(index, &format!("id{index}"), "f"));
                events.extend(pieces.iter().map(|piece| input(index, piece)));
                called.push(pieces.concat());
            } else {
                events.extend(pieces.iter().map(|piece| delta(index, &json!({ "text": piece }))));
                said += &pieces.concat();
            }
            events.push(block_stop(index));
        }
        let body = finished(&events, "end_turn");
        let items = decode_with(ConverseDecoder::new("p"), body.chunks(size));
        prop_assert_eq!(&items, &decode_with(ConverseDecoder::new("p"), [&body[..]]));
        let response = assemble(items);
        prop_assert_eq!(response.text(), said);
        let arguments: Vec<_> = response.tool_calls().map(|call| call.arguments.clone()).collect();
        prop_assert_eq!(arguments, called);
        prop_assert_eq!(response.error, None);
    }
}
