//! The fast path for events that are alike.
//!
//! The events of an answer's text are alike but for the text, and so are those of a call's arguments. Once one was parsed
//! and said nothing but one string, another that has the same bytes before and after its string says nothing but its
//! string either, and need not be parsed. Two fields may differ too, which say nothing: a count of the events, and
//! padding.

use std::{borrow::Cow, sync::LazyLock};

use memchr::memmem;
use serde_json::value::RawValue;

use crate::wire::text::{resolve, string_end};

/// What an event of nothing but one string looks like round that string.
#[derive(Debug, Default)]
pub(in crate::wire) struct Template {
    known: bool,
    /// Up to and with the opening quote.
    before: Side,
    /// From the closing quote on.
    after: Side,
}

/// Text with gaps where something may differ.
#[derive(Debug, Default)]
struct Side {
    text: String,
    /// Where in the text there are gaps, and of which kind.
    gaps: Vec<(usize, Gap)>,
}

#[derive(Debug, Clone, Copy)]
enum Gap {
    /// The number of the event.
    Digits,
    /// A string of random length, which some servers append so that the length of an encrypted event tells nothing.
    Padding,
}

/// The most bytes an event that is learned from may have beside its string. More are no delta, and would be held.
const MAX_BYTES: usize = 4096;

/// After which text there is a gap. No format reads these fields. Inside a string their quotes would have escapes.
const GAPS: [(&str, Gap); 3] =
    [("\"sequence_number\":", Gap::Digits), ("\"obfuscation\":\"", Gap::Padding), ("\"p\":\"", Gap::Padding)];

/// Looks for each of them. Made once: that takes longer than to look.
static FINDERS: LazyLock<[memmem::Finder<'static>; 3]> =
    LazyLock::new(|| GAPS.map(|(name, _)| memmem::Finder::new(name)));

impl Template {
    /// Learns from an event that said nothing but the string `text` (without its quotes), which is a slice of it.
    pub(in crate::wire) fn learn(&mut self, event: &str, text: &str) {
        self.known = false;
        let Some(at) = (text.as_ptr() as usize).checked_sub(event.as_ptr() as usize) else { return };
        let (Some(before), Some(after)) = (event.get(..at), event.get(at + text.len()..)) else { return };
        if before.len() + after.len() > MAX_BYTES {
            return;
        }
        self.before.learn(before);
        self.after.learn(after);
        self.known = true;
    }

    /// The string of an event that is like the one learned from.
    pub(in crate::wire) fn string<'a>(&self, event: &'a str) -> Option<Cow<'a, str>> {
        if !self.known {
            return None;
        }
        let rest = self.before.strip(event)?;
        let (end, has_escapes) = string_end(rest)?;
        let (text, tail) = rest.split_at(end);
        let fits = self.after.strip(tail)?.is_empty();
        fits.then(|| if has_escapes { resolve(text) } else { text.into() })
    }
}

impl Side {
    fn learn(&mut self, mut text: &str) {
        self.text.clear();
        self.gaps.clear();
        while let Some((at, length, gap)) = first_gap(text) {
            self.text.push_str(&text[..at]);
            self.gaps.push((self.text.len(), gap));
            text = &text[at + length..];
        }
        self.text.push_str(text);
    }

    /// What follows this text at the start of another.
    fn strip<'a>(&self, mut other: &'a str) -> Option<&'a str> {
        let mut from = 0;
        for (at, gap) in &self.gaps {
            other = other.strip_prefix(&self.text[from..*at])?;
            other = &other[gap.length(other)?..];
            from = *at;
        }
        other.strip_prefix(&self.text[from..])
    }
}

impl Gap {
    /// How long it is at the start of this text, if one can be there.
    fn length(self, text: &str) -> Option<usize> {
        let count = |fits: fn(&u8) -> bool| text.bytes().take_while(fits).count();
        match self {
            Self::Padding => Some(count(u8::is_ascii_alphanumeric)),
            // As JSON spells numbers.
            Self::Digits => match (count(u8::is_ascii_digit), text.starts_with('0')) {
                (0, _) | (2.., true) => None,
                (digits, _) => Some(digits),
            },
        }
    }
}

/// The first gap in this text: where it begins, how long it is, and its kind.
fn first_gap(text: &str) -> Option<(usize, usize, Gap)> {
    let gaps = GAPS.into_iter().zip(&*FINDERS).filter_map(|((name, gap), finder)| {
        let at = finder.find(text.as_bytes())? + name.len();
        Some((at, gap.length(&text[at..])?, gap))
    });
    gaps.min_by_key(|(at, ..)| *at)
}

/// What stands between the quotes of a string.
pub(in crate::wire) fn inside(raw: &RawValue) -> Option<&str> {
    raw.get().strip_prefix('"')?.strip_suffix('"')
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
        // A number counts the events, before and after the text.
        let template =
            learned(r#"{"sequence_number":7,"c":"TEXT","o":{"p":""},"sequence_number":9}"#, "TEXT");
        assert_eq!(
            template.string(r#"{"sequence_number":10,"c":"a","o":{"p":"x"},"sequence_number":0}"#).unwrap(),
            "a"
        );
        for other in [
            r#"{"sequence_number":-1,"c":"a","o":{"p":"x"},"sequence_number":0}"#,
            r#"{"sequence_number":01,"c":"a","o":{"p":"x"},"sequence_number":0}"#,
            r#"{"sequence_number":1,"c":"a","o":{"p":"x"},"sequence_number":}"#,
            r#"{"sequence_number":1,"c":"a","o":{"p":"x"},"sequence_number":1.5}"#,
            r#"{"sequence_number":1,"c":"a","o":{"p":1},"sequence_number":1}"#,
        ] {
            assert_eq!(template.string(other), None, "{other}");
        }
        // A last member of another name must not differ.
        let template = learned(r#"{"c":"TEXT","finish_reason":"x"}"#, "TEXT");
        assert_eq!(template.string(r#"{"c":"a","finish_reason":"stop"}"#), None);
    }
}
