//! The wire formats, with events of which an answer has many.

use turnwright_llm_stream::wire::{
    WireDecoder, chat::ChatDecoder, gemini::GeminiDecoder, messages::MessagesDecoder, ollama::OllamaDecoder,
    responses::ResponsesDecoder,
};

/// A wire format.
pub(crate) struct Format {
    pub(crate) name: &'static str,
    new: fn() -> Box<dyn WireDecoder>,
    pub(crate) text: Repeated,
    pub(crate) thought: Repeated,
    pub(crate) arguments: Repeated,
}

/// An event that comes over and over, after another that comes once.
pub(crate) struct Repeated {
    first: &'static str,
    /// With `TEXT` where the text stands.
    more: &'static str,
    /// How often one of them allocates.
    pub(crate) allocates: u64,
}

impl Format {
    pub(crate) fn decoder(&self) -> Box<dyn WireDecoder> {
        (self.new)()
    }

    /// The first event and the one that is repeated, framed.
    pub(crate) fn events(&self, repeated: &Repeated, text: &str) -> (String, String) {
        let frame = |json: &str| match (self.name, json) {
            (_, "") => String::new(),
            ("ollama", json) => format!("{json}\n"),
            (_, json) => format!("event: e\ndata: {json}\n\n"),
        };
        (frame(repeated.first), frame(&repeated.more.replace("TEXT", text)))
    }
}

/// Every format. A delta costs one allocation, for what is told; in Gemini another one for the list that it stands in. Where
/// Gemini sends arguments in pieces, each is one of a nested list and has a path. Ollama sends calls whole.
pub(crate) const FORMATS: [Format; 5] = [
    Format {
        name: "chat",
        new: || Box::new(ChatDecoder::new("p")),
        text: Repeated {
            first: "",
            more: r#"{"choices":[{"index":0,"delta":{"content":"TEXT"}}]}"#,
            allocates: 1,
        },
        thought: Repeated {
            first: "",
            more: r#"{"choices":[{"index":0,"delta":{"reasoning_content":"TEXT"}}]}"#,
            allocates: 1,
        },
        arguments: Repeated {
            first: r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{"}}]}}]}"#,
            more: r#"{"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"TEXT"}}]}}]}"#,
            allocates: 1,
        },
    },
    Format {
        name: "responses",
        new: || Box::new(ResponsesDecoder::new("p")),
        text: Repeated {
            first: r#"{"type":"response.created","response":{"id":"r"}}"#,
            more: r#"{"type":"response.output_text.delta","item_id":"m","output_index":0,"content_index":0,"delta":"TEXT"}"#,
            allocates: 1,
        },
        thought: Repeated {
            first: r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning","id":"i"}}"#,
            more: r#"{"type":"response.reasoning_summary_text.delta","item_id":"i","output_index":0,"delta":"TEXT"}"#,
            allocates: 1,
        },
        arguments: Repeated {
            first: r#"{"type":"response.output_item.added","output_index":0,"item":{"type":"function_call","id":"i","call_id":"c","name":"f"}}"#,
            more: r#"{"type":"response.function_call_arguments.delta","item_id":"i","output_index":0,"delta":"TEXT"}"#,
            allocates: 1,
        },
    },
    Format {
        name: "messages",
        new: || Box::new(MessagesDecoder::new("p")),
        text: Repeated {
            first: r#"{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}"#,
            more: r#"{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"TEXT"}}"#,
            allocates: 1,
        },
        thought: Repeated {
            first: r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}"#,
            more: r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"TEXT"}}"#,
            allocates: 1,
        },
        arguments: Repeated {
            first: r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"c","name":"f","input":{}}}"#,
            more: r#"{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"TEXT"}}"#,
            allocates: 1,
        },
    },
    Format {
        name: "gemini",
        new: || Box::new(GeminiDecoder::new("p")),
        text: Repeated {
            first: r#"{"responseId":"r","modelVersion":"m"}"#,
            more: r#"{"candidates":[{"content":{"parts":[{"text":"TEXT"}],"role":"model"},"index":0}]}"#,
            allocates: 2,
        },
        thought: Repeated {
            first: "",
            more: r#"{"candidates":[{"content":{"parts":[{"text":"TEXT","thought":true}],"role":"model"},"index":0}]}"#,
            allocates: 2,
        },
        arguments: Repeated {
            first: r#"{"candidates":[{"content":{"parts":[{"functionCall":{"name":"f","willContinue":true}}]}}]}"#,
            more: r#"{"candidates":[{"content":{"parts":[{"functionCall":{"partialArgs":[{"jsonPath":"$.a","stringValue":"TEXT","willContinue":true}],"willContinue":true}}]}}]}"#,
            allocates: 4,
        },
    },
    Format {
        name: "ollama",
        new: || Box::new(OllamaDecoder::new("p")),
        text: Repeated {
            first: "",
            more: r#"{"model":"m","message":{"role":"assistant","content":"TEXT"},"done":false}"#,
            allocates: 1,
        },
        thought: Repeated {
            first: "",
            more: r#"{"model":"m","message":{"role":"assistant","content":"","thinking":"TEXT"},"done":false}"#,
            allocates: 1,
        },
        arguments: Repeated {
            first: "",
            more: r#"{"message":{"content":"","tool_calls":[{"id":"c","function":{"name":"f","arguments":{"a":"TEXT"}}}]}}"#,
            allocates: 0,
        },
    },
];
