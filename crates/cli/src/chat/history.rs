//! The messages of a session, in short.

use std::sync::Arc;

use turnwright::{Message, Part, Role};

use crate::view::{counted, one_line, spelled};

/// How many messages are shown, and how much of each.
const MESSAGES: usize = 50;
const SHOWN: usize = 100;

/// The last messages, one line a part.
pub(crate) fn in_short(messages: &[Arc<Message>]) -> String {
    if messages.is_empty() {
        return "no message yet\n".into();
    }
    let earlier = messages.len().saturating_sub(MESSAGES);
    let mut text = String::new();
    if earlier > 0 {
        text.push_str(&format!("… {}\n", counted(earlier as u64, "earlier message")));
    }
    for (number, message) in messages.iter().enumerate().skip(earlier) {
        let who = match message.role {
            Role::System => "system",
            Role::User => "you",
            Role::Assistant => "model",
            Role::Tool => "tool",
        };
        let mark = match &message.interrupted {
            Some(cut) => format!(" [interrupted: {}]", spelled(&cut.reason)),
            None => String::new(),
        };
        let parts: Vec<String> = message.parts.iter().filter_map(part).collect();
        let parts = if parts.is_empty() { "(nothing)".into() } else { parts.join("\n       ") };
        text.push_str(&format!("{:>3} {who}: {parts}{mark}\n", number + 1));
    }
    text
}

fn part(part: &Part) -> Option<String> {
    match part {
        Part::Text { text } if text.is_empty() => None,
        Part::Text { text } => Some(one_line(text, SHOWN)),
        Part::Reasoning(reasoning) => {
            let characters = counted(reasoning.text.chars().count() as u64, "character");
            Some(format!("(thought: {characters})"))
        }
        Part::ToolCall(call) => {
            Some(format!("→ {} {}", spelled(&call.name), one_line(&call.arguments_json(), SHOWN)))
        }
        Part::ToolResult(result) => {
            let failed = if result.is_error() { " failed" } else { "" };
            Some(format!("← {}{failed}: {}", spelled(result.tool()), one_line(&result.content, SHOWN)))
        }
        Part::Image(image) => Some(format!("(image {})", one_line(&image.uri, SHOWN))),
        _ => Some("(something this program does not know)".into()),
    }
}
