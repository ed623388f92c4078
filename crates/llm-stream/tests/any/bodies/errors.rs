//! Any refusal to the classifier.

use turnwright_core::{ErrorInfo, RetryAdvice, Timestamp};
use turnwright_llm_stream::classify::{HttpFailure, MAX_MESSAGE_CHARS, MAX_RETRY_AFTER, Secrets, in_stream};

use super::dice::Dice;

const SECRET: &str = "key/0123+secret";

/// Whatever a server answers with, the error is short, keeps the caller's secret to itself, and asks for no wait that is
/// longer than the longest.
pub(crate) fn any_refusal(input: &[u8]) {
    let mut dice = Dice::new(input);
    let status = 100 + 2 * u16::from(dice.byte()) + u16::from(dice.maybe());
    let content_type = dice.one_of(&[None, Some("application/json"), Some("text/html; charset=x"), Some("")]);
    let length = dice.below(24);
    let rest = dice.rest();
    let (header, body) = rest.split_at(length.min(rest.len()));
    let header = String::from_utf8_lossy(header);
    let body = with_secret(body);
    let secrets = Secrets::new([SECRET]);
    let failure = HttpFailure {
        provider: "p",
        status,
        content_type,
        retry_after: (!length.is_multiple_of(3)).then_some(&header),
        retry_after_ms: (length % 3 == 2).then_some(&header),
        body: &body,
        error_type: (length == 5).then_some(&header),
        secrets: &secrets,
        now: Timestamp::UNIX_EPOCH,
    };
    check(&failure.classify());
    check(&in_stream("p", &body, &secrets));
}

/// The body, with the secret where it has a marker, so that JSON round it stays JSON.
fn with_secret(body: &[u8]) -> Vec<u8> {
    let mut parts = body.split(|byte| *byte == b'$');
    let first = parts.next().unwrap_or_default().to_vec();
    parts.fold(first, |mut whole, part| {
        whole.extend_from_slice(SECRET.as_bytes());
        whole.extend_from_slice(part);
        whole
    })
}

fn check(error: &ErrorInfo) {
    assert_eq!(error.provider.as_deref(), Some("p"));
    assert!(!format!("{error:?} {error}").contains(SECRET), "{error:?}");
    // One more for the mark of a cut.
    assert!(error.message.chars().count() <= MAX_MESSAGE_CHARS + 1, "{error:?}");
    assert!(!error.message.contains(char::is_control), "{error:?}");
    if let RetryAdvice::After(pause) = error.retry {
        assert!(pause <= MAX_RETRY_AFTER);
    }
}
