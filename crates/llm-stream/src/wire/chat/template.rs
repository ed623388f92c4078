//! The fast path for chunks that are alike.
//!
//! The chunks of an answer's text are alike but for the text, and so are those of a call's arguments. Once one was parsed
//! and said nothing but one string, another that has the same bytes before and after its string says nothing but its
//! string either, and need not be parsed.

use std::borrow::Cow;

use crate::wire::text::{resolve, string_end};

/// What a chunk of nothing but one string looks like round that string.
#[derive(Debug, Default)]
pub(super) struct Template {
    /// Up to and with the opening quote. Empty until one was learned.
    before: String,
    /// From the closing quote on, up to padding if there is some.
    after: String,
    /// Whether a string of random length follows `after`, which some servers append so that the length of an encrypted
    /// chunk tells nothing, and then the end of the object.
    padded: bool,
}

/// How padding ends: the last member of the chunk.
const PADDING_END: &str = "\"}";

impl Template {
    /// Learns from a chunk that said nothing but the string `text` (without its quotes), which is a slice of it.
    pub(super) fn learn(&mut self, chunk: &str, text: &str) {
        self.before.clear();
        let Some(at) = (text.as_ptr() as usize).checked_sub(chunk.as_ptr() as usize) else { return };
        let (Some(before), Some(after)) = (chunk.get(..at), chunk.get(at + text.len()..)) else { return };
        let (after, padded) = match padding_start(after) {
            Some(start) => (&after[..start], true),
            None => (after, false),
        };
        self.before.push_str(before);
        self.after.clear();
        self.after.push_str(after);
        self.padded = padded;
    }

    /// The string of a chunk that is like the one learned from.
    pub(super) fn string<'a>(&self, chunk: &'a str) -> Option<Cow<'a, str>> {
        if self.before.is_empty() {
            return None;
        }
        let rest = chunk.strip_prefix(self.before.as_str())?;
        let (end, has_escapes) = string_end(rest)?;
        let tail = rest[end..].strip_prefix(self.after.as_str())?;
        let fits = match self.padded {
            true => tail.strip_suffix(PADDING_END).is_some_and(is_padding),
            false => tail.is_empty(),
        };
        let text = &rest[..end];
        fits.then(|| if has_escapes { resolve(text) } else { text.into() })
    }
}

/// Where the padding begins in what follows the text.
fn padding_start(after: &str) -> Option<usize> {
    let body = after.strip_suffix(PADDING_END)?;
    let start = body.rfind('"')? + 1;
    let is_named = ["\"obfuscation\":\"", "\"p\":\""].iter().any(|name| body[..start].ends_with(name));
    (is_named && is_padding(&body[start..])).then_some(start)
}

fn is_padding(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_alphanumeric())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn learned(chunk: &str, text: &str) -> Template {
        let at = chunk.find(text).unwrap();
        let mut template = Template::default();
        template.learn(chunk, &chunk[at..at + text.len()]);
        template
    }

    #[test]
    fn a_chunk_that_differs_in_its_text_only_needs_no_parsing() {
        let template = learned(r#"{"c":"TEXT","n":null}"#, "TEXT");
        let text = |chunk| template.string(chunk).map(Cow::into_owned);
        assert_eq!(text(r#"{"c":"é","n":null}"#).unwrap(), "é");
        assert_eq!(text(r#"{"c":"","n":null}"#).unwrap(), "");
        assert_eq!(text(r#"{"c":"a\n\"b\"\\","n":null}"#).unwrap(), "a\n\"b\"\\");
        for other in [
            r#"{"c":"a","n":1}"#,
            r#"{"c":"a","n":null} "#,
            r#"{"d":"a","n":null}"#,
            r#"{"c":"a","x":"","n":null}"#,
            r#"{"c":"a\","n":null}"#,
            r#"{"c":"a\x","n":null}"#,
            r#"{"c":"a\u00g0","n":null}"#,
            "{\"c\":\"a\n\",\"n\":null}",
            r#"{"c":"a"#,
            "",
        ] {
            assert_eq!(text(other), None, "{other}");
        }
        assert_eq!(Template::default().string(""), None);
    }

    #[test]
    fn padding_may_differ() {
        let template = learned(r#"{"c":"TEXT","obfuscation":"abc"}"#, "TEXT");
        assert_eq!(template.string(r#"{"c":"a","obfuscation":"ZZ9"}"#).unwrap(), "a");
        assert_eq!(template.string(r#"{"c":"a","obfuscation":""}"#).unwrap(), "a");
        for other in [
            r#"{"c":"a","obfuscation":"x","y":"z"}"#,
            r#"{"c":"a","obfuscation":"x\""}"#,
            r#"{"c":"a","obfuscation":"}"#,
            r#"{"c":"a","obfuscation":null}"#,
        ] {
            assert_eq!(template.string(other), None, "{other}");
        }
        // A last member of another name must not differ.
        let template = learned(r#"{"c":"TEXT","finish_reason":"x"}"#, "TEXT");
        assert_eq!(template.string(r#"{"c":"a","finish_reason":"stop"}"#), None);
    }
}
