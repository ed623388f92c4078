//! Ctrl-C and SIGTERM.

use std::io;

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

#[cfg(unix)]
pub(crate) struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

#[cfg(unix)]
impl Signals {
    /// From here on the signals no longer end the program.
    pub(crate) fn install() -> io::Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        let (interrupt, terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
        Ok(Self { interrupt, terminate })
    }

    pub(crate) async fn next(&mut self) -> Asked {
        tokio::select! {
            Some(()) = self.interrupt.recv() => Asked::CtrlC,
            Some(()) = self.terminate.recv() => Asked::Terminate,
            else => std::future::pending().await,
        }
    }
}

#[cfg(not(unix))]
pub(crate) struct Signals;

#[cfg(not(unix))]
impl Signals {
    pub(crate) fn install() -> io::Result<Self> {
        Ok(Self)
    }

    pub(crate) async fn next(&mut self) -> Asked {
        match tokio::signal::ctrl_c().await {
            Ok(()) => Asked::CtrlC,
            Err(_) => std::future::pending().await,
        }
    }
}
