//! Lines of a pipe or a file, in order. The reader is one line ahead and waits when nobody takes more.

use std::{
    future::pending,
    io::{self, BufRead},
    thread,
};

use tokio::sync::mpsc;

use super::{Typed, lines::Lines};

/// See the module.
pub(crate) struct Piped {
    typed: mpsc::Receiver<Typed>,
    /// Read while a turn ran, and not for it.
    held: Option<Typed>,
    /// Once the end came it stays.
    end: Option<Typed>,
}

impl Piped {
    pub(super) fn open() -> io::Result<Self> {
        let (to, typed) = mpsc::channel(1);
        // Never joined: a read that blocks must not keep a program alive that is done.
        thread::Builder::new().name("stdin".into()).spawn(move || {
            // Without a receiver nobody listens any more.
            let _ = read(&to);
        })?;
        Ok(Self { typed, held: None, end: None })
    }

    pub(super) async fn ask(&mut self) -> Typed {
        if let Some(held) = self.held.take() {
            return held;
        }
        if let Some(end) = &self.end {
            return end.clone();
        }
        let typed = self.typed.recv().await.unwrap_or(Typed::End);
        if matches!(typed, Typed::End | Typed::Failed(_)) {
            self.end = Some(typed.clone());
        }
        typed
    }

    pub(super) async fn overhear(&mut self, passes: impl Fn(&str) -> bool) -> Typed {
        if self.held.is_none() {
            match self.ask().await {
                Typed::Line(line) if passes(&line) => return Typed::Line(line),
                other => self.held = Some(other),
            }
        }
        pending().await
    }
}

fn read(to: &mpsc::Sender<Typed>) -> Result<(), mpsc::error::SendError<Typed>> {
    let mut stdin = io::stdin().lock();
    let mut lines = Lines::default();
    loop {
        let mut ready = Vec::new();
        let n = match stdin.fill_buf() {
            Ok([]) => break,
            Ok(bytes) => {
                // A line at a time: the reader is never further ahead.
                let n = bytes.iter().position(|b| *b == b'\n').map_or(bytes.len(), |at| at + 1);
                lines.feed(&bytes[..n], |line| ready.push(line));
                n
            }
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return to.blocking_send(Typed::Failed(e.to_string())),
        };
        stdin.consume(n);
        for line in ready {
            to.blocking_send(line)?;
        }
    }
    if let Some(line) = lines.finish() {
        to.blocking_send(line)?;
    }
    to.blocking_send(Typed::End)
}
