//! Chunks of chat completions, as the provider with the most users writes them.

/// A chunk with these choices and this usage, framed.
pub(crate) fn chunk(choices: &str, usage: &str) -> String {
    format!(
        "data: {{\"id\":\"chatcmpl-BnZ2b0q9SmkQZ1nX3pT6yU8eR4wC7\",\"object\":\"chat.completion.chunk\",\
         \"created\":1751049600,\"model\":\"gpt-4o-mini-2024-07-18\",\"service_tier\":\"default\",\
         \"system_fingerprint\":\"fp_62a23a81ef\",\"choices\":{choices},\"usage\":{usage}}}\n\n"
    )
}

/// A chunk of this delta.
pub(crate) fn delta(delta: &str) -> String {
    chunk(&format!(r#"[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":null}}]"#), "null")
}

/// The begin of a call.
pub(crate) fn call(index: usize, id: &str, name: &str) -> String {
    delta(&format!(
        r#"{{"tool_calls":[{{"index":{index},"id":"{id}","type":"function","function":{{"name":"{name}","arguments":""}}}}]}}"#
    ))
}

/// A fragment of its arguments.
pub(crate) fn fragment(index: usize, fragment: &str) -> String {
    delta(&format!(r#"{{"tool_calls":[{{"index":{index},"function":{{"arguments":"{fragment}"}}}}]}}"#))
}

/// The chunk with the finish reason.
pub(crate) fn finish(reason: &str) -> String {
    chunk(&format!(r#"[{{"index":0,"delta":{{}},"logprobs":null,"finish_reason":"{reason}"}}]"#), "null")
}

pub(crate) const END: &str = "data: [DONE]\n\n";
