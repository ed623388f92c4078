//! Any bytes, any script, any split.

use proptest::prelude::*;

use super::*;

fn check(body: &[u8], size: usize) -> Result<Vec<StreamItem>, TestCaseError> {
    let whole = decode_with(OllamaDecoder::new("p"), [body]);
    prop_assert_eq!(&decode_with(OllamaDecoder::new("p"), body.chunks(size)), &whole);
    Ok(whole)
}

proptest! {
    #[test]
    fn any_bytes_at_any_split_end_once(body in prop::collection::vec(any::<u8>(), 0..300), size in 1usize..9) {
        check(&body, size)?;
    }

    #[test]
    fn fault_r1_21_any_pieces_at_any_split_end_once(
        parts in prop::collection::vec(prop::sample::select(vec![
            r#"{"message":{"content":"é","thinking":"h"},"done":false}"#,
            r#"{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}}"#,
            r#"{"response":"x"}"#, r#"{"done":true,"done_reason":"stop"}"#, r#"{"error":"M"}"#,
            "\n", "\r\n", "{", "}", "[", "]", ",", "<", "x", "\"", "\u{feff}", " ",
        ]), 0..20),
        size in 1usize..9,
    ) {
        check(parts.concat().as_bytes(), size)?;
    }

    #[test]
    fn fault_e1_e2_a_valid_script_means_the_same_at_any_split(
        script in prop::collection::vec((prop::sample::select(vec!['t', 'r', 'c']), ".{1,6}"), 0..8),
        size in 1usize..40,
        end in prop::sample::select(vec!["\n", "\r\n", "\n\n"]),
    ) {
        let message = |(kind, text): &(char, String)| match kind {
            't' => said(&json!({ "content": text })),
            'r' => said(&json!({ "content": "", "thinking": text })),
            _ => said(&json!({ "tool_calls": [{ "function": { "name": "f", "arguments": { "a": text } } }] })),
        };
        let lines = script.iter().map(message).chain([done("stop")]);
        let body: String = lines.map(|line| format!("{line}{end}")).collect();
        let response = assemble(check(body.as_bytes(), size)?);
        let all = |kind: char| script.iter().filter(|p| p.0 == kind).map(|p| p.1.as_str()).collect::<String>();
        prop_assert_eq!((response.text(), response.reasoning()), (all('t'), all('r')));
        let arguments: String = response
            .tool_calls()
            .map(|call| call.arguments_value().unwrap()["a"].as_str().unwrap().to_owned())
            .collect();
        prop_assert_eq!((arguments, response.error), (all('c'), None));
    }
}
