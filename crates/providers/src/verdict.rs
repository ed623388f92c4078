//! What an answer is, by its head.

use reqwest::{
    Response, Url,
    header::{CONTENT_ENCODING, CONTENT_TYPE, HeaderName, LOCATION},
};
use turnwright_core::{ErrorInfo, ErrorKind};

pub(crate) enum Verdict {
    Stream,
    /// Its body says why.
    Refusal,
    /// It is none of a model.
    Wrong(ErrorInfo),
}

/// Judges the head of an answer.
pub(crate) fn judge(response: &Response) -> Verdict {
    let status = response.status();
    if status.is_redirection() {
        let error = ErrorInfo::new(ErrorKind::UnexpectedContent, redirect_message(response));
        return Verdict::Wrong(error.status(status.as_u16()));
    }
    let content_type = header(response, &CONTENT_TYPE).unwrap_or_default().to_ascii_lowercase();
    let content_type = content_type.split(';').next().unwrap_or_default().trim();
    match content_type {
        _ if !status.is_success() => Verdict::Refusal,
        _ if is_encoded(response) => {
            let message = "the answer is compressed, which nobody asked for; a proxy on the way may do that";
            let error = ErrorInfo::new(ErrorKind::UnexpectedContent, message);
            Verdict::Wrong(error.status(status.as_u16()))
        }
        "text/html" => Verdict::Refusal,
        // JSON is an error, or an answer from a server that does not stream. The rest is how proxies and small
        // servers label streams.
        ""
        | "text/event-stream"
        | "application/json"
        | "text/plain"
        | "application/octet-stream"
        | "application/stream+json"
        | "application/x-ndjson"
        | "application/vnd.amazon.eventstream" => Verdict::Stream,
        other => {
            let message = format!("the answer is of the type {other}, not an event stream");
            let error = ErrorInfo::new(ErrorKind::UnexpectedContent, message);
            Verdict::Wrong(error.status(status.as_u16()))
        }
    }
}

fn header<'a>(response: &'a Response, name: &HeaderName) -> Option<&'a str> {
    response.headers().get(name).and_then(|value| value.to_str().ok())
}

/// Whether the body is compressed. None is asked for: it would wait in buffers on its way.
pub(crate) fn is_encoded(response: &Response) -> bool {
    let encodings = response.headers().get_all(CONTENT_ENCODING).iter();
    encodings.flat_map(|value| value.as_bytes().split(|byte| *byte == b',')).any(|encoding| {
        let encoding = encoding.trim_ascii();
        !encoding.is_empty() && !encoding.eq_ignore_ascii_case(b"identity")
    })
}

fn redirect_message(response: &Response) -> String {
    let target = header(response, &LOCATION).and_then(|to| response.url().join(to).ok());
    let target = target.as_ref().map(Url::origin).map(|origin| origin.ascii_serialization());
    match target {
        Some(origin) => format!("the server redirects to {origin}, which is not followed; set the base URL"),
        None => "the server redirects, which is not followed; set the base URL".into(),
    }
}
