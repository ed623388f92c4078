//! Responses.

use turnwright_core::ErrorInfo;
use turnwright_llm_stream::{
    LlmRequest, OutputWay,
    classify::Secrets,
    wire::responses::{ResponsesDecoder, responses_body, responses_output_way},
};

use super::{Format, sealed::Sealed};
use crate::HttpClient;

/// A client for OpenAI's Responses API and for the servers that are compatible with it. Use it where reasoning is to be
/// sent back from turn to turn; nothing is stored at the provider.
///
/// Its environment: `OPENAI_API_KEY`, and `OPENAI_BASE_URL` for a server of your own, which may need no key. To the base
/// URL `/responses` is added.
pub type ResponsesClient = HttpClient<Responses>;

/// The Responses format.
#[derive(Debug)]
pub enum Responses {}

impl Sealed for Responses {}

impl Format for Responses {
    type Decoder = ResponsesDecoder;
    const NAME: &'static str = "openai-responses";
    const PROVIDER: &'static str = "openai";
    const BASE_URL: &'static str = "https://api.openai.com/v1";
    const KEY_VARS: &'static [&'static str] = &["OPENAI_API_KEY"];
    const BASE_URL_VARS: &'static [&'static str] = &["OPENAI_BASE_URL"];
    const PATH: &'static str = "/responses";

    fn body(request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo> {
        responses_body(request)
    }

    fn output_way(request: &LlmRequest) -> OutputWay {
        responses_output_way(request)
    }

    fn decoder(provider: &str, request: &LlmRequest) -> ResponsesDecoder {
        ResponsesDecoder::for_request(provider, request)
    }

    fn redacting(decoder: ResponsesDecoder, secrets: Secrets) -> ResponsesDecoder {
        decoder.redacting(secrets)
    }
}
