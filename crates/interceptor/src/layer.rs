//! A layer as a value: the scopes its type wraps, found out at compile time.

use std::{any::type_name, sync::Arc};

use crate::{
    Interceptors, Registration, ScopeName, UnknownScope,
    chain::DynAround,
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
        let path = type_name::<T>();
        let head = path.split('<').next().unwrap_or(path);
        let short = head.rsplit("::").next().unwrap_or(head);
        Self { name: short.into(), inherited: false, slots: Slots::default() }
    }

    /// The same layer under another name. The default is the name of its type.
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
    /// Registers a layer at every scope it wraps, innermost so far in each.
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

#[doc(hidden)]
pub mod __probe {
    use std::{marker::PhantomData, sync::Arc};

    use crate::{Around, AroundStream, LayerSpec, scope};

    pub struct Probe<T>(pub Arc<T>);
    pub struct Yes;
    pub struct No;

    impl<T> Probe<T> {
        pub fn spec(&self) -> LayerSpec {
            LayerSpec::empty::<T>()
        }
    }

    macro_rules! probe {
        ($($method:ident: $bound:path;)*) => {
            $(
                impl<T: $bound> Probe<T> {
                    pub fn $method(&self, spec: &mut LayerSpec) -> Yes {
                        spec.slots.$method = Some(self.0.clone());
                        Yes
                    }
                }
            )*
            pub trait Absent {
                $(
                    fn $method(&self, _: &mut LayerSpec) -> No {
                        No
                    }
                )*
            }
        };
    }
    probe! {
        agent_run: Around<scope::AgentRun>;
        turn: Around<scope::Turn>;
        iteration: Around<scope::Iteration>;
        llm_call: Around<scope::LlmCall>;
        llm_stream: AroundStream;
        tool_call: Around<scope::ToolCall>;
        execute_code: Around<scope::ExecuteCode>;
    }
    impl<T> Absent for Probe<T> {}

    /// Yes if either is.
    pub trait Or<B> {
        type Out;
    }
    impl<B> Or<B> for Yes {
        type Out = Yes;
    }
    impl<B> Or<B> for No {
        type Out = B;
    }
    pub struct Found<A>(pub PhantomData<A>);
    impl<A> Found<A> {
        pub fn or<B>(self, _: B) -> Found<A::Out>
        where
            A: Or<B>,
        {
            Found(PhantomData)
        }
    }

    #[diagnostic::on_unimplemented(
        message = "`{T}` wraps none of the interceptor scopes",
        label = "this value is no interceptor",
        note = "implement `Around<scope::ToolCall>` (or another scope) or `AroundStream` for `{T}`",
        note = "in generic code `interceptor!` sees only the bounds in scope: register at the chain itself there"
    )]
    pub trait SomeScope<T> {}
    impl<T> SomeScope<T> for Yes {}
    pub fn require<T, A: SomeScope<T>>(_: &Probe<T>, _: Found<A>) {}
}

/// Makes a value a [`LayerSpec`](crate::LayerSpec) with every scope its type wraps. Does not compile when it wraps
/// none. For concrete types; in generic code it sees only the bounds in scope, so register at the chain itself there.
#[macro_export]
macro_rules! interceptor {
    ($layer:expr $(,)?) => {{
        use $crate::__probe::Absent;
        // Counts as a use of the import also when the type wraps every scope.
        fn fall_back<T: Absent>(_: &T) {}
        let probe = $crate::__probe::Probe(::std::sync::Arc::new($layer));
        fall_back(&probe);
        let mut spec = probe.spec();
        let found = $crate::__probe::Found::<$crate::__probe::No>(::std::marker::PhantomData)
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
