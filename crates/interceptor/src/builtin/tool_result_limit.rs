//! The size of a tool result.

use turnwright_core::{ToolResult, TurnContext};
use turnwright_llm_stream::estimate;

use crate::{Around, Exit, Next, scope};

/// Cuts the content of a tool result, and the message of its error, to head and tail with a marker between them: what
/// caused an error stands at its end. No text is longer than the limit afterwards. Leaves out images beyond
/// [`ToolResultLimit::MAX_IMAGES`], and such as are too large to be references; the content says so.
#[derive(Debug, Clone, Copy)]
pub struct ToolResultLimit {
    max: usize,
    unit: Unit,
}

/// What the limit counts.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Unit {
    Chars,
    Bytes,
}

impl ToolResultLimit {
    /// The seed's 50,000 characters.
    pub const DEFAULT_CHARS: usize = 50_000;
    /// Images a result may have.
    pub const MAX_IMAGES: usize = 20;
    /// The longest reference to an image, in bytes. A `data:` URI is no reference but the image.
    pub const MAX_REFERENCE_BYTES: usize = 4 << 10;
    /// The `data:` URIs of a result together, in bytes.
    pub const MAX_DATA_BYTES: usize = 8 << 20;

    /// Cuts what is longer than this many characters to a tenth of them from the head and a bit more than a seventh
    /// from the tail, the seed's shares; where the limit leaves no room for words about it, to two halves round an
    /// ellipsis.
    pub fn new(max_chars: usize) -> Self {
        Self { max: max_chars, unit: Unit::Chars }
    }

    /// Cuts in the same way what has more than this many tokens, as [`estimate`] counts them: four bytes of UTF-8 are
    /// one. Leave room.
    pub fn tokens(max_tokens: usize) -> Self {
        Self { max: max_tokens.saturating_mul(estimate::BYTES_A_TOKEN), unit: Unit::Bytes }
    }

    /// The result within the limit.
    #[must_use]
    pub fn limited(&self, mut result: ToolResult) -> ToolResult {
        leave_out_images(&mut result);
        let message = result.error.as_mut().map(|e| &mut e.message);
        for text in [Some(&mut result.content), message].into_iter().flatten() {
            if let Some(short) = cut(text, self.max, self.unit) {
                *text = short;
            }
        }
        result
    }
}

impl Default for ToolResultLimit {
    fn default() -> Self {
        Self::new(Self::DEFAULT_CHARS)
    }
}

impl Around<scope::ToolCall> for ToolResultLimit {
    async fn around(
        &self,
        _ctx: &TurnContext,
        call: turnwright_core::ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        Ok(self.limited(next.run(call).await?))
    }
}

fn leave_out_images(result: &mut ToolResult) {
    let before = result.images.len();
    let mut room = ToolResultLimit::MAX_DATA_BYTES;
    result.images.retain(|image| {
        let size = image.uri.len();
        let fits = match image.uri.starts_with("data:") {
            true => size <= room,
            false => return size <= ToolResultLimit::MAX_REFERENCE_BYTES,
        };
        room -= if fits { size } else { 0 };
        fits
    });
    result.images.truncate(ToolResultLimit::MAX_IMAGES);
    let left_out = before - result.images.len();
    if left_out > 0 {
        // At the end, which is kept when the text is cut.
        let note = format!("\n\n[{left_out} of {before} images left out: too many, or too large]");
        result.content.push_str(&note);
    }
}

fn cut(content: &str, max: usize, unit: Unit) -> Option<String> {
    // At least as many bytes as characters: the common case needs no counting.
    if content.len() <= max {
        return None;
    }
    let total = unit.size(content);
    if total <= max {
        return None;
    }
    let told = with_marker(content, max / 10, max * 15 / 100, unit);
    Some(if unit.size(&told) <= max { told } else { halves(content, max, unit) })
}

impl Unit {
    fn size(self, text: &str) -> usize {
        match self {
            Self::Chars => text.chars().count(),
            Self::Bytes => text.len(),
        }
    }

    /// Where the first `n` end, on the boundary of a character at or before.
    fn head(self, text: &str, n: usize) -> usize {
        match self {
            Self::Chars => text.char_indices().nth(n).map_or(text.len(), |(i, _)| i),
            Self::Bytes => text.floor_char_boundary(n),
        }
    }

    /// Where the last `n` begin, on the boundary of a character at or after.
    fn tail(self, text: &str, n: usize) -> usize {
        match self {
            Self::Chars => text.char_indices().nth_back(n.wrapping_sub(1)).map_or(text.len(), |(i, _)| i),
            Self::Bytes => text.ceil_char_boundary(text.len().saturating_sub(n)),
        }
    }

    /// The first and the last of a text, and what is between them.
    fn split(self, text: &str, head: usize, tail: usize) -> (&str, &str, &str) {
        let (from, to) = (self.head(text, head), self.tail(text, tail));
        (&text[..from], &text[from..to], &text[to..])
    }
}

fn with_marker(content: &str, head: usize, tail: usize, unit: Unit) -> String {
    let (head, omitted, tail) = unit.split(content, head, tail);
    let (left_out, total) = (omitted.chars().count(), content.chars().count());
    let lines = omitted.bytes().filter(|b| *b == b'\n').count() + 1;
    format!(
        "{head}\n\n[{left_out} characters in about {lines} lines left out here; this line is not part of the output, \
         and the rest was not saved]\n\n{tail}\n\n[output of {total} characters, cut to fit]"
    )
}

fn halves(content: &str, max: usize, unit: Unit) -> String {
    let Some(kept) = max.checked_sub(unit.size("…")) else { return String::new() };
    let (head, _, tail) = unit.split(content, kept - kept / 2, kept / 2);
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chars(content: &str, max: usize) -> Option<String> {
        cut(content, max, Unit::Chars)
    }

    #[test]
    fn head_and_tail_are_kept_on_character_boundaries() {
        assert_eq!(chars("short", 10), None);
        assert_eq!(chars(&"é".repeat(1000), 1000), None, "characters count, not bytes");
        let long = format!("{}{}", "é".repeat(30_000), "z".repeat(30_000));
        let short = chars(&long, 50_000).unwrap();
        assert!(short.starts_with(&"é".repeat(5_000)) && !short.starts_with(&"é".repeat(5_001)));
        assert!(short.contains(&"z".repeat(7_500)) && !short.contains(&"z".repeat(7_501)));
        assert!(
            short.contains("[47500 characters in about 1 lines left out here"),
            "{}",
            &short[10_000..10_300]
        );
        assert!(short.ends_with("[output of 60000 characters, cut to fit]"));
    }

    #[test]
    fn whatever_the_limit_a_text_is_never_longer_than_it() {
        for total in [0, 1, 2, 3, 50, 230, 400, 2_000] {
            let content = "é".repeat(total);
            for max in (0..400).chain([1_000, 2_000]) {
                let short = chars(&content, max);
                assert_eq!(short.is_some(), total > max);
                assert!(short.is_none_or(|s| s.chars().count() <= max), "{total} {max}");
            }
        }
        for content in ["é".repeat(400), "日本".repeat(300), "a€😀".repeat(100)] {
            for max in (0..400).chain([799, 800, 1_000, 1_799, 1_800]) {
                let short = cut(&content, max, Unit::Bytes);
                assert_eq!(short.is_some(), content.len() > max);
                assert!(short.is_none_or(|s| s.len() <= max), "{content} {max}");
            }
        }
        assert_eq!(chars("abcdefgh", 6).as_deref(), Some("abc…gh"));
        assert_eq!(chars("abcdefgh", 0).as_deref(), Some(""));
    }
}
