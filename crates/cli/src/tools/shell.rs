//! `shell`.
//!
//! A command is not confined: it may do whatever the person in front of the program may do, outside of the tool root
//! too. That is why each call waits for a person. What is promised is that it ends with its call, all it started
//! included, but for a process that leaves its group on purpose (`setsid`): that one cannot be found again.

mod environment;

use std::{
    io,
    path::Path,
    process::{ExitStatus, Stdio},
    time::Duration,
};

use schemars::JsonSchema;
use serde::Deserialize;
use tokio::{
    io::AsyncReadExt,
    net::unix::pipe::Receiver,
    process::{Child, Command},
    time::timeout,
};
use turnwright::{
    Tool, ToolContext, ToolError,
    code::process::{Capture, Group, Progress, SHELL},
    tool,
};

use super::{MOST_BYTES, Workspace};

/// How long a command may take: by default, and at most. The most is less than the runtime gives a tool, so that what
/// was printed until then is not lost.
const USUAL_SECONDS: u64 = 60;
const MOST_SECONDS: u64 = 500;
/// The longest command. Systems take little more in one argument.
const LONGEST: usize = 100_000;
/// How long output is waited for once everything was killed: only a process that left the group can still hold it.
const DRAIN: Duration = Duration::from_millis(200);

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Args {
    /// The command, for `sh -c`.
    command: String,
    /// How long it may take, at most 500. 60 by default.
    timeout_seconds: Option<u64>,
}

/// Runs a shell command.
pub(crate) fn shell(workspace: &Workspace) -> impl Tool {
    let workspace = workspace.clone();
    let describe = "Runs a shell command (sh) in the tool root, without input, and returns its exit code and what it \
        printed. When the command is over everything it started is killed: nothing can be left running. It can reach \
        files outside of the tool root: leave them alone unless asked.";
    tool("shell", describe, move |ctx: ToolContext, args: Args| {
        let workspace = workspace.clone();
        async move {
            let limit = limit(&args)?;
            Run::begin(&ctx, &args.command, workspace.root())?.finish(limit).await
        }
    })
}

fn limit(args: &Args) -> Result<Duration, ToolError> {
    let Args { command, timeout_seconds } = args;
    if command.trim().is_empty() {
        return Err(ToolError::model("the command is empty"));
    }
    if command.len() > LONGEST {
        let message =
            format!("the command has {} bytes, {LONGEST} are the most; write a script", command.len());
        return Err(ToolError::model(message));
    }
    match timeout_seconds.unwrap_or(USUAL_SECONDS) {
        seconds @ 1..=MOST_SECONDS => Ok(Duration::from_secs(seconds)),
        other => {
            Err(ToolError::model(format!("timeout_seconds is {other}; it must be from 1 to {MOST_SECONDS}")))
        }
    }
}

/// A command that runs. Dropped, it is killed with all it started.
struct Run {
    /// Goes first: who is killed can be reaped.
    group: Group,
    child: Child,
    output: Receiver,
    seen: Seen,
}

impl Run {
    fn begin(ctx: &ToolContext, command: &str, root: &Path) -> Result<Self, ToolError> {
        let told = turnwright::core::child_env(ctx.turn())?;
        let begin = || -> io::Result<_> {
            let group = Group::new()?;
            // One pipe for both, so that what was printed stays in its order.
            let (output, input) = io::pipe()?;
            let mut shell = Command::new(SHELL);
            shell.args(["-c", "--", command]).current_dir(root);
            shell.env_clear().envs(environment::passed()).envs(told);
            shell.stdin(Stdio::null()).stdout(input.try_clone()?).stderr(input);
            // Our own ends of the pipe close with `shell`: the rest is the command's.
            let child = group.spawn(&mut shell)?;
            Ok((group, child, Receiver::from_owned_fd(output.into())?))
        };
        let (group, child, output) =
            begin().map_err(|e| ToolError::model(format!("the command cannot be run: {e}")))?;
        let seen = Seen { capture: Capture::of(MOST_BYTES), progress: Progress::new(ctx) };
        Ok(Self { group, child, output, seen })
    }

    /// An exit code other than 0 is a result: what it means is the command's own affair (`grep` found nothing, a test
    /// failed), and the model reads it. An error is a command that did not come to its end.
    async fn finish(mut self, limit: Duration) -> Result<String, ToolError> {
        let status = timeout(limit, self.until_exit()).await;
        let Self { group, child: _child, mut output, mut seen } = self;
        // Whatever was left in the background goes first, for it may hold the pipe.
        group.kill();
        // A pipe that fails has no more to give.
        let _ = timeout(DRAIN, async { while seen.read(&mut output).await {} }).await;
        group.end().await;
        let printed = seen.capture.text();
        match status {
            Ok(Ok(status)) => Ok(answer(status, &printed)),
            Ok(Err(e)) => Err(ToolError::model(format!("the command's end cannot be seen: {e}\n{printed}"))),
            Err(_) => Err(ToolError::model(format!(
                "the command did not end within {} s and was killed with all it started; timeout_seconds may be up \
                 to {MOST_SECONDS}\n{printed}",
                limit.as_secs()
            ))),
        }
    }

    /// Until the shell itself is over. Others may still hold the pipe then.
    async fn until_exit(&mut self) -> io::Result<ExitStatus> {
        let Self { child, output, seen, .. } = self;
        let mut is_open = true;
        loop {
            tokio::select! {
                status = child.wait() => return status,
                more = seen.read(output), if is_open => is_open = more,
            }
        }
    }
}

struct Seen {
    capture: Capture,
    progress: Progress,
}

impl Seen {
    /// Reads some output. Answers whether there may be more.
    ///
    /// # Cancel safety
    /// Nothing is lost: what was read was seen.
    async fn read(&mut self, output: &mut Receiver) -> bool {
        let mut bytes = [0; 8 << 10];
        match output.read(&mut bytes).await {
            Ok(n) if n > 0 => {
                self.capture.push(&bytes[..n]);
                self.progress.push(&bytes[..n]);
                true
            }
            // A pipe that fails has no more to give.
            _ => false,
        }
    }
}

fn answer(status: ExitStatus, printed: &str) -> String {
    let ended = match status.code() {
        Some(code) => format!("exit code {code}"),
        // `signal: 9 (SIGKILL)`
        None => format!("ended by {status}"),
    };
    if printed.is_empty() { format!("{ended}, nothing printed") } else { format!("{ended}\n{printed}") }
}

#[cfg(test)]
mod tests;
