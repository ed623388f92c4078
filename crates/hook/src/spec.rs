//! Registration of a hook.

use std::{marker::PhantomData, sync::Arc, time::Duration};

use serde::{Deserialize, Serialize};
use turnwright_core::short_name;

use crate::{
    HookPoint,
    erased::*,
    point::{
        AfterApproval, AfterGraph, AfterIteration, AfterLlmResponse, AfterToolExecution, AfterTurn,
        BeforeGraph, BeforeIteration, BeforeLlm, BeforeToolExecution, BeforeTurn, EndNodeTurn,
        FinalizeContent, FinallyGraph, StartNodeTurn,
    },
};

/// What happens when a hook fails, that is returns an error, panics or runs out of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorPolicy {
    /// Nothing; noted at debug level.
    Ignore,
    /// The turn goes on; a warning is logged and an event emitted.
    #[default]
    Log,
    /// The turn ends with a policy violation that names the hook and the point. Where the turn's fate is settled already
    /// (FINALIZE_CONTENT, END_NODE_TURN, AFTER_GRAPH, FINALLY_GRAPH, and every point of an unwinding) it acts as `Log`.
    Abort,
}

/// A hook, ready to be registered: what it does at which points, its name, priority, policy and timeout. Cheap to
/// clone; clones share the hook.
#[derive(Clone)]
pub struct HookSpec {
    pub(crate) name: Arc<str>,
    pub(crate) priority: i32,
    pub(crate) policy: ErrorPolicy,
    pub(crate) timeout: Duration,
    pub(crate) slots: Slots,
}

/// One optional face a point.
#[derive(Clone, Default)]
pub(crate) struct Slots {
    pub(crate) before_graph: Option<Arc<dyn DynBeforeGraph>>,
    pub(crate) after_graph: Option<Arc<dyn DynAfterGraph>>,
    pub(crate) finally_graph: Option<Arc<dyn DynFinallyGraph>>,
    pub(crate) start_node_turn: Option<Arc<dyn DynStartNodeTurn>>,
    pub(crate) end_node_turn: Option<Arc<dyn DynEndNodeTurn>>,
    pub(crate) before_turn: Option<Arc<dyn DynBeforeTurn>>,
    pub(crate) after_turn: Option<Arc<dyn DynAfterTurn>>,
    pub(crate) before_iteration: Option<Arc<dyn DynBeforeIteration>>,
    pub(crate) after_iteration: Option<Arc<dyn DynAfterIteration>>,
    pub(crate) before_tool_execution: Option<Arc<dyn DynBeforeToolExecution>>,
    pub(crate) after_tool_execution: Option<Arc<dyn DynAfterToolExecution>>,
    pub(crate) before_llm: Option<Arc<dyn DynBeforeLlm>>,
    pub(crate) after_llm_response: Option<Arc<dyn DynAfterLlmResponse>>,
    pub(crate) finalize_content: Option<Arc<dyn FinalizeContent>>,
    pub(crate) after_approval: Option<Arc<dyn DynAfterApproval>>,
}

impl HookSpec {
    /// How long a hook may take, unless its spec or the dispatch says otherwise (the seed's ten seconds). Timeouts act
    /// at await points: code that blocks inside one poll delays its own leg and nothing else.
    pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

    pub(crate) fn empty<T: ?Sized>() -> Self {
        Self {
            name: short_name::<T>().into(),
            priority: 0,
            policy: ErrorPolicy::default(),
            timeout: Self::DEFAULT_TIMEOUT,
            slots: Slots::default(),
        }
    }

    /// Registers a hook point by point, each checked against a bound: for generic code.
    pub fn builder<T>(hook: T) -> HookBuilder<T, NoPoint> {
        HookBuilder { hook: Arc::new(hook), spec: Self::empty::<T>(), state: PhantomData }
    }

    /// The same hook under another name. The default is the name of its type.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// The same hook with another priority: lower runs first, 0 by default, equal ones in registration order.
    #[must_use]
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// The same hook with another error policy; [`ErrorPolicy::Log`] by default.
    #[must_use]
    pub fn on_error(mut self, policy: ErrorPolicy) -> Self {
        self.policy = policy;
        self
    }

    /// The same hook with another timeout a call; [`Self::DEFAULT_TIMEOUT`] by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Its name in plans, traces and failures.
    pub fn hook_name(&self) -> &str {
        &self.name
    }

    /// The points it listens to, in the order of a turn.
    pub fn points(&self) -> Vec<HookPoint> {
        let s = &self.slots;
        let heard = |point: &HookPoint| match point {
            HookPoint::BeforeGraph => s.before_graph.is_some(),
            HookPoint::AfterGraph => s.after_graph.is_some(),
            HookPoint::FinallyGraph => s.finally_graph.is_some(),
            HookPoint::StartNodeTurn => s.start_node_turn.is_some(),
            HookPoint::EndNodeTurn => s.end_node_turn.is_some(),
            HookPoint::BeforeTurn => s.before_turn.is_some(),
            HookPoint::AfterTurn => s.after_turn.is_some(),
            HookPoint::BeforeIteration => s.before_iteration.is_some(),
            HookPoint::AfterIteration => s.after_iteration.is_some(),
            HookPoint::BeforeToolExecution => s.before_tool_execution.is_some(),
            HookPoint::AfterToolExecution => s.after_tool_execution.is_some(),
            HookPoint::BeforeLlm => s.before_llm.is_some(),
            HookPoint::AfterLlmResponse => s.after_llm_response.is_some(),
            HookPoint::FinalizeContent => s.finalize_content.is_some(),
            HookPoint::AfterApproval => s.after_approval.is_some(),
        };
        HookPoint::ALL.into_iter().filter(heard).collect()
    }
}

impl std::fmt::Debug for HookSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HookSpec")
            .field("name", &self.name)
            .field("priority", &self.priority)
            .field("points", &self.points())
            .finish_non_exhaustive()
    }
}

/// State of a [`HookBuilder`]: no point yet, so that it cannot be built.
#[derive(Debug)]
pub enum NoPoint {}
/// State of a [`HookBuilder`]: at least one point.
#[derive(Debug)]
pub enum HasPoint {}

/// Registers a hook point by point. It cannot lose a point silently, but can forget one: prefer [`crate::hook!`] for
/// concrete types.
#[must_use]
pub struct HookBuilder<T, S> {
    hook: Arc<T>,
    spec: HookSpec,
    state: PhantomData<S>,
}

macro_rules! builder_points {
    ($($point:ident $method:ident;)*) => {
        impl<T, S> HookBuilder<T, S> {
            $(
                #[doc = concat!("Listens to [`", stringify!($point), "`].")]
                pub fn $method(mut self) -> HookBuilder<T, HasPoint>
                where
                    T: $point,
                {
                    self.spec.slots.$method = Some(self.hook.clone());
                    HookBuilder { hook: self.hook, spec: self.spec, state: PhantomData }
                }
            )*
        }
    };
}
builder_points! {
    BeforeGraph before_graph;
    AfterGraph after_graph;
    FinallyGraph finally_graph;
    StartNodeTurn start_node_turn;
    EndNodeTurn end_node_turn;
    BeforeTurn before_turn;
    AfterTurn after_turn;
    BeforeIteration before_iteration;
    AfterIteration after_iteration;
    BeforeToolExecution before_tool_execution;
    AfterToolExecution after_tool_execution;
    BeforeLlm before_llm;
    AfterLlmResponse after_llm_response;
    FinalizeContent finalize_content;
    AfterApproval after_approval;
}

impl<T> HookBuilder<T, HasPoint> {
    /// The registration.
    pub fn build(self) -> HookSpec {
        self.spec
    }
}
