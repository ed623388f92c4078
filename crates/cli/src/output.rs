//! The only place that writes: pages of text for standard output and standard error, and when they have colour.

use std::{
    env,
    ffi::OsString,
    io::{self, IsTerminal, Write},
    process::ExitCode,
};

use anstyle::Style;
use tokio::io::{AsyncWriteExt, Stderr, Stdout};

use crate::{args::ColorWhen, exit, refusal::Refusal, view::printable};

/// Where text goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    Stdout,
    Stderr,
}

/// Text to write, in order.
#[derive(Debug, Default)]
pub(crate) struct Page(Vec<(To, String)>);

impl Page {
    pub(crate) fn push(&mut self, to: To, text: impl AsRef<str>) {
        match self.0.last_mut() {
            Some((last, page)) if *last == to => page.push_str(text.as_ref()),
            _ => self.0.push((to, text.as_ref().to_owned())),
        }
    }
}

/// How one of the two looks: colour or not, a terminal or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub(crate) color: bool,
    pub(crate) terminal: bool,
    /// A terminal that cannot go back in a line.
    pub(crate) dumb: bool,
}

impl Look {
    pub(crate) fn of(to: To, when: ColorWhen) -> Self {
        let terminal = match to {
            To::Stdout => io::stdout().is_terminal(),
            To::Stderr => io::stderr().is_terminal(),
        };
        let dumb = is_dumb();
        let color = match when {
            ColorWhen::Always => true,
            ColorWhen::Never => false,
            ColorWhen::Auto => terminal && !dumb && !is_colour_refused(),
        };
        Self { color, terminal, dumb }
    }

    pub(crate) fn paint(self, style: Style, text: &str) -> String {
        if self.color { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

/// Whether the terminal only prints: it knows no escape codes.
pub(crate) fn is_dumb() -> bool {
    set("TERM").is_some_and(|term| term == "dumb")
}

/// Whether the environment asks for no colour.
pub(crate) fn is_colour_refused() -> bool {
    set("NO_COLOR").is_some()
}

fn set(name: &str) -> Option<OsString> {
    env::var_os(name).filter(|value| !value.is_empty())
}

/// Standard output and standard error. Writing waits on other threads than those the turn runs on, so that a reader who
/// does not read holds up neither the turn nor Ctrl-C.
pub(crate) struct Output {
    stdout: Stdout,
    stderr: Stderr,
    is_closed: bool,
    is_given_up: bool,
}

impl Output {
    pub(crate) fn new() -> Self {
        Self {
            stdout: tokio::io::stdout(),
            stderr: tokio::io::stderr(),
            is_closed: false,
            is_given_up: false,
        }
    }

    /// Writes a page. Once standard output failed, nothing more is written: whoever reads it has gone.
    ///
    /// # Errors
    /// The failure of standard output, once. Whether standard error is read is nobody's business.
    pub(crate) async fn write(&mut self, page: Page) -> io::Result<()> {
        if self.is_closed {
            return Ok(());
        }
        for (to, text) in page.0 {
            match to {
                To::Stdout => {
                    if let Err(e) = all(&mut self.stdout, &text).await {
                        self.is_closed = true;
                        return Err(e);
                    }
                }
                To::Stderr => self.tell(&text).await,
            }
        }
        Ok(())
    }

    /// Writes nothing more, to either of them: whoever reads does not read.
    pub(crate) fn give_up(&mut self) {
        self.is_closed = true;
        self.is_given_up = true;
    }

    /// Writes to standard error, whatever became of standard output.
    pub(crate) async fn tell(&mut self, text: &str) {
        if self.is_given_up {
            return;
        }
        // Without a standard error there is nobody to tell.
        let _ = all(&mut self.stderr, text).await;
    }
}

async fn all(to: &mut (impl AsyncWriteExt + Unpin), text: &str) -> io::Result<()> {
    to.write_all(text.as_bytes()).await?;
    to.flush().await
}

/// Prints a whole text while no turn runs. Answers the exit code.
pub(crate) fn print(text: &str, when: ColorWhen) -> ExitCode {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => exit::CANCELLED.into(),
        Err(e) => {
            refuse(&Refusal::new(format!("standard output cannot be written: {e}")), when);
            exit::FAILED.into()
        }
    }
}

/// Says what was refused, or went wrong beside a turn.
pub(crate) fn refuse(refusal: &Refusal, when: ColorWhen) {
    let look = Look::of(To::Stderr, when);
    let hint = refusal.hint.as_deref().map(printable);
    let text = error_lines(look, &printable(&refusal.message), hint.as_deref());
    // Without a standard error there is nobody to tell.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

/// `error: …`, and `hint: …` where there is one.
pub(crate) fn error_lines(look: Look, message: &str, hint: Option<&str>) -> String {
    let mut lines = format!("{} {message}\n", look.paint(style::ERROR, "error:"));
    if let Some(hint) = hint {
        lines.push_str(&format!("{} {hint}\n", look.paint(style::HINT, "hint:")));
    }
    lines
}

/// The styles.
pub(crate) mod style {
    use anstyle::{AnsiColor, Style};

    pub(crate) const ERROR: Style = AnsiColor::Red.on_default().bold();
    pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default().bold();
    pub(crate) const HINT: Style = AnsiColor::Cyan.on_default().bold();
    pub(crate) const DIM: Style = Style::new().dimmed();
    pub(crate) const BOLD: Style = Style::new().bold();
    pub(crate) const HOOK: Style = AnsiColor::Magenta.on_default().bold();
    pub(crate) const INTERCEPTOR: Style = AnsiColor::Cyan.on_default().bold();
    pub(crate) const CONTROL: Style = AnsiColor::Yellow.on_default().bold();
    pub(crate) const TOOL: Style = AnsiColor::Blue.on_default();
    pub(crate) const GOOD: Style = AnsiColor::Green.on_default().bold();
}
