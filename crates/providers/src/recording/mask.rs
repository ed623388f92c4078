//! Secrets written over with asterisks. Lengths stay, so that pieces, frames and lengths that a format states still fit.

use serde_json::Value;
use turnwright_llm_stream::classify::Secrets;

const MASK: u8 = b'*';

/// So much of a secret's head is worth hiding where a body was cut.
const SHORTEST_HEAD: usize = 4;

/// The text without the secrets; its length stays.
pub(crate) fn masked(secrets: &Secrets, text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    secrets.spans(text.as_bytes()).into_iter().for_each(|span| bytes[span].fill(MASK));
    // A secret begins and ends where characters do.
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Takes the secrets out of every text in a value.
pub(crate) fn mask_value(secrets: &Secrets, value: &mut Value) {
    match value {
        Value::String(text) => {
            if !secrets.spans(text.as_bytes()).is_empty() {
                *text = masked(secrets, text);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| mask_value(secrets, item)),
        Value::Object(fields) => fields.values_mut().for_each(|field| mask_value(secrets, field)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Masks a body that comes in pieces: the same bytes come out whatever the pieces are.
pub(crate) struct Masker {
    secrets: Secrets,
    /// What came last, as it came: first what went out already and may be the head of a secret, then what did not go out.
    raw: Vec<u8>,
    /// How much of it went out.
    out: usize,
    /// How many bytes of a secret may lie before or behind one of its bytes.
    reach: usize,
    /// How many secrets were found.
    pub(crate) count: u64,
}

impl Masker {
    pub(crate) fn new(secrets: Secrets) -> Self {
        let reach = secrets.longest().saturating_sub(1);
        Self { secrets, raw: Vec::new(), out: 0, reach, count: 0 }
    }

    /// Takes a piece and gives what can go out. The rest waits for what follows.
    pub(crate) fn feed(&mut self, piece: &[u8]) -> Vec<u8> {
        if self.secrets.longest() == 0 {
            return piece.to_vec();
        }
        self.raw.extend_from_slice(piece);
        // Where a secret may go on.
        let head = self.secrets.head_span(&self.raw);
        self.take(head.map_or(self.raw.len(), |head| head.start), false)
    }

    /// What is left. The head of a secret that was cut goes too.
    pub(crate) fn end(&mut self) -> Vec<u8> {
        self.take(self.raw.len(), true)
    }

    fn take(&mut self, until: usize, is_end: bool) -> Vec<u8> {
        if until <= self.out {
            return Vec::new();
        }
        let mut bytes = self.raw.clone();
        let mut spans = self.secrets.spans(&self.raw);
        if is_end {
            // What is shorter tells nothing.
            spans.extend(self.secrets.head_span(&self.raw).filter(|head| head.len() >= SHORTEST_HEAD));
        }
        spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
        let mut covered = 0;
        for span in spans {
            // A word of a secret inside it is not counted again, nor is one that was counted when its head went out.
            if span.end > covered && (self.out..until).contains(&span.start) {
                self.count += 1;
            }
            covered = covered.max(span.end);
            bytes[span].fill(MASK);
        }
        let ready = bytes[self.out..until].to_vec();
        let forget = until.saturating_sub(self.reach);
        self.raw.drain(..forget);
        self.out = until - forget;
        ready
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_masked_whatever_the_pieces_are() {
        let secrets = Secrets::new(["Token abcdefgh=="]);
        let body = b"{\"m\":\"no Token abcdefgh== here, abcdefgh== there\"} Token abc";
        let expected = b"{\"m\":\"no **************** here, ********** there\"} *********";
        for size in 1..body.len() + 1 {
            let mut masker = Masker::new(secrets.clone());
            let mut out: Vec<u8> = body.chunks(size).flat_map(|piece| masker.feed(piece)).collect();
            assert_eq!(out.len(), body.len() - "Token abc".len(), "only what may be a secret waits");
            out.extend(masker.end());
            assert_eq!(String::from_utf8_lossy(&out), String::from_utf8_lossy(expected), "{size}");
            assert_eq!(masker.count, 3, "{size}");
        }
        let mut value = serde_json::json!({ "a": ["é Token abcdefgh==", 1], "b": "abc" });
        mask_value(&secrets, &mut value);
        assert_eq!(value, serde_json::json!({ "a": ["é ****************", 1], "b": "abc" }));
    }

    #[test]
    fn without_secrets_nothing_waits() {
        let mut masker = Masker::new(Secrets::default());
        assert_eq!((masker.feed(b"abc"), masker.end()), (b"abc".to_vec(), Vec::new()));
    }
}
