//! The size of a tool result.

use turnwright_core::{ToolResult, TurnContext};

use crate::{Around, Exit, Next, scope};

/// Cuts the content of a tool result, and the message of its error, to head and tail with a marker between them: what
/// caused an error stands at its end. No text is longer than the limit afterwards.
#[derive(Debug, Clone, Copy)]
pub struct ToolResultLimit {
    max_chars: usize,
}

impl ToolResultLimit {
    /// The seed's 50,000 characters.
    pub const DEFAULT_CHARS: usize = 50_000;

    /// Cuts what is longer than this many characters to a tenth of them from the head and a bit more than a seventh
    /// from the tail, the seed's shares; where the limit leaves no room for words about it, to two halves round an
    /// ellipsis.
    pub fn new(max_chars: usize) -> Self {
        Self { max_chars }
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
        let mut result = next.run(call).await?;
        let message = result.error.as_mut().map(|e| &mut e.message);
        for text in [Some(&mut result.content), message].into_iter().flatten() {
            if let Some(short) = cut(text, self.max_chars) {
                *text = short;
            }
        }
        Ok(result)
    }
}

fn cut(content: &str, max_chars: usize) -> Option<String> {
    // At least as many bytes as characters: the common case needs no counting.
    if content.len() <= max_chars {
        return None;
    }
    let total = content.chars().count();
    if total <= max_chars {
        return None;
    }
    let told = with_marker(content, total, max_chars / 10, max_chars * 15 / 100);
    Some(if told.chars().count() <= max_chars { told } else { halves(content, total, max_chars) })
}

/// The first and the last characters of a text, and what is between them.
fn split(content: &str, total: usize, head: usize, tail: usize) -> (&str, &str, &str) {
    let at = |n: usize| content.char_indices().nth(n).map_or(content.len(), |(i, _)| i);
    let (from, to) = (at(head), at(total - tail));
    (&content[..from], &content[from..to], &content[to..])
}

fn with_marker(content: &str, total: usize, head: usize, tail: usize) -> String {
    let left_out = total - head - tail;
    let (head, omitted, tail) = split(content, total, head, tail);
    let lines = omitted.bytes().filter(|b| *b == b'\n').count() + 1;
    format!(
        "{head}\n\n[{left_out} characters in about {lines} lines left out here; this line is not part of the output, \
         and the rest was not saved]\n\n{tail}\n\n[output of {total} characters, cut to fit]"
    )
}

fn halves(content: &str, total: usize, max_chars: usize) -> String {
    let Some(kept) = max_chars.checked_sub(1) else { return String::new() };
    let (head, _, tail) = split(content, total, kept - kept / 2, kept / 2);
    format!("{head}…{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_and_tail_are_kept_on_character_boundaries() {
        assert_eq!(cut("short", 10), None);
        assert_eq!(cut(&"é".repeat(1000), 1000), None, "characters count, not bytes");
        let long = format!("{}{}", "é".repeat(30_000), "z".repeat(30_000));
        let short = cut(&long, 50_000).unwrap();
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
                let short = cut(&content, max);
                assert_eq!(short.is_some(), total > max);
                assert!(short.is_none_or(|s| s.chars().count() <= max), "{total} {max}");
            }
        }
        assert_eq!(cut("abcdefgh", 6).as_deref(), Some("abc…gh"));
        assert_eq!(cut("abcdefgh", 0).as_deref(), Some(""));
    }
}
