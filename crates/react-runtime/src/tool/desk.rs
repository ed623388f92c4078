//! What calls that run ask the runtime for: calls of other tools.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicU32, Ordering::Relaxed},
};

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use turnwright_core::{CallId, ErrorInfo, ErrorKind, Synthetic, ToolCall, ToolResult};
use turnwright_hook::instrument::CallScope;

/// How deep calls may stand in each other, the model's own counted.
const DEPTH: u8 = 4;
/// How many calls of one call may wait for their turn.
const WAITING: usize = 64;

/// Where a call leaves its inner calls. The executor of the call serves them in its own polls, so that they end with it.
pub(crate) struct Desk {
    asked: Mutex<VecDeque<Asked>>,
    came: Notify,
    made: AtomicU32,
    depth: u8,
}

/// A call that somebody waits for.
pub(crate) struct Asked {
    pub(crate) call: ToolCall,
    /// The call that asks, where it is watched: a code cell stands between a tool and its inner calls.
    pub(crate) scope: Option<CallScope>,
    pub(crate) answer: oneshot::Sender<ToolResult>,
}

impl Desk {
    pub(crate) fn new(depth: u8) -> Self {
        Self { asked: Mutex::default(), came: Notify::new(), made: AtomicU32::new(0), depth }
    }

    pub(crate) fn depth(&self) -> u8 {
        self.depth
    }

    /// Leaves a call, or refuses it.
    pub(crate) fn ask(
        &self,
        outer: &CallId,
        tool: String,
        arguments: String,
    ) -> Result<oneshot::Receiver<ToolResult>, Box<ToolResult>> {
        let id = CallId::from(format!("{outer}/{}", self.made.fetch_add(1, Relaxed) + 1));
        let call = ToolCall::new(id, tool, arguments);
        let mut asked = self.asked.lock();
        let why = match asked.len() {
            _ if self.depth >= DEPTH => format!("calls stand {DEPTH} deep in each other"),
            WAITING.. => format!("{WAITING} calls wait for their turn"),
            _ => {
                let (answer, answered) = oneshot::channel();
                asked.push_back(Asked { call, scope: CallScope::current(), answer });
                drop(asked);
                self.came.notify_one();
                return Ok(answered);
            }
        };
        let error = ErrorInfo::new(ErrorKind::NotRun, format!("not run: {why}"));
        Err(Box::new(ToolResult::synthetic(&call, Synthetic::Unrunnable, error)))
    }

    /// The next call that somebody still waits for.
    ///
    /// # Cancel safety
    /// Safe: what was not handed out is still there.
    pub(crate) async fn next(&self) -> Asked {
        loop {
            // Out of the lock before the wait.
            let next = self.asked.lock().pop_front();
            match next {
                Some(asked) if asked.answer.is_closed() => {}
                Some(asked) => return asked,
                None => self.came.notified().await,
            }
        }
    }
}
