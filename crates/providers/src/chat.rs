//! The chat completions client.

use std::sync::Arc;

use futures::Stream;
use turnwright_core::{ErrorInfo, ErrorKind, TurnContext};
use turnwright_llm_stream::{
    LlmClient, LlmRequest, StreamItem,
    wire::chat::{ChatDecoder, chat_body},
};

use crate::{Timeouts, base_url, exchange::exchange, transport::Transport};

const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";
const DEFAULT_PROVIDER: &str = "openai";

/// A client for OpenAI's chat completions API and for the servers that are compatible with it. Cheap to clone; clones
/// share their connections.
///
/// It never retries and never follows a redirect. Its limits are [`Timeouts`]; each has its own
/// [`ErrorKind`]. Dropping a stream closes its connection.
#[derive(Clone)]
pub struct ChatClient(Arc<Transport>);

impl ChatClient {
    /// Sets up a client.
    pub fn builder() -> ChatClientBuilder {
        ChatClientBuilder {
            base_url: DEFAULT_BASE_URL.into(),
            api_key: None,
            headers: Vec::new(),
            timeouts: Timeouts::default(),
            provider: DEFAULT_PROVIDER.into(),
        }
    }

    /// A client as the environment says: the key from `OPENAI_API_KEY`, the base URL from `OPENAI_BASE_URL`. With a
    /// base URL the key may be missing, as local servers want none.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when neither is set, and as [`ChatClientBuilder::build`].
    pub fn from_env() -> Result<Self, ErrorInfo> {
        Self::from_vars(|name| std::env::var(name).ok())
    }

    fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Self, ErrorInfo> {
        let var = |name| var(name).filter(|value| !value.trim().is_empty());
        let mut builder = Self::builder();
        match (var("OPENAI_API_KEY"), var("OPENAI_BASE_URL")) {
            (None, None) => {
                let message = "OPENAI_API_KEY is not set; for a server without keys set OPENAI_BASE_URL";
                return Err(ErrorInfo::new(ErrorKind::Configuration, message));
            }
            (key, base_url) => {
                if let Some(key) = key {
                    builder = builder.api_key(key);
                }
                if let Some(base_url) = base_url {
                    builder = builder.base_url(base_url);
                }
            }
        }
        builder.build()
    }
}

impl std::fmt::Debug for ChatClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ChatClient").field(&self.0).finish()
    }
}

impl LlmClient for ChatClient {
    fn provider(&self) -> &str {
        &self.0.provider
    }

    fn stream(
        &self,
        ctx: &TurnContext,
        request: &LlmRequest,
    ) -> impl Stream<Item = StreamItem> + Send + 'static {
        let decoder =
            ChatDecoder::for_request(self.0.provider.as_str(), request).redacting(self.0.secrets.clone());
        exchange(self.0.clone(), ctx.sources().clock.clone(), chat_body(request), decoder)
    }
}

/// Builds a [`ChatClient`].
#[derive(Clone)]
#[must_use]
pub struct ChatClientBuilder {
    base_url: String,
    api_key: Option<String>,
    headers: Vec<(String, String)>,
    timeouts: Timeouts,
    provider: String,
}

impl ChatClientBuilder {
    /// The address up to and without `/chat/completions`, for example `http://127.0.0.1:8080/v1`. OpenAI's own by
    /// default.
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = base_url.into();
        self
    }

    /// The key, sent as a bearer token. White space round it is dropped; without it none is sent.
    pub fn api_key(mut self, key: impl Into<String>) -> Self {
        self.api_key = Some(key.into());
        self
    }

    /// A further header for every request. It replaces one of the client's own of the same name; its value is treated
    /// as a secret.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    /// How long to wait for what.
    pub fn timeouts(mut self, timeouts: Timeouts) -> Self {
        self.timeouts = timeouts;
        self
    }

    /// The provider's name in errors and traces. `openai` by default.
    pub fn provider(mut self, name: impl Into<String>) -> Self {
        self.provider = name.into();
        self
    }

    /// The client. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when the base URL, the key or a header cannot be used, with words that say what to
    /// change and never repeat the key.
    pub fn build(self) -> Result<ChatClient, ErrorInfo> {
        let url = base_url::endpoint(&self.base_url, "/chat/completions")?;
        let key = self.api_key.as_deref();
        let transport = Transport::new(self.provider, url, key, &self.headers, self.timeouts)?;
        Ok(ChatClient(Arc::new(transport)))
    }
}

impl std::fmt::Debug for ChatClientBuilder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ChatClientBuilder")
            .field("provider", &self.provider)
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_in_no_debug_output_and_no_error() {
        let builder = ChatClient::builder().api_key("sk-very-secret").header("x-token", "hush-hush-hush");
        let text = format!("{builder:?} {:?}", builder.clone().build().unwrap());
        assert!(!text.contains("secret") && !text.contains("hush"), "{text}");
        assert!(text.contains("x-token"), "{text}");
        for broken in [
            ChatClient::builder().api_key("sk-very\nsecret"),
            ChatClient::builder().header("x-token", "hush\u{0}"),
            ChatClient::builder().header("bad name", "hush"),
        ] {
            let error = broken.build().unwrap_err();
            assert_eq!(error.kind, ErrorKind::Configuration);
            assert!(!error.message.contains("secret") && !error.message.contains("hush"), "{error}");
        }
    }

    #[test]
    fn the_environment_names_the_key_and_the_address() {
        let client = |vars: &'static [(&str, &str)]| {
            ChatClient::from_vars(|name| {
                vars.iter().find(|(n, _)| *n == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let error = client(&[("OPENAI_API_KEY", " ")]).unwrap_err();
        assert!(error.message.contains("OPENAI_API_KEY"), "{error}");
        let local = client(&[("OPENAI_BASE_URL", "http://127.0.0.1:1/v1")]).unwrap();
        let text = format!("{local:?}");
        assert!(text.contains("127.0.0.1:1/v1/chat") && !text.contains("authorization"), "{text}");
        let hosted = format!("{:?}", client(&[("OPENAI_API_KEY", "sk-0123456789")]).unwrap());
        assert!(hosted.contains("api.openai.com") && hosted.contains("authorization"), "{hosted}");
        assert_eq!(client(&[("OPENAI_BASE_URL", "nope")]).unwrap_err().kind, ErrorKind::Configuration);
    }
}
