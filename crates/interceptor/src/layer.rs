//! A layer as a value: the scopes its type wraps, found out at compile time.

use std::sync::Arc;

use turnwright_core::short_name;

use crate::{
    Interceptors, Registration, ScopeName, UnknownScope,
    erased::DynAround,
    scope::{AgentRun, ExecuteCode, Iteration, LlmCall, ToolCall, Turn},
    stream::DynAroundStream,
};

/// A layer, ready to be registered at every scope its type wraps. Made by [`crate::interceptor!`]; cheap to clone.
#[derive(Clone)]
pub struct LayerSpec {
    pub(crate) name: Arc<str>,
    pub(crate) inherited: bool,
    pub(crate) slots: Slots,
}

#[derive(Clone, Default)]
pub(crate) struct Slots {
    pub(crate) agent_run: Option<Arc<dyn DynAround<AgentRun>>>,
    pub(crate) turn: Option<Arc<dyn DynAround<Turn>>>,
    pub(crate) iteration: Option<Arc<dyn DynAround<Iteration>>>,
    pub(crate) llm_call: Option<Arc<dyn DynAround<LlmCall>>>,
    pub(crate) llm_stream: Option<Arc<dyn DynAroundStream>>,
    pub(crate) tool_call: Option<Arc<dyn DynAround<ToolCall>>>,
    pub(crate) execute_code: Option<Arc<dyn DynAround<ExecuteCode>>>,
}

impl LayerSpec {
    pub(crate) fn empty<T: ?Sized>() -> Self {
        Self { name: short_name::<T>().into(), inherited: false, slots: Slots::default() }
    }

    /// The same layer under another name, which plans and failures show. The default is the name of its type.
    #[must_use]
    pub fn name(mut self, name: impl Into<Arc<str>>) -> Self {
        self.name = name.into();
        self
    }

    /// The same layer, standing outside the own layers of every agent this one starts: for policy, redaction, limits.
    #[must_use]
    pub fn inherited(mut self) -> Self {
        self.inherited = true;
        self
    }

    /// The scopes it wraps.
    pub fn scopes(&self) -> Vec<ScopeName> {
        let s = &self.slots;
        let wraps = |scope: &ScopeName| match scope {
            ScopeName::AgentRun => s.agent_run.is_some(),
            ScopeName::Turn => s.turn.is_some(),
            ScopeName::Iteration => s.iteration.is_some(),
            ScopeName::LlmCall => s.llm_call.is_some(),
            ScopeName::LlmStream => s.llm_stream.is_some(),
            ScopeName::ToolCall => s.tool_call.is_some(),
            ScopeName::ExecuteCode => s.execute_code.is_some(),
        };
        ScopeName::ALL.into_iter().filter(wraps).collect()
    }
}

impl std::fmt::Debug for LayerSpec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LayerSpec")
            .field("name", &self.name)
            .field("scopes", &self.scopes())
            .finish_non_exhaustive()
    }
}

/// Why a layer was not registered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegisterError {
    /// The name names no wired scope.
    #[error(transparent)]
    Scope(#[from] UnknownScope),
    /// The layer does not wrap that scope.
    #[error("the layer {layer:?} does not wrap {scope}; it wraps {wraps}")]
    NotWrapped {
        /// The layer.
        layer: String,
        /// The scope that was asked for.
        scope: ScopeName,
        /// The scopes it wraps.
        wraps: String,
    },
}

impl Interceptors {
    /// Registers a layer at every scope it wraps, innermost so far in each. Scope by scope, outermost first, and not
    /// in one step: what runs meanwhile may meet the layer in some of them only, and removing is the same.
    pub fn register(&self, layer: LayerSpec) -> Registration {
        let LayerSpec { name, inherited, slots } = layer;
        let mut all: Option<Registration> = None;
        let mut note = |registration: Registration| {
            all = Some(match all.take() {
                Some(before) => before.and(registration),
                None => registration,
            });
        };
        macro_rules! push {
            ($($scope:ident)*) => {
                $(if let Some(layer) = slots.$scope {
                    note(self.$scope.0.push(name.clone(), inherited, layer));
                })*
            };
        }
        push!(agent_run turn iteration llm_call llm_stream tool_call execute_code);
        all.unwrap_or_else(|| Registration::new(|| {}))
    }

    /// Registers a layer at one scope, by name: for configuration.
    ///
    /// # Errors
    /// [`RegisterError`] when the name is reserved or unknown (naming the wired ones), or the layer does not wrap it.
    pub fn register_at(&self, scope: &str, layer: LayerSpec) -> Result<Registration, RegisterError> {
        let scope: ScopeName = scope.parse()?;
        if !layer.scopes().contains(&scope) {
            let wraps: Vec<_> = layer.scopes().iter().map(|s| s.name()).collect();
            return Err(RegisterError::NotWrapped {
                layer: layer.name.to_string(),
                scope,
                wraps: wraps.join(", "),
            });
        }
        let LayerSpec { name, inherited, slots } = layer;
        let mut one = Slots::default();
        match scope {
            ScopeName::AgentRun => one.agent_run = slots.agent_run,
            ScopeName::Turn => one.turn = slots.turn,
            ScopeName::Iteration => one.iteration = slots.iteration,
            ScopeName::LlmCall => one.llm_call = slots.llm_call,
            ScopeName::LlmStream => one.llm_stream = slots.llm_stream,
            ScopeName::ToolCall => one.tool_call = slots.tool_call,
            ScopeName::ExecuteCode => one.execute_code = slots.execute_code,
        }
        Ok(self.register(LayerSpec { name, inherited, slots: one }))
    }
}

/// Makes a value a [`LayerSpec`](crate::LayerSpec) with every scope its type wraps. Does not compile when it wraps
/// none. For concrete types; in generic code it sees only the bounds in scope, so register at the chain itself there,
/// with [`Chain::register_as`](crate::Chain::register_as).
#[macro_export]
macro_rules! interceptor {
    ($layer:expr $(,)?) => {{
        use $crate::__probe::Absent;
        // Counts as a use of the import also when the type wraps every scope.
        fn fall_back<T: Absent>(_: &T) {}
        let probe = $crate::__probe::Probe(::std::sync::Arc::new($layer));
        fall_back(&probe);
        let mut spec = probe.spec();
        let found = $crate::__probe::Found::NOTHING
            .or(probe.agent_run(&mut spec))
            .or(probe.turn(&mut spec))
            .or(probe.iteration(&mut spec))
            .or(probe.llm_call(&mut spec))
            .or(probe.llm_stream(&mut spec))
            .or(probe.tool_call(&mut spec))
            .or(probe.execute_code(&mut spec));
        $crate::__probe::require(&probe, found);
        spec
    }};
}
