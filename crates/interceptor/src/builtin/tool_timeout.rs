//! The deadline of a tool call.

use std::{
    fmt::{self, Write},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use turnwright_core::{ErrorInfo, ErrorKind, ToolResult, TurnContext};

use crate::{Around, Exit, Next, scope};

/// Gives each tool call a deadline; when it passes, the tool's future is dropped, the model gets a `<tool_timeout>`
/// result and the loop goes on. Always innermost, so that it measures the tool and not the layers round it.
///
/// A timeout the tool reports itself is the tool's own error and looks different: only the runtime's deadline has the
/// kind [`ErrorKind::ToolTimeout`].
#[derive(Clone)]
pub struct ToolTimeout {
    default: Duration,
    of_tool: Arc<OfTool>,
}

/// A deadline for all tools that may be changed while they run: each call asks for it. Clones are the same deadline.
#[derive(Debug, Clone)]
pub struct ToolTimeoutLimit(Arc<AtomicU64>);

impl ToolTimeoutLimit {
    /// This deadline; a longer one than some 500,000 years is that.
    pub fn new(limit: Duration) -> Self {
        Self(Arc::new(AtomicU64::new(millis(limit))))
    }

    /// Calls from now on have this one.
    pub fn set(&self, limit: Duration) {
        self.0.store(millis(limit), Relaxed);
    }

    /// The deadline now.
    pub fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Relaxed))
    }
}

fn millis(limit: Duration) -> u64 {
    u64::try_from(limit.as_millis()).unwrap_or(u64::MAX).max(1)
}

type OfTool = dyn Fn(&str) -> Option<Duration> + Send + Sync;

impl ToolTimeout {
    /// The seed's 540 s.
    pub const DEFAULT: Duration = Duration::from_secs(540);

    /// The same deadline for every tool.
    pub fn new(default: Duration) -> Self {
        Self { default, of_tool: Arc::new(|_| None) }
    }

    /// Tools for which `of_tool` knows a shorter deadline get that: of the levels that are set the least counts.
    #[must_use]
    pub fn per_tool(mut self, of_tool: impl Fn(&str) -> Option<Duration> + Send + Sync + 'static) -> Self {
        self.of_tool = Arc::new(of_tool);
        self
    }

    /// The result of a call that was stopped after `limit` without progress, for executors that see the progress: of
    /// the deadline's kind, with the status `idle`.
    pub fn idle_result(call: &turnwright_core::ToolCall, limit: Duration, elapsed: Duration) -> ToolResult {
        result(call, Stopped::Idle, limit, elapsed)
    }
}

#[derive(Clone, Copy)]
enum Stopped {
    AtDeadline,
    Idle,
}

fn result(
    call: &turnwright_core::ToolCall,
    stopped: Stopped,
    limit: Duration,
    elapsed: Duration,
) -> ToolResult {
    let seconds = limit.as_secs_f64();
    let message = match stopped {
        Stopped::AtDeadline => format!("the tool did not finish within {seconds} s"),
        Stopped::Idle => format!("the tool showed no progress for {seconds} s"),
    };
    let error = ErrorInfo::new(ErrorKind::ToolTimeout, message);
    let content = render(&call.name, stopped, limit, elapsed);
    ToolResult::error(call, error).with_content(content).with_elapsed(elapsed)
}

impl fmt::Debug for ToolTimeout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ToolTimeout").field("default", &self.default).finish_non_exhaustive()
    }
}

impl Around<scope::ToolCall> for ToolTimeout {
    async fn around(
        &self,
        ctx: &TurnContext,
        call: turnwright_core::ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        let limit = (self.of_tool)(&call.name).map_or(self.default, |own| own.min(self.default));
        let clock = &ctx.sources().clock;
        let started = clock.instant();
        // What the result needs of a call whose input the tool consumes.
        let key = turnwright_core::ToolCall::new(call.id.clone(), call.name.clone(), "");
        match tokio::time::timeout(limit, next.run(call)).await {
            Ok(out) => out,
            Err(_) => {
                let elapsed = clock.instant().saturating_duration_since(started);
                Ok(result(&key, Stopped::AtDeadline, limit, elapsed))
            }
        }
    }
}

fn render(tool: &str, stopped: Stopped, limit: Duration, elapsed: Duration) -> String {
    let (status, words) = match stopped {
        Stopped::AtDeadline => ("timeout", "The tool was stopped at its deadline."),
        Stopped::Idle => ("idle", "The tool was stopped because it showed no progress."),
    };
    let mut name = String::with_capacity(tool.len());
    for c in tool.chars() {
        match c {
            '<' => name.push_str("&lt;"),
            '>' => name.push_str("&gt;"),
            '&' => name.push_str("&amp;"),
            c => name.push(c),
        }
    }
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        "<tool_timeout><tool_name>{name}</tool_name><status>{status}</status>\
         <timeout_seconds>{:.3}</timeout_seconds><elapsed_seconds>{:.2}</elapsed_seconds>\
         <message>{words} It may have had effects.</message></tool_timeout>",
        limit.as_secs_f64(),
        elapsed.as_secs_f64()
    );
    out
}
