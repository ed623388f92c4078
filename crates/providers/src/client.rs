//! One client for every format.

use std::{fmt, marker::PhantomData, sync::Arc};

use futures::Stream;
use turnwright_core::{ErrorInfo, TurnContext};
use turnwright_llm_stream::{LlmClient, LlmRequest, StreamItem};

use crate::{
    Recorder, Replayer, Timeouts, base_url,
    exchange::exchange,
    format::{Environment, Format},
    recording::{Asked, Deck},
    transport::Transport,
};

/// A client that speaks one wire format over HTTP. Cheap to clone; clones share their connections.
///
/// Use it by the name of its format: [`ChatClient`](crate::ChatClient). It never retries and never follows a redirect.
/// Its limits are [`Timeouts`]; each has its own [`ErrorKind`](turnwright_core::ErrorKind). Dropping a stream closes its
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
        HttpClientBuilder {
            base_url: F::BASE_URL.into(),
            api_key: None,
            headers: Vec::new(),
            timeouts: Timeouts::default(),
            provider: F::PROVIDER.into(),
            recorder: None,
            replayer: None,
            format: PhantomData,
        }
    }

    /// A client as the environment says; the format's page names its variables. With a base URL the key may be missing, as
    /// local servers want none.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](turnwright_core::ErrorKind::Configuration) when nothing is set, and as
    /// [`HttpClientBuilder::build`].
    pub fn from_env() -> Result<Self, ErrorInfo> {
        Self::from_vars(|name| std::env::var(name).ok())
    }

    pub(crate) fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Self, ErrorInfo> {
        let var = |name: &str| var(name).filter(|value| !value.trim().is_empty());
        let Environment { key, base_url } = F::environment(&var)?;
        let mut builder = Self::builder();
        builder.api_key = key;
        if let Some(base_url) = base_url {
            builder.base_url = base_url;
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

    fn stream(
        &self,
        ctx: &TurnContext,
        request: &LlmRequest,
    ) -> impl Stream<Item = StreamItem> + Send + 'static {
        let decoder = F::decoder(&self.0.provider, request, self.0.secrets.clone());
        let address = F::address(self.0.url.clone(), request);
        let asked = Asked { format: F::NAME, model: request.model.clone() };
        let clock = ctx.sources().clock.clone();
        exchange(self.0.clone(), address, clock, asked, F::body(request), decoder)
    }
}

/// Builds an [`HttpClient`].
#[must_use]
pub struct HttpClientBuilder<F> {
    base_url: String,
    api_key: Option<String>,
    headers: Vec<(String, String)>,
    timeouts: Timeouts,
    provider: String,
    recorder: Option<Recorder>,
    replayer: Option<Replayer>,
    format: PhantomData<fn() -> F>,
}

impl<F: Format> HttpClientBuilder<F> {
    /// The address up to and without what the format adds to it (`/chat/completions`, for example), such as
    /// `http://127.0.0.1:8080/v1`. That of the provider who defined the format by default.
    pub fn base_url(mut self, base_url: impl Into<String>) -> Self {
        self.base_url = base_url.into();
        self
    }

    /// The key, sent where the format wants it. White space round it is dropped; without it none is sent.
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

    /// The provider's name in errors and traces. That of who defined the format by default.
    pub fn provider(mut self, name: impl Into<String>) -> Self {
        self.provider = name.into();
        self
    }

    /// Writes every exchange down. Several clients may share a recorder.
    pub fn record(mut self, recorder: &Recorder) -> Self {
        self.recorder = Some(recorder.clone());
        self
    }

    /// Answers from recordings; nothing is sent, and no key is needed. Several clients may share a replayer.
    pub fn replay(mut self, replayer: &Replayer) -> Self {
        self.replayer = Some(replayer.clone());
        self
    }

    /// The client. Nothing is sent yet.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`](turnwright_core::ErrorKind::Configuration) when the base URL, the key or a header
    /// cannot be used, with words that say what to change and never repeat the key; when it is to record and to replay at
    /// once; and when none of the recordings to replay is of this format.
    pub fn build(self) -> Result<HttpClient<F>, ErrorInfo> {
        let url = base_url::endpoint(&self.base_url, F::PATH)?;
        let key = self.api_key.as_deref();
        let mut transport = Transport::new::<F>(self.provider, url, key, &self.headers, self.timeouts)?;
        transport.deck = Deck::new(F::NAME, self.recorder, self.replayer)?;
        Ok(HttpClient(Arc::new(transport), PhantomData))
    }
}

impl<F> Clone for HttpClientBuilder<F> {
    fn clone(&self) -> Self {
        Self {
            base_url: self.base_url.clone(),
            api_key: self.api_key.clone(),
            headers: self.headers.clone(),
            timeouts: self.timeouts,
            provider: self.provider.clone(),
            recorder: self.recorder.clone(),
            replayer: self.replayer.clone(),
            format: PhantomData,
        }
    }
}

impl<F> fmt::Debug for HttpClientBuilder<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpClientBuilder")
            .field("provider", &self.provider)
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
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
