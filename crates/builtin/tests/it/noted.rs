//! Hooks that write down when they are called, and are otherwise what they are.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use turnwright_core::{AgentResult, ApprovalTransaction, SessionId, ToolResult, TurnContext};
use turnwright_hook::{
    DecidedCall, HookError, HookPoint, LegEnd, TurnAnswer,
    point::{
        AfterApproval, AfterGraph, AfterIteration, AfterLlmResponse, AfterToolExecution, AfterTurn,
        BeforeGraph, BeforeIteration, BeforeLlm, BeforeToolExecution, BeforeTurn, EndNodeTurn,
        FinalizeContent, FinallyGraph, StartNodeTurn,
    },
};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

/// Which hook was called at which point, in order, session by session. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Notes(Arc<Mutex<BTreeMap<SessionId, Vec<Call>>>>);

type Call = (HookPoint, &'static str);

impl Notes {
    /// A line a firing: the point, and who was called at it.
    pub(crate) fn of(&self, session: &SessionId) -> String {
        let mut lines: Vec<String> = Vec::new();
        let notes = self.0.lock().unwrap();
        let calls = notes.get(session).map(Vec::as_slice).unwrap_or_default();
        let mut before = None;
        for (point, name) in calls {
            match lines.last_mut() {
                Some(line) if before == Some(point) => line.push_str(&format!(" {name}")),
                _ => lines.push(format!("{}: {name}", point.name())),
            }
            before = Some(point);
        }
        lines.join("\n")
    }
}

/// A hook of this name that is noted.
pub(crate) struct Noted<H> {
    pub(crate) hook: H,
    pub(crate) name: &'static str,
    pub(crate) notes: Notes,
}

impl<H> Noted<H> {
    fn note(&self, point: HookPoint, ctx: &TurnContext) {
        let mut notes = self.notes.0.lock().unwrap();
        notes.entry(ctx.session().clone()).or_default().push((point, self.name));
    }
}

macro_rules! noted {
    ($($point:ident $method:ident ($($ty:ty)?) -> $answer:ty;)*) => {
        $(impl<H: $point> $point for Noted<H> {
            async fn $method(&self, ctx: &TurnContext $(, with: $ty)?) -> Result<$answer, HookError> {
                self.note(HookPoint::$point, ctx);
                noted!(@call self $method ctx with $($ty)?).await
            }
        })*
    };
    (@call $self:ident $method:ident $ctx:ident $with:ident $ty:ty) => { $self.hook.$method($ctx, $with) };
    (@call $self:ident $method:ident $ctx:ident $with:ident) => { $self.hook.$method($ctx) };
}
noted! {
    BeforeGraph before_graph () -> ();
    AfterGraph after_graph (&AgentResult) -> ();
    FinallyGraph finally_graph (LegEnd<'_>) -> ();
    StartNodeTurn start_node_turn () -> ();
    EndNodeTurn end_node_turn () -> ();
    BeforeTurn before_turn () -> ();
    AfterTurn after_turn (&mut AgentResult) -> TurnAnswer;
    BeforeIteration before_iteration () -> ();
    AfterIteration after_iteration () -> ();
    BeforeToolExecution before_tool_execution (&[DecidedCall]) -> ();
    AfterToolExecution after_tool_execution (&[ToolResult]) -> ();
    BeforeLlm before_llm (&LlmRequest) -> ();
    AfterLlmResponse after_llm_response (&LlmResponse) -> ();
    AfterApproval after_approval (&ApprovalTransaction) -> ();
}

impl<H: FinalizeContent> FinalizeContent for Noted<H> {
    fn finalize_content(&self, ctx: &TurnContext, content: String) -> Result<String, HookError> {
        self.note(HookPoint::FinalizeContent, ctx);
        self.hook.finalize_content(ctx, content)
    }
}
