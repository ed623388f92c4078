//! What the calls of one client have in common: the connection pool, the address, the headers, the limits.

use reqwest::{
    Client, Method, Request, Url,
    header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue},
    redirect,
};
use turnwright_core::{ErrorInfo, ErrorKind};
use turnwright_llm_stream::classify::Secrets;

use crate::{
    Timeouts, base_url,
    format::{Format, KeyHeader},
    recording::Deck,
};

pub(crate) struct Transport {
    pub(crate) provider: String,
    pub(crate) timeouts: Timeouts,
    client: Client,
    /// The base URL, with what the format adds to it.
    pub(crate) url: Url,
    headers: HeaderMap,
    pub(crate) secrets: Secrets,
    pub(crate) deck: Deck,
}

impl Transport {
    /// Sets up a client for one base URL.
    pub(crate) fn new<F: Format>(
        provider: String,
        url: Url,
        key: Option<&str>,
        extra: &[(String, String)],
        timeouts: Timeouts,
    ) -> Result<Self, ErrorInfo> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(F::ACCEPT));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in F::HEADERS {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let mut secrets = Vec::new();
        if let Some(key) = key.map(str::trim).filter(|key| !key.is_empty()) {
            let what = "the API key";
            match F::KEY {
                KeyHeader::Bearer => {
                    headers.insert(AUTHORIZATION, header_value(what, &format!("Bearer {key}"))?)
                }
                KeyHeader::Named(name) => {
                    headers.insert(HeaderName::from_static(name), header_value(what, key)?)
                }
            };
            secrets.push(key);
        }
        for (name, value) in extra {
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| configuration(format!("{name:?} is no name for a header")))?;
            let parsed = header_value(&format!("the value of the header {name}"), value)?;
            headers.insert(name, parsed);
            secrets.push(value.as_str());
        }
        let secrets = Secrets::new(secrets);
        let timeouts = timeouts.clamped();
        let mut builder = Client::builder()
            .user_agent(concat!("turnwright/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(timeouts.connect)
            // A redirect would carry the key and the conversation to wherever it points.
            .redirect(redirect::Policy::none());
        if base_url::is_loopback(&url) {
            builder = builder.no_proxy();
        }
        let client = builder
            .build()
            .map_err(|e| configuration(format!("the HTTP client cannot be set up: {}", root_cause(&e))))?;
        Ok(Self { provider, timeouts, client, url, headers, secrets, deck: Deck::default() })
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(&self, to: Url, body: Vec<u8>) -> Result<reqwest::Response, ErrorInfo> {
        let mut request = Request::new(Method::POST, to);
        *request.headers_mut() = self.headers.clone();
        *request.body_mut() = Some(body.into());
        self.client.execute(request).await.map_err(|e| {
            let cause = root_cause(&e);
            match (e.is_connect(), e.is_timeout()) {
                (true, true) => {
                    let limit = self.timeouts.connect;
                    ErrorInfo::new(ErrorKind::ConnectTimeout, format!("no connection within {limit:?}"))
                }
                (true, false) => ErrorInfo::new(ErrorKind::Connection, format!("no connection: {cause}")),
                _ => {
                    let message = format!("the connection broke before the answer began: {cause}");
                    ErrorInfo::new(ErrorKind::Connection, message)
                }
            }
        })
    }

    /// Names the provider in an error and takes secrets out that a server repeated.
    pub(crate) fn finish_error(&self, mut error: ErrorInfo) -> ErrorInfo {
        error.message = self.secrets.redact(&error.message).into_owned();
        error.code = error.code.map(|code| self.secrets.redact(&code).into_owned());
        error.provider = Some(self.provider.clone());
        error
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transport")
            .field("provider", &self.provider)
            .field("url", &self.url.as_str())
            .field("headers", &self.headers.keys().map(HeaderName::as_str).collect::<Vec<_>>())
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

/// The innermost words of an error. The outer ones repeat the address, which may hold what is not for logs.
pub(crate) fn root_cause(error: &reqwest::Error) -> String {
    let mut cause = std::error::Error::source(error);
    let mut words = None;
    while let Some(inner) = cause {
        words = Some(inner.to_string());
        cause = inner.source();
    }
    words.unwrap_or_else(|| "unknown cause".into())
}

fn header_value(what: &str, value: &str) -> Result<HeaderValue, ErrorInfo> {
    let mut value = HeaderValue::from_str(value)
        .map_err(|_| configuration(format!("{what} holds characters that no header may have")))?;
    value.set_sensitive(true);
    Ok(value)
}

fn configuration(message: String) -> ErrorInfo {
    ErrorInfo::new(ErrorKind::Configuration, message)
}
