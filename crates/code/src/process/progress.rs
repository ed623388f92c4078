//! Lines of a running command, for whoever watches.

use std::time::Duration;

use tokio::time::Instant;
use turnwright_react_runtime::tool::ToolContext;

use super::capture::printable;

/// The first lines are shown as they come; after them the latest one, not more often than this.
const FIRST: u32 = 20;
const THEN_EVERY: Duration = Duration::from_secs(1);
/// How much of a line is shown.
const MOST_OF_A_LINE: usize = 200;

/// Shows the lines of a running process as progress of its call: the first 20, then one a second.
pub struct Progress {
    ctx: ToolContext,
    /// The beginning of the line that has no end yet.
    line: Vec<u8>,
    shown: u32,
    last: Option<Instant>,
}

impl Progress {
    /// Of this call.
    pub fn new(ctx: &ToolContext) -> Self {
        Self { ctx: ctx.clone(), line: Vec::new(), shown: 0, last: None }
    }

    /// More was printed.
    pub fn push(&mut self, bytes: &[u8]) {
        let mut latest = None;
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            let text = part.strip_suffix(b"\n").unwrap_or(part);
            let room = MOST_OF_A_LINE.saturating_sub(self.line.len());
            self.line.extend_from_slice(&text[..text.len().min(room)]);
            if text.len() == part.len() {
                break;
            }
            let line = std::mem::take(&mut self.line);
            if self.shown < FIRST {
                self.show(&line);
            } else {
                latest = Some(line);
            }
        }
        if let Some(line) = latest {
            let now = self.ctx.turn().sources().clock.instant();
            if self.last.is_none_or(|last| now.saturating_duration_since(last) >= THEN_EVERY) {
                self.last = Some(now);
                self.show(&line);
            }
        }
    }

    fn show(&mut self, line: &[u8]) {
        let line = printable(line);
        if !line.trim().is_empty() {
            self.shown += 1;
            // A call that is over is about to be dropped.
            let _ = self.ctx.progress(line);
        }
    }
}
