//! Texts that must not come back in an error, because a server repeated them.

use std::{borrow::Cow, ops::Range, sync::Arc};

use memchr::memmem;

/// Shorter texts are no secrets, and hiding them would tear words apart.
const SHORTEST_SECRET: usize = 8;

/// So much of a secret's head is worth hiding where a body was cut.
const SHORTEST_HEAD: usize = 4;

const REDACTED: &str = "[redacted]";

/// The keys and header values of a client. Cheap to clone; in no debug output.
#[derive(Clone, Default)]
pub struct Secrets(Arc<[String]>);

impl Secrets {
    /// These values, without white space round them, and each of their words, as far as they have at least eight
    /// bytes: a server that repeats a key often leaves out the scheme before it.
    pub fn new<'a>(values: impl IntoIterator<Item = &'a str>) -> Self {
        let mut secrets = Vec::new();
        for value in values {
            for secret in std::iter::once(value.trim()).chain(value.split_whitespace()) {
                let bare = secret.trim_matches([',', ';', '"', '\'']);
                for secret in [secret, bare] {
                    // JSON may spell a slash with an escape.
                    secrets.extend([secret.to_owned(), secret.replace('/', "\\/")]);
                }
            }
        }
        secrets.retain(|secret| secret.len() >= SHORTEST_SECRET);
        // The longer first, so that no part of one is left over.
        secrets.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        secrets.dedup();
        Self(secrets.into())
    }

    /// The text without the secrets.
    pub fn redact<'a>(&self, text: &'a str) -> Cow<'a, str> {
        self.0.iter().fold(Cow::Borrowed(text), |text, secret| {
            if text.contains(secret.as_str()) { text.replace(secret, REDACTED).into() } else { text }
        })
    }

    /// A body without the secrets. The head of one at its end goes too, since the body may have been cut there.
    pub fn redact_body<'a>(&self, body: &'a [u8]) -> Cow<'a, [u8]> {
        let mut body = self.0.iter().fold(Cow::Borrowed(body), |body, secret| {
            let finder = memmem::Finder::new(secret);
            if finder.find(&body).is_none() {
                return body;
            }
            let (mut out, mut rest) = (Vec::with_capacity(body.len()), &body[..]);
            while let Some(at) = finder.find(rest) {
                out.extend_from_slice(&rest[..at]);
                out.extend_from_slice(REDACTED.as_bytes());
                rest = &rest[at + secret.len()..];
            }
            out.extend_from_slice(rest);
            out.into()
        });
        if let Some(head) = self.head_span(&body).filter(|head| head.len() >= SHORTEST_HEAD) {
            match &mut body {
                Cow::Borrowed(bytes) => *bytes = &bytes[..head.start],
                Cow::Owned(bytes) => bytes.truncate(head.start),
            }
        }
        body
    }

    /// Where secrets lie in these bytes, for callers that must not change their length. The ranges may overlap.
    pub fn spans(&self, bytes: &[u8]) -> Vec<Range<usize>> {
        let mut spans = Vec::new();
        for secret in self.0.iter() {
            let finder = memmem::Finder::new(secret);
            let mut from = 0;
            while let Some(at) = finder.find(&bytes[from..]) {
                spans.push(from + at..from + at + secret.len());
                from += at + 1;
            }
        }
        spans
    }

    /// The longest end of these bytes that is the head of a secret: its rest may follow, or was cut.
    pub fn head_span(&self, bytes: &[u8]) -> Option<Range<usize>> {
        let head = |secret: &String| {
            let lengths = 1..secret.len();
            lengths.rev().find(|length| bytes.ends_with(&secret.as_bytes()[..*length]))
        };
        let length = self.0.iter().filter_map(head).max()?;
        Some(bytes.len() - length..bytes.len())
    }

    /// How many bytes the longest secret has; 0 without any.
    pub fn longest(&self) -> usize {
        self.0.first().map_or(0, String::len)
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Secrets").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_and_their_long_words_are_taken_out_whole() {
        let secrets = Secrets::new(["Token abc/def+ghi==", " short ", "id=1; 0123456789,"]);
        for (text, expected) in [
            ("bad Token abc/def+ghi==!", "bad [redacted]!"),
            ("bad abc/def+ghi==!", "bad [redacted]!"),
            ("bad abc\\/def+ghi==!", "bad [redacted]!"),
            ("short Token 0123456789", "short Token [redacted]"),
        ] {
            assert_eq!(secrets.redact(text), expected);
            assert_eq!(secrets.redact_body(text.as_bytes()), expected.as_bytes());
        }
        assert!(!format!("{secrets:?}").contains("abc"));
        assert!(matches!(secrets.redact_body(b"nothing"), Cow::Borrowed(_)));
    }

    #[test]
    fn the_head_of_a_secret_at_the_end_of_a_body_goes_too() {
        let secrets = Secrets::new(["sk-0123456789"]);
        assert_eq!(*secrets.redact_body(b"key sk-01234"), *b"key ");
        assert_eq!(*secrets.redact_body(b"sk-0123456789 sk-0"), *b"[redacted] ");
        assert_eq!(*secrets.redact_body(b"key sk-"), *b"key sk-", "too little to tell anything");
    }

    #[test]
    fn every_place_of_a_secret_is_found_also_where_they_overlap() {
        let secrets = Secrets::new(["Token abcdefgh"]);
        assert_eq!(secrets.longest(), 14);
        assert_eq!(secrets.spans(b"a Token abcdefgh, abcdefgh"), [2..16, 8..16, 18..26]);
        assert_eq!(secrets.head_span(b"a Token ab"), Some(2..10));
        assert_eq!((secrets.head_span(b"a T"), secrets.head_span(b"a Tx")), (Some(2..3), None));
        assert_eq!((Secrets::default().longest(), Secrets::default().spans(b"x").len()), (0, 0));
    }
}
