//! Chat completions.

use turnwright_core::ErrorInfo;
use turnwright_llm_stream::{
    LlmRequest, OutputWay,
    classify::Secrets,
    wire::chat::{ChatDecoder, chat_body, chat_output_way},
};

use super::{Format, sealed::Sealed};
use crate::HttpClient;

/// A client for OpenAI's chat completions API and for the servers that are compatible with it.
///
/// Its environment: `OPENAI_API_KEY`, and `OPENAI_BASE_URL` for a server of your own, which may need no key. To the base
/// URL `/chat/completions` is added.
pub type ChatClient = HttpClient<Chat>;

/// The chat completions format.
#[derive(Debug)]
pub enum Chat {}

impl Sealed for Chat {}

impl Format for Chat {
    type Decoder = ChatDecoder;
    const NAME: &'static str = "openai";
    const PROVIDER: &'static str = "openai";
    const BASE_URL: &'static str = "https://api.openai.com/v1";
    const KEY_VARS: &'static [&'static str] = &["OPENAI_API_KEY"];
    const BASE_URL_VARS: &'static [&'static str] = &["OPENAI_BASE_URL"];
    const PATH: &'static str = "/chat/completions";

    fn body(request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo> {
        chat_body(request)
    }

    fn output_way(request: &LlmRequest) -> OutputWay {
        chat_output_way(request)
    }

    fn decoder(provider: &str, request: &LlmRequest) -> ChatDecoder {
        ChatDecoder::for_request(provider, request)
    }

    fn redacting(decoder: ChatDecoder, secrets: Secrets) -> ChatDecoder {
        decoder.redacting(secrets)
    }
}
