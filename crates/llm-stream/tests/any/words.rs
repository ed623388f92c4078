//! What bodies are made of: strung together at random they come nearer to a body than random bytes do.

const FRAMES: &[&str] = &[
    "data:",
    "data: ",
    "event: e",
    "event: error",
    "data: [DONE]",
    "error",
    "\n",
    "\n\n",
    "\r",
    "\r\n",
    ": c",
    "{",
    "}",
    "[",
    "]",
    ",",
    "\"",
    "\\",
    "<",
    "x",
    " ",
    "\u{feff}",
    "é",
];

/// The words of this body's inputs.
pub(crate) fn of(name: &str) -> Vec<&'static str> {
    let own: &[&str] = match name {
        "chat" => &[
            r#"data: {"choices":[{"delta":{"content":"é"}}]}"#,
            r#"data: {"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}"#,
            r#"data: {"choices":[{"delta":{"tool_calls":[{"id":"b","function":{"name":"g","arguments":"}"}}]}}]}"#,
            r#"data: {"choices":[{"finish_reason":"stop"}]}"#,
        ],
        "responses" => &[
            r#"data: {"type":"response.output_text.delta","item_id":"m","delta":"é"}"#,
            r#"data: {"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","call_id":"c","name":"f"}}"#,
            r#"data: {"type":"response.function_call_arguments.delta","output_index":0,"delta":"{"}"#,
            r#"data: {"type":"response.completed","response":{"status":"completed"}}"#,
        ],
        "messages" => &[
            r#"data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"f","input":{}}}"#,
            r#"data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{"}}"#,
            r#"data: {"type":"content_block_delta","index":1,"delta":{"type":"text_delta","text":"é"}}"#,
            r#"data: {"type":"message_delta","delta":{"stop_reason":"end_turn"}}"#,
            r#"data: {"type":"message_stop"}"#,
        ],
        "gemini" => &[
            r#"data: {"candidates":[{"content":{"parts":[{"text":"é"}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"a","thoughtSignature":"s"}]},"finishReason":"STOP"}]}"#,
            r#"data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","willContinue":true}}]}}]}"#,
            r#"data: {"candidates":[{"finishReason":"STOP"}]}"#,
            r#"data: {"error":{"code":500}}"#,
        ],
        "ollama" => &[
            r#"{"message":{"content":"é","thinking":"h"},"done":false}"#,
            r#"{"message":{"tool_calls":[{"function":{"name":"f","arguments":{"a":1}}}]}}"#,
            r#"{"response":"x"}"#,
            r#"{"done":true,"done_reason":"stop"}"#,
            r#"{"error":"M"}"#,
        ],
        _ => &[],
    };
    // A body's own words as often as the others.
    let times = FRAMES.len() / own.len().max(1);
    FRAMES.iter().chain(std::iter::repeat_n(own, times).flatten()).copied().collect()
}
