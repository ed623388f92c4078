//! Lines of a terminal. One thread reads, and only when it was told to: a prompt of the editor, or whatever is typed
//! without one, as while a turn runs. In between it reads nothing, so that no reader takes what is typed for the next.

use std::{
    collections::VecDeque,
    fs::File,
    future::pending,
    io::{self, PipeReader, PipeWriter, Read, Write, pipe, stdin},
    os::fd::AsFd,
    sync::mpsc as std_mpsc,
    thread,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    io::Errno,
    termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr},
};
use tokio::sync::mpsc;

use super::{Typed, Wanted, editor::Editor, lines::Lines};

/// Lines on their way from the thread.
const ON_THEIR_WAY: usize = 16;

/// What the thread is told.
enum Order {
    /// Read one line in the editor.
    Prompt(String),
    /// Read all lines until woken.
    Listen,
}

/// What the thread says.
enum Report {
    Typed(Typed),
    /// It listens no longer.
    Stopped,
}

#[derive(PartialEq, Eq)]
enum Busy {
    Idle,
    Prompting,
    Listening,
}

/// See the module.
pub(crate) struct Terminal {
    orders: std_mpsc::Sender<Order>,
    reports: mpsc::Receiver<Report>,
    wake: PipeWriter,
    busy: Busy,
    has_editor: bool,
    /// As it was found.
    mode: Termios,
    /// Once the end came it stays.
    end: Option<Typed>,
}

impl Terminal {
    pub(super) fn open(editor: bool) -> io::Result<Self> {
        let mode = tcgetattr(stdin())?;
        let tty = File::from(stdin().as_fd().try_clone_to_owned()?);
        let editor = if editor { Some(Editor::new()?) } else { None };
        let (has_editor, (woken, wake)) = (editor.is_some(), pipe()?);
        let (orders, ordered) = std_mpsc::channel();
        let (to, reports) = mpsc::channel(ON_THEIR_WAY);
        // Never joined: a read that blocks must not keep a program alive that is done.
        thread::Builder::new().name("terminal".into()).spawn(move || {
            Reader { tty, woken, editor, to, lines: Lines::default(), ready: VecDeque::new() }
                .serve(&ordered);
        })?;
        Ok(Self { orders, reports, wake, busy: Busy::Idle, has_editor, mode, end: None })
    }

    pub(super) fn has_editor(&self) -> bool {
        self.has_editor
    }

    pub(super) async fn ask(&mut self, prompt: &str, wanted: Wanted) -> Typed {
        // What the editor read ahead, of a paste perhaps, must not answer a question that was not there.
        if !self.has_editor || wanted == Wanted::Answer {
            return self.listen().await;
        }
        if let Some(end) = &self.end {
            return end.clone();
        }
        if self.busy == Busy::Idle {
            self.order(Order::Prompt(prompt.into()));
            self.busy = Busy::Prompting;
        }
        let typed = self.report().await;
        self.busy = Busy::Idle;
        typed
    }

    pub(super) async fn overhear(&mut self) -> Typed {
        if self.end.is_some() || self.busy == Busy::Prompting {
            return pending().await;
        }
        self.listen().await
    }

    async fn listen(&mut self) -> Typed {
        if let Some(end) = &self.end {
            return end.clone();
        }
        if self.busy == Busy::Idle {
            self.order(Order::Listen);
            self.busy = Busy::Listening;
        }
        self.report().await
    }

    /// Cancel safe: a report that nobody waited for stays.
    async fn report(&mut self) -> Typed {
        let typed = match self.reports.recv().await {
            Some(Report::Typed(typed)) => typed,
            Some(Report::Stopped) | None => Typed::End,
        };
        self.noted(typed)
    }

    pub(super) async fn hush(&mut self) -> Vec<Typed> {
        let mut rest = Vec::new();
        if self.busy == Busy::Idle && self.end.is_none() {
            self.order(Order::Listen);
            self.busy = Busy::Listening;
        }
        if self.busy == Busy::Listening {
            // A thread that is gone reports so.
            let _ = self.wake.write_all(b"w");
            while let Some(Report::Typed(typed)) = self.reports.recv().await {
                rest.push(self.noted(typed));
            }
            self.busy = Busy::Idle;
        }
        rest
    }

    pub(super) async fn clear(&mut self) -> Vec<Typed> {
        let mut rest = self.hush().await;
        if self.end.is_none() && self.busy == Busy::Idle {
            // What cannot be read was not typed.
            let typed = unfinished().unwrap_or_default();
            let mut lines = Lines::default();
            lines.feed(&typed, |line| rest.push(line));
            if lines.finish().is_some() {
                rest.push(Typed::Refused("a line that had no end yet when the question came".into()));
            }
        }
        rest
    }

    fn order(&self, order: Order) {
        // A thread that is gone reports so.
        let _ = self.orders.send(order);
    }

    fn noted(&mut self, typed: Typed) -> Typed {
        if matches!(typed, Typed::End | Typed::Failed(_)) {
            self.end = Some(typed.clone());
        }
        typed
    }
}

impl Drop for Terminal {
    /// Leaves the terminal as it was found, also when the editor is in the midst of a line.
    fn drop(&mut self) {
        if self.has_editor && self.busy == Busy::Prompting {
            let _ = tcsetattr(stdin(), OptionalActions::Now, &self.mode);
            // What the editor switched on: pastes are marked.
            let _ = io::stdout().write_all(b"\x1b[?2004l\n").and_then(|()| io::stdout().flush());
        }
    }
}

/// What the terminal holds of a line without an end. The thread reads nothing meanwhile.
fn unfinished() -> io::Result<Vec<u8>> {
    let mode = tcgetattr(stdin())?;
    let mut open = mode.clone();
    // Nothing is waited for, neither an end of the line nor a first key.
    open.local_modes.remove(LocalModes::ICANON);
    open.special_codes[SpecialCodeIndex::VMIN] = 0;
    open.special_codes[SpecialCodeIndex::VTIME] = 0;
    tcsetattr(stdin(), OptionalActions::Now, &open)?;
    let mut typed = vec![0; 4096];
    let read = rustix::io::read(stdin(), &mut typed);
    tcsetattr(stdin(), OptionalActions::Now, &mode)?;
    typed.truncate(read?);
    Ok(typed)
}

/// The thread.
struct Reader {
    tty: File,
    woken: PipeReader,
    editor: Option<Editor>,
    to: mpsc::Sender<Report>,
    lines: Lines,
    /// Read with the line before.
    ready: VecDeque<Typed>,
}

impl Reader {
    fn serve(mut self, ordered: &std_mpsc::Receiver<Order>) {
        while let Ok(order) = ordered.recv() {
            let report = match order {
                Order::Prompt(prompt) => match &mut self.editor {
                    Some(editor) => Report::Typed(editor.read(&prompt)),
                    None => Report::Typed(Typed::End),
                },
                Order::Listen => {
                    self.listen();
                    Report::Stopped
                }
            };
            if self.to.blocking_send(report).is_err() {
                return;
            }
        }
    }

    /// All lines until woken, and those that are there by then.
    fn listen(&mut self) {
        let mut over = false;
        loop {
            let (typed, woken) = match self.wait(!over) {
                Ok(ready) => ready,
                Err(e) => {
                    over = true;
                    self.ready.push_back(Typed::Failed(e.to_string()));
                    (false, false)
                }
            };
            if typed {
                self.read();
            } else if woken {
                let _ = self.woken.read(&mut [0]);
                // What was typed without an end of its own is not for another line.
                self.ready.extend(self.lines.finish());
            }
            while let Some(typed) = self.ready.pop_front() {
                over |= matches!(typed, Typed::End | Typed::Failed(_));
                if self.to.blocking_send(Report::Typed(typed)).is_err() {
                    return;
                }
            }
            if woken && !typed {
                return;
            }
        }
    }

    /// Waits until something was typed or the thread is woken.
    fn wait(&self, typed: bool) -> io::Result<(bool, bool)> {
        let mut fds = [PollFd::new(&self.woken, PollFlags::IN), PollFd::new(&self.tty, PollFlags::IN)];
        let fds = if typed { &mut fds[..] } else { &mut fds[..1] };
        match poll(fds, None) {
            Ok(_) => {}
            Err(Errno::INTR) => return Ok((false, false)),
            Err(e) => return Err(e.into()),
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        Ok((fds.get(1).is_some_and(is_ready), fds.first().is_some_and(is_ready)))
    }

    fn read(&mut self) {
        let mut bytes = [0; 4096];
        match self.tty.read(&mut bytes) {
            Ok(0) => {
                self.ready.extend(self.lines.finish());
                self.ready.push_back(Typed::End);
            }
            Ok(n) => {
                let Self { lines, ready, .. } = self;
                lines.feed(&bytes[..n], |line| ready.push_back(line));
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => self.ready.push_back(Typed::Failed(e.to_string())),
        }
    }
}
