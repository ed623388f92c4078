//! The `task` tool: a parent has a subagent do something.

use std::{fmt::Write, sync::Arc, time::Duration};

use futures::StreamExt;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};
use turnwright_core::{
    AgentResult, ApprovalRequest, Concurrency, ErrorInfo, ErrorKind, LegOutcome, Message, Origin, Recovery,
    Role, StopReason, ToolDefinition,
};
use turnwright_react_runtime::{
    Agent, DecideError, Input, OnDrop, Parent, Session, StartError, TurnEventKind, TurnFinished, TurnHandle,
    tool::{IntoToolOutput, Tool, ToolContext, ToolError, ToolOutput, schema_of},
};

use super::{
    Crew,
    report::{Report, is_completed, without_thoughts},
    request::{Request, session_of},
};

/// What a parent asks of a subagent.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Task {
    /// Which subagent.
    pub(crate) agent: String,
    /// What it is to do, and all it must know for that: it sees nothing of this conversation.
    pub(crate) prompt: String,
    /// The invocation to go on with, as a report names it: it knows what was said there before. A new one by default.
    #[serde(default)]
    pub(crate) invocation: Option<String>,
    /// Do not wait for it: it works in the background, and its report comes later.
    #[serde(default)]
    pub(crate) detach: bool,
}

/// How often a call looks whether its turn is asked to stop, while its subagent says nothing.
const LOOK: Duration = Duration::from_millis(250);

/// Recorded events that are read at once.
const EVENTS: usize = 500;

impl Task {
    pub(crate) const NAME: &'static str = "task";
}

/// The tool. Of the agents in the crew it knows the names and what they are for before they are there.
pub(crate) struct TaskTool {
    pub(crate) crew: Arc<Crew>,
    /// Names, and what each is for.
    pub(crate) agents: Vec<(String, String)>,
    /// Whether there is work in the background.
    pub(crate) detach: bool,
}

impl Tool for TaskTool {
    fn definition(&self) -> ToolDefinition {
        let mut parameters = schema_of::<Task>();
        let names: Vec<&str> = self.agents.iter().map(|(name, _)| name.as_str()).collect();
        if let Some(agent) = parameters.pointer_mut("/properties/agent").and_then(Value::as_object_mut) {
            agent.insert("enum".into(), json!(names));
        }
        if let Some(properties) = parameters.get_mut("properties").and_then(Value::as_object_mut)
            && !self.detach
        {
            properties.remove("detach");
        }
        let mut description = String::from(
            "Has a subagent do something, and waits for its report. It works by itself and cannot ask you back; several \
             may work at once. The subagents:",
        );
        for (name, what_for) in &self.agents {
            let _ = write!(description, "\n- {name}: {what_for}");
        }
        ToolDefinition {
            name: Task::NAME.into(),
            description,
            parameters,
            source: Crew::SOURCE.into(),
            concurrency: Concurrency::Parallel,
            idempotent: false,
            timeout: None,
            idle_timeout: None,
            // The invocation is found again, so that nothing is asked twice.
            recovery: Some(Recovery::Rerun),
        }
    }

    async fn call(&self, ctx: ToolContext, arguments: String) -> Result<ToolOutput, ToolError> {
        let task: Task = serde_json::from_str(&arguments).map_err(|e| {
            let message = format!("the arguments do not fit the schema of \"task\": {e}");
            ToolError::info(ErrorInfo::new(ErrorKind::InvalidArguments, message))
        })?;
        if task.prompt.trim().is_empty() {
            let message = "the prompt is empty: say what is to be done";
            return Err(ToolError::info(ErrorInfo::new(ErrorKind::InvalidArguments, message)));
        }
        if task.detach && !self.detach {
            let message = "nothing works in the background here: leave out \"detach\"";
            return Err(ToolError::info(ErrorInfo::new(ErrorKind::InvalidArguments, message)));
        }
        // Whatever tools it was given: a star has one middle.
        if ctx.turn().parent().is_some() {
            return Err(ToolError::model("a subagent starts no subagents: do it yourself"));
        }
        let Some(agent) = self.crew.agent(&task.agent) else {
            let names: Vec<_> = self.agents.iter().map(|(name, _)| name.as_str()).collect();
            let message = format!("there is no subagent {:?}; these are: {}", task.agent, names.join(", "));
            return Err(ToolError::info(ErrorInfo::new(ErrorKind::InvalidArguments, message)));
        };
        let request = Request::of(ctx.turn(), ctx.call_id(), task.detach);
        let run = Run { crew: &self.crew, ctx: &ctx, agent, request, task };
        run.run().await?.into_output()
    }
}

/// One call under way.
struct Run<'a> {
    crew: &'a Crew,
    ctx: &'a ToolContext,
    agent: &'a Agent,
    request: Request,
    task: Task,
}

impl Run<'_> {
    async fn run(&self) -> Result<String, ToolError> {
        let (new, report) = (self.request.invocation(), self.request.report());
        let invocation = self.task.invocation.as_deref().unwrap_or(&new);
        let unknown = || {
            let message = format!("there is no invocation {invocation:?} of {:?} of yours", self.task.agent);
            ToolError::info(ErrorInfo::new(ErrorKind::InvalidArguments, message))
        };
        let id = session_of(invocation, &self.task.agent).ok_or_else(unknown)?;
        let session = self.agent.open_session(id).await.map_err(|e| ToolError::info(e.into()))?;
        if self.task.invocation.is_some()
            && Request::first(&session.messages()).is_none_or(|first| first.parent != self.request.parent)
        {
            return Err(unknown());
        }
        self.pass_on(&session).await?;
        loop {
            // Work in the background, or another call's, comes first.
            session.idle().await;
            let is_older = session.is_parked() && !self.has_begun(&session);
            let Some(handle) = self.next_leg(&session)? else { break };
            if self.task.detach {
                handle.detach();
                return Ok(format!(
                    "{} works in the background as invocation {invocation}. Its report comes when it is done.",
                    self.task.agent
                ));
            }
            match self.watch(handle).await {
                LegOutcome::Suspended { pending } => return Err(self.ask(pending)),
                LegOutcome::Drained if self.ctx.turn().is_drain_requested() => {
                    return Err(ToolError::stopped());
                }
                LegOutcome::Drained => {
                    let message = format!(
                        "{} was stopped before it was done. Call it again with invocation {invocation}",
                        self.task.agent
                    );
                    return Err(ToolError::info(ErrorInfo::new(ErrorKind::NotRun, message)));
                }
                // A leg that could not begin changed nothing, and would not begin the next time either.
                LegOutcome::Finished(result)
                    if session.is_parked() || !(is_older || self.has_begun(&session)) =>
                {
                    let unknown = || ErrorInfo::new(ErrorKind::Internal, "its turn could not begin");
                    return Err(ToolError::info(result.error.unwrap_or_else(unknown)));
                }
                // What it had been asked before is done, and its report comes by mail.
                LegOutcome::Finished(_) if is_older => {}
                LegOutcome::Finished(result) => {
                    let text = without_thoughts(&result.content);
                    let names = (&*self.task.agent, invocation, &*report);
                    return self.report(Report::of(names, &result, &text)).await;
                }
            }
        }
        // It ended in a process that is gone, or before this call was made again.
        let (result, is_known) = match self.recorded_end(&session).await? {
            Some(result) => (result, true),
            None => (self.guessed_end(&session), false),
        };
        let text = without_thoughts(&result.content);
        let mut otherwise = Report::of((&*self.task.agent, invocation, &*report), &result, &text);
        if !is_known {
            otherwise.stop_reason = "unknown".into();
        }
        self.report(otherwise).await
    }

    /// How the turn of this request ended, as the store has it.
    async fn recorded_end(&self, session: &Session) -> Result<Option<AgentResult>, ToolError> {
        // Of an earlier turn the last end says nothing.
        if Request::last(&session.messages()).as_ref() != Some(&self.request) {
            return Ok(None);
        }
        let (mut ended, mut after) = (None, 0);
        loop {
            let page = self.crew.store.events(session.id(), after, EVENTS).await;
            let page = page.map_err(|e| ToolError::info(e.into()))?;
            let Some(last) = page.last() else { return Ok(ended) };
            after = last.number;
            for event in page {
                let event = event.recorded.event;
                if event.get("type").is_some_and(|kind| kind == "turn_finished")
                    && let Ok(end) = serde_json::from_value::<TurnFinished>(event)
                    && let (true, Some(reason)) = (end.terminal, end.stop_reason)
                {
                    let mut result = AgentResult::new(end.content, reason);
                    result.error =
                        end.error.map(|error| ErrorInfo::new(ErrorKind::ToolFailed, error.message));
                    result.cancelled_by = end.cancelled_by;
                    ended = Some(result);
                }
            }
        }
    }

    /// What can be told of it by what was said after the request: not what others were answered before.
    fn guessed_end(&self, session: &Session) -> AgentResult {
        let (key, messages) = (self.request.key(), session.messages());
        let turn = messages.iter().skip_while(|message| message.key.as_ref() != Some(&key)).skip(1);
        let turn = turn.take_while(|m| m.role != Role::User || m.origin != Origin::Conversation);
        let answer = turn.filter(|message| message.role == Role::Assistant).last();
        let is_whole = |m: &Arc<Message>| m.interrupted.is_none() && m.tool_calls().next().is_none();
        let text = answer.map(|message| message.text()).unwrap_or_default();
        if answer.is_some_and(is_whole) {
            return AgentResult::new(text, StopReason::Completed);
        }
        let mut result = AgentResult::new(text, StopReason::Error);
        result.error = Some(ErrorInfo::new(ErrorKind::ToolFailed, "it ended, and how is not known"));
        result
    }

    /// What was decided at the parent is decided at the subagent.
    async fn pass_on(&self, session: &Session) -> Result<(), ToolError> {
        for decision in self.ctx.decisions() {
            match session.decide(decision).await {
                Ok(_) => {}
                Err(DecideError::Store(e)) => return Err(ToolError::info(e.into())),
                // It was passed on before a crash, or the question has expired: then it counts as denied there.
                Err(e) => tracing::debug!(session = %session.id(), "a decision was not taken: {e}"),
            }
        }
        Ok(())
    }

    /// The next leg towards an answer to this request; none when it is answered.
    fn next_leg(&self, session: &Session) -> Result<Option<TurnHandle>, ToolError> {
        let parent = self.parent();
        let started = match session.is_parked() {
            true => session.resume_under(parent),
            false if self.has_begun(session) => return Ok(None),
            false => {
                let input = Input::from(self.task.prompt.as_str()).key(self.request.key());
                session.start_under(parent, input)
            }
        };
        match started {
            Ok(handle) => Ok(Some(handle.on_drop(OnDrop::Interrupt))),
            Err(StartError::Undecided(_)) => Err(self.ask(session.pending())),
            Err(e) => Err(ToolError::model(format!("{} cannot work: {e}", self.task.agent))),
        }
    }

    fn parent(&self) -> Parent {
        let parent = self.ctx.as_parent();
        match self.task.detach {
            true => parent.detached(self.ctx.turn().run_cancel()),
            false => parent,
        }
    }

    fn has_begun(&self, session: &Session) -> bool {
        let key = self.request.key();
        session.messages().iter().any(|message| message.key.as_ref() == Some(&key))
    }

    fn ask(&self, mut pending: Vec<ApprovalRequest>) -> ToolError {
        for request in &mut pending {
            request.agent = Some(self.task.agent.clone());
        }
        ToolError::asks(pending)
    }

    /// Follows a leg to its end. What it does is shown at the parent, and it is asked to stop when the parent is.
    async fn watch(&self, mut handle: TurnHandle) -> LegOutcome {
        loop {
            let event = match tokio::time::timeout(LOOK, handle.next()).await {
                Ok(None) => return handle.outcome().await,
                Ok(Some(event)) => Some(event.kind),
                Err(_) => None,
            };
            if self.ctx.turn().is_drain_requested() {
                handle.drain();
            }
            let does = match event {
                Some(TurnEventKind::IterationStarted { iteration, .. }) => format!("iteration {iteration}"),
                Some(TurnEventKind::ToolCall(call)) => call.name,
                _ => continue,
            };
            // Refused when the call is over; then so is the leg.
            let _ = self.ctx.progress(format!("{}: {does}", self.task.agent));
        }
    }

    /// The report as it was sent is the result; what is said here stands in for one that was not.
    async fn report(&self, mut otherwise: Report<'_>) -> Result<String, ToolError> {
        let sent = self.crew.mailbox.find(&self.request.parent, otherwise.name).await;
        let words = match sent {
            Ok(Some(mail)) => mail.text,
            Ok(None) => otherwise.words(self.crew.chars),
            Err(e) => {
                otherwise.issues.push(format!("its report could not be read: {e}"));
                otherwise.words(self.crew.chars)
            }
        };
        match is_completed(&words) {
            true => Ok(words),
            false => Err(ToolError::info(ErrorInfo::new(ErrorKind::ToolFailed, words))),
        }
    }
}
