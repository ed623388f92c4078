//! Checks a base URL, with errors that say what to change.

use reqwest::Url;
use turnwright_core::{ErrorInfo, ErrorKind};

/// The address below a base URL. The version is a part of the path that people may have given or not: it is added when
/// the base URL names none.
///
/// # Errors
/// [`ErrorKind::Configuration`] when the base URL is none. The message does not repeat credentials.
pub(crate) fn endpoint(base_url: &str, version: &str, path: &str) -> Result<Url, ErrorInfo> {
    let base_url = base_url.trim();
    let wrong = |why: String| Err(ErrorInfo::new(ErrorKind::Configuration, why));
    if base_url.is_empty() {
        return wrong("the base URL is empty; an example is http://127.0.0.1:8080/v1".into());
    }
    let mut url = match Url::parse(base_url) {
        Ok(url) => url,
        Err(_) if !base_url.contains("://") => {
            return wrong("the base URL has no scheme; it must begin with http:// or https://".into());
        }
        Err(e) => return wrong(format!("the base URL is not valid: {e}")),
    };
    if !matches!(url.scheme(), "http" | "https") {
        return wrong(format!("the base URL has the scheme {}; it must be http or https", url.scheme()));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return wrong("the base URL holds credentials; give the key as the API key".into());
    }
    if url.query().is_some() || url.fragment().is_some() {
        return wrong("the base URL has a query or a fragment; it must end with its path".into());
    }
    let base_path = url.path().trim_end_matches('/');
    if !path.is_empty() && base_path.ends_with(path) {
        return wrong(format!("the base URL ends with {path}; leave that out, it is added"));
    }
    let has_version = base_path.ends_with(version) || base_path.split('/').any(is_version);
    let version = if has_version { "" } else { version };
    let full = format!("{base_path}{version}{path}");
    url.set_path(&full);
    Ok(url)
}

/// `v1`, `v1beta` and the like.
fn is_version(segment: &str) -> bool {
    segment.strip_prefix('v').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether the address is this machine's own, which no proxy can reach for us.
pub(crate) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let is_own = |ip: std::net::IpAddr| {
        let ip = ip.to_canonical();
        // That to listen on everywhere is asked here.
        ip.is_loopback() || ip.is_unspecified()
    };
    host == "localhost" || host.ends_with(".localhost") || host.parse().is_ok_and(is_own)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: &str = "/chat/completions";

    #[test]
    fn a_base_url_may_end_with_slashes_and_have_a_path() {
        for base in ["http://h:1/v1", " http://h:1/v1/ ", "http://h:1/v1//"] {
            assert_eq!(endpoint(base, "", PATH).unwrap().as_str(), "http://h:1/v1/chat/completions");
        }
        assert_eq!(endpoint("https://h", "", PATH).unwrap().as_str(), "https://h/chat/completions");
    }

    #[test]
    fn a_version_is_added_where_the_base_url_has_none() {
        for (base, expected) in [
            ("https://h", "https://h/v1/messages"),
            ("https://h/v1/", "https://h/v1/messages"),
            ("https://h/v1beta/x", "https://h/v1beta/x/messages"),
            ("https://h/anthropic", "https://h/anthropic/v1/messages"),
            ("https://h/vertex", "https://h/vertex/v1/messages"),
        ] {
            assert_eq!(endpoint(base, "/v1", "/messages").unwrap().as_str(), expected);
        }
        for base in ["http://h:11434", "http://h:11434/api/"] {
            assert_eq!(endpoint(base, "/api", "/chat").unwrap().as_str(), "http://h:11434/api/chat");
        }
        assert_eq!(endpoint("http://h", "/v1beta", "").unwrap().as_str(), "http://h/v1beta");
    }

    #[test]
    fn a_wrong_base_url_gives_an_error_that_says_what_to_change() {
        let table = [
            ("", "is empty"),
            ("api.example.com/v1", "no scheme"),
            ("localhost:8080", "scheme"),
            ("ftp://h/v1", "must be http or https"),
            ("http://", "not valid"),
            ("http://h:port/", "not valid"),
            ("http://me:secret@h/v1", "credentials"),
            ("http://h/v1?key=secret", "query"),
            ("http://h/v1#x", "fragment"),
            ("http://h/v1/chat/completions/", "leave that out"),
        ];
        for (base, words) in table {
            let error = endpoint(base, "", PATH).unwrap_err();
            assert_eq!(error.kind, ErrorKind::Configuration);
            assert!(error.message.contains(words), "{base}: {error}");
            assert!(!error.message.contains("secret"), "{base}: {error}");
        }
    }

    #[test]
    fn loopback_addresses_are_known() {
        for (base, expected) in [
            ("http://localhost:1", true),
            ("http://127.0.0.2", true),
            ("http://[::1]:8", true),
            ("http://[::ffff:127.0.0.1]", true),
            ("http://0.0.0.0:8080", true),
            ("http://[::]", true),
            ("http://box.localhost", true),
            ("http://notlocalhost", false),
            ("http://10.0.0.1", false),
            ("http://h", false),
        ] {
            assert_eq!(is_loopback(&endpoint(base, "", PATH).unwrap()), expected, "{base}");
        }
    }
}
