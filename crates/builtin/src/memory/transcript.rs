//! A conversation as text, for models that read it and are no part of it.

use std::sync::Arc;

use turnwright_core::{Message, Origin, Part, Role};
use turnwright_llm_stream::estimate::{self, BYTES_A_TOKEN};

/// Whether these are the user's own words.
pub(crate) fn is_users(message: &Message) -> bool {
    message.role == Role::User && !matches!(message.origin, Origin::Hook(_) | Origin::Summary { .. })
}

/// The conversation as text, its oldest part left out where it has more than so many tokens.
pub(crate) fn transcript(messages: &[Arc<Message>], most: u64) -> String {
    let mut lines = Vec::new();
    let mut room = most;
    for message in messages.iter().rev() {
        let line = line(message);
        let size = estimate::text(&line);
        if size > room {
            let bytes = usize::try_from(room).unwrap_or(usize::MAX).saturating_mul(BYTES_A_TOKEN);
            let end = &line[line.ceil_char_boundary(line.len().saturating_sub(bytes))..];
            lines.push(format!("[what came before is left out]{end}"));
            break;
        }
        room -= size;
        lines.push(line);
    }
    lines.reverse();
    lines.join("\n\n")
}

fn line(message: &Message) -> String {
    let who = match (message.role, &message.origin) {
        (_, Origin::Summary { .. }) => "EARLIER NOTES",
        (_, Origin::Hook(_)) | (Role::System, _) => "SYSTEM",
        (Role::User, _) => "PERSON",
        (Role::Assistant, _) => "ASSISTANT",
        (Role::Tool, _) => "TOOL",
    };
    let parts = message.parts.iter().filter_map(|part| match part {
        Part::Text { text } => Some(text.clone()),
        Part::ToolCall(call) => Some(format!("[calls {}({})]", call.name, short(&call.arguments))),
        Part::ToolResult(result) => Some(format!("[{} gave] {}", result.tool(), short(&result.content))),
        Part::Image(_) => Some("[an image]".into()),
        _ => None,
    });
    format!("{who}: {}", parts.collect::<Vec<_>>().join("\n"))
}

/// Results are long, and what matters of them was said after.
fn short(text: &str) -> String {
    const MOST: usize = 2000;
    match text.char_indices().nth(MOST) {
        Some((end, _)) => format!("{}… ({} characters)", &text[..end], text.chars().count()),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use turnwright_core::Sources;

    use super::*;

    #[test]
    fn of_what_is_too_long_the_end_is_read_also_where_it_is_one_message() {
        let said = |text: &str| Arc::new(Message::user(Sources::default().id(), text));
        let messages = [said("first"), said("second"), said("third")];
        assert_eq!(transcript(&messages, 100), "PERSON: first\n\nPERSON: second\n\nPERSON: third");
        assert_eq!(transcript(&messages, 5), "[what came before is left out]cond\n\nPERSON: third");
        assert_eq!(transcript(&[said(&"ä".repeat(100))], 1), "[what came before is left out]ää");
    }
}
