//! What a client must know of the format it speaks, beside what its bytes mean.

mod chat;
mod converse;
mod gemini;
mod messages;
mod ollama;
mod responses;

use reqwest::Url;
use turnwright_core::ErrorInfo;
use turnwright_llm_stream::{LlmRequest, OutputWay, classify::Secrets, wire::WireDecoder};

use crate::signing::Signer;
pub use chat::{Chat, ChatClient};
pub use converse::{Converse, ConverseClient};
pub use gemini::{Gemini, GeminiClient};
pub use messages::{Messages, MessagesClient};
pub use ollama::{Ollama, OllamaClient};
pub use responses::{Responses, ResponsesClient};

/// A wire format as a client speaks it. Sealed: the formats are those of [`turnwright_llm_stream::wire`].
pub trait Format: sealed::Sealed + Send + Sync + 'static {
    /// Reads the answers.
    #[doc(hidden)]
    type Decoder: WireDecoder + 'static;
    /// The format's name in recordings, and as the program's options know it.
    #[doc(hidden)]
    const NAME: &'static str;
    /// Who defined the format, by the name traces show.
    #[doc(hidden)]
    const PROVIDER: &'static str;
    #[doc(hidden)]
    const BASE_URL: &'static str;
    /// What to do without one, where there is none by default.
    #[doc(hidden)]
    const WITHOUT_BASE_URL: Option<&'static str> = None;
    /// Variables that may hold the key; the first that is set counts.
    const KEY_VARS: &'static [&'static str];
    /// Variables that may hold the base URL; the first that is set counts.
    const BASE_URL_VARS: &'static [&'static str];
    /// Whether [`Self::BASE_URL`] wants a key.
    #[doc(hidden)]
    const NEEDS_KEY: bool = true;
    /// The part of the path that comes first, unless the base URL has one.
    #[doc(hidden)]
    const VERSION: &'static str = "";
    /// What is added to the base URL.
    #[doc(hidden)]
    const PATH: &'static str;
    /// Which header the key goes out in.
    #[doc(hidden)]
    const KEY: KeyHeader = KeyHeader::Bearer;
    /// Further headers of every request.
    #[doc(hidden)]
    const HEADERS: &'static [(&'static str, &'static str)] = &[];
    /// The media type of a streamed answer.
    #[doc(hidden)]
    const ACCEPT: &'static str = "text/event-stream";

    /// The base URL that variables give.
    #[doc(hidden)]
    fn base_url(var: &dyn Fn(&str) -> Option<String>) -> Result<Option<String>, ErrorInfo> {
        Ok(Self::BASE_URL_VARS.iter().find_map(|name| var(name)))
    }

    /// What signs the requests in the place of a key, as variables say.
    #[doc(hidden)]
    fn signer(_var: &dyn Fn(&str) -> Option<String>) -> Result<Option<Signer>, ErrorInfo> {
        Ok(None)
    }

    /// Where a request goes, given the base URL with [`Self::PATH`] added.
    #[doc(hidden)]
    fn address(url: Url, _request: &LlmRequest) -> Url {
        url
    }

    #[doc(hidden)]
    fn body(request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo>;

    /// How the format brings a model to answer in the form of the request's output.
    #[doc(hidden)]
    fn output_way(_request: &LlmRequest) -> OutputWay {
        OutputWay::OfferedTool
    }

    #[doc(hidden)]
    fn decoder(provider: &str, request: &LlmRequest) -> Self::Decoder;

    /// The decoder, which takes these secrets out of errors.
    #[doc(hidden)]
    fn redacting(decoder: Self::Decoder, secrets: Secrets) -> Self::Decoder;
}

/// Where a key goes.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyHeader {
    /// `Authorization: Bearer …`.
    Bearer,
    /// A header of its own.
    Named(&'static str),
}

mod sealed {
    pub trait Sealed {}
}
