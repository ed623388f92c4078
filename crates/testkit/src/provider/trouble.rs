//! Errors in the shape each format has for them.

use serde_json::{Value, json};

use super::{
    WireFormat,
    event::{Event, Mark},
};

/// What a server may complain of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    RateLimited,
    Server,
    Overloaded,
    Key,
    Permission,
    NotFound,
    Invalid,
    /// The request is larger than the context: 9000 tokens, where 8192 may be.
    Context,
    Quota,
}

impl Trouble {
    /// The status it comes with.
    pub(crate) fn status(self, format: WireFormat) -> u16 {
        match (self, format) {
            (Self::RateLimited, _) => 429,
            (Self::Server, _) => 500,
            (Self::Overloaded, WireFormat::Messages) => 529,
            (Self::Overloaded, _) => 503,
            (Self::Key, WireFormat::Gemini) | (Self::Invalid | Self::Context, _) => 400,
            (Self::Key, WireFormat::Converse) => 403,
            (Self::Key, _) => 401,
            (Self::Permission, _) => 403,
            (Self::NotFound, _) => 404,
            (Self::Quota, WireFormat::Messages | WireFormat::Ollama) => 402,
            (Self::Quota, WireFormat::Converse) => 400,
            (Self::Quota, _) => 429,
        }
    }

    fn message(self, format: WireFormat) -> &'static str {
        match self {
            Self::RateLimited => "slow down",
            Self::Server => "the server failed",
            Self::Overloaded => "the model is overloaded, come back later",
            Self::Key => "no such key",
            Self::Permission => "this project may not use the model",
            Self::NotFound => "the model does not exist",
            Self::Invalid => "messages: at least one is needed",
            Self::Quota => "the account has no credit left",
            Self::Context => match format {
                WireFormat::Messages => "prompt is too long: 9000 tokens > 8192 maximum",
                WireFormat::Gemini => {
                    "The input token count (9000) exceeds the maximum number of tokens allowed (8192)."
                }
                _ => {
                    "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 \
                     tokens. Please reduce the length of the messages."
                }
            },
        }
    }

    /// The code, or the type, in the words of the format.
    pub(crate) fn code(self, format: WireFormat) -> &'static str {
        match format {
            WireFormat::Messages => match self {
                Self::RateLimited => "rate_limit_error",
                Self::Server => "api_error",
                Self::Overloaded => "overloaded_error",
                Self::Key => "authentication_error",
                Self::Permission => "permission_error",
                Self::NotFound => "not_found_error",
                Self::Invalid | Self::Context => "invalid_request_error",
                Self::Quota => "billing_error",
            },
            WireFormat::Gemini => match self {
                Self::RateLimited | Self::Quota => "RESOURCE_EXHAUSTED",
                Self::Server => "INTERNAL",
                Self::Overloaded => "UNAVAILABLE",
                Self::Key | Self::Invalid | Self::Context => "INVALID_ARGUMENT",
                Self::Permission => "PERMISSION_DENIED",
                Self::NotFound => "NOT_FOUND",
            },
            WireFormat::Converse => match self {
                Self::RateLimited => "throttlingException",
                Self::Server => "internalServerException",
                Self::Overloaded => "serviceUnavailableException",
                Self::Key => "unrecognizedClientException",
                Self::Permission => "accessDeniedException",
                Self::NotFound => "resourceNotFoundException",
                Self::Invalid | Self::Context => "validationException",
                Self::Quota => "serviceQuotaExceededException",
            },
            _ => match self {
                Self::RateLimited => "rate_limit_exceeded",
                Self::Server => "server_error",
                Self::Overloaded => "server_is_overloaded",
                Self::Key => "invalid_api_key",
                Self::Permission => "permission_denied",
                Self::NotFound => "model_not_found",
                Self::Invalid => "invalid_request_error",
                Self::Context => "context_length_exceeded",
                Self::Quota => "insufficient_quota",
            },
        }
    }

    /// The body of a refusal.
    pub(crate) fn body(self, format: WireFormat) -> Value {
        self.body_saying(format, self.message(format))
    }

    /// The same in other words.
    pub(crate) fn body_saying(self, format: WireFormat, message: &str) -> Value {
        let code = self.code(format);
        match format {
            WireFormat::Chat | WireFormat::Responses => {
                json!({ "error": { "message": message, "type": code, "code": code, "param": null } })
            }
            WireFormat::Messages => {
                let error = json!({ "type": code, "message": message });
                json!({ "type": "error", "error": error, "request_id": "req_1" })
            }
            WireFormat::Gemini => {
                let details = match self {
                    Self::Key => json!([{ "reason": "API_KEY_INVALID" }]),
                    _ => json!([]),
                };
                let status = self.status(format);
                json!({ "error": { "code": status, "message": message, "status": code, "details": details } })
            }
            WireFormat::Ollama => json!({ "error": message }),
            WireFormat::Converse => json!({ "message": message }),
        }
    }

    /// The event that reports it in the midst of a stream.
    pub(crate) fn event(self, format: WireFormat, message: &str) -> Event {
        let body = self.body_saying(format, message);
        match format {
            WireFormat::Messages => Event::named(Mark::Odd, "error", body),
            WireFormat::Converse => Event::named(Mark::Odd, self.code(format), body),
            WireFormat::Responses => {
                let mut body = body;
                body["type"] = "error".into();
                Event::named(Mark::Odd, "error", body)
            }
            _ => Event::json(Mark::Odd, body),
        }
    }
}
