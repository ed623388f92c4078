//! What requests say, in every format: the same settings, and each other's histories; and what they cost.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test: the helpers of tests count as such")]

mod converse;
mod pairs;
mod prices;
mod settings;

use serde_json::Value;
use turnwright_core::ErrorInfo;
use turnwright_llm_stream::{
    LlmRequest,
    wire::{
        WireDecoder,
        chat::{ChatDecoder, chat_body},
        converse::{ConverseDecoder, converse_body},
        gemini::{GeminiDecoder, gemini_body},
        messages::{MessagesDecoder, messages_body},
        ollama::{OllamaDecoder, ollama_body},
        responses::{ResponsesDecoder, responses_body},
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Chat,
    Responses,
    Messages,
    Gemini,
    Ollama,
    Converse,
}

impl Format {
    const ALL: [Self; 6] =
        [Self::Chat, Self::Responses, Self::Messages, Self::Gemini, Self::Ollama, Self::Converse];

    fn try_body(self, request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo> {
        match self {
            Self::Chat => chat_body(request),
            Self::Responses => responses_body(request),
            Self::Messages => messages_body(request),
            Self::Gemini => gemini_body(request),
            Self::Ollama => ollama_body(request),
            Self::Converse => converse_body(request),
        }
    }

    fn body(self, request: &LlmRequest) -> Value {
        serde_json::from_slice(&self.try_body(request).unwrap()).unwrap()
    }

    fn decoder(self) -> Box<dyn WireDecoder> {
        match self {
            Self::Chat => Box::new(ChatDecoder::new("p")),
            Self::Responses => Box::new(ResponsesDecoder::new("p")),
            Self::Messages => Box::new(MessagesDecoder::new("p")),
            Self::Gemini => Box::new(GeminiDecoder::new("p")),
            Self::Ollama => Box::new(OllamaDecoder::new("p")),
            Self::Converse => Box::new(ConverseDecoder::new("p")),
        }
    }
}
