//! From labels, words and a status to a kind.

use turnwright_core::ErrorKind;

use super::body::ErrorBody;

/// The kind of an error. Without a status (inside a stream) an error that says nothing known is the server's fault.
///
/// Labels that mean one thing come first, then words, then labels that say little, then the status.
pub(super) fn decide(body: &ErrorBody, status: Option<u16>) -> ErrorKind {
    let is_bad = body.labels.iter().any(|label| is_bad_request(label));
    let too_large = match status {
        Some(413) => true,
        _ if body.labels.iter().any(|label| label == "string_above_max_length") => is_long(&body.message),
        // A request that is wrong in itself does not get right by waiting.
        Some(400 | 422) => says_too_large(&body.message),
        None if is_bad => says_too_large(&body.message),
        None | Some(429 | 500) => says_too_large(&body.message) && !may_wait(&body.message),
        // Of a wrong key or a missing model the words may mention a context too.
        Some(_) => false,
    };
    match body.labels.iter().find_map(|label| of_label(label)) {
        // Too large a request stays too large, also when the label says that a rate is exceeded.
        Some(ErrorKind::RateLimited) | None if too_large => return ErrorKind::ContextOverflow,
        Some(kind) => return kind,
        None if matches!(status, None | Some(400 | 403 | 429)) && says_unpaid(&body.message) => {
            return ErrorKind::QuotaExceeded;
        }
        None => {}
    }
    let is_refusal = status.is_some_and(|status| (400..500).contains(&status));
    if !is_refusal && body.labels.iter().any(|label| is_generic(label)) {
        return ErrorKind::Server;
    }
    match (status, is_bad) {
        (Some(400 | 403), _) if says_bad_key(&body.message) => ErrorKind::Authentication,
        (Some(status), _) => of_status(status),
        (None, true) if says_bad_key(&body.message) => ErrorKind::Authentication,
        (None, true) => ErrorKind::InvalidRequest,
        (None, false) => ErrorKind::Server,
    }
}

/// What a status means when nothing else is known.
pub(super) fn of_status(status: u16) -> ErrorKind {
    match status {
        401 | 407 => ErrorKind::Authentication,
        402 => ErrorKind::QuotaExceeded,
        403 | 451 => ErrorKind::PermissionDenied,
        404 | 410 => ErrorKind::NotFound,
        413 => ErrorKind::ContextOverflow,
        429 => ErrorKind::RateLimited,
        503 | 529 => ErrorKind::Overloaded,
        // Never going to work, however often it is asked for.
        501 | 505 => ErrorKind::InvalidRequest,
        408 | 425 | 499 | 500..600 => ErrorKind::Server,
        400..500 => ErrorKind::InvalidRequest,
        _ => ErrorKind::UnexpectedContent,
    }
}

/// Labels that mean one thing wherever they occur. Others, such as `invalid_request_error`, are used for too many
/// things: the status decides.
fn of_label(label: &str) -> Option<ErrorKind> {
    Some(match label {
        "invalid_api_key"
        | "api_key_invalid"
        | "authentication_error"
        | "unauthenticated"
        | "unauthorized"
        | "invalid_authentication"
        | "expired_api_key"
        | "unrecognizedclientexception"
        | "expiredtokenexception"
        | "invalidsignatureexception"
        | "missingauthenticationtokenexception" => ErrorKind::Authentication,
        "permission_denied"
        | "permission_error"
        | "permission_denied_error"
        | "forbidden"
        | "accessdeniedexception" => ErrorKind::PermissionDenied,
        "insufficient_quota"
        | "billing_error"
        | "billing_hard_limit_reached"
        | "billing_not_active"
        | "insufficient_credits"
        | "insufficient_balance"
        | "payment_required"
        | "quota_exceeded"
        | "usage_limit_reached"
        | "usage_not_included"
        | "access_terminated"
        | "servicequotaexceededexception" => ErrorKind::QuotaExceeded,
        "rate_limit_exceeded"
        | "rate_limit_error"
        | "rate_limited"
        | "too_many_requests"
        | "resource_exhausted"
        | "throttlingexception"
        | "tokens"
        | "requests" => ErrorKind::RateLimited,
        "overloaded_error"
        | "overloaded"
        | "server_is_overloaded"
        | "engine_overloaded"
        | "service_unavailable"
        | "service_unavailable_error"
        | "unavailable"
        | "capacity_exceeded"
        | "insufficient_system_resource"
        | "slow_down"
        | "serviceunavailableexception"
        | "modelnotreadyexception" => ErrorKind::Overloaded,
        "model_not_found"
        | "not_found_error"
        | "not_found"
        | "deploymentnotfound"
        | "notfound"
        | "resourcenotfoundexception" => ErrorKind::NotFound,
        "context_length_exceeded"
        | "exceed_context_size_error"
        | "too_many_prompt_tokens"
        | "too_many_tokens"
        | "model_max_prompt_tokens_exceeded"
        | "model_context_window_exceeded"
        | "request_too_large" => ErrorKind::ContextOverflow,
        "content_filter"
        | "content_filter_error"
        | "image_content_policy_violation"
        | "content_policy_violation"
        | "responsibleaipolicyviolation"
        | "data_inspection_failed"
        | "prohibited_content"
        | "safety" => ErrorKind::ContentFilter,
        "not_supported_error" | "unimplemented" => ErrorKind::InvalidRequest,
        // With statuses of 4xx, though the request is right.
        "modelerrorexception" | "modeltimeoutexception" => ErrorKind::Server,
        _ => return None,
    })
}

/// Labels under which some servers put everything, a wrong key as well. A status of 4xx says more.
fn is_generic(label: &str) -> bool {
    label.starts_with("internal")
        || matches!(
            label,
            "server_error"
                | "api_error"
                | "provider_error"
                | "timeout"
                | "timeout_error"
                | "deadline_exceeded"
                | "cancelled"
        )
}

/// Labels for a request that is wrong in itself, for streams, where no status says so.
fn is_bad_request(label: &str) -> bool {
    // An image that cannot be read is no better the next time.
    label.starts_with("invalid")
        || label.starts_with("image_")
        || matches!(
            label,
            "bad request"
                | "bad_request"
                | "failed_precondition"
                | "validationexception"
                | "unsupported_image_media_type"
                | "empty_image_file"
                | "failed_to_download_image"
        )
}

/// Most providers label too large a request as an invalid one; only the words tell.
fn says_too_large(message: &str) -> bool {
    const WORDS: [&str; 25] = [
        "maximum context length",
        "maximum prompt length",
        "max context length",
        "context size",
        "context window",
        "context length",
        "context limit",
        "maximum model length",
        "maximum allowed input length",
        "exceeds maximum length",
        "prompt token count",
        "model token limit",
        "range of input length",
        "prompt exceeds max length",
        "`inputs` tokens + `max_new_tokens` must be",
        "exceed the configured limit",
        "exceeds the maximum number of tokens",
        "prompt is too long",
        "prompt too long",
        "input is too long",
        "input length and `max_tokens` exceed",
        "too many tokens",
        "all messages is too long",
        "request too large",
        "reduce the length of the messages",
    ];
    says(message, &WORDS)
}

/// Tokens that are too many for now are no reason to shorten the conversation, unless it says so too.
fn may_wait(message: &str) -> bool {
    says(message, &["please wait", "wait before", "try again", "trying again", "retry"])
        && !says(
            message,
            &["reduce", "shorten", "shorter", "smaller", "decrease", "adjust", "update the input"],
        )
}

/// Whether the text that is longer than it may be is a message, rather than an id or a name: the limit tells.
fn is_long(message: &str) -> bool {
    let limit = message.split_once("maximum length ").map(|(_, limit)| limit);
    let digits = limit.map_or(0, |limit| limit.bytes().take_while(u8::is_ascii_digit).count());
    digits >= 6
}

/// Some providers label an account without money as an invalid request, or as one too many.
fn says_unpaid(message: &str) -> bool {
    says(message, &["credit balance is too low", "insufficient balance", "insufficient credit"])
}

/// Some providers answer a wrong key with status 400 and no label.
fn says_bad_key(message: &str) -> bool {
    says(message, &["api key not valid", "incorrect api key", "invalid api key"])
}

fn says(message: &str, words: &[&str]) -> bool {
    let message = message.to_ascii_lowercase();
    words.iter().any(|w| message.contains(w))
}
