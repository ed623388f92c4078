//! Ollama's own.

use std::net::Ipv6Addr;

use reqwest::Url;
use turnwright_core::{ErrorInfo, ErrorKind};
use turnwright_llm_stream::{
    LlmRequest, OutputWay,
    classify::Secrets,
    wire::ollama::{OllamaDecoder, ollama_body, ollama_output_way},
};

use super::{Format, sealed::Sealed};
use crate::HttpClient;

/// A client for Ollama's own API, which knows more than the compatible one: thoughts, pictures, and what a model is loaded
/// with.
///
/// Its environment: `OLLAMA_HOST` as Ollama reads it (a host, a port or both, perhaps with a scheme), by default
/// `http://127.0.0.1:11434`, and `OLLAMA_API_KEY` where a server wants a key. To the base URL `/api/chat` is added.
pub type OllamaClient = HttpClient<Ollama>;

/// Ollama's format.
#[derive(Debug)]
pub enum Ollama {}

impl Sealed for Ollama {}

impl Format for Ollama {
    type Decoder = OllamaDecoder;
    const NAME: &'static str = "ollama";
    const PROVIDER: &'static str = "ollama";
    const BASE_URL: &'static str = "http://127.0.0.1:11434";
    const KEY_VARS: &'static [&'static str] = &["OLLAMA_API_KEY"];
    const BASE_URL_VARS: &'static [&'static str] = &["OLLAMA_HOST"];
    const NEEDS_KEY: bool = false;
    const VERSION: &'static str = "/api";
    const PATH: &'static str = "/chat";
    const ACCEPT: &'static str = "application/x-ndjson";

    fn base_url(var: &dyn Fn(&str) -> Option<String>) -> Result<Option<String>, ErrorInfo> {
        var("OLLAMA_HOST").map(|host| server(host.trim())).transpose()
    }

    fn body(request: &LlmRequest) -> Result<Vec<u8>, ErrorInfo> {
        ollama_body(request)
    }

    fn output_way(request: &LlmRequest) -> OutputWay {
        ollama_output_way(request)
    }

    fn decoder(provider: &str, request: &LlmRequest) -> OllamaDecoder {
        OllamaDecoder::for_request(provider, request)
    }

    fn redacting(decoder: OllamaDecoder, secrets: Secrets) -> OllamaDecoder {
        decoder.redacting(secrets)
    }
}

/// The server that `OLLAMA_HOST` names: the port is 11434 unless it or a scheme says another, and the address to listen on
/// everywhere is reached on this machine.
fn server(host: &str) -> Result<String, ErrorInfo> {
    // Files of variables that are no scripts leave quotes in.
    let host = host.trim_matches(['"', '\'']).trim();
    let (address, has_scheme) = match host.contains("://") {
        true => (host.to_owned(), true),
        false if host.parse::<Ipv6Addr>().is_ok() => (format!("http://[{host}]"), false),
        false if host.starts_with(':') => (format!("http://127.0.0.1{host}"), false),
        false => (format!("http://{host}"), false),
    };
    let mut url = Url::parse(&address)
        .map_err(|e| ErrorInfo::new(ErrorKind::Configuration, format!("OLLAMA_HOST is no address: {e}")))?;
    let place = address.split("://").nth(1).and_then(|rest| rest.split('/').next()).unwrap_or_default();
    // The usual one of http is no longer to be seen in the URL.
    let names_port = place.ends_with(":80") || url.port().is_some();
    if !has_scheme && !names_port {
        // Of an address without a scheme no port is the usual one; this cannot fail for http.
        let _ = url.set_port(Some(11434));
    }
    if matches!(url.host_str(), Some("0.0.0.0" | "[::]")) {
        let _ = url.set_host(Some("127.0.0.1"));
    }
    Ok(url.as_str().trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_is_read_as_the_server_reads_it() {
        for (host, expected) in [
            ("10.0.0.7", "http://10.0.0.7:11434"),
            ("box:99", "http://box:99"),
            (":99", "http://127.0.0.1:99"),
            ("0.0.0.0", "http://127.0.0.1:11434"),
            ("0.0.0.0:80", "http://127.0.0.1"),
            ("https://ollama.example/", "https://ollama.example"),
            ("http://box", "http://box"),
            ("[::1]:9", "http://[::1]:9"),
            ("[::1]", "http://[::1]:11434"),
            ("::1", "http://[::1]:11434"),
            ("::", "http://127.0.0.1:11434"),
            ("\"10.0.0.7:99\"", "http://10.0.0.7:99"),
            ("box:80/proxied", "http://box/proxied"),
            ("box/proxied", "http://box:11434/proxied"),
        ] {
            assert_eq!(server(host).unwrap(), expected, "{host}");
        }
        assert_eq!(server("a b").unwrap_err().kind, ErrorKind::Configuration);
    }
}
