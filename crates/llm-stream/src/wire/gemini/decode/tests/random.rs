//! Any bytes, any script, any split.

use proptest::prelude::*;

use super::*;

fn check(body: &[u8], size: usize) -> Result<Vec<StreamItem>, TestCaseError> {
    let whole = decode_with(GeminiDecoder::new("p"), [body]);
    prop_assert_eq!(&decode_with(GeminiDecoder::new("p"), body.chunks(size)), &whole);
    Ok(whole)
}

/// One part of an answer: its kind, its text, and whether it is signed.
fn part() -> impl Strategy<Value = (char, String, bool)> {
    (prop::sample::select(vec!['t', 'r', 'c']), ".{1,6}", any::<bool>())
}

proptest! {
    #[test]
    fn any_bytes_at_any_split_end_once(body in prop::collection::vec(any::<u8>(), 0..300), size in 1usize..9) {
        check(&body, size)?;
        check(&[&b"["[..], &body].concat(), size)?;
    }

    #[test]
    fn fault_r1_21_any_pieces_at_any_split_end_once(
        parts in prop::collection::vec(prop::sample::select(vec![
            r#"data: {"candidates":[{"content":{"parts":[{"text":"é"}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"a","thoughtSignature":"s"}]},"finishReason":"STOP"}]}"#,
            r#"data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","willContinue":true}}]}}]}"#,
            r#"data: {"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":"x"}]}}]}}]}"#,
            r#"data: {"candidates":[{"finishReason":"STOP"}]}"#,
            r#"data: {"error":{"code":500}}"#,
            "data: [DONE]", "event: error", "\n", "\n\n", "\r", ": c", "{", "}", "[", "]", ",", "<", "x", "data: ", "\u{feff}",
        ]), 0..20),
        size in 1usize..9,
    ) {
        check(parts.concat().as_bytes(), size)?;
    }

    #[test]
    fn fault_e1_e2_a_valid_script_means_the_same_in_any_framing_at_any_split(
        script in prop::collection::vec(part(), 1..8),
        size in 1usize..40,
        end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
    ) {
        let part = |(kind, text, is_signed): &(char, String, bool)| {
            let mut part = match kind {
                't' => json!({ "text": text }),
                'r' => json!({ "text": text, "thought": true }),
                _ => json!({ "functionCall": { "name": "f", "args": { "a": text } } }),
            };
            if *is_signed {
                part["thoughtSignature"] = "s".into();
            }
            chunk(&json!([part]), None)
        };
        let mut chunks: Vec<Value> = script.iter().map(part).collect();
        chunks.push(chunk(&json!([]), Some("STOP")));
        let events: String = chunks.iter().map(|chunk| format!("data: {chunk}{end}{end}")).collect();
        let items = check(events.as_bytes(), size)?;
        let list: Vec<String> = chunks.iter().map(Value::to_string).collect();
        prop_assert_eq!(&check(format!("[{}]", list.join(",\r\n")).as_bytes(), size)?, &items);
        let response = assemble(items);
        let all = |kind: char| script.iter().filter(|p| p.0 == kind).map(|p| p.1.as_str()).collect::<String>();
        prop_assert_eq!((response.text(), response.reasoning()), (all('t'), all('r')));
        let arguments: String = response
            .tool_calls()
            .map(|call| call.arguments_value().unwrap()["a"].as_str().unwrap().to_owned())
            .collect();
        prop_assert_eq!((arguments, response.error.clone()), (all('c'), None));
        // What is signed is kept, one by one.
        let signed = script.iter().filter(|p| p.2).count();
        let kept = shown(&response).iter().filter(|p| p.2.get("thoughtSignature").is_some()).count();
        prop_assert_eq!(kept, signed);
    }
}
