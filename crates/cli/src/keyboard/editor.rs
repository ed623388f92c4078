//! The line editor of a terminal, with a history in memory.

use std::io;

use rustyline::{
    Config, Helper,
    completion::Completer,
    error::ReadlineError,
    highlight::Highlighter,
    hint::Hinter,
    history::MemHistory,
    validate::{ValidationContext, ValidationResult, Validator},
};

use super::{LONGEST_LINE, Typed};

/// How many messages the history keeps.
const HISTORY: usize = 500;

/// See the module.
pub(super) struct Editor(rustyline::Editor<Continued, MemHistory>);

impl Editor {
    pub(super) fn new() -> io::Result<Self> {
        let config = Config::builder().max_history_size(HISTORY).map_err(io::Error::other)?.build();
        let history = MemHistory::with_config(&config);
        let mut editor = rustyline::Editor::with_history(config, history).map_err(io::Error::other)?;
        editor.set_helper(Some(Continued));
        Ok(Self(editor))
    }

    /// Reads a message: a line, or several, each but the last one ended by a backslash.
    pub(super) fn read(&mut self, prompt: &str) -> Typed {
        match self.0.readline(prompt) {
            Ok(text) if text.len() > LONGEST_LINE => {
                Typed::Refused(format!("a message is longer than {} MiB", LONGEST_LINE >> 20))
            }
            Ok(text) => {
                if !text.trim().is_empty() {
                    // One that cannot be kept is only missing when somebody looks for it.
                    let _ = self.0.add_history_entry(text.as_str());
                }
                Typed::Line(text.replace("\\\n", "\n"))
            }
            Err(ReadlineError::Interrupted) => Typed::Interrupt,
            Err(ReadlineError::Eof) => Typed::End,
            Err(ReadlineError::Io(e)) if e.kind() == io::ErrorKind::InvalidData => {
                Typed::Refused("the line is not valid UTF-8".into())
            }
            Err(e) => Typed::Failed(e.to_string()),
        }
    }
}

/// Asks for another line after a backslash.
struct Continued;

impl Validator for Continued {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(match context.input().ends_with('\\') {
            true => ValidationResult::Incomplete,
            false => ValidationResult::Valid(None),
        })
    }
}

impl Helper for Continued {}
impl Highlighter for Continued {}
impl Hinter for Continued {
    type Hint = String;
}
impl Completer for Continued {
    type Candidate = String;
}
