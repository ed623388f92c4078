//! One error value for everything that can go wrong around a turn: a kind, words, and retry advice as data.

use std::{error::Error, fmt, time::Duration};

use serde::{Deserialize, Serialize};

/// What went wrong. Layers and callers decide on this, never on the message.
///
/// The list holds all kinds that any client, store or tool of this project may produce; it grows, and never changes
/// what a name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ErrorKind {
    // The provider refused.
    /// The key is missing, wrong or expired.
    Authentication,
    /// The key is good but may not do this.
    PermissionDenied,
    /// Paid or granted quota is used up.
    QuotaExceeded,
    /// Too many requests or tokens for now.
    RateLimited,
    /// The provider is up but has no capacity.
    Overloaded,
    /// The provider failed inside (5xx).
    Server,
    /// The request is malformed or asks for something unsupported.
    InvalidRequest,
    /// The model or the path does not exist.
    NotFound,
    /// The request is larger than the model's context.
    ContextOverflow,
    /// A content filter stopped the request or the answer.
    ContentFilter,
    /// The model declined to answer.
    Refusal,

    // The wire broke.
    /// No connection could be made, or it broke before the first byte.
    Connection,
    /// Connecting took longer than allowed.
    ConnectTimeout,
    /// The first byte of the body did not come in time.
    FirstByteTimeout,
    /// The body went silent for longer than allowed; comments and keep-alives do not count.
    IdleTimeout,
    /// The whole call took longer than allowed.
    TotalTimeout,
    /// The stream ended before its terminal event.
    Truncated,
    /// Bytes that are not what the format allows.
    Decode,
    /// Well-formed events in an order the protocol does not allow.
    Protocol,
    /// The body is of another type than asked for, for example HTML from a proxy.
    UnexpectedContent,
    /// A line, an event or an argument buffer outgrew its cap.
    TooLarge,

    // The answer is no use.
    /// The answer was cut by the output limit.
    LengthLimit,
    /// The answer has neither text nor calls.
    EmptyResponse,
    /// A tool call's arguments are not JSON.
    MalformedToolCall,

    // Tools.
    /// No tool of that name is registered.
    UnknownTool,
    /// The arguments do not fit the tool's schema.
    InvalidArguments,
    /// The tool itself reported an error.
    ToolFailed,
    /// The tool did not finish within its deadline.
    ToolTimeout,
    /// The call was denied by the gate or by a person.
    Denied,
    /// The call waits for a decision; nothing ran.
    ApprovalRequired,
    /// The call was not run, because the turn or the response was cut before it could.
    NotRun,
    /// Whether the call took effect is not known.
    InDoubt,

    // Control.
    /// Cancelled from outside.
    Cancelled,
    /// The turn's deadline passed.
    DeadlineExceeded,
    /// A policy forbids it, or a hook with the abort policy failed.
    PolicyViolation,
    /// The turn repeats itself.
    LoopDetected,
    /// A limit on iterations, attempts or budget was reached.
    LimitReached,
    /// A control error left a stream; the turn ends with that error's own reason.
    Control,

    // Our own layers.
    /// A hook failed.
    Hook,
    /// An interceptor failed, or broke its contract.
    Interceptor,
    /// Something panicked.
    Panic,
    /// A circuit breaker does not ask the model for now, because it failed too often.
    CircuitOpen,
    /// A second attempt was asked for where none is allowed.
    ReplayRefused,
    /// A store failed.
    Store,
    /// Another process runs a leg of the session.
    SessionHeld,
    /// The lease under which a leg writes its session was lost: another process has it.
    LeaseLost,
    /// A store holds another version than expected, or another writer came first.
    Conflict,
    /// Stored data cannot be read.
    Corrupt,
    /// Stored data is of a newer or unknown version.
    UnsupportedVersion,
    /// The history would be illegal.
    InvalidHistory,
    /// A setting is wrong.
    Configuration,
    /// A fault of the runtime itself.
    Internal,
}

impl ErrorKind {
    /// The name in JSON and logs, for example `rate_limited`.
    pub fn name(self) -> String {
        match serde_json::to_value(self) {
            Ok(serde_json::Value::String(s)) => s,
            _ => format!("{self:?}"),
        }
    }

    /// What is usually right for this kind when the provider said nothing: transient faults of the wire and the
    /// server may be retried, everything else not.
    pub fn default_retry(self) -> RetryAdvice {
        use ErrorKind::*;
        match self {
            RateLimited | Overloaded | Server | Connection | ConnectTimeout | FirstByteTimeout
            | IdleTimeout | Truncated => RetryAdvice::Backoff,
            _ => RetryAdvice::Never,
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

/// Whether, and when, the same call may be made again. Says nothing about output that was already shown: whoever
/// repeats must look at that too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RetryAdvice {
    /// Again would fail again.
    Never,
    /// Again after a pause of the caller's choice.
    Backoff,
    /// Again, but not before this has passed (the provider said so).
    After(Duration),
}

impl RetryAdvice {
    /// Whether a further attempt makes sense at all.
    pub fn is_retryable(self) -> bool {
        self != Self::Never
    }
}

/// An error as data: cheap to clone, safe to store and to show. Messages hold no secrets and no content of prompts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ErrorInfo {
    /// What went wrong.
    pub kind: ErrorKind,
    /// The words for people: a fragment in lower case, without a final stop.
    pub message: String,
    /// Whether to try again.
    pub retry: RetryAdvice,
    /// The provider that reported it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's own code or type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// By how much a request was too large, where the provider said so. Only with [`ErrorKind::ContextOverflow`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<Box<ContextSize>>,
}

/// The figures of a request that was larger than the model's context, as far as the provider gave them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ContextSize {
    /// Tokens that the request needs, with the answer's share where the provider counts it in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub needed: Option<u64>,
    /// Tokens that there is room for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
    /// Tokens that are too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excess: Option<u64>,
}

impl ErrorInfo {
    /// An error of this kind with the kind's usual retry advice.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry: kind.default_retry(),
            provider: None,
            status: None,
            code: None,
            context: None,
        }
    }

    /// The same error with other retry advice.
    #[must_use]
    pub fn retry(mut self, retry: RetryAdvice) -> Self {
        self.retry = retry;
        self
    }

    /// The same error, attributed to a provider.
    #[must_use]
    pub fn provider(mut self, provider: impl Into<String>) -> Self {
        self.provider = Some(provider.into());
        self
    }

    /// The same error with the HTTP status it came with.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// The same error with the provider's own code.
    #[must_use]
    pub fn code(mut self, code: impl Into<String>) -> Self {
        self.code = Some(code.into());
        self
    }

    /// Whether a further attempt makes sense.
    pub fn is_retryable(&self) -> bool {
        self.retry.is_retryable()
    }
}

impl fmt::Display for ErrorInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(provider) = &self.provider {
            write!(f, "{provider}: ")?;
        }
        f.write_str(&self.message)?;
        match (self.status, &self.code) {
            (Some(status), Some(code)) => write!(f, " (status {status}, code {code})"),
            (Some(status), None) => write!(f, " (status {status})"),
            (None, Some(code)) => write!(f, " (code {code})"),
            (None, None) => Ok(()),
        }
    }
}

impl Error for ErrorInfo {}

/// More causes than any error has: one that names itself as its cause must not hang the turn.
const MAX_CAUSES: usize = 64;

/// An error and its causes, outermost first. A cause is what [`Error::source`] shows, and what an IO error was made of.
pub fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |e| cause_of(*e)).take(MAX_CAUSES)
}

fn cause_of<'a>(error: &'a (dyn Error + 'static)) -> Option<&'a (dyn Error + 'static)> {
    // The source of an IO error leaves out the error it was made of.
    match error.downcast_ref::<std::io::Error>().and_then(std::io::Error::get_ref) {
        Some(inner) => Some(inner),
        None => error.source(),
    }
}

/// An error with its causes, "outer: cause", each text once: many errors print their causes themselves.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut message = error.to_string();
    for cause in causes(error).skip(1).map(ToString::to_string) {
        if !message.contains(&cause) {
            message.push_str(": ");
            message.push_str(&cause);
        }
    }
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_json_form_is_pinned() {
        let e = ErrorInfo::new(ErrorKind::RateLimited, "slow down")
            .provider("openai")
            .status(429)
            .retry(RetryAdvice::After(Duration::from_secs(2)));
        assert_eq!(
            serde_json::to_string(&e).unwrap(),
            r#"{"kind":"rate_limited","message":"slow down","retry":{"after":{"secs":2,"nanos":0}},"provider":"openai","status":429}"#
        );
        assert_eq!(e.to_string(), "openai: slow down (status 429)");
        assert_eq!(ErrorKind::ToolTimeout.to_string(), "tool_timeout");
    }
}
