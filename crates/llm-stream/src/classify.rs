//! What a provider's refusal means: one classifier for HTTP errors and for errors inside a stream.
//!
//! It decides on data (codes, types, statuses, headers) and reads the words only where the provider gives nothing
//! else. Messages are capped and rid of what looks like a key.

mod body;
mod context;
mod kind;
mod pause;
mod secrets;
mod value;

use std::time::Duration;

use turnwright_core::{ErrorInfo, ErrorKind, RetryAdvice, Timestamp};

use body::ErrorBody;
pub use secrets::Secrets;

/// How much of an error's body is worth reading, in bytes: 64 KiB. More is ignored.
pub const MAX_BODY_BYTES: usize = 64 * 1024;

/// The most characters of a provider's message that are kept.
pub const MAX_MESSAGE_CHARS: usize = 500;

/// The longest wait that a server can ask for: a day. More is a mistake, or a clock that is wrong.
pub const MAX_RETRY_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

const MAX_CODE_CHARS: usize = 100;

/// An HTTP answer that is no model output: a status other than 2xx, or a body of the wrong type.
#[derive(Debug, Clone, Copy)]
pub struct HttpFailure<'a> {
    /// The provider's name, as the error will show it.
    pub provider: &'a str,
    /// The HTTP status.
    pub status: u16,
    /// The `content-type` header.
    pub content_type: Option<&'a str>,
    /// The `retry-after` header: seconds, or an HTTP date in any of its three forms.
    pub retry_after: Option<&'a str>,
    /// The `retry-after-ms` header: milliseconds. It wins over the other, being more exact.
    pub retry_after_ms: Option<&'a str>,
    /// The `x-amzn-errortype` header: the name of the error, where AWS gives none in the body.
    pub error_type: Option<&'a str>,
    /// The body, or its first [`MAX_BODY_BYTES`].
    pub body: &'a [u8],
    /// What must not be in the error though the body repeats it.
    pub secrets: &'a Secrets,
    /// The time now, from which an HTTP date is counted.
    pub now: Timestamp,
}

impl HttpFailure<'_> {
    /// The error it means. Retry advice follows the header, else the body's data, else its words, else the kind. An
    /// overflown context comes with the figures that the body has, see [`turnwright_core::ContextSize`].
    pub fn classify(&self) -> ErrorInfo {
        let success = (200..300).contains(&self.status);
        let error = if self.is_html() {
            let kind = if success { ErrorKind::UnexpectedContent } else { kind::of_status(self.status) };
            ErrorInfo::new(kind, "an HTML page came in place of an answer")
        } else {
            let mut body = ErrorBody::read(&self.secrets.redact_body(self.cut_body()));
            body.named(self.error_type);
            let status = if success { body.status } else { Some(self.status) };
            let fallback =
                || format!("the provider answered with HTTP status {} and no message", self.status);
            from_body(&body, status, self.secrets, fallback)
        };
        let error = error.provider(self.provider).status(self.status);
        match self.retry_header() {
            Some(pause) if error.is_retryable() => {
                error.retry(RetryAdvice::After(pause.min(MAX_RETRY_AFTER)))
            }
            _ => error,
        }
    }

    fn cut_body(&self) -> &[u8] {
        &self.body[..self.body.len().min(MAX_BODY_BYTES)]
    }

    fn is_html(&self) -> bool {
        self.content_type.is_some_and(|t| t.trim_start().to_ascii_lowercase().starts_with("text/html"))
            || self.cut_body().trim_ascii_start().starts_with(b"<")
    }

    fn retry_header(&self) -> Option<Duration> {
        let milliseconds = self.retry_after_ms.and_then(|ms| ms.trim().parse::<f64>().ok());
        let exact = milliseconds.and_then(|ms| Duration::try_from_secs_f64(ms / 1000.0).ok());
        exact.or_else(|| pause::of_header(self.retry_after?.trim(), self.now))
    }
}

/// The error that a provider reports inside a stream that began well: an error object, or words. The body may
/// be as large as an event; the message is not.
pub fn in_stream(provider: &str, body: &[u8], secrets: &Secrets) -> ErrorInfo {
    if body.trim_ascii_start().starts_with(b"<") {
        let message = "an HTML page came in place of an answer";
        return ErrorInfo::new(ErrorKind::UnexpectedContent, message).provider(provider);
    }
    let body = ErrorBody::read(&secrets.redact_body(body));
    let error =
        from_body(&body, body.status, secrets, || "the provider reported an error in the stream".into());
    let error = error.provider(provider);
    match body.status {
        Some(status) => error.status(status),
        None => error,
    }
}

fn from_body(
    body: &ErrorBody,
    status: Option<u16>,
    secrets: &Secrets,
    fallback: impl FnOnce() -> String,
) -> ErrorInfo {
    let kind = kind::decide(body, status);
    let message = match body.message.trim() {
        "" => fallback(),
        // Once more, since JSON may have spelled a secret with escapes; and before the cut, which may leave its head.
        message => clean(&secrets.redact(message), MAX_MESSAGE_CHARS),
    };
    let mut error = ErrorInfo::new(kind, message);
    error.code = body.code.as_deref().map(|code| clean(&secrets.redact(code), MAX_CODE_CHARS));
    if kind == ErrorKind::ContextOverflow {
        error.context = context::size_of(body).map(Box::new);
    }
    match body.retry.or_else(|| pause::of_words(&body.message)) {
        Some(pause) if error.is_retryable() => error.retry(RetryAdvice::After(pause.min(MAX_RETRY_AFTER))),
        _ => error,
    }
}

/// At most so many characters, control characters as spaces, and without what looks like a key.
fn clean(text: &str, max_chars: usize) -> String {
    let mut out = String::new();
    let mut after_bearer = false;
    // A key may stand at the cut, so words are judged whole; what lies far beyond the cut is not looked at.
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '*');
    // These may stand in a key, but also between a key and what it has nothing to do with.
    let is_key = |c: char| is_word(c) || matches!(c, '/' | '+' | '=' | '~' | '%');
    let mut rest = text;
    while !rest.is_empty() && out.len() < max_chars * 4 {
        let end = rest.find(|c| !is_key(c)).unwrap_or(rest.len());
        let key = &rest[..end];
        let secret = after_bearer || (key.len() >= 8 && KEY_PREFIXES.iter().any(|p| key.starts_with(p)));
        let end = if secret { end } else { rest.find(|c| !is_word(c)).unwrap_or(rest.len()) };
        let (word, after) = rest.split_at(end);
        out.push_str(if secret && !word.is_empty() { "[redacted]" } else { word });
        if !word.is_empty() {
            after_bearer = word.eq_ignore_ascii_case("bearer");
        }
        let end = after.find(is_word).unwrap_or(after.len());
        out.extend(after[..end].chars().map(|c| if c.is_control() { ' ' } else { c }));
        rest = &after[end..];
    }
    let cut = out.char_indices().nth(max_chars).map(|(at, _)| at);
    match cut {
        Some(at) => {
            out.truncate(at);
            out.push('…');
            out
        }
        None if !rest.is_empty() => out + "…",
        None => out,
    }
}

/// How keys in common use begin.
const KEY_PREFIXES: [&str; 12] =
    ["sk-", "sk_", "pk-", "key-", "gsk_", "xai-", "pplx-", "hf_", "nvapi-", "r8_", "AIza", "eyJ"];

#[cfg(test)]
mod tests;
