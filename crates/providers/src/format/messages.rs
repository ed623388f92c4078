//! Anthropic's Messages.

use turnwright_core::ErrorInfo;
use turnwright_llm_stream::{
    LlmRequest, OutputWay,
    classify::Secrets,
    wire::messages::{MessagesDecoder, messages_body, messages_output_way},
};

use super::{Format, KeyHeader, sealed::Sealed};
use crate::HttpClient;

/// A client for Anthropic's Messages API and for the servers that are compatible with it.
///
/// Its environment: `ANTHROPIC_API_KEY`, and `ANTHROPIC_BASE_URL` for a server of your own, which may need no key. To the
/// base URL `/v1/messages` is added, or `/messages` where it names a version already. The version of the API is
/// `2023-06-01`; beta features are switched on by the [header](crate::HttpClientBuilder::header) `anthropic-beta`.
pub type MessagesClient = HttpClient<Messages>;

/// The Messages format.
#[derive(Debug)]
pub enum Messages {}

impl Sealed for Messages {}

impl Format for Messages {
    type Decoder = MessagesDecoder;
    const NAME: &'static str = "anthropic";
    const PROVIDER: &'static str = "anthropic";
    const BASE_URL: &'static str = "https://api.anthropic.com";
    const KEY_VARS: &'static [&'static str] = &["ANTHROPIC_API_KEY"];
    const BASE_URL_VARS: &'static [&'static str] = &["ANTHROPIC_BASE_URL"];
    const VERSION: &'static str = "/v1";
    const PATH: &'static str = "/messages";
    const KEY: KeyHeader = KeyHeader::Named("x-api-key");
    const HEADERS: &'static [(&'static str, &'static str)] = &[("anthropic-version", "2023-06-01")];

    fn body(request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo> {
        messages_body(request)
    }

    fn output_way(request: &LlmRequest) -> OutputWay {
        messages_output_way(request)
    }

    fn decoder(provider: &str, request: &LlmRequest) -> MessagesDecoder {
        MessagesDecoder::for_request(provider, request)
    }

    fn redacting(decoder: MessagesDecoder, secrets: Secrets) -> MessagesDecoder {
        decoder.redacting(secrets)
    }
}
