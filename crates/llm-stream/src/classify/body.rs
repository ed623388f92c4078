//! What an error's body says, whatever its shape.

use std::time::Duration;

use serde_json::{Map, Value};

use super::value;

/// The facts in an error's body.
#[derive(Debug, Default)]
pub(super) struct ErrorBody {
    /// The words for people; empty when there are none.
    pub(super) message: String,
    /// Codes, types and reasons, the most specific first, in lower case.
    pub(super) labels: Vec<String>,
    /// The provider's code or type, as it spells it.
    pub(super) code: Option<String>,
    /// An HTTP status given in the body.
    pub(super) status: Option<u16>,
    /// How long to wait, given in the body.
    pub(super) retry: Option<Duration>,
    /// Tokens of the request and of the context, given in the body as figures.
    pub(super) prompt_tokens: Option<u64>,
    pub(super) context_tokens: Option<u64>,
}

impl ErrorBody {
    pub(super) fn read(bytes: &[u8]) -> Self {
        let mut body = Self::default();
        match value::read(bytes) {
            Ok(value) => body.top(&value),
            // A body that was cut at the cap, or plain words.
            Err(_) => body.message = String::from_utf8_lossy(bytes).trim().to_owned(),
        }
        body
    }

    fn top(&mut self, value: &Value) {
        match value {
            // Some servers put the one error object into an array.
            Value::Array(items) => {
                if let Some(first) = items.first() {
                    self.top(first);
                }
            }
            Value::Object(top) => {
                // The last event of an answer has the error in the answer.
                let answer = top.get("response").and_then(Value::as_object);
                match top.get("error").or_else(|| answer?.get("error")) {
                    Some(Value::Object(inner)) => self.object(inner),
                    // A flag, or a code, is no message.
                    Some(Value::Null | Value::Bool(_)) | None => {}
                    Some(number @ Value::Number(_)) => self.label(Some(number)),
                    Some(words) => self.message = words_of(words),
                }
                self.object(top);
            }
            Value::String(words) => words.clone_into(&mut self.message),
            other => self.message = other.to_string(),
        }
    }

    fn object(&mut self, object: &Map<String, Value>) {
        for name in ["message", "Message", "detail", "msg"] {
            if let (true, Some(words)) = (self.message.is_empty(), object.get(name)) {
                self.message = words_of(words);
            }
        }
        let figure = |name: &str| object.get(name).and_then(Value::as_u64);
        self.prompt_tokens = self.prompt_tokens.or(figure("n_prompt_tokens"));
        self.context_tokens = self.context_tokens.or(figure("n_ctx"));
        if let Some(Value::Array(details)) = object.get("details") {
            details.iter().filter_map(Value::as_object).for_each(|detail| self.detail(detail));
        }
        if let Some(inner) = object.get("innererror").and_then(Value::as_object) {
            self.label(inner.get("code"));
        }
        for name in ["code", "error_type", "type", "status", "raw_status_code"] {
            self.label(object.get(name));
        }
        let kind = object.get("__type").and_then(Value::as_str);
        self.label(kind.map(|kind| Value::from(bare_name(kind))).as_ref());
        if let Some(metadata) = object.get("metadata").and_then(Value::as_object) {
            self.label(metadata.get("error_type"));
            if let Some(raw @ (Value::String(_) | Value::Object(_))) = metadata.get("raw") {
                self.upstream(raw);
            }
        }
    }

    /// Takes the error that a router got and passes on, as the text of its body: the router's own words and labels say
    /// little.
    fn upstream(&mut self, raw: &Value) {
        let inner = match raw {
            Value::String(text) => Self::read(text.as_bytes()),
            other => {
                let mut inner = Self::default();
                inner.top(other);
                inner
            }
        };
        if !inner.message.is_empty() {
            let joint = if self.message.is_empty() { "" } else { ": " };
            self.message = format!("{}{joint}{}", self.message, inner.message);
        }
        self.labels.extend(inner.labels);
        self.code = self.code.take().or(inner.code);
        self.status = self.status.or(inner.status);
        self.retry = self.retry.or(inner.retry);
        self.prompt_tokens = self.prompt_tokens.or(inner.prompt_tokens);
        self.context_tokens = self.context_tokens.or(inner.context_tokens);
    }

    /// Takes a name of the error that stood outside of its body. It says more than what stands in it.
    pub(super) fn named(&mut self, name: Option<&str>) {
        if let Some(name) = name.map(bare_name).filter(|name| !name.is_empty()) {
            self.code = Some(name.to_owned());
            self.labels.insert(0, name.to_ascii_lowercase());
        }
    }

    fn detail(&mut self, detail: &Map<String, Value>) {
        self.label(detail.get("reason"));
        let delay = detail.get("retryDelay").and_then(Value::as_str);
        let seconds = delay.and_then(|d| d.strip_suffix('s')).and_then(|s| s.parse::<f64>().ok());
        self.retry = self.retry.or(seconds.and_then(|s| Duration::try_from_secs_f64(s).ok()));
    }

    /// Takes a code: a word, or a number that is an HTTP status.
    fn label(&mut self, value: Option<&Value>) {
        let number = match value {
            Some(Value::Number(n)) => n.as_u64(),
            Some(Value::String(s)) if !s.is_empty() => match s.parse() {
                Ok(n) => Some(n),
                Err(_) => {
                    // "error" says only what is known already.
                    if s != "error" {
                        self.code.get_or_insert_with(|| s.clone());
                        self.labels.push(s.to_ascii_lowercase());
                    }
                    None
                }
            },
            _ => None,
        };
        let status = number.and_then(|n| u16::try_from(n).ok()).filter(|n| (400..600).contains(n));
        self.status = self.status.or(status);
    }
}

/// The name of an error of AWS, at times behind that of its service and before an address.
fn bare_name(name: &str) -> &str {
    let name = name.rsplit('#').next().unwrap_or(name);
    name.split(':').next().unwrap_or(name).trim()
}

/// The words in a value of any type.
fn words_of(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(words) => words.clone(),
        Value::Array(items) if items.len() == 1 => words_of(&items[0]),
        Value::Array(items) => items.iter().map(words_of).collect::<Vec<_>>().join("; "),
        Value::Object(object) => match object.get("message").or(object.get("msg")) {
            Some(words) => words_of(words),
            None => value.to_string(),
        },
        other => other.to_string(),
    }
}
