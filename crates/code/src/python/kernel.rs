//! One interpreter and what goes between it and us.

use std::{
    collections::BTreeMap,
    fs, io,
    os::unix::fs::PermissionsExt,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use futures::StreamExt;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe::Receiver,
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};
use tokio_util::codec::{FramedRead, LinesCodec};
use turnwright_core::child_env;
use turnwright_react_runtime::tool::ToolContext;

use super::Settings;
use crate::process::{Capture, Group, Progress};

/// What runs inside.
const WORKER: &str = include_str!("worker.py");
/// The longest line it may send: the largest call of a tool, escaped.
const LONGEST_LINE: usize = 8 << 20;
/// How long output is waited for once everything was killed: only a process that left the group can still hold it.
const DRAIN: Duration = Duration::from_millis(200);
/// How often, and how many times, a directory is removed again: who was just killed may still have written into it.
const AGAIN_AFTER: Duration = Duration::from_millis(20);
const MOST_AGAIN: u32 = 50;

/// An interpreter. Dropped, it is killed with all it started, and its directory is removed.
pub(super) struct Kernel {
    /// Goes first: who is killed can be reaped.
    group: Group,
    child: Child,
    requests: ChildStdin,
    replies: FramedRead<ChildStdout, LinesCodec>,
    output: Receiver,
    capture: Capture,
    most_output: usize,
    /// Something may still be printed.
    is_printing: bool,
    /// It has ended, or closed its pipes.
    is_gone: bool,
    /// How many cells it was given.
    cells: u64,
    _directory: Option<Directory>,
}

/// How a cell ended.
#[derive(Deserialize)]
pub(super) struct Done {
    #[serde(default)]
    pub(super) value: Option<serde_json::Value>,
    #[serde(default)]
    pub(super) error: Option<String>,
}

/// What an interpreter left that was ended.
pub(super) struct Ended {
    pub(super) output: String,
    /// How it had ended before that, if it had.
    pub(super) status: Option<ExitStatus>,
}

/// Cells and calls have numbers; a reply is that to the cell or the call with its number.
#[derive(Serialize)]
#[serde(untagged)]
enum Request<'a> {
    Run { run: u64, code: &'a str, env: BTreeMap<String, String> },
    Answer { answer: u64, content: &'a str, is_error: bool },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Reply {
    Call {
        call: u64,
        tool: String,
        arguments: String,
    },
    Done {
        done: u64,
        #[serde(flatten)]
        how: Done,
    },
}

impl Kernel {
    /// Starts one, or says why it cannot be.
    pub(super) fn start(settings: &Settings) -> Result<Self, String> {
        let (place, directory) = match &settings.directory {
            Some(place) if place.is_dir() => (place.clone(), None),
            Some(place) => return Err(format!("there is no directory {}", place.display())),
            None => {
                let made = Directory::new().map_err(|e| format!("it has no directory to work in: {e}"))?;
                (made.0.as_ref().map(|dir| dir.path().to_owned()).unwrap_or_default(), Some(made))
            }
        };
        let begin = || -> io::Result<_> {
            let group = Group::new()?;
            let (output, input) = io::pipe()?;
            let mut python = Command::new(&settings.interpreter);
            // Isolated: none of its variables, no packages of the user, no modules of the directory it works in.
            python.args(["-I", "-X", "utf8", "-c", WORKER]);
            python.args([settings.memory.to_string(), settings.file_size.to_string()]);
            python.env_clear().envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
            python.envs([("HOME", place.as_os_str()), ("TMPDIR", place.as_os_str())]);
            python.env("TERM", "dumb").envs(&settings.environment).current_dir(&place);
            python.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(input);
            let mut child = group.spawn(&mut python)?;
            let none = || io::Error::other("a process without pipes");
            let requests = child.stdin.take().ok_or_else(none)?;
            let replies = child.stdout.take().ok_or_else(none)?;
            Ok((group, child, requests, replies, Receiver::from_owned_fd(output.into())?))
        };
        let (group, child, requests, replies, output) =
            begin().map_err(|e| format!("{} cannot be started: {e}", settings.interpreter.display()))?;
        let replies = FramedRead::new(replies, LinesCodec::new_with_max_length(LONGEST_LINE));
        let capture = Capture::of(settings.output);
        let most_output = settings.output;
        Ok(Self {
            group,
            child,
            requests,
            replies,
            output,
            capture,
            most_output,
            is_printing: true,
            is_gone: false,
            cells: 0,
            _directory: directory,
        })
    }

    /// Itself, if it still runs.
    pub(super) fn if_alive(mut self) -> Option<Self> {
        matches!(self.child.try_wait(), Ok(None)).then_some(self)
    }

    /// Runs a cell. An error says that the interpreter is of no use any more.
    ///
    /// # Cancel safety
    /// Dropped, the cell runs on: the kernel must be ended.
    pub(super) async fn run(&mut self, ctx: &ToolContext, code: &str) -> Result<Done, String> {
        let mut progress = Progress::new(ctx);
        let env = child_env(ctx.turn()).map_err(|e| e.to_string())?;
        self.cells += 1;
        let run = self.cells;
        send(&mut self.requests, &Request::Run { run, code, env }).await.map_err(|_| self.gone())?;
        let mut reply = self.reply(&mut progress).await?;
        loop {
            let (call, tool, arguments) = match reply {
                Reply::Done { done, how } if done == run => {
                    self.read_rest(&mut progress);
                    return Ok(how);
                }
                // It cannot be known any more which of its cells runs.
                Reply::Done { .. } => return Err("the interpreter replied to another cell".into()),
                Reply::Call { call, tool, arguments } => (call, tool, arguments),
            };
            let answer = tokio::select! {
                answer = ctx.call_tool(tool, arguments) => answer.map_err(|e| e.to_string())?,
                // Who asked does not wait any more: the call ends here.
                other = self.reply(&mut progress) => {
                    reply = other?;
                    continue;
                }
            };
            let answer =
                Request::Answer { answer: call, content: &answer.content, is_error: answer.is_error() };
            send(&mut self.requests, &answer).await.map_err(|_| self.gone())?;
            reply = self.reply(&mut progress).await?;
        }
    }

    /// Its next reply. An error says that there will be none.
    ///
    /// # Cancel safety
    /// Nothing is lost: what was read was seen, and a reply of which a part was read is kept.
    async fn reply(&mut self, progress: &mut Progress) -> Result<Reply, String> {
        let line = loop {
            tokio::select! {
                line = self.replies.next() => break line,
                more = read(&mut self.output, &mut self.capture, progress), if self.is_printing => {
                    self.is_printing = more;
                }
                // A fork of it may hold the pipe. What it replied last is in there.
                _ = self.child.wait() => break timeout(DRAIN, self.replies.next()).await.unwrap_or(None),
            }
        };
        let no_reply = |e: &dyn std::fmt::Display| format!("the interpreter wrote what is no reply ({e})");
        match line {
            Some(Ok(line)) => serde_json::from_str(&line).map_err(|e| no_reply(&e)),
            Some(Err(e)) => Err(no_reply(&e)),
            None => Err(self.gone()),
        }
    }

    fn gone(&mut self) -> String {
        self.is_gone = true;
        "the interpreter ended".into()
    }

    /// What was printed before a reply is in the pipe when the reply is here. The pipe is asked itself, since the async
    /// runtime may not have heard of it yet. No more is read than is in there now: a program that was left running may never
    /// stop printing.
    fn read_rest(&mut self, progress: &mut Progress) {
        let mut rest = rustix::io::ioctl_fionread(&self.output).unwrap_or(0);
        let mut bytes = [0; 8 << 10];
        while rest > 0
            && let Ok(n) = rustix::io::read(&self.output, &mut bytes)
            && n > 0
        {
            self.capture.push(&bytes[..n]);
            progress.push(&bytes[..n]);
            rest = rest.saturating_sub(n as u64);
        }
    }

    /// What the cell printed.
    pub(super) fn take_output(&mut self) -> String {
        std::mem::replace(&mut self.capture, Capture::of(self.most_output)).text()
    }

    /// Kills it with all it started, and returns what was printed until then.
    ///
    /// # Cancel safety
    /// Dropped, it is killed all the same.
    pub(super) async fn end(self) -> Ended {
        let Self { group, mut child, mut output, mut capture, is_gone, .. } = self;
        // How it went is known soon after it has closed its pipes.
        let status = match is_gone {
            true => timeout(DRAIN, child.wait()).await.ok().and_then(Result::ok),
            false => None,
        };
        group.kill();
        let mut bytes = [0; 8 << 10];
        let drained = async {
            while let Ok(n @ 1..) = output.read(&mut bytes).await {
                capture.push(&bytes[..n]);
            }
        };
        // A pipe that fails has no more to give.
        let _ = timeout(DRAIN, drained).await;
        group.end().await;
        Ended { output: capture.text(), status }
    }
}

async fn send(requests: &mut ChildStdin, request: &Request<'_>) -> io::Result<()> {
    let mut line = serde_json::to_vec(request)?;
    line.push(b'\n');
    requests.write_all(&line).await?;
    requests.flush().await
}

/// Reads some output. Answers whether there may be more.
///
/// # Cancel safety
/// Nothing is lost: what was read was seen.
async fn read(output: &mut Receiver, capture: &mut Capture, progress: &mut Progress) -> bool {
    let mut bytes = [0; 8 << 10];
    match output.read(&mut bytes).await {
        Ok(n) if n > 0 => {
            capture.push(&bytes[..n]);
            progress.push(&bytes[..n]);
            true
        }
        // A pipe that fails has no more to give.
        _ => false,
    }
}

/// A directory of its own, for its user only.
struct Directory(Option<TempDir>);

impl Directory {
    fn new() -> io::Result<Self> {
        let own = std::fs::Permissions::from_mode(0o700);
        tempfile::Builder::new().prefix("turnwright-code-").permissions(own).tempdir().map(Some).map(Self)
    }
}

impl Drop for Directory {
    /// Removing may take long: not on the async runtime's threads, where there is one.
    fn drop(&mut self) {
        let Some(directory) = self.0.take() else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || remove(directory))),
            Err(_) => remove(directory),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "it runs on a thread that may block, or where there is no runtime"
)]
fn remove(directory: TempDir) {
    let path = directory.path().to_owned();
    let mut removed = directory.close();
    for _ in 0..MOST_AGAIN {
        match removed {
            Err(e) if e.kind() != io::ErrorKind::NotFound => std::thread::sleep(AGAIN_AFTER),
            _ => return,
        }
        removed = fs::remove_dir_all(&path);
    }
}
