//! The program in a pseudo-terminal, with keys and a screen.
#![cfg(unix)]

use std::{path::Path, process::ExitStatus, time::Duration};

use pty_process::{Command, OwnedReadPty, OwnedWritePty, Size};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    process::Child,
    time::timeout,
};
use turnwright_testkit::provider::ProviderServer;

pub(crate) const CTRL_C: &str = "\x03";
pub(crate) const CTRL_D: &str = "\x04";
pub(crate) const UP: &str = "\x1b[A";

/// A terminal with the program in it.
pub(crate) struct Terminal {
    screen: OwnedReadPty,
    keys: OwnedWritePty,
    pub(crate) program: Child,
    /// All that was on the screen, without what steers it.
    pub(crate) seen: String,
    pub(crate) raw: Vec<u8>,
    /// How much of it was awaited already.
    awaited: usize,
}

impl Terminal {
    /// The program on a screen, asking this server, with the tools below this directory.
    pub(crate) fn open(server: &ProviderServer, root: &Path, args: &[&str]) -> Self {
        let program = Command::new(env!("CARGO_BIN_EXE_turnwright")).args(args);
        Self::start(program, "xterm", server, root)
    }

    pub(crate) fn start(program: Command, kind: &str, server: &ProviderServer, root: &Path) -> Self {
        let (pty, pts) = pty_process::open().unwrap();
        pty.resize(Size::new(40, 120)).unwrap();
        let program = program
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap())
            .env("TERM", kind)
            .env("OPENAI_BASE_URL", server.base_url())
            .env("TURNWRIGHT_MODEL", "m")
            .env("TURNWRIGHT_TIMEOUT_IDLE", "50")
            .current_dir(root)
            .kill_on_drop(true)
            .spawn(pts)
            .unwrap();
        let (screen, keys) = pty.into_split();
        Self { screen, keys, program, seen: String::new(), raw: Vec::new(), awaited: 0 }
    }

    pub(crate) async fn press(&mut self, keys: &str) {
        self.keys.write_all(keys.as_bytes()).await.unwrap();
    }

    /// Waits for the prompt, and answers it.
    pub(crate) async fn say(&mut self, line: &str) {
        self.sees("> ").await;
        self.press(&format!("{line}\r")).await;
    }

    /// Waits until this is on the screen, after what was awaited before. Answers what came in between.
    pub(crate) async fn sees(&mut self, words: &str) -> String {
        loop {
            if let Some(at) = self.seen[self.awaited..].find(words) {
                let between = self.seen[self.awaited..self.awaited + at].to_owned();
                self.awaited += at + words.len();
                return between;
            }
            let more = timeout(Duration::from_secs(20), self.read()).await;
            assert_eq!(more.ok(), Some(true), "{words:?} is not there:\n{}", self.seen);
        }
    }

    /// Reads until the program has ended.
    pub(crate) async fn ends(&mut self) -> ExitStatus {
        while self.read().await {}
        self.program.wait().await.unwrap()
    }

    async fn read(&mut self) -> bool {
        let mut bytes = [0; 4096];
        // The terminal of a program that has ended cannot be read any more.
        let n = self.screen.read(&mut bytes).await.unwrap_or_default();
        self.raw.extend_from_slice(&bytes[..n]);
        self.seen = plain(&String::from_utf8_lossy(&self.raw));
        n > 0
    }
}

/// Text without escape sequences and carriage returns. One that is not whole yet is left out.
fn plain(raw: &str) -> String {
    let mut text = String::new();
    let mut rest = raw.chars();
    while let Some(c) = rest.next() {
        match c {
            '\x1b' if rest.next() == Some('[') => {
                for c in rest.by_ref() {
                    if c.is_ascii_alphabetic() {
                        break;
                    }
                }
            }
            '\x1b' | '\r' => {}
            c => text.push(c),
        }
    }
    text
}

pub(crate) fn terminate(whom: &str) {
    send("-TERM", whom);
}

/// A signal that no key gave.
pub(crate) fn send(signal: &str, whom: &str) {
    assert!(std::process::Command::new("kill").args([signal, "--", whom]).status().unwrap().success());
}

/// The messages of a request.
pub(crate) fn messages(server: &ProviderServer, request: usize) -> Vec<serde_json::Value> {
    server.requests()[request].json()["messages"].as_array().unwrap().clone()
}
