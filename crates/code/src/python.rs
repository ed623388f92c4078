//! Python in a child process.

mod kernel;

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::task::AbortHandle;
use turnwright_core::{CodeCell, CodeResult, ErrorInfo, ErrorKind, SessionId};
use turnwright_react_runtime::tool::ToolContext;

use self::kernel::Kernel;
use crate::CodeExecutor;

/// Runs cells by a Python interpreter, one a session, in a process group, a directory and an environment of its own.
///
/// What a cell defines is there for the next one of its session. An interpreter ends, and the next cell starts in a new one and
/// says so ([`CodeResult::fresh`]): when a cell does not end within its time or is cancelled, when the interpreter dies, after
/// ten minutes without a cell, when 16 others were used since, and with the executor. With it ends all it started, also when this
/// program is killed; its directory is removed, unless this program is killed.
///
/// What a thread of a cell prints after the cell is shown with the next one, and tools it calls then are refused.
///
/// It is no sandbox: see the [crate's page](crate#what-it-does-not-protect-from).
///
/// Cells have, beside Python's own: the value of the last expression as the result, `await` at the top level, and
/// `tools.NAME(argument=…)`, which calls a tool of the agent and returns its text, or raises `ToolError`.
///
/// Clones are the same executor.
#[derive(Clone)]
pub struct Python(Arc<Inner>);

struct Inner {
    settings: Settings,
    kept: Mutex<HashMap<SessionId, Idle>>,
}

#[derive(Debug, Clone)]
struct Settings {
    interpreter: PathBuf,
    directory: Option<PathBuf>,
    environment: BTreeMap<String, String>,
    time: Duration,
    memory: u64,
    file_size: u64,
    output: usize,
    keep_idle: Duration,
    most_idle: usize,
}

/// An interpreter that waits for the next cell of its session.
struct Idle {
    kernel: Kernel,
    /// Counts up, so that the oldest is known.
    since: u64,
    /// Ends it when its time is over.
    _timer: Timer,
}

struct Timer(AbortHandle);

impl Drop for Timer {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Default for Python {
    /// `python3` of the path; 90 s and 1 GiB of address space a cell, files of 1 GiB, 40,000 bytes of output.
    fn default() -> Self {
        Self::of(Settings {
            interpreter: "python3".into(),
            directory: None,
            environment: BTreeMap::new(),
            time: Duration::from_secs(90),
            memory: 1 << 30,
            file_size: 1 << 30,
            output: 40_000,
            keep_idle: Duration::from_secs(600),
            most_idle: 16,
        })
    }
}

impl Python {
    fn of(settings: Settings) -> Self {
        Self(Arc::new(Inner { settings, kept: Mutex::default() }))
    }

    fn with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let mut settings = self.0.settings.clone();
        change(&mut settings);
        Self::of(settings)
    }

    /// Another interpreter: a path, relative to the directory of this moment, or a name that is looked for in the program's own
    /// path. Python 3.8 or later.
    #[must_use]
    pub fn interpreter(self, interpreter: impl Into<PathBuf>) -> Self {
        let interpreter = interpreter.into();
        let is_name = interpreter.components().count() == 1;
        self.with(|s| s.interpreter = if is_name { interpreter } else { absolute(&interpreter) })
    }

    /// Cells of all sessions work in this directory, which must exist and is kept; a relative one is so to the directory of
    /// this moment. Without it, each interpreter has a new
    /// directory below that of temporary files, for its user only, which goes with it.
    #[must_use]
    pub fn directory(self, directory: impl Into<PathBuf>) -> Self {
        self.with(|s| s.directory = Some(absolute(&directory.into())))
    }

    /// A variable of the interpreter's environment. It has nothing of the program's own but the path; what the turn's hooks put
    /// into [`CHILD_ENV`](turnwright_core::CHILD_ENV) is there for the turn's cells.
    #[must_use]
    pub fn env(self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|s| drop(s.environment.insert(name.into(), value.into())))
    }

    /// How long a cell may take, the tools it calls included. 90 s by default. It is meant to be less than the tool's own
    /// time limit: what was printed until then is not lost.
    #[must_use]
    pub fn time_limit(self, limit: Duration) -> Self {
        self.with(|s| s.time = limit)
    }

    /// How many bytes of address space a process may have, and how large a file may become that it writes. 1 GiB each by
    /// default. More memory is refused as a `MemoryError`. A system that cannot limit it (macOS) does not.
    #[must_use]
    pub fn memory_limit(self, bytes: u64) -> Self {
        self.with(|s| s.memory = bytes)
    }

    /// How many bytes of a cell's output are kept: its beginning and its end. 40,000 by default.
    #[must_use]
    pub fn output_limit(self, bytes: usize) -> Self {
        self.with(|s| s.output = bytes)
    }

    /// How long an interpreter waits for the next cell of its session, and how many wait at most. Ten minutes and 16 by
    /// default.
    #[must_use]
    pub fn keep_idle(self, time: Duration, most: usize) -> Self {
        self.with(|s| (s.keep_idle, s.most_idle) = (time, most))
    }

    /// Ends the session's interpreter, if it has one that waits.
    pub fn end_session(&self, session: &SessionId) {
        drop(self.0.take(session));
    }

    /// How many interpreters wait for a next cell.
    pub fn idle(&self) -> usize {
        self.0.kept.lock().len()
    }
}

/// Cells work elsewhere: what is relative would not be found there.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

impl Inner {
    fn take(&self, session: &SessionId) -> Option<Idle> {
        self.kept.lock().remove(session)
    }

    /// Keeps an interpreter for the next cell of its session; ends the one that waits longest, if there are too many.
    fn keep(self: &Arc<Self>, session: SessionId, kernel: Kernel) {
        let mut kept = self.kept.lock();
        let since = kept.values().map(|idle| idle.since + 1).max().unwrap_or(0);
        let (executor, wait) = (Arc::downgrade(self), self.settings.keep_idle);
        let timer = Timer(tokio::spawn(end_after(executor, session.clone(), since, wait)).abort_handle());
        let mut ended = vec![kept.insert(session, Idle { kernel, since, _timer: timer })];
        while kept.len() > self.settings.most_idle {
            let oldest = kept.iter().min_by_key(|(_, idle)| idle.since).map(|(session, _)| session.clone());
            ended.push(oldest.and_then(|session| kept.remove(&session)));
        }
        // Ended out of the lock.
        drop(kept);
        drop(ended);
    }
}

async fn end_after(executor: Weak<Inner>, session: SessionId, since: u64, wait: Duration) {
    tokio::time::sleep(wait).await;
    let Some(executor) = executor.upgrade() else { return };
    let ended = {
        let mut kept = executor.kept.lock();
        let is_same = kept.get(&session).is_some_and(|idle| idle.since == since);
        is_same.then(|| kept.remove(&session))
    };
    drop(ended);
}

impl CodeExecutor for Python {
    fn language(&self) -> &str {
        "python"
    }

    fn describe(&self) -> String {
        let Settings { time, output, .. } = &self.0.settings;
        format!(
            "Runs a cell of Python 3 and returns what it printed and the value of its last expression. Names and imports \
             stay for the next cell, until a cell is killed: the next one then says that its interpreter is new. \
             `tools.NAME(argument=value)` calls one of your other tools and returns its text, or raises ToolError; a \
             tool that a person has to approve of cannot be called from a cell. `await` works at the top level, \
             input() does not. A cell is killed after {} s with all it started; {output} bytes of its output are kept.",
            time.as_secs_f64(),
        )
    }

    /// # Cancel safety
    /// Dropped, the interpreter is killed with all it started; the next cell starts in a new one.
    async fn execute(&self, ctx: &ToolContext, cell: CodeCell) -> Result<CodeResult, ErrorInfo> {
        let settings = &self.0.settings;
        let session = ctx.turn().session();
        let kept = self.0.take(session).and_then(|idle| idle.kernel.if_alive());
        let fresh = kept.is_none();
        let mut kernel = match kept {
            Some(kernel) => kernel,
            None => Kernel::start(settings).map_err(|why| {
                ErrorInfo::new(ErrorKind::ToolFailed, format!("the cell did not run: {why}"))
            })?,
        };
        let ran = tokio::time::timeout(settings.time, kernel.run(ctx, &cell.code)).await;
        let mut result = CodeResult { fresh, ..CodeResult::default() };
        match ran {
            Ok(Ok(done)) => {
                result.output = kernel.take_output();
                result.value = done.value;
                result.error = done.error.map(|text| ErrorInfo::new(ErrorKind::ToolFailed, text));
                self.0.keep(session.clone(), kernel);
            }
            Ok(Err(gone)) => {
                let how = kernel.end().await;
                result.output = how.output;
                let status = how.status.map_or(String::new(), |status| format!(" ({status})"));
                let message = format!("{gone}{status}; the next cell starts in a new interpreter");
                result.error = Some(ErrorInfo::new(ErrorKind::ToolFailed, message));
            }
            Err(_) => {
                result.output = kernel.end().await.output;
                let message = format!(
                    "the cell did not end within {} s and was killed with all it started; the next cell starts in a new \
                     interpreter",
                    settings.time.as_secs_f64()
                );
                result.error = Some(ErrorInfo::new(ErrorKind::ToolTimeout, message));
            }
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_relative_path_is_one_of_this_program_and_a_name_stays_a_name() {
        let here = std::env::current_dir().unwrap();
        let settings = |python: Python| python.0.settings.clone();
        let python = settings(Python::default().interpreter("env/bin/python").directory("work"));
        assert_eq!(python.interpreter, here.join("env/bin/python"));
        assert_eq!(python.directory, Some(here.join("work")));
        assert_eq!(settings(Python::default().interpreter("./python")).interpreter, here.join("python"));
        assert_eq!(
            settings(Python::default().interpreter("python3.12")).interpreter,
            Path::new("python3.12")
        );
    }
}
