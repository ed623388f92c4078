//! A question about a call: the tool, why it is asked, and the arguments whole, within a bound and readable.

use serde_json::Value;
use turnwright::core::{ApprovalRequest, Wants};

use super::answer::{ANSWERS, CHOICES};
use crate::{
    output::{Look, style},
    view::{counted, exposed, one_line},
};

/// How much of the arguments of one call is shown unasked.
const MOST_LINES: usize = 400;
const MOST_CHARACTERS: usize = 20_000;

/// The longest value that stands beside its name.
const SHORT: usize = 100;

/// The questions about calls, with all that was asked for, and how to answer.
pub(super) fn questions(pending: &[ApprovalRequest], look: Look) -> String {
    let part = |request| question(request, look, MOST_LINES, MOST_CHARACTERS);
    let mut text: String = pending.iter().map(part).collect();
    if pending.len() > 1 {
        text.push_str(&format!("{} wait\n", counted(pending.len() as u64, "call")));
    }
    let choices = pending.first().map_or(CHOICES, choices);
    text.push_str(&format!("{} {choices}\n", look.paint(style::HINT, "answer:")));
    text
}

/// A call with all of its arguments, however long they are.
pub(crate) fn whole(request: &ApprovalRequest, look: Look) -> String {
    question(request, look, usize::MAX, usize::MAX)
}

/// Whether [`questions`] leave out a part of this call.
pub(super) fn is_cut(request: &ApprovalRequest) -> bool {
    sheet(request, MOST_LINES, MOST_CHARACTERS).cut().is_some()
}

/// What may be answered to it.
pub(super) fn choices(request: &ApprovalRequest) -> &'static str {
    if request.wants.is_approval() { CHOICES } else { ANSWERS }
}

/// What stands where the answer to one of them is typed.
pub(super) fn prompt(request: &ApprovalRequest) -> String {
    let (tool, id) = (&request.call.name, request.call.id.as_str());
    let (tool, id) = (one_line(&exposed(tool), 40), one_line(&exposed(id), 40));
    if !request.wants.is_approval() {
        return format!("answer {tool} (call {id}) > ");
    }
    format!("allow {tool} (call {id})? y/n > ")
}

fn question(request: &ApprovalRequest, look: Look, lines: usize, characters: usize) -> String {
    let call = &request.call;
    let whose =
        request.agent.as_deref().map(|agent| format!(" of the subagent {}", one_line(&exposed(agent), 40)));
    let mut text = format!(
        "{} {} (call {}{}): {}\n",
        look.paint(style::WARNING, if request.wants.is_approval() { "approval:" } else { "question:" }),
        look.paint(style::TOOL, &exposed(&call.name)),
        exposed(call.id.as_str()),
        whose.unwrap_or_default(),
        one_line(&request.reason, SHORT * 2),
    );
    if let Wants::Answer { question, choices } = &request.wants {
        text.push_str(&format!("{}\n", exposed(question)));
        for choice in choices {
            text.push_str(&format!("  - {}\n", exposed(choice)));
        }
    }
    let sheet = sheet(request, lines, characters);
    text.push_str(&sheet.text);
    if let Some(cut) = sheet.cut() {
        let label = look.paint(style::ERROR, "NOT SHOWN:");
        let id = exposed(call.id.as_str());
        text.push_str(&format!(
            "  {label} {cut}; /show {id} shows all, and it must be seen to be approved\n"
        ));
    }
    text
}

/// The arguments, up to so many lines and characters.
fn sheet(request: &ApprovalRequest, lines: usize, characters: usize) -> Sheet {
    let call = &request.call;
    let mut sheet = Sheet {
        lines_left: lines,
        characters_left: characters,
        text: String::new(),
        cut_lines: 0,
        cut_characters: 0,
    };
    match call.arguments_value() {
        Ok(Value::Object(fields)) if fields.is_empty() => sheet.line("  ", "(no arguments)"),
        Ok(Value::Object(fields)) => {
            let mut fields: Vec<_> =
                fields.iter().map(|(name, value)| (mark(&call.name, name), name, value)).collect();
            // A long text must not crowd out where it goes, and what goes stands before what comes.
            let rank = |mark: char| "|-+".find(mark);
            fields.sort_by_key(|(mark, _, value)| (rank(*mark), value.to_string().len() > SHORT));
            for (mark, name, value) in fields {
                sheet.field(name, value, mark);
            }
        }
        Ok(other) => sheet.field("arguments", &other, '|'),
        Err(_) => sheet.field("arguments (not JSON)", &Value::String(call.arguments.clone()), '|'),
    }
    sheet
}

/// What stands before each line of a value: what a file gains or loses.
fn mark(tool: &str, field: &str) -> char {
    match (tool, field) {
        ("write_file", "content") => '+',
        ("edit_file", field) if field.starts_with("old") => '-',
        ("edit_file", field) if field.starts_with("new") => '+',
        _ => '|',
    }
}

/// Lines within the bound, and how much was beyond it.
struct Sheet {
    text: String,
    lines_left: usize,
    characters_left: usize,
    cut_lines: u64,
    cut_characters: u64,
}

impl Sheet {
    fn field(&mut self, name: &str, value: &Value, mark: char) {
        let name = one_line(&exposed(name), SHORT);
        let text = match value {
            Value::String(text) => text.clone(),
            other => match other.to_string() {
                short if short.chars().count() <= SHORT => short,
                _ => format!("{other:#}"),
            },
        };
        let is_text = value.is_string();
        let is_short = !text.contains('\n') && text.chars().count() <= SHORT;
        if is_short && mark == '|' {
            let is_bare = text.trim() == text && !text.is_empty();
            let text = if is_text && !is_bare { format!("{text:?}") } else { text };
            return self.line(&format!("  {name}: "), &text);
        }
        if text.is_empty() {
            return self.line(&format!("  {name}: "), "(empty)");
        }
        let lines = text.strip_suffix('\n').unwrap_or(&text);
        let count = counted(lines.split('\n').count() as u64, "line");
        let open = if is_text && !text.ends_with('\n') { ", no line break at the end" } else { "" };
        self.line("  ", &format!("{name} ({count}{open}):"));
        for line in lines.split('\n') {
            self.line(&format!("    {mark} "), line);
        }
    }

    fn line(&mut self, start: &str, line: &str) {
        let (characters, room) = (line.chars().count(), self.characters_left);
        if self.lines_left == 0 || room == 0 {
            self.cut_lines += 1;
            self.cut_characters += characters as u64;
            return;
        }
        self.lines_left -= 1;
        let shown: String = line.chars().take(room).collect();
        self.characters_left -= characters.min(room);
        self.cut_characters += characters.saturating_sub(room) as u64;
        self.text.push_str(start);
        self.text.push_str(&exposed(&shown));
        self.text.push('\n');
    }

    fn cut(&self) -> Option<String> {
        (self.cut_lines + self.cut_characters > 0).then(|| {
            let lines = counted(self.cut_lines, "more line");
            let characters = counted(self.cut_characters, "more character");
            format!("{lines}, {characters}")
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use turnwright::{ToolCall, core::CallDigest};

    use super::*;

    const PLAIN: Look = Look { color: false, terminal: false, dumb: false };

    fn request(tool: &str, arguments: String) -> ApprovalRequest {
        let call = ToolCall::new("c1", tool, arguments);
        ApprovalRequest {
            digest: CallDigest::of("local", &call),
            call,
            source: "local".into(),
            agent: None,
            wants: turnwright::core::Wants::Approval,
            reason: format!("{tool:?} needs approval"),
            expires_at: None,
        }
    }

    fn asked(tool: &str, arguments: impl Into<String>) -> Vec<String> {
        let request = request(tool, arguments.into());
        let text = questions(&[request], PLAIN);
        assert!(!text.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{text:?}");
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        assert_eq!(lines.remove(0), format!("approval: {tool} (call c1): \"{tool}\" needs approval"));
        assert!(lines.pop().unwrap().starts_with("answer: y, n, n REASON"));
        lines
    }

    #[test]
    fn arguments_are_shown_as_lines_of_text() {
        let write = json!({"path": "a.txt", "content": "one\n\ttwo\r\nth\u{1b}[2Jree\n"}).to_string();
        assert_eq!(
            asked("write_file", write),
            ["  path: a.txt", "  content (3 lines):", "    + one", "    + \ttwo\\r", "    + th\\u{1b}[2Jree"]
        );
        let edit = json!({"path": "a", "old_text": "x", "new_text": "y\nz"}).to_string();
        assert_eq!(
            asked("edit_file", edit),
            [
                "  path: a",
                "  old_text (1 line, no line break at the end):",
                "    - x",
                "  new_text (2 lines, no line break at the end):",
                "    + y",
                "    + z",
            ]
        );
        let shell = json!({"command": "ls -l\u{202e}\u{200b}", "n": 3, "o": {"a": [1]}, "e": "", "s": " "})
            .to_string();
        assert_eq!(
            asked("shell", shell),
            ["  command: ls -l\\u{202e}\\u{200b}", "  e: \"\"", "  n: 3", "  o: {\"a\":[1]}", "  s: \" \""]
        );
        assert_eq!(asked("shell", ""), ["  (no arguments)"]);
        assert_eq!(asked("shell", "[1]"), ["  arguments: [1]"]);
        assert_eq!(asked("shell", "{\"a"), ["  arguments (not JSON): {\"a"]);
    }

    #[test]
    fn whoever_decides_sees_which_subagent_asks() {
        let asked = ApprovalRequest { agent: Some("re\u{1b}ader".into()), ..request("shell", "{}".into()) };
        let text = questions(&[asked], PLAIN);
        let head = "approval: shell (call c1 of the subagent re\\u{1b}ader): \"shell\" needs approval\n";
        assert!(text.starts_with(head), "{text}");
    }

    #[test]
    fn what_is_cut_is_said() {
        let lines = "a\n".repeat(MOST_LINES + 9);
        let shown = asked("write_file", json!({"content": lines, "path": "p"}).to_string());
        assert_eq!(shown.len(), MOST_LINES + 1);
        let words = "  NOT SHOWN: 11 more lines, 11 more characters; /show c1 shows all, and it must be seen to be \
                     approved";
        assert_eq!(shown.last().unwrap(), words);
        let shown = asked("shell", json!({"command": "é".repeat(MOST_CHARACTERS + 5)}).to_string());
        assert!(shown.last().unwrap().starts_with("  NOT SHOWN: 0 more lines, "), "{shown:?}");
    }
}
