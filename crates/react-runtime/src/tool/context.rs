//! What a tool may ask the runtime for.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::SeqCst},
};

use parking_lot::Mutex;
use turnwright_core::{
    CallId, CancelToken, CodeCell, CodeResult, Decision, ParentCall, ToolResult, TurnContext, clock::Instant,
};
use turnwright_hook::instrument::{CallScope, kind};
use turnwright_interceptor::{Exit, Interceptors};

use super::{Desk, ToolError};
use crate::{agent::AgentInner, driver::failure, session::Parent};

/// Where a call's side effects on the turn go. Each is checked against the fence under the ledger's lock.
pub(crate) trait CallSink: Send + Sync {
    /// Shows progress of a call, if the call is open.
    fn progress(&self, call: &CallId, text: String) -> bool;
}

/// The context of one tool call: a cheap handle, taken by value, that may be moved into threads and closures.
///
/// When the call ends (result, deadline, cancel) its fence closes: [`ToolContext::check_open`] and
/// [`ToolContext::progress`] are refused from then on with [`Fenced`], and a late result of a blocking body is refused
/// and counted. The turn's history and state, reached through [`ToolContext::turn`], are the turn's and stay open as long
/// as it is: code that cannot be cancelled checks the fence before it touches them.
#[derive(Clone)]
pub struct ToolContext(Arc<Inner>);

struct Inner {
    turn: TurnContext,
    call: CallId,
    /// The call of the model that this one is, or is a part of.
    root: CallId,
    decided: Vec<Decision>,
    cancel: CancelToken,
    open: AtomicBool,
    /// When the call began, or last showed progress.
    active: Mutex<Instant>,
    sink: Arc<dyn CallSink>,
    agent: Arc<AgentInner>,
    desk: Desk,
}

/// An effect that came after its call was over.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("call {0} is over: its result and its effects are refused")]
pub struct Fenced(pub CallId);

impl ToolContext {
    pub(crate) fn new(
        turn: &TurnContext,
        call: CallId,
        sink: Arc<dyn CallSink>,
        agent: &Arc<AgentInner>,
        decided: Vec<Decision>,
    ) -> Self {
        let (cancel, root) = (turn.cancel().child(), call.clone());
        let (open, active) = (AtomicBool::new(true), Mutex::new(turn.sources().clock.instant()));
        let (turn, agent, desk) = (turn.clone(), agent.clone(), Desk::new(1));
        Self(Arc::new(Inner { turn, call, root, decided, cancel, open, active, sink, agent, desk }))
    }

    /// That of a call which this one made.
    pub(crate) fn inner(&self, call: CallId) -> Self {
        let outer = &self.0;
        let cancel = outer.cancel.child();
        let (open, active) = (AtomicBool::new(true), Mutex::new(outer.turn.sources().clock.instant()));
        Self(Arc::new(Inner {
            turn: outer.turn.clone(),
            call,
            root: outer.root.clone(),
            decided: Vec::new(),
            cancel,
            open,
            active,
            sink: outer.sink.clone(),
            agent: outer.agent.clone(),
            desk: Desk::new(outer.desk.depth() + 1),
        }))
    }

    /// The turn.
    pub fn turn(&self) -> &TurnContext {
        &self.0.turn
    }

    /// The call.
    pub fn call_id(&self) -> &CallId {
        &self.0.call
    }

    /// Cancelled with the turn, and when this call ends. For work the tool hands to others.
    pub fn cancel(&self) -> &CancelToken {
        &self.0.cancel
    }

    /// What was decided about what the call asked before ([`ToolError::asks`]), each about one call, by the id it has where
    /// it was made. Empty when the tool is entered for the first time. After a crash the tool may be entered with decisions
    /// that it has passed on already.
    pub fn decisions(&self) -> &[Decision] {
        &self.0.decided
    }

    /// What an agent is a part of that this call starts: it is cancelled with the call, must be over when the turn must, uses
    /// the turn's budget, and knows whose it is.
    pub fn as_parent(&self) -> Parent {
        let turn = self.turn();
        let call = ParentCall {
            session: turn.session().clone(),
            run: turn.run(),
            turn: turn.turn(),
            call: self.0.call.clone(),
        };
        let parent = Parent::from(self.cancel()).call(call).deadline(turn.deadline());
        match turn.budget() {
            Some(budget) => parent.budget(budget.clone()),
            None => parent,
        }
    }

    /// A key that is the same each time this very call is run, in this process or another: hand it to services that
    /// deduplicate.
    pub fn idempotency_key(&self) -> String {
        format!("{}/{}", self.0.turn.turn(), self.0.call)
    }

    /// The agent's chains: for tools that run code cells, or other agents.
    pub fn interceptors(&self) -> &Interceptors {
        &self.0.agent.interceptors
    }

    /// Runs the innermost part of a code cell, watched by the agent's instrumentation: for tools that run cells, inside of the
    /// chain of `ExecuteCode`.
    ///
    /// # Errors
    /// Those of the work.
    ///
    /// # Cancel safety
    /// Dropped, it drops the work, and the instrumentation is told of a cancelled cell.
    pub async fn watch_code(
        &self,
        cell: &CodeCell,
        work: impl Future<Output = Result<CodeResult, Exit>> + Send,
    ) -> Result<CodeResult, Exit> {
        let instruments = &self.0.agent.instruments;
        instruments.watch::<kind::Code, _>(self.turn(), cell, failure, work).await
    }

    /// Calls another tool of the agent, as a part of this call: for tools that are programs of the model's, such as code
    /// cells. The call passes the gate, the chain of tool calls, the time limit, the result limit and the budget as one of
    /// the model's own, and ends with this call at the latest. Its id is this call's with `/1`, `/2`, … behind it. Inner
    /// calls run one after the other, in the order they were asked for.
    ///
    /// Nobody is asked about an inner call, since this one could not wait for the answer across a restart: what the gate
    /// would ask about is refused, and so is a tool that waits for somebody. The result says so, with
    /// [`ErrorKind::ApprovalRequired`](turnwright_core::ErrorKind::ApprovalRequired). An exclusive tool is called by exclusive
    /// tools only. Should the process go away, the outer call is in doubt; of its inner ones nothing is known.
    ///
    /// # Errors
    /// [`Fenced`] when this call is over. Whatever becomes of the inner one is a result, also that it is refused: because the
    /// gate or a budget says so, because calls stand more than four deep in each other, or because 64 wait.
    ///
    /// # Cancel safety
    /// Dropping the future drops the inner call.
    pub async fn call_tool(
        &self,
        tool: impl Into<String>,
        arguments: impl Into<String>,
    ) -> Result<ToolResult, Fenced> {
        self.check_open()?;
        match self.0.desk.ask(&self.0.call, tool.into(), arguments.into()) {
            // Who served it is gone: the call is over.
            Ok(answered) => answered.await.map_err(|_| self.late()),
            Err(refused) => Ok(*refused),
        }
    }

    /// Whether another call made this one: see [`ToolContext::call_tool`].
    pub fn is_inner(&self) -> bool {
        self.0.call != self.0.root
    }

    /// The calls that this one makes.
    pub(crate) fn desk(&self) -> &Desk {
        &self.0.desk
    }

    /// Something happened: the time of the idle limit starts anew.
    pub(crate) fn touch(&self) {
        let now = self.0.turn.sources().clock.instant();
        *self.0.active.lock() = now;
    }

    /// Whether the call still runs.
    ///
    /// # Errors
    /// [`Fenced`] when it is over. Check before each effect in code that cannot be cancelled.
    pub fn check_open(&self) -> Result<(), Fenced> {
        if self.0.open.load(SeqCst) { Ok(()) } else { Err(self.late()) }
    }

    fn late(&self) -> Fenced {
        self.0.agent.blocking.count_late();
        Fenced(self.0.call.clone())
    }

    /// Shows a line of progress to whoever watches the turn. The model does not see it. Starts the time of the idle
    /// limit anew, if the tool has one.
    ///
    /// # Errors
    /// [`Fenced`] when the call is over.
    pub fn progress(&self, text: impl Into<String>) -> Result<(), Fenced> {
        self.check_open()?;
        if !self.0.sink.progress(&self.0.root, text.into()) {
            return Err(self.late());
        }
        self.touch();
        Ok(())
    }

    /// When the call began, or last showed progress.
    pub(crate) fn active_at(&self) -> Instant {
        *self.0.active.lock()
    }

    /// Runs code that blocks on a thread of the runtime's own, bounded pool. The thread cannot be stopped: when the
    /// call ends before it does, its result is refused and counted.
    ///
    /// # Errors
    /// What the code returned; a panic in it is an error for the model.
    ///
    /// # Cancel safety
    /// Dropping the future abandons the thread; see above.
    pub async fn blocking<T, E>(
        &self,
        work: impl FnOnce(&ToolContext) -> Result<T, E> + Send + 'static,
    ) -> Result<T, ToolError>
    where
        T: Send + 'static,
        E: Into<ToolError> + Send + 'static,
    {
        let (ctx, scope) = (self.clone(), CallScope::current());
        let name = format!("tool {}", self.0.call);
        let work = move || match scope {
            Some(scope) => scope.run_blocking(|| work(&ctx)),
            None => work(&ctx),
        };
        self.0.agent.blocking.run(name, work).await?.map_err(Into::into)
    }

    pub(crate) fn close(&self) {
        self.0.open.store(false, SeqCst);
        self.0.cancel.cancel(turnwright_core::CancelCause::runtime(
            turnwright_core::CancelKind::Superseded,
            "the tool call is over",
        ));
    }
}

impl std::fmt::Debug for ToolContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ToolContext({})", self.0.call)
    }
}

/// Closes the fence of a call when dropped, however the call ends.
pub(crate) struct Fence(pub(crate) ToolContext);

impl Drop for Fence {
    fn drop(&mut self) {
        self.0.close();
    }
}
