//! Ctrl-C and SIGTERM.

use std::{collections::VecDeque, io, pin::pin};

/// Who asks the program to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    CtrlC,
    #[cfg_attr(not(unix), expect(dead_code, reason = "there is no such signal there"))]
    Terminate,
}

impl Asked {
    /// The reason a cancelled turn gives.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::CtrlC => "Ctrl-C",
            Self::Terminate => "SIGTERM",
        }
    }
}

/// The signals, those that were put off first.
pub(crate) struct Signals {
    source: Source,
    put_off: VecDeque<Asked>,
}

impl Signals {
    /// From here on the signals no longer end the program.
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self { source: Source::install()?, put_off: VecDeque::new() })
    }

    /// # Cancel safety
    /// Safe: no signal is lost when the future is dropped.
    pub(crate) async fn next(&mut self) -> Asked {
        match self.put_off.pop_front() {
            Some(asked) => asked,
            None => self.source.next().await,
        }
    }

    /// Waits for work that nobody can be stopped in. What comes meanwhile is put off. Three of them end the waiting: then
    /// nothing is answered.
    pub(crate) async fn unless_left<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        while self.put_off.len() < 3 {
            tokio::select! {
                done = &mut work => return Some(done),
                asked = self.source.next() => self.put_off.push_back(asked),
            }
        }
        None
    }
}

#[cfg(unix)]
struct Source {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Source {
    fn install() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate })
    }

    async fn next(&mut self) -> Asked {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Asked::CtrlC,
            Some(()) = self.terminate.recv() => Asked::Terminate,
            else => std::future::pending().await,
        }
    }
}

#[cfg(not(unix))]
struct Source;

#[cfg(not(unix))]
impl Source {
    fn install() -> io::Result<Self> {
        Ok(Self)
    }

    async fn next(&mut self) -> Asked {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Asked::CtrlC,
            Err(_) => std::future::pending().await,
        }
    }
}
