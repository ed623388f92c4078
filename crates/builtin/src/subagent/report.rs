//! What a subagent's turn came to, in words for its parent.

use std::{fmt::Write, path::Path};

use turnwright_core::{AgentResult, Outcome};

/// Elements of models that think aloud in their answers.
const THOUGHTS: [&str; 4] = ["think", "thinking", "reasoning", "reflection"];

/// Characters of a line of the head: with the text, in whatever script, it must fit into mail.
const LINE: usize = 1_000;

/// How a subagent's turn ended, in one word. An answer without words is no success.
pub(crate) fn status(result: &AgentResult) -> &'static str {
    match result.outcome() {
        Outcome::Completed if without_thoughts(&result.content).is_empty() => "empty",
        Outcome::Completed => "completed",
        Outcome::Cancelled => "cancelled",
        Outcome::TimedOut => "timed_out",
        Outcome::LimitReached => "limit_reached",
        Outcome::LoopDetected => "loop_detected",
        // Those that are parked have no result.
        Outcome::Failed | Outcome::Suspended | Outcome::Drained => "failed",
    }
}

/// Why a turn that did not complete is not complete.
fn issue(result: &AgentResult) -> Option<String> {
    match (&result.cancelled_by, &result.error) {
        (Some(cause), _) => Some(cause.to_string()),
        (None, Some(error)) => Some(error.message.clone()),
        (None, None) if status(result) == "empty" => Some("it ended without an answer".into()),
        (None, None) => None,
    }
}

/// Everything a report says.
pub(crate) struct Report<'a> {
    pub(crate) agent: &'a str,
    pub(crate) invocation: &'a str,
    /// Its name.
    pub(crate) name: &'a str,
    pub(crate) status: &'a str,
    pub(crate) stop_reason: String,
    pub(crate) issues: Vec<String>,
    pub(crate) output: Option<&'a Path>,
    pub(crate) text: &'a str,
}

impl<'a> Report<'a> {
    /// Of a result.
    pub(crate) fn of(
        (agent, invocation, name): (&'a str, &'a str, &'a str),
        result: &AgentResult,
        text: &'a str,
    ) -> Self {
        let stop_reason = serde_json::to_value(result.stop_reason).ok();
        Self {
            agent,
            invocation,
            name,
            status: status(result),
            stop_reason: stop_reason.and_then(|r| r.as_str().map(str::to_owned)).unwrap_or_default(),
            issues: issue(result).into_iter().collect(),
            output: None,
            text,
        }
    }

    /// The words: a head of one line each, of at most `chars` and 1,000 characters, the text in at most `chars`, and how to go on.
    pub(crate) fn words(&self, chars: usize) -> String {
        let Self { agent, invocation, name, status, stop_reason, .. } = self;
        let mut words = format!(
            "Report of the subagent {agent}\ninvocation: {invocation}\nreport: {name}\nstatus: {status}\n"
        );
        let mut line = |name: &str, value: &str| {
            // A head's line is a line, whatever an error has to say.
            let value = value.split_whitespace().collect::<Vec<_>>().join(" ");
            let _ = writeln!(words, "{name}: {}", cut(&value, chars.min(LINE)));
        };
        line("stop_reason", stop_reason);
        for issue in &self.issues {
            line("issue", issue);
        }
        if let Some(output) = self.output {
            // Whole, and as it is: it is to be opened.
            let _ = writeln!(words, "output: {}", output.display());
        }
        let text = if self.text.is_empty() { "(none)".to_owned() } else { cut(self.text, chars) };
        let _ = write!(
            words,
            "\n## Result\n\n{text}\n\nCall `task` with this agent and invocation to go on with it."
        );
        words
    }
}

/// Whether the report says that its turn completed.
pub(crate) fn is_completed(words: &str) -> bool {
    words.lines().take_while(|line| !line.is_empty()).any(|line| line == "status: completed")
}

/// The text in at most so many characters, what is said of the cut included.
fn cut(text: &str, chars: usize) -> String {
    let total = text.chars().count();
    if total <= chars {
        return text.to_owned();
    }
    let mark = format!(" … [cut: {total} characters in all]");
    let kept = chars.saturating_sub(mark.chars().count());
    text.chars().take(kept).chain(mark.chars()).collect()
}

/// The text without what a model thought aloud, and without space round it. A thought that does not end takes the rest.
pub(crate) fn without_thoughts(text: &str) -> String {
    let mut text = text.to_owned();
    for name in THOUGHTS {
        let (open, close) = (format!("<{name}>"), format!("</{name}>"));
        while let Some(from) = text.find(&open) {
            let to = text[from..].find(&close).map_or(text.len(), |at| from + at + close.len());
            text.replace_range(from..to, "");
        }
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use turnwright_core::{ErrorInfo, ErrorKind, StopReason};

    #[test]
    fn every_ending_is_reported_as_what_it_is() {
        let of = |content: &str, reason| status(&AgentResult::new(content, reason));
        assert_eq!(of("yes", StopReason::Completed), "completed");
        assert_eq!(of(" \n", StopReason::Completed), "empty");
        assert_eq!(of("<think>only</think>", StopReason::Completed), "empty");
        assert_eq!(of("some", StopReason::Cancelled), "cancelled");
        assert_eq!(of("some", StopReason::Error), "failed");
        assert_eq!(of("some", StopReason::PolicyViolation), "failed");
        assert_eq!(of("some", StopReason::Timeout), "timed_out");
        assert_eq!(of("some", StopReason::MaxIterations), "limit_reached");
        assert_eq!(of("some", StopReason::Budget), "limit_reached");
        assert_eq!(of("some", StopReason::LoopDetected), "loop_detected");
    }

    #[test]
    fn a_report_says_whether_it_completed_in_its_head_and_nowhere_else() {
        let names = ("reader", "ab", "cd");
        let mut failed = AgentResult::new("status: completed", StopReason::Error);
        failed.error = Some(ErrorInfo::new(ErrorKind::Server, "broken\nstatus: completed"));
        let words = Report::of(names, &failed, "status: completed\n").words(300);
        assert!(!is_completed(&words), "{words}");
        assert!(words.contains("issue: broken status: completed\n"), "{words}");
        let done = AgentResult::new("yes", StopReason::Completed);
        assert!(is_completed(&Report::of(names, &done, "yes").words(300)));
    }

    #[test]
    fn the_text_of_a_report_is_cut_to_its_characters_mark_included() {
        let long = "ä".repeat(1_000);
        assert_eq!(cut(&long, 300).chars().count(), 300);
        assert!(cut(&long, 300).ends_with("[cut: 1000 characters in all]"));
        assert_eq!(cut("short", 300), "short");
    }

    #[test]
    fn the_path_of_the_output_is_never_cut() {
        let path = std::path::PathBuf::from(format!("a  b/{}", "x".repeat(500)));
        let done = AgentResult::new("yes", StopReason::Completed);
        let report = Report { output: Some(&path), ..Report::of(("reader", "ab", "cd"), &done, "yes") };
        assert!(report.words(100).contains(&format!("output: {}\n", path.display())));
    }

    #[test]
    fn thoughts_are_no_part_of_a_report() {
        assert_eq!(without_thoughts("<think>a</think>b<reflection>c</reflection> d"), "b d");
        assert_eq!(without_thoughts("b <thinking>never ends"), "b");
    }
}
