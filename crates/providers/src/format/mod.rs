//! What a client must know of the format it speaks, beside what its bytes mean.

mod chat;
mod responses;

use reqwest::Url;
use turnwright_core::{ErrorInfo, ErrorKind};
use turnwright_llm_stream::{LlmRequest, classify::Secrets, wire::WireDecoder};

pub use chat::{Chat, ChatClient};
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

    /// What the environment says.
    #[doc(hidden)]
    fn environment(var: &dyn Fn(&str) -> Option<String>) -> Result<Environment, ErrorInfo>;

    /// Where a request goes, given the base URL with [`Self::PATH`] added.
    #[doc(hidden)]
    fn address(url: Url, _request: &LlmRequest) -> Url {
        url
    }

    #[doc(hidden)]
    fn body(request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo>;

    #[doc(hidden)]
    fn decoder(provider: &str, request: &LlmRequest, secrets: Secrets) -> Self::Decoder;
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

/// A key and a base URL, as far as they are set.
#[doc(hidden)]
#[derive(Default)]
pub struct Environment {
    pub(crate) key: Option<String>,
    pub(crate) base_url: Option<String>,
}

impl Environment {
    /// The key of this variable, and the base URL of that one; one of them must be set.
    fn of(var: &dyn Fn(&str) -> Option<String>, key: &str, base_url: &str) -> Result<Self, ErrorInfo> {
        let set = Self { key: var(key), base_url: var(base_url) };
        if set.key.is_none() && set.base_url.is_none() {
            let message = format!("{key} is not set; for a server without keys set {base_url}");
            return Err(ErrorInfo::new(ErrorKind::Configuration, message));
        }
        Ok(set)
    }
}

mod sealed {
    pub trait Sealed {}
}
