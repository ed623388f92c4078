//! One client for every format.

mod builder;

use std::{fmt, marker::PhantomData, sync::Arc};

use futures::Stream;
use turnwright_core::{ErrorInfo, ErrorKind, TurnContext};
use turnwright_llm_stream::{LlmClient, LlmRequest, OutputWay, StreamItem};

pub use self::builder::HttpClientBuilder;
use crate::{
    exchange::exchange, format::Format, key::Key, recording::Asked, setup::Setup, transport::Transport,
};

/// A client that speaks one wire format over HTTP. Cheap to clone; clones share their connections.
///
/// Use it by the name of its format: [`ChatClient`](crate::ChatClient). It never retries and never follows a redirect.
/// Its limits are [`Timeouts`](crate::Timeouts); each has its own [`ErrorKind`](turnwright_core::ErrorKind). Dropping a stream closes its
/// connection.
pub struct HttpClient<F>(Arc<Transport>, PhantomData<fn() -> F>);

impl<F> Clone for HttpClient<F> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<F: Format> HttpClient<F> {
    /// Sets up a client.
    pub fn builder() -> HttpClientBuilder<F> {
        HttpClientBuilder::new(Setup::new(F::PROVIDER, F::BASE_URL))
    }

    /// A client as the environment says; the format's page names its variables. With a base URL the key may be missing, as
    /// local servers want none.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when nothing is set that must be, and as [`HttpClientBuilder::build`].
    pub fn from_env() -> Result<Self, ErrorInfo> {
        Self::from_vars(variable)
    }

    /// Where requests go: the base URL with what the format adds to it, but for the model where that is a part of it.
    pub fn url(&self) -> &str {
        self.0.url.as_str()
    }

    pub(crate) fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Self, ErrorInfo> {
        let builder = Self::builder().environment(&var)?;
        let is_set = |name: &&str| var(name).is_some_and(|value| !value.trim().is_empty());
        let is_hosted = builder.setup.base_url == F::BASE_URL || !F::BASE_URL_VARS.iter().any(is_set);
        if F::NEEDS_KEY && matches!(builder.setup.key, Key::None) && is_hosted {
            let (key, base_url) = (F::KEY_VARS.join(" or "), F::BASE_URL_VARS.join(" or "));
            let message = format!("{key} is not set; for a server without keys set {base_url}");
            return Err(ErrorInfo::new(ErrorKind::Configuration, message));
        }
        builder.build()
    }
}

impl<F> fmt::Debug for HttpClient<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HttpClient").field(&self.0).finish()
    }
}

impl<F: Format> LlmClient for HttpClient<F> {
    fn provider(&self) -> &str {
        &self.0.provider
    }

    fn output_way(&self, request: &LlmRequest) -> OutputWay {
        F::output_way(request)
    }

    fn stream(
        &self,
        ctx: &TurnContext,
        request: &LlmRequest,
    ) -> impl Stream<Item = StreamItem> + Send + 'static {
        let decoder = F::decoder(&self.0.provider, request);
        let decoder = move |secrets| F::redacting(decoder, secrets);
        let address = F::address(self.0.url.clone(), request);
        let asked = Asked { format: F::NAME, model: request.model.clone() };
        let clock = ctx.sources().clock.clone();
        exchange(self.0.clone(), address, clock, asked, F::body(request), decoder)
    }
}

/// A variable of the environment. One that is no UTF-8 is not taken for unset, which would ask another server: its wrong
/// characters stay, and are refused.
pub(crate) fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use turnwright_core::ErrorKind;

    use crate::ChatClient;

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
