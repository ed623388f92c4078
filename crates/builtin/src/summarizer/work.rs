//! The task of one session.

use std::sync::{Arc, Weak, atomic::Ordering::SeqCst};

use parking_lot::Mutex;
use tokio::{runtime::Handle, task::JoinHandle};
use turnwright_core::{CancelToken, Message, MessageId, Role, StopReason, TokenUsage};
use turnwright_react_runtime::{Agent, Parent, Session};

use super::{Counts, Limits, Shared, text};

/// What a summarizer knows of a session. It belongs to the session and is dropped with it, and the task with that.
#[derive(Default)]
pub(super) struct Desk(Mutex<State>);

#[derive(Default)]
struct State {
    /// Whether the turn asked its model: usage that is told before is of something else.
    asked: bool,
    /// The tokens that the last model call of the turn read.
    read: u64,
    task: Option<Task>,
}

struct Task {
    /// The last message that is summarised.
    through: MessageId,
    /// What it came to.
    done: Option<Done>,
    running: AbortOnDrop,
    /// Its summarizer.
    alive: CancelToken,
}

struct Done {
    /// None when it failed.
    summary: Option<String>,
    usage: TokenUsage,
}

/// Its task ends with it.
struct AbortOnDrop(JoinHandle<()>);

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Desk {
    pub(super) fn model_is_asked(&self) {
        self.0.lock().asked = true;
    }

    pub(super) fn model_has_read(&self, tokens: Option<u64>) {
        let mut state = self.0.lock();
        if state.asked {
            state.read = tokens.unwrap_or(0);
        }
    }

    /// The turn is over: what its last model call read.
    pub(super) fn take_read(&self) -> u64 {
        let mut state = self.0.lock();
        state.asked = false;
        std::mem::take(&mut state.read)
    }

    /// Begins to summarise, unless that is under way.
    pub(super) fn begin(self: &Arc<Self>, shared: &Arc<Shared>, session: &Session) {
        let messages = session.view();
        let conversation = to_summarise(&messages, shared.limits.keep);
        let Some(last) = conversation.last().filter(|_| conversation.len() > 1) else { return };
        let Ok(runtime) = Handle::try_current() else { return };
        let mut state = self.0.lock();
        if state.task.is_some() {
            return;
        }
        let prompt = text::prompt(conversation, shared.limits.target, shared.limits.input);
        shared.counts.begun.fetch_add(1, SeqCst);
        // It holds neither the session nor the agent: whoever drops those ends it.
        let (by, parent) = (shared.by.clone(), Parent::from(&shared.alive));
        let (desk, alive, limits) = (Arc::downgrade(self), shared.alive.clone(), shared.limits);
        let running = runtime.spawn(async move {
            tokio::select! {
                biased;
                _ = alive.cancelled() => leave(&desk, None),
                done = summarise(&by, parent, prompt, limits) => leave(&desk, Some(done)),
            }
        });
        state.task = Some(Task {
            through: last.id,
            done: None,
            running: AbortOnDrop(running),
            alive: shared.alive.clone(),
        });
    }

    /// Hands over what was summarised, if that is done.
    pub(super) fn hand_over(&self, counts: &Counts, session: &Session) {
        let task = self.0.lock().task.take_if(|task| task.done.is_some());
        let Some(Task { through, done: Some(done), running, alive }) = task else { return };
        drop(running);
        session.count_usage(done.usage, "summary");
        // It was summarised for a summarizer that is over, and this is another one.
        if alive.cause().is_some() {
            return;
        }
        let collapsed = match done.summary {
            Some(summary) => session.summarise(through, summary).map_err(|e| e.to_string()),
            None => Err("the summarising agent has no summary".to_owned()),
        };
        match collapsed {
            Ok(()) => counts.collapsed.fetch_add(1, SeqCst),
            Err(why) => {
                tracing::warn!("session {} was not summarised: {why}", session.id());
                counts.failed.fetch_add(1, SeqCst)
            }
        };
    }
}

/// Leaves what a task came to for the next turn; nothing, when it is over.
fn leave(desk: &Weak<Desk>, done: Option<Done>) {
    let Some(desk) = desk.upgrade() else { return };
    let mut state = desk.0.lock();
    match (done, &mut state.task) {
        (Some(done), Some(task)) => task.done = Some(done),
        // Out of the lock before the task is dropped.
        (None, _) => {
            let task = state.task.take();
            drop(state);
            drop(task);
        }
        (Some(_), None) => {}
    }
}

async fn summarise(by: &Agent, parent: Parent, prompt: String, limits: Limits) -> Done {
    let mut turn = match by.run_under(parent, prompt) {
        Ok(turn) => turn,
        Err(e) => {
            tracing::warn!("a summary could not be begun: {e}");
            return Done { summary: None, usage: TokenUsage::UNKNOWN };
        }
    };
    let Some(result) = turn.result().await else { return Done { summary: None, usage: TokenUsage::UNKNOWN } };
    let is_whole = result.stop_reason == StopReason::Completed && !result.content.trim().is_empty();
    let summary = is_whole.then(|| text::summary(&result.content, limits.target));
    Done { summary, usage: result.usage }
}

/// Which of the messages are summarised: all but the last ones, and what would be divided.
fn to_summarise(messages: &[Arc<Message>], keep: usize) -> &[Arc<Message>] {
    let mut to = messages.len().saturating_sub(keep);
    // The first message that is kept must be no result: its call would be gone.
    while to > 0 && messages.get(to).is_some_and(|message| message.role == Role::Tool) {
        to -= 1;
    }
    messages.get(..to).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use turnwright_core::{Part, Sources, ToolCall, ToolResult};

    use super::*;

    #[test]
    fn the_border_never_divides_a_call_from_its_results() {
        let sources = Sources::default();
        let call = |id: &str| ToolCall::new(id, "t", "{}");
        let calls = vec![Part::ToolCall(call("a")), Part::ToolCall(call("b"))];
        let messages: Vec<_> = [
            Message::user(sources.id(), "1"),
            Message::user(sources.id(), "2"),
            Message::new(sources.id(), Role::Assistant, calls),
            Message::tool(sources.id(), ToolResult::ok(&call("a"), "")),
            Message::tool(sources.id(), ToolResult::ok(&call("b"), "")),
            Message::user(sources.id(), "3"),
        ]
        .into_iter()
        .map(Arc::new)
        .collect();
        let counts: Vec<_> = (0..=7).map(|keep| to_summarise(&messages, keep).len()).collect();
        assert_eq!(counts, [6, 5, 2, 2, 2, 1, 0, 0]);
    }
}
