//! The wire formats: a body of each, and who reads it.

use turnwright_llm_stream::wire::{
    WireDecoder, chat::ChatDecoder, gemini::GeminiDecoder, messages::MessagesDecoder, ollama::OllamaDecoder,
    responses::ResponsesDecoder,
};

use super::{bodies, hand};

pub(super) struct Format {
    pub(super) name: &'static str,
    pub(super) decoder: fn() -> Box<dyn WireDecoder>,
    /// The parser by hand: takes the JSON of an event, and answers how many pieces there were.
    pub(super) take: fn(&[u8]) -> usize,
    /// Recorded, where we have a recording; else made in the shape of the provider's own.
    pub(super) body: fn() -> String,
    /// A call whose argument comes in fragments of eight bytes and has this length, where the format has fragments.
    pub(super) fragments: Option<fn(usize) -> String>,
}

impl Format {
    pub(super) fn is_sse(&self) -> bool {
        self.name != "ollama"
    }

    /// The JSON in a line.
    pub(super) fn json_of<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        match self.is_sse() {
            true => line.strip_prefix(b"data: ").filter(|json| *json != b"[DONE]"),
            false => Some(line),
        }
    }

    /// How many events the body has.
    pub(super) fn events(&self, body: &str) -> usize {
        body.lines().filter(|line| self.json_of(line.as_bytes()).is_some()).count()
    }
}

pub(super) const FORMATS: [Format; 5] = [
    Format {
        name: "chat",
        decoder: || Box::new(ChatDecoder::new("bench")),
        take: hand::chat,
        body: || bodies::recorded("chat-plain.sse"),
        fragments: Some(bodies::chat_fragments),
    },
    Format {
        name: "responses",
        decoder: || Box::new(ResponsesDecoder::new("bench")),
        take: hand::responses,
        body: || bodies::recorded("responses-plain.sse"),
        fragments: Some(bodies::responses_fragments),
    },
    Format {
        name: "messages",
        decoder: || Box::new(MessagesDecoder::new("bench")),
        take: hand::messages,
        body: || bodies::recorded("messages-plain.sse"),
        fragments: Some(bodies::messages_fragments),
    },
    Format {
        name: "gemini",
        decoder: || Box::new(GeminiDecoder::new("bench")),
        take: hand::gemini,
        body: bodies::gemini,
        fragments: None,
    },
    Format {
        name: "ollama",
        decoder: || Box::new(OllamaDecoder::new("bench")),
        take: hand::ollama,
        body: bodies::ollama,
        fragments: None,
    },
];
