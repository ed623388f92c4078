//! JSON strings without a detour: read straight into the text that is sent on.

use std::borrow::Cow;

use memchr::memchr;
use serde_json::value::RawValue;

/// The text of a value, if it is a string. Without escapes it is a slice of the input.
pub(in crate::wire) fn text_of(raw: &RawValue) -> Option<Cow<'_, str>> {
    Some(resolve(raw.get().strip_prefix('"')?.strip_suffix('"')?))
}

/// Resolves the escapes in the inside of a string whose syntax was checked.
pub(in crate::wire) fn resolve(inner: &str) -> Cow<'_, str> {
    match memchr(b'\\', inner.as_bytes()) {
        None => Cow::Borrowed(inner),
        Some(first) => Cow::Owned(unescape(inner, first)),
    }
}

/// Where a string ends whose opening quote stands before this text, and whether it has escapes; nothing when its
/// syntax is wrong or its end is missing.
pub(in crate::wire) fn string_end(text: &str) -> Option<(usize, bool)> {
    let bytes = text.as_bytes();
    let (mut at, mut has_escapes) = (0, false);
    loop {
        match bytes.get(at)? {
            b'"' => return Some((at, has_escapes)),
            b'\\' => {
                has_escapes = true;
                at += match bytes.get(at + 1)? {
                    b'u' if bytes.get(at + 2..at + 6)?.iter().all(u8::is_ascii_hexdigit) => 6,
                    b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
                    _ => return None,
                };
            }
            0..0x20 => return None,
            _ => at += 1,
        }
    }
}

/// The text of a value, if it is a string that is not empty.
pub(in crate::wire) fn nonempty(raw: Option<&RawValue>) -> Option<Cow<'_, str>> {
    text_of(raw?).filter(|text| !text.is_empty())
}

/// Resolves the escapes of a string whose syntax was checked. Half a surrogate pair becomes a replacement character:
/// servers cut their deltas between the halves, and one lost emoji is no reason to lose the answer.
fn unescape(mut rest: &str, mut at: usize) -> String {
    let mut out = String::with_capacity(rest.len());
    loop {
        out.push_str(&rest[..at]);
        let escape = rest.as_bytes().get(at + 1).copied().unwrap_or(b'\\');
        rest = rest.get(at + 2..).unwrap_or_default();
        match escape {
            b'n' => out.push('\n'),
            b't' => out.push('\t'),
            b'r' => out.push('\r'),
            b'b' => out.push('\u{8}'),
            b'f' => out.push('\u{c}'),
            b'u' => rest = unescape_unicode(rest, &mut out),
            other => out.push(char::from(other)),
        }
        match memchr(b'\\', rest.as_bytes()) {
            Some(next) => at = next,
            None => {
                out.push_str(rest);
                return out;
            }
        }
    }
}

/// Resolves what follows `\u` and returns what follows that.
fn unescape_unicode<'a>(rest: &'a str, out: &mut String) -> &'a str {
    let (first, after) = hex(rest);
    if let 0xD800..=0xDBFF = first
        && let Some((second @ 0xDC00..=0xDFFF, after)) = after.strip_prefix("\\u").map(hex)
    {
        let scalar = 0x10000 + ((first - 0xD800) << 10) + (second - 0xDC00);
        out.push(char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER));
        return after;
    }
    out.push(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
    after
}

fn hex(text: &str) -> (u32, &str) {
    let digits = text.get(..4).and_then(|d| u32::from_str_radix(d, 16).ok());
    (digits.unwrap_or(0xFFFD), text.get(4..).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(json: &str) -> Option<String> {
        text_of(serde_json::from_str(json).unwrap()).map(Cow::into_owned)
    }

    #[test]
    fn escapes_are_resolved_and_half_pairs_replaced() {
        assert_eq!(read(r#""a\n\t\r\b\f\"\\\/\u00e9\ud83d\ude00z""#).unwrap(), "a\n\t\r\u{8}\u{c}\"\\/é😀z");
        assert_eq!(read(r#""\ud83d""#).unwrap(), "\u{fffd}");
        assert_eq!(read(r#""\ude00x""#).unwrap(), "\u{fffd}x");
        assert_eq!(read(r#""\ud83d\u0041""#).unwrap(), "\u{fffd}A");
        assert_eq!(read(r#""\ud83d\n""#).unwrap(), "\u{fffd}\n");
        for other in ["null", "1", "{}", "[]", "true"] {
            assert_eq!(read(other), None);
        }
    }

    #[test]
    fn text_without_escapes_is_a_slice_of_the_input() {
        let raw: &RawValue = serde_json::from_str("\"é\"").unwrap();
        assert!(matches!(text_of(raw), Some(Cow::Borrowed("é"))));
    }

    proptest! {
        #[test]
        fn what_is_read_is_what_the_json_library_reads(text in any::<String>()) {
            prop_assert_eq!(read(&serde_json::to_string(&text).unwrap()).unwrap(), text);
        }
    }
}
