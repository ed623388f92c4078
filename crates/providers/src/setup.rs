//! What a client is set up with, whatever its format.

use std::env;

use reqwest::{Certificate, Client, Proxy, Url, redirect};
use turnwright_core::{ErrorInfo, ErrorKind};

use crate::{Recorder, Replayer, Timeouts, base_url::is_loopback, key::Key, transport::root_cause};

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
    pub(crate) fn client(&self, to: &Url) -> Result<Client, ErrorInfo> {
        let mut builder = Client::builder()
            .user_agent(concat!("turnwright/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(self.timeouts.clamped().connect)
            // A redirect would carry the key and the conversation to wherever it points.
            .redirect(redirect::Policy::none());
        if let Some(proxy) = &self.proxy {
            // Its words may repeat the address, in which a password may stand.
            let wrong = || {
                let message = "the address of the proxy is not valid; one is like http://proxy:3128, and SOCKS is not spoken";
                configuration(message.into())
            };
            if !is_proxy(proxy.trim(), &["http", "https"]) {
                return Err(wrong());
            }
            builder = builder.proxy(Proxy::all(proxy.trim()).map_err(|_| wrong())?);
        } else if is_loopback(to) {
            // No proxy of the environment can reach this machine's own servers for us.
            builder = builder.no_proxy();
        } else {
            check_environment(to)?;
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

/// What a proxy's address may begin with for the HTTP client not to pass it over.
const SCHEMES: [&str; 6] = ["http", "https", "socks4", "socks4a", "socks5", "socks5h"];

/// Refuses a variable that names no proxy: the HTTP client would ask the server directly instead.
fn check_environment(to: &Url) -> Result<(), ErrorInfo> {
    let own =
        if to.scheme() == "https" { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
    for names in [own, ["ALL_PROXY", "all_proxy"]] {
        // The first that is set counts, also when it is blank.
        let set = names.into_iter().find_map(|name| Some((name, env::var_os(name)?)));
        let Some((name, value)) = set.filter(|(_, value)| !value.is_empty()) else { continue };
        if value.to_str().is_some_and(|value| is_proxy(value, &SCHEMES)) {
            return Ok(());
        }
        return Err(configuration(format!("{name} names no proxy; one is like http://proxy:3128")));
    }
    Ok(())
}

fn is_proxy(address: &str, schemes: &[&str]) -> bool {
    let full = if address.contains("://") { address.to_owned() } else { format!("http://{address}") };
    let is_plain = !address.contains(|c: char| c.is_whitespace() || c.is_control());
    is_plain && Url::parse(&full).is_ok_and(|url| url.has_host() && schemes.contains(&url.scheme()))
}

pub(crate) fn configuration(message: String) -> ErrorInfo {
    ErrorInfo::new(ErrorKind::Configuration, message)
}
