//! What a line of a conversation is: a message, or a command.

/// As `/help` shows them.
pub(super) const HELP: &str = "\
/help      this list
/stop      cancels the running turn, or one that was paused; twice drops its work at once
/pause     stops the running turn at its next step
/resume    goes on with a turn that was paused
/plan      what the agent has: tools, interceptors, hooks, limits
/usage     tokens of the last turn and of the session
/history   the messages so far, in short
/thoughts  shows reasoning whole, or folds it again
/exit      leaves, as /quit does; a running turn is cancelled
//TEXT     sends /TEXT as a message
A line that ends in a backslash goes on (in the editor). Ctrl-C cancels the turn; at the prompt two of them leave.
When a call is asked about: y, n, n REASON, /approve [CALL|all], /deny [CALL|all] [REASON], /show [CALL|all], /stop.
";

/// A line that was read.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Line {
    /// Nothing.
    Blank,
    /// Words for the model.
    Message(String),
    Command(Command),
    /// It begins like a command and is none.
    Unknown(String),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Command {
    Help,
    Stop,
    Pause,
    Resume,
    Plan,
    Usage,
    History,
    Thoughts,
    Exit,
    /// Answers a question that nobody asked.
    Decide,
}

impl Line {
    pub(super) fn parse(line: &str) -> Self {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            return Self::Blank;
        }
        if trimmed.starts_with("//") {
            return Self::Message(line.replacen("//", "/", 1));
        }
        if !trimmed.starts_with('/') {
            return Self::Message(line.to_owned());
        }
        let (word, rest) = trimmed.split_once(char::is_whitespace).unwrap_or((trimmed, ""));
        Self::Command(match (word, rest) {
            ("/help", "") => Command::Help,
            ("/stop", "") => Command::Stop,
            ("/pause", "") => Command::Pause,
            ("/resume", "") => Command::Resume,
            ("/plan", "") => Command::Plan,
            ("/usage", "") => Command::Usage,
            ("/history", "") => Command::History,
            ("/thoughts", "") => Command::Thoughts,
            ("/exit" | "/quit", "") => Command::Exit,
            ("/approve" | "/deny", _) => Command::Decide,
            _ => return Self::Unknown(trimmed.to_owned()),
        })
    }
}

/// Whether a line stops or pauses the turn: in a pipe nothing else acts before its turn comes.
pub(super) fn acts_at_once(line: &str) -> bool {
    matches!(Line::parse(line), Line::Command(Command::Stop | Command::Pause))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_stand_alone_and_a_second_slash_makes_a_message() {
        let message = |text: &str| Line::Message(text.into());
        let table = [
            ("", Line::Blank),
            (" \t", Line::Blank),
            ("hi /stop", message("hi /stop")),
            ("  two\nlines ", message("  two\nlines ")),
            ("//etc is a folder", message("/etc is a folder")),
            ("///", message("//")),
            (" /stop ", Line::Command(Command::Stop)),
            ("/quit", Line::Command(Command::Exit)),
            ("/deny c1 no", Line::Command(Command::Decide)),
            ("/stop it", Line::Unknown("/stop it".into())),
            ("/Stop", Line::Unknown("/Stop".into())),
            ("/", Line::Unknown("/".into())),
            ("/etc/hosts", Line::Unknown("/etc/hosts".into())),
        ];
        for (line, expected) in table {
            assert_eq!(Line::parse(line), expected, "{line:?}");
        }
        assert!(acts_at_once("/stop") && acts_at_once("/pause"));
        assert!(!acts_at_once("/resume") && !acts_at_once("stop"));
        for word in
            HELP.lines().filter_map(|line| line.split_whitespace().next()).filter(|w| w.starts_with('/'))
        {
            assert!(!matches!(Line::parse(word), Line::Unknown(_)), "{word}");
        }
    }
}
