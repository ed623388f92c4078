//! The server's process: started, waited for, and ended whatever happens.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::time::Duration;

use super::setup::Ready;
#[cfg(unix)]
use crate::process::succeeds;
use crate::workspace;

const SCRIPT: &str = "xtask/live/llm_server.py";
const TEMPLATE: &str = "xtask/live/chat_template.jinja";
const LOG: &str = "target/live/server.log";

/// How long loading the model may take; three seconds are usual.
const START_LIMIT: Duration = Duration::from_secs(120);
const ANSWER_LIMIT: Duration = Duration::from_secs(10);
/// How long it may take to go by itself.
const STOP_LIMIT: Duration = Duration::from_secs(2);

/// A server that runs. It ends when this value is dropped, and when this process ends in whatever way: it watches its
/// standard input, whose other end we hold.
pub(super) struct Server {
    child: Child,
    /// What it prints, line by line; closed when it is gone.
    lines: Receiver<String>,
    url: String,
}

impl Server {
    /// Starts it and waits until it answers.
    pub(super) fn start(ready: &Ready) -> Result<Self, String> {
        let mut command = Command::new(&ready.python);
        command.arg(SCRIPT).arg(&ready.model).arg(TEMPLATE).current_dir(workspace::root());
        let log = File::create(log_path()).map_err(|e| format!("{LOG} cannot be written: {e}"))?;
        let mut server = Self::spawn(command, log.into())?;
        eprintln!("server: starting, log in {LOG}");
        server.url = server.told().and_then(|url| health(&url).map(|()| url)).map_err(|why| {
            let log = std::fs::read_to_string(log_path()).unwrap_or_default();
            let tail: Vec<&str> = log.lines().rev().take(10).collect();
            let tail: String = tail.iter().rev().map(|line| format!("\n  {line}")).collect();
            format!("the server {why}; the end of its log:{tail}")
        })?;
        eprintln!("server: answers on {}", server.url);
        Ok(server)
    }

    /// The address, without a path.
    pub(super) fn url(&self) -> &str {
        &self.url
    }

    fn spawn(mut command: Command, log: Stdio) -> Result<Self, String> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(log);
        // A group of its own: an interrupt from the terminal is ours, and what it may have started ends with it.
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut command, 0);
        let mut child = command.spawn().map_err(|e| format!("the server did not start: {e}"))?;
        let (tell, lines) = mpsc::channel();
        if let Some(stdout) = child.stdout.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                    // Nobody listens any more once it answers; it must not wait for a reader all the same.
                    let _ = tell.send(line);
                }
            });
        }
        Ok(Self { child, lines, url: String::new() })
    }

    /// Ends it, and tells whether it went by itself.
    fn end(&mut self) -> std::io::Result<bool> {
        drop(self.child.stdin.take());
        let by_itself = loop {
            match self.lines.recv_timeout(STOP_LIMIT) {
                Ok(_) => {}
                Err(why) => break why == RecvTimeoutError::Disconnected,
            }
        };
        if !by_itself {
            // The child is not waited for yet, so its id, which is its group's, is nobody else's.
            #[cfg(unix)]
            succeeds(Command::new("kill").args(["-KILL", "--", &format!("-{}", self.child.id())]));
            self.child.kill()?;
        }
        self.child.wait().map(|_| by_itself)
    }

    /// Where it listens, as it says itself.
    fn told(&self) -> Result<String, String> {
        loop {
            match self.lines.recv_timeout(START_LIMIT) {
                Ok(line) => {
                    if let Some(url) = line.strip_prefix("listening ") {
                        return Ok(url.trim_end_matches('/').to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("did not listen within {} s", START_LIMIT.as_secs()));
                }
                Err(RecvTimeoutError::Disconnected) => return Err("ended before it listened".to_owned()),
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        match self.end() {
            Ok(true) => eprintln!("server: ended"),
            Ok(false) => eprintln!("server: ended by force"),
            Err(e) => eprintln!("warning: the server may still run: {e}"),
        }
    }
}

/// Whether it answers over HTTP.
fn health(url: &str) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("does not answer on {url}: {e}");
    let address =
        url.strip_prefix("http://").ok_or_else(|| format!("listens on `{url}`, which is no HTTP"))?;
    let mut stream = TcpStream::connect(address).map_err(failed)?;
    stream.set_read_timeout(Some(ANSWER_LIMIT)).map_err(failed)?;
    write!(stream, "GET /health HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n").map_err(failed)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).map_err(failed)?;
    match answer.lines().next() {
        Some(line) if line.contains(" 200") => Ok(()),
        line => Err(format!("is not well: {}", line.unwrap_or("an empty answer"))),
    }
}

fn log_path() -> PathBuf {
    workspace::root().join(LOG)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn shell(script: &str) -> Result<Server, String> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Server::spawn(command, Stdio::null())
    }

    #[test]
    fn a_server_ends_by_itself_when_its_input_is_closed() {
        let mut server = shell("echo loading; echo listening http://127.0.0.1:1/; cat").unwrap();
        assert_eq!(server.told().unwrap(), "http://127.0.0.1:1");
        assert!(server.end().unwrap());
    }

    #[test]
    fn a_server_that_stays_is_ended_with_all_it_started() {
        let mut server = shell("sleep 600 & echo listening; sleep 600").unwrap();
        assert!(!server.end().unwrap());
        // The channel is open for as long as anybody holds its standard output.
        let lines = server.lines.recv_timeout(Duration::from_secs(60));
        assert_eq!(lines, Err(RecvTimeoutError::Disconnected));
    }

    #[test]
    fn a_server_that_ends_too_soon_is_an_error() {
        let error = shell("exit 3").unwrap().told().unwrap_err();
        assert!(error.contains("ended before it listened"), "{error}");
        assert!(health("http://127.0.0.1:1").unwrap_err().contains("does not answer"));
    }
}
