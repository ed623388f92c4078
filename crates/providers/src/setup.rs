//! What a client is set up with, whatever its format.

use reqwest::{Certificate, Client, Proxy, redirect};
use turnwright_core::{ErrorInfo, ErrorKind};

use crate::{Recorder, Replayer, Timeouts, key::Key, transport::root_cause};

#[derive(Clone)]
pub(crate) struct Setup {
    pub(crate) base_url: String,
    pub(crate) key: Key,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) timeouts: Timeouts,
    pub(crate) provider: String,
    pub(crate) proxy: Option<String>,
    /// PEM files, each with one certificate or more.
    pub(crate) roots: Vec<Vec<u8>>,
    pub(crate) max_calls: Option<usize>,
    pub(crate) recorder: Option<Recorder>,
    pub(crate) replayer: Option<Replayer>,
}

impl Setup {
    pub(crate) fn new(provider: &str, base_url: &str) -> Self {
        Self {
            base_url: base_url.into(),
            key: Key::None,
            headers: Vec::new(),
            timeouts: Timeouts::default(),
            provider: provider.into(),
            proxy: None,
            roots: Vec::new(),
            max_calls: None,
            recorder: None,
            replayer: None,
        }
    }

    /// The connections: a pool, with the proxy and the certificates that were given.
    pub(crate) fn client(&self, is_loopback: bool) -> Result<Client, ErrorInfo> {
        let mut builder = Client::builder()
            .user_agent(concat!("turnwright/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.timeouts.clamped().connect)
            // A redirect would carry the key and the conversation to wherever it points.
            .redirect(redirect::Policy::none());
        if let Some(proxy) = &self.proxy {
            // Its words may repeat the address, in which a password may stand.
            let proxy = Proxy::all(proxy.trim())
                .map_err(|_| configuration("the address of the proxy is not valid".into()))?;
            builder = builder.proxy(proxy);
        } else if is_loopback {
            // No proxy of the environment can reach this machine's own servers for us.
            builder = builder.no_proxy();
        }
        for pem in &self.roots {
            let certificates = Certificate::from_pem_bundle(pem).unwrap_or_default();
            if certificates.is_empty() {
                return Err(configuration("a root certificate is no certificate in PEM form".into()));
            }
            builder = builder.tls_certs_merge(certificates);
        }
        builder
            .build()
            .map_err(|e| configuration(format!("the HTTP client cannot be set up: {}", root_cause(&e))))
    }
}

pub(crate) fn configuration(message: String) -> ErrorInfo {
    ErrorInfo::new(ErrorKind::Configuration, message)
}
