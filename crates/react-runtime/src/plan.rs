//! What an agent has registered, to read before it runs.

use std::{fmt, time::Duration};

use serde::Serialize;
use turnwright_hook::{PlannedHook, observe::PlannedObserver};
use turnwright_interceptor::{PlannedLayer, ScopeName, builtin::ToolTimeoutLimit};

use crate::{RecordName, agent::AgentInner, machine::Limits, tool::OnToolFailure};

/// The plan of an agent: order, powers, timeouts and policies. Prints as text; serializes as JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Plan {
    /// The agent.
    pub agent: String,
    /// The model.
    pub model: String,
    /// Hooks, in the order they run.
    pub hooks: Vec<PlannedHook>,
    /// Observers, in the order in which those of one record are told: of its kind, then of all kinds.
    pub observers: Vec<PlannedObserver<RecordName>>,
    /// Instrumentation, in the order it is called, before and after.
    pub instruments: Vec<&'static str>,
    /// Interceptors, scope by scope, outermost first.
    pub interceptors: Vec<PlannedLayer>,
    /// Who decides about tool calls: asked before any layer of `tool_call`, and its decision checked once more inside
    /// all of them. What a layer makes of a call cannot get past it; what it makes of a result is seen by the layers
    /// outside it only.
    pub gate: String,
    /// Tools, by name.
    pub tools: Vec<PlannedTool>,
    /// What the failure of a call means to the other calls of its answer.
    pub on_tool_failure: OnToolFailure,
    /// Limits of a turn.
    pub limits: Limits,
    /// Tools that may run at once.
    pub parallel_tools: usize,
    /// How long a leg may take, in milliseconds.
    pub deadline_ms: Option<u64>,
}

/// One tool of a plan.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedTool {
    /// Its name.
    pub name: String,
    /// Where it comes from.
    pub source: String,
    /// Whether it may run beside others.
    pub parallel: bool,
    /// How long a call may take, in milliseconds, as things stand now.
    pub timeout_ms: u64,
    /// How long it may go without progress, in milliseconds.
    pub idle_timeout_ms: Option<u64>,
}

impl Plan {
    pub(crate) fn of(agent: &AgentInner) -> Self {
        let millis = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        let mut interceptors = agent.interceptors.plan();
        let index = interceptors.iter().filter(|l| l.scope == ScopeName::ToolCall).count();
        let at = interceptors.partition_point(|l| l.scope <= ScopeName::ToolCall);
        let name = "tool_timeout".into();
        interceptors.insert(
            at,
            PlannedLayer { scope: ScopeName::ToolCall, index, name, inherited: false, gating: false },
        );
        let now = agent.tool_timeout_limit.as_ref().map(ToolTimeoutLimit::get);
        let least =
            |own: Option<Duration>| own.into_iter().chain(now).fold(agent.tool_timeout, Duration::min);
        let tool = |t: &crate::agent::RegisteredTool| PlannedTool {
            name: t.definition.name.clone(),
            source: t.definition.source.clone(),
            parallel: t.definition.concurrency == turnwright_core::Concurrency::Parallel,
            timeout_ms: millis(least(t.definition.timeout)),
            idle_timeout_ms: t.idle_timeout.map(millis),
        };
        Self {
            agent: agent.name.to_string(),
            model: format!("{:?}", agent.model),
            hooks: agent.hooks.plan(),
            observers: agent.observers.plan(),
            instruments: agent.instruments.plan(),
            interceptors,
            gate: agent.gate.dyn_name().into(),
            tools: agent.tools.values().map(tool).collect(),
            on_tool_failure: agent.on_tool_failure,
            limits: agent.limits,
            parallel_tools: agent.parallel_tools,
            deadline_ms: agent.deadline.map(millis),
        }
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "agent {} asks {}", self.agent, self.model)?;
        writeln!(f, "interceptors (outermost first)")?;
        for l in &self.interceptors {
            let inherited = if l.inherited { ", inherited" } else { "" };
            writeln!(f, "  {} {}: {}{inherited}", l.scope, l.index, l.name)?;
        }
        writeln!(f, "hooks (in the order they run)")?;
        for h in &self.hooks {
            let points: Vec<_> = h.points.iter().map(|p| p.name()).collect();
            writeln!(
                f,
                "  {} (priority {}, {} ms, on error {:?}): {}",
                h.name,
                h.priority,
                h.timeout_ms,
                h.on_error,
                points.join(", ")
            )?;
        }
        if !self.observers.is_empty() {
            writeln!(f, "observers (told of what was recorded, those of a kind first)")?;
        }
        for o in &self.observers {
            let of = o.of.map_or("all records".into(), |of| format!("{of:?}"));
            let how = o.queue.map_or("in the turn".into(), |n| format!("behind a queue of {n}"));
            writeln!(f, "  {} ({of}, {how})", o.name)?;
        }
        if !self.instruments.is_empty() {
            writeln!(f, "instruments (innermost, in the order they are called)")?;
        }
        for name in &self.instruments {
            writeln!(f, "  {name}")?;
        }
        writeln!(f, "gate (before all layers of tool_call, and checked again inside them)\n  {}", self.gate)?;
        writeln!(f, "tools (when one fails: {:?})", self.on_tool_failure)?;
        for t in &self.tools {
            let how = if t.parallel { "parallel" } else { "exclusive" };
            let idle = t.idle_timeout_ms.map(|ms| format!(", {ms} ms idle")).unwrap_or_default();
            writeln!(f, "  {} ({}, {how}, {} ms{idle})", t.name, t.source, t.timeout_ms)?;
        }
        let Limits { iterations, attempts, .. } = self.limits;
        writeln!(
            f,
            "limits: {iterations} iterations, {attempts} attempts, {} tools at once",
            self.parallel_tools
        )
    }
}
