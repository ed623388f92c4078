//! What somebody types, or what a pipe holds: lines, from a terminal with or without an editor, or from anything else.

#[cfg(unix)]
mod editor;
mod lines;
mod piped;
#[cfg(unix)]
mod terminal;

use std::io;

use piped::Piped;
#[cfg(unix)]
use terminal::Terminal;

/// The longest line that is read, in bytes.
pub(crate) const LONGEST_LINE: usize = 4 << 20;

/// What came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Typed {
    /// A line, without its end.
    Line(String),
    /// A line that cannot be used, and why.
    Refused(String),
    /// Ctrl-C in the editor.
    Interrupt {
        /// Something was typed, and is gone.
        cleared: bool,
    },
    /// Nothing more will come.
    End,
    /// Nothing more can be read.
    Failed(String),
}

/// What is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    /// A message, from the editor where there is one.
    Message,
    /// An answer to a question: a plain line.
    Answer,
}

/// Where lines come from.
pub(crate) enum Keyboard {
    Piped(Piped),
    #[cfg(unix)]
    Terminal(Terminal),
}

impl Keyboard {
    /// Standard input as it is: a terminal, with an editor if wished, or anything else.
    pub(crate) fn open(is_terminal: bool, editor: bool) -> io::Result<Self> {
        #[cfg(unix)]
        if is_terminal {
            return Terminal::open(editor).map(Self::Terminal);
        }
        let _ = (is_terminal, editor);
        Piped::open().map(Self::Piped)
    }

    /// Whether lines come from a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        match self {
            Self::Piped(_) => false,
            #[cfg(unix)]
            Self::Terminal(_) => true,
        }
    }

    /// Whether somebody sees a prompt only if it is written by hand.
    pub(crate) fn needs_prompt(&self, wanted: Wanted) -> bool {
        match self {
            Self::Piped(_) => false,
            #[cfg(unix)]
            Self::Terminal(terminal) => !terminal.has_editor() || wanted == Wanted::Answer,
        }
    }

    /// Waits for the next line. The prompt is for the editor.
    ///
    /// # Cancel safety
    /// Safe: ask again. The editor then goes on with the prompt it was given first.
    pub(crate) async fn ask(&mut self, prompt: &str, wanted: Wanted) -> Typed {
        match self {
            Self::Piped(piped) => piped.ask().await,
            #[cfg(unix)]
            Self::Terminal(terminal) => terminal.ask(prompt, wanted).await,
        }
    }

    /// Waits for a line while a turn runs. Of a pipe only a line that passes is taken; all others, in order, are for
    /// [`Keyboard::ask`].
    ///
    /// # Cancel safety
    /// Safe: nothing is lost when the future is dropped.
    pub(crate) async fn overhear(&mut self, passes: impl Fn(&str) -> bool) -> Typed {
        match self {
            Self::Piped(piped) => piped.overhear(passes).await,
            #[cfg(unix)]
            Self::Terminal(terminal) => terminal.overhear().await,
        }
    }

    /// As [`Keyboard::hush`], before a question: what was typed on a terminal without Enter is taken out too, and said.
    /// Else Enter would make an answer of it.
    pub(crate) async fn clear(&mut self) -> Vec<Typed> {
        match self {
            Self::Piped(_) => Vec::new(),
            #[cfg(unix)]
            Self::Terminal(terminal) => terminal.clear().await,
        }
    }

    /// Stops reading, so that no reader takes what is typed next. Answers what was typed on a terminal until now and not
    /// taken yet.
    pub(crate) async fn hush(&mut self) -> Vec<Typed> {
        match self {
            Self::Piped(_) => Vec::new(),
            #[cfg(unix)]
            Self::Terminal(terminal) => terminal.hush().await,
        }
    }
}
