//! The line editor of a terminal, with a history in memory.

use std::{
    cell::{Cell, RefCell},
    io,
};

use rustyline::{
    Config, Context, Helper,
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
pub(super) struct Editor(rustyline::Editor<Notes, MemHistory>);

impl Editor {
    pub(super) fn new() -> io::Result<Self> {
        let config = Config::builder().max_history_size(HISTORY).map_err(io::Error::other)?.build();
        let history = MemHistory::with_config(&config);
        let editor = rustyline::Editor::with_history(config, history).map_err(io::Error::other)?;
        Ok(Self(editor))
    }

    /// Reads a message: a line, or several, each but the last one ended by a backslash.
    pub(super) fn read(&mut self, prompt: &str) -> Typed {
        self.0.set_helper(Some(Notes::default()));
        let read = self.0.readline(prompt);
        let notes = self.0.helper();
        match read {
            Ok(text) if text.len() > LONGEST_LINE => {
                Typed::Refused(format!("a message is longer than {} MiB", LONGEST_LINE >> 20))
            }
            Ok(text) => {
                let text = notes.map_or_else(|| text.clone(), |notes| notes.without_marks(&text));
                if !text.trim().is_empty() {
                    // One that cannot be kept is only missing when somebody looks for it.
                    let _ = self.0.add_history_entry(text.as_str());
                }
                Typed::Line(text)
            }
            Err(ReadlineError::Interrupted) => {
                Typed::Interrupt { cleared: notes.is_some_and(|notes| notes.holds_text.get()) }
            }
            Err(ReadlineError::Eof) => Typed::End,
            Err(ReadlineError::Io(e)) if e.kind() == io::ErrorKind::InvalidData => {
                Typed::Refused("the line is not valid UTF-8".into())
            }
            Err(e) => Typed::Failed(e.to_string()),
        }
    }
}

/// Asks for another line after a backslash, and notes what the editor does not tell in the end.
#[derive(Default)]
struct Notes {
    /// Something is typed. The editor asks for a hint whenever that changes.
    holds_text: Cell<bool>,
    /// Where the lines ended that Enter went on from. Others came with a paste, and their backslashes are its own.
    continued: RefCell<Vec<usize>>,
}

impl Notes {
    /// The text without the backslashes that asked for another line.
    fn without_marks(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for end in self.continued.borrow().iter().rev() {
            // Not where it was edited since: then nothing is taken away.
            if text.get(..*end).is_some_and(|line| line.ends_with('\\')) && text[*end..].starts_with('\n') {
                text.remove(end - 1);
            }
        }
        text
    }
}

impl Validator for Notes {
    fn validate(&self, context: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        if !context.input().ends_with('\\') {
            return Ok(ValidationResult::Valid(None));
        }
        self.continued.borrow_mut().push(context.input().len());
        Ok(ValidationResult::Incomplete)
    }
}

impl Helper for Notes {}
impl Highlighter for Notes {}
impl Hinter for Notes {
    type Hint = String;

    fn hint(&self, line: &str, _: usize, _: &Context<'_>) -> Option<String> {
        self.holds_text.set(!line.is_empty());
        None
    }
}
impl Completer for Notes {
    type Candidate = String;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_backslash_that_went_on_is_taken_away() {
        let notes = Notes::default();
        notes.continued.borrow_mut().extend([2, 8]);
        assert_eq!(notes.without_marks("a\\\nb \\\n\\\nc"), "a\nb \\\n\nc");
        assert_eq!(notes.without_marks("edited\\\nsince"), "edited\\\nsince");
        assert_eq!(Notes::default().without_marks("cc a \\\n b"), "cc a \\\n b");
    }
}
