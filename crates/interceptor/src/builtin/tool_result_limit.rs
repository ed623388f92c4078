//! The size of a tool result.

use std::sync::Arc;

use turnwright_core::{BoxFuture, ToolResult, TurnContext};
use turnwright_llm_stream::estimate;

use crate::{Around, Exit, Next, scope};

/// Cuts the content of a tool result, and the message of its error, to head and tail with a marker between them: what
/// caused an error stands at its end. No text is longer than the limit afterwards. Leaves out images beyond
/// [`ToolResultLimit::MAX_IMAGES`], and such as are too large to be references; the content says so.
///
/// With an [`Overflow`] the whole content is kept first, and the marker says where.
#[derive(Clone)]
pub struct ToolResultLimit {
    max: usize,
    unit: Unit,
    overflow: Option<Arc<dyn Overflow>>,
}

/// Where results go that are too long for the model.
pub trait Overflow: Send + Sync + 'static {
    /// Keeps the content of a result, whole, and says how the model gets at it: a path, or a call to make.
    ///
    /// # Errors
    /// Why it could not be kept, in words. The result is cut all the same, and says that the rest was not saved.
    ///
    /// # Cancel safety
    /// Dropped, it is kept wholly or not at all.
    fn keep<'a>(
        &'a self,
        ctx: &'a TurnContext,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<String, String>>;

    /// Whether this tool reads what was kept: its results are cut, and not kept once more.
    fn is_reader(&self, tool: &str) -> bool;
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
        Self { max: max_chars, unit: Unit::Chars, overflow: None }
    }

    /// Cuts in the same way what has more than this many tokens, as [`estimate`] counts them: four bytes of UTF-8 are
    /// one. Leave room.
    pub fn tokens(max_tokens: usize) -> Self {
        let max = max_tokens.saturating_mul(estimate::BYTES_A_TOKEN);
        Self { max, unit: Unit::Bytes, overflow: None }
    }

    /// The same, which keeps what it cuts: as a layer only, since [`limited`](ToolResultLimit::limited) does not wait.
    #[must_use]
    pub fn overflow(mut self, overflow: Arc<dyn Overflow>) -> Self {
        self.overflow = Some(overflow);
        self
    }

    /// The result within the limit.
    #[must_use]
    pub fn limited(&self, result: ToolResult) -> ToolResult {
        self.cut_to(result, None)
    }

    fn cut_to(&self, mut result: ToolResult, kept: Option<&str>) -> ToolResult {
        leave_out_images(&mut result);
        let message = result.error.as_mut().map(|e| &mut e.message);
        for text in [Some(&mut result.content), message].into_iter().flatten() {
            if let Some(short) = cut(text, self.max, self.unit, kept) {
                *text = short;
            }
        }
        result
    }

    /// Where the content was kept, if it is too long and could be.
    async fn keep(&self, ctx: &TurnContext, result: &ToolResult) -> Option<String> {
        let overflow = self.overflow.as_ref().filter(|overflow| !overflow.is_reader(result.tool()))?;
        if !self.is_long(&result.content) {
            return None;
        }
        let kept = overflow.keep(ctx, result).await;
        kept.inspect_err(|e| {
            tracing::warn!("the whole result of call {} was not saved: {e}", result.call_id());
        })
        .ok()
    }

    fn is_long(&self, content: &str) -> bool {
        content.len() > self.max && self.unit.size(content) > self.max
    }
}

impl std::fmt::Debug for ToolResultLimit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { max, unit, overflow } = self;
        write!(f, "ToolResultLimit({max} {unit:?}, keeps: {})", overflow.is_some())
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
        ctx: &TurnContext,
        call: turnwright_core::ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        let result = next.run(call).await?;
        let kept = self.keep(ctx, &result).await;
        Ok(self.cut_to(result, kept.as_deref()))
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

fn cut(content: &str, max: usize, unit: Unit, kept: Option<&str>) -> Option<String> {
    // At least as many bytes as characters: the common case needs no counting.
    if content.len() <= max {
        return None;
    }
    let total = unit.size(content);
    if total <= max {
        return None;
    }
    let told = with_marker(content, max / 10, max * 15 / 100, unit, kept);
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

fn with_marker(content: &str, head: usize, tail: usize, unit: Unit, kept: Option<&str>) -> String {
    let (head, omitted, tail) = unit.split(content, head, tail);
    let (left_out, total) = (omitted.chars().count(), content.chars().count());
    let lines = omitted.bytes().filter(|b| *b == b'\n').count() + 1;
    let saved =
        kept.map_or_else(|| "the rest was not saved".into(), |place| format!("it is saved whole: {place}"));
    format!(
        "{head}\n\n[{left_out} characters in about {lines} lines left out here; this line is not part of the output, \
         and {saved}]\n\n{tail}\n\n[output of {total} characters, cut to fit]"
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
        cut(content, max, Unit::Chars, None)
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
                let short = cut(&content, max, Unit::Bytes, None);
                assert_eq!(short.is_some(), content.len() > max);
                assert!(short.is_none_or(|s| s.len() <= max), "{content} {max}");
            }
        }
        assert_eq!(chars("abcdefgh", 6).as_deref(), Some("abc…gh"));
        assert_eq!(chars("abcdefgh", 0).as_deref(), Some(""));
    }
}
