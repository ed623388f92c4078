//! What the calls of one client have in common: the connection pool, the address, the headers, the limits.

use std::sync::Arc;

use reqwest::{
    Client, Method, Request, Url,
    header::{
        ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName,
        HeaderValue, USER_AGENT,
    },
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout,
};
use turnwright_core::{Clock, ErrorInfo, ErrorKind, Timestamp};
use turnwright_llm_stream::classify::Secrets;

use crate::{
    Timeouts, base_url,
    format::{Format, KeyHeader},
    key::{Key, KeySource},
    recording::Deck,
    setup::{Setup, configuration},
    signing::Signer,
};

pub(crate) struct Transport {
    pub(crate) provider: String,
    pub(crate) timeouts: Timeouts,
    client: Client,
    /// The base URL, with what the format adds to it.
    pub(crate) url: Url,
    headers: HeaderMap,
    /// A key that is not in the headers already, since it may change.
    key: Option<KeySource>,
    signer: Option<Signer>,
    /// What is secret in the headers.
    secrets: Vec<String>,
    known: Secrets,
    key_header: KeyHeader,
    /// As many as calls may run at once.
    slots: Option<Arc<Semaphore>>,
    pub(crate) deck: Deck,
}

/// Headers whose values are no secrets: answers repeat what stands in them, and what is taken for a secret is taken out of
/// errors and recordings.
const PUBLIC: [HeaderName; 5] = [ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, CONTENT_TYPE, USER_AGENT];

/// What a call goes out with, beside its body.
pub(crate) struct Credentials {
    pub(crate) headers: HeaderMap,
    /// What no error may repeat.
    pub(crate) secrets: Secrets,
    /// The key, where a source gave it.
    pub(crate) key: Option<String>,
}

impl Transport {
    /// Sets up a client for one base URL.
    pub(crate) fn new<F: Format>(mut setup: Setup) -> Result<Self, ErrorInfo> {
        if setup.replayer.is_some() && setup.base_url.is_empty() {
            // Nobody is asked there.
            setup.base_url = "http://127.0.0.1".into();
        }
        if let (true, Some(hint)) = (setup.base_url.is_empty(), F::WITHOUT_BASE_URL) {
            return Err(configuration(hint.into()));
        }
        let url = base_url::endpoint(&setup.base_url, F::VERSION, F::PATH)?;
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static(F::ACCEPT));
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        for (name, value) in F::HEADERS {
            headers.insert(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let mut secrets = Vec::new();
        let signer = setup.key.signer().cloned();
        if let Some(signer) = &signer {
            signer.check()?;
            secrets.extend(signer.secrets().into_iter().map(str::to_owned));
        }
        let key = match setup.key {
            Key::Value(ref key) if !key.trim().is_empty() => {
                headers.insert(F::KEY.name(), F::KEY.value(key.trim())?);
                secrets.push(key.trim().to_owned());
                None
            }
            Key::Source(ref source) => Some(KeySource::new(source.clone())),
            Key::Value(_) | Key::Signer(_) | Key::None => None,
        };
        for (name, value) in &setup.headers {
            let name = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| configuration(format!("{name:?} is no name for a header")))?;
            let parsed = header_value(&format!("the value of the header {name}"), value)?;
            if !PUBLIC.contains(&name) {
                secrets.push(value.clone());
            }
            headers.insert(name, parsed);
        }
        if setup.max_calls == Some(0) {
            return Err(configuration("no call could ever run: the limit of calls at once is 0".into()));
        }
        let client = setup.client(&url)?;
        let Setup { provider, timeouts, max_calls, recorder, replayer, .. } = setup;
        let slots = max_calls.map(|calls| Arc::new(Semaphore::new(calls.min(Semaphore::MAX_PERMITS))));
        Ok(Self {
            provider,
            timeouts: timeouts.clamped(),
            client,
            url,
            headers,
            known: Secrets::new(secrets.iter().map(String::as_str)),
            secrets,
            key,
            signer,
            key_header: F::KEY,
            slots,
            deck: Deck::new(F::NAME, recorder, replayer)?,
        })
    }

    /// Waits until the call may run, for no longer than a call may take.
    ///
    /// # Cancel safety
    /// Dropped, it gives its place in the queue up.
    pub(crate) async fn slot(&self) -> Result<Option<OwnedSemaphorePermit>, ErrorInfo> {
        let Some(slots) = &self.slots else { return Ok(None) };
        match timeout(self.timeouts.total, slots.clone().acquire_owned()).await {
            // It is never closed.
            Ok(slot) => Ok(slot.ok()),
            Err(_) => {
                let limit = self.timeouts.total;
                let message =
                    format!("no call of this client ended within {limit:?}, and no more may run at once");
                Err(ErrorInfo::new(ErrorKind::TotalTimeout, message))
            }
        }
    }

    /// The headers of a call, with the key as it is now.
    pub(crate) async fn credentials(&self, clock: &dyn Clock) -> Result<Credentials, ErrorInfo> {
        let mut headers = self.headers.clone();
        // What is replayed was asked for with the key of its time.
        let key = self.key.as_ref().filter(|_| self.deck.replayer().is_none());
        let Some(key) = key else {
            return Ok(Credentials { headers, secrets: self.known.clone(), key: None });
        };
        // In a box: few calls need it, and it would make the future of each of them larger by files and processes.
        let key = Box::pin(key.get(clock)).await?;
        // A header of the user's own replaces it.
        headers.entry(self.key_header.name()).or_insert(self.key_header.value(&key)?);
        let secrets = Secrets::new(self.secrets.iter().chain([&key]).map(String::as_str));
        Ok(Credentials { headers, secrets, key: Some(key) })
    }

    /// The server refused this key. One that a command printed is not used again.
    pub(crate) fn forget_key(&self, refused: Option<&str>) {
        if let (Some(source), Some(refused)) = (&self.key, refused) {
            source.forget(refused);
        }
    }

    /// Sends a request and waits for the head of the answer.
    pub(crate) async fn send(
        &self,
        to: Url,
        headers: HeaderMap,
        body: Vec<u8>,
        now: Timestamp,
    ) -> Result<reqwest::Response, ErrorInfo> {
        let mut request = Request::new(Method::POST, to);
        *request.headers_mut() = headers;
        if let Some(signer) = &self.signer {
            signer.sign(&mut request, &body, now)?;
        }
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
    pub(crate) fn finish_error(&self, mut error: ErrorInfo, secrets: &Secrets) -> ErrorInfo {
        error.message = secrets.redact(&error.message).into_owned();
        error.code = error.code.map(|code| secrets.redact(&code).into_owned());
        error.provider = Some(self.provider.clone());
        error
    }
}

impl KeyHeader {
    fn name(self) -> HeaderName {
        match self {
            Self::Bearer => AUTHORIZATION,
            Self::Named(name) => HeaderName::from_static(name),
        }
    }

    fn value(self, key: &str) -> Result<HeaderValue, ErrorInfo> {
        let what = "the API key";
        match self {
            Self::Bearer => header_value(what, &format!("Bearer {key}")),
            Self::Named(_) => header_value(what, key),
        }
    }
}

impl std::fmt::Debug for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut headers: Vec<_> = self.headers.keys().cloned().collect();
        if self.key.is_some() && !headers.contains(&self.key_header.name()) {
            headers.push(self.key_header.name());
        }
        f.debug_struct("Transport")
            .field("provider", &self.provider)
            .field("url", &self.url.as_str())
            .field("headers", &headers.iter().map(HeaderName::as_str).collect::<Vec<_>>())
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
