//! The size of a tool result.

use turnwright_core::{ToolResult, TurnContext};

use crate::{Around, Exit, Next, scope};

/// Cuts the content of a tool result to its head and tail, with a marker between them. Error results are cut too:
/// their causes stand at the end.
#[derive(Debug, Clone, Copy)]
pub struct ToolResultLimit {
    max_chars: usize,
}

impl ToolResultLimit {
    /// The seed's 50,000 characters.
    pub const DEFAULT_CHARS: usize = 50_000;

    /// Cuts what is longer than this many characters to a tenth of them from the head and a bit more than a seventh
    /// from the tail, the seed's shares.
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
        let result = next.run(call).await?;
        Ok(match cut(&result.content, self.max_chars) {
            Some(short) => result.with_content(short),
            None => result,
        })
    }
}

fn cut(content: &str, max_chars: usize) -> Option<String> {
    // As many bytes as characters at least: the common case needs no counting.
    if content.len() <= max_chars {
        return None;
    }
    let total = content.chars().count();
    if total <= max_chars {
        return None;
    }
    let (head, tail) = (max_chars / 10, max_chars * 15 / 100);
    let at = |n: usize| content.char_indices().nth(n).map_or(content.len(), |(i, _)| i);
    let (from, to) = (at(head), at(total - tail));
    let omitted = &content[from..to];
    let lines = omitted.bytes().filter(|b| *b == b'\n').count() + 1;
    let marker = format!(
        "[{} characters in about {lines} lines left out here; this line is not part of the output, and the rest was not saved]",
        total - head - tail
    );
    if marker.chars().count() >= total - head - tail {
        return None;
    }
    let (head, tail) = (&content[..from], &content[to..]);
    Some(format!("{head}\n\n{marker}\n\n{tail}\n\n[output of {total} characters, cut to fit]"))
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
}
