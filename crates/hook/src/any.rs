//! Finding out at compile time which points a type implements.
//!
//! An inherent method whose bound holds beats a trait method of the same name: [`__probe::Probe`] has an inherent
//! method a point, bounded on the point's trait, and [`__probe::Absent`] has the fall-back that does nothing.

use std::sync::Arc;

use crate::HookSpec;

/// A type that knows its points: what generic code bounds on, and what `Box<dyn AnyHook>` holds. Written by
/// [`crate::hook_points!`], once, beside the impls of the points.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not registered as a hook",
    label = "this type does not say which points it implements",
    note = "write `hook_points!({Self});` beside its impls, or pass `hook!(value)`"
)]
pub trait AnyHook: Send + Sync + 'static {
    /// The registration, with every point the type implements.
    fn into_spec(self: Arc<Self>) -> HookSpec;
}

impl From<Box<dyn AnyHook>> for HookSpec {
    fn from(hook: Box<dyn AnyHook>) -> Self {
        Arc::<dyn AnyHook>::from(hook).into_spec()
    }
}

impl<T: AnyHook> From<T> for HookSpec {
    fn from(hook: T) -> Self {
        Arc::new(hook).into_spec()
    }
}

#[doc(hidden)]
pub mod __probe {
    use std::sync::Arc;

    pub use turnwright_core::__probe::{Found, No, Yes};

    use crate::{
        HookSpec,
        point::{
            AfterApproval, AfterGraph, AfterIteration, AfterLlmResponse, AfterToolExecution, AfterTurn,
            BeforeGraph, BeforeIteration, BeforeLlm, BeforeToolExecution, BeforeTurn, EndNodeTurn,
            FinalizeContent, FinallyGraph, StartNodeTurn,
        },
    };

    pub struct Probe<T>(pub Arc<T>);

    impl<T> Probe<T> {
        pub fn spec(&self) -> HookSpec {
            HookSpec::empty::<T>()
        }
    }

    macro_rules! probe {
        ($($point:ident $method:ident;)*) => {
            $(
                impl<T: $point> Probe<T> {
                    pub fn $method(&self, spec: &mut HookSpec) -> Yes {
                        spec.slots.$method = Some(self.0.clone());
                        Yes
                    }
                }
            )*
            pub trait Absent {
                $(
                    fn $method(&self, _: &mut HookSpec) -> No {
                        No
                    }
                )*
            }
        };
    }
    probe! {
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
    impl<T> Absent for Probe<T> {}

    #[diagnostic::on_unimplemented(
        message = "`{T}` implements none of the hook points",
        label = "this value is no hook",
        note = "implement at least one trait of `turnwright::hook::point` for `{T}`, for example `BeforeTurn`",
        note = "in generic code `hook!` sees only the bounds in scope: bound on `AnyHook` or use `HookSpec::builder(hook)` there"
    )]
    pub trait SomePoint<T> {}
    impl<T> SomePoint<T> for Yes {}
    pub fn require<T, A: SomePoint<T>>(_: &Probe<T>, _: Found<A>) {}
}

/// Registers a value as a hook, with every point its type implements. Does not compile when it implements none. For
/// concrete types; in generic code it sees only the bounds in scope (see [`hook_points!`](crate::hook_points)).
#[macro_export]
macro_rules! hook {
    ($hook:expr $(,)?) => {
        $crate::__hook_spec!(::std::sync::Arc::new($hook))
    };
}

/// Makes a type an [`AnyHook`](crate::AnyHook), so that generic code and `Box<dyn AnyHook>` keep all its points. Write
/// it once, beside the impls: `hook_points!(MyHook);`, or for a generic type `hook_points!(<T: Bound> MyHook<T>);`.
#[macro_export]
macro_rules! hook_points {
    (<$($param:ident $(: $bound:path)?),+ $(,)?> $hook:ty) => {
        impl<$($param $(: $bound)?),+> $crate::AnyHook for $hook {
            fn into_spec(self: ::std::sync::Arc<Self>) -> $crate::HookSpec {
                $crate::__hook_spec!(self)
            }
        }
    };
    ($hook:ty) => {
        impl $crate::AnyHook for $hook {
            fn into_spec(self: ::std::sync::Arc<Self>) -> $crate::HookSpec {
                $crate::__hook_spec!(self)
            }
        }
    };
}

#[doc(hidden)]
#[macro_export]
macro_rules! __hook_spec {
    ($arc:expr) => {{
        use $crate::__probe::Absent;
        // Counts as a use of the import also when the type implements every point.
        fn fall_back<T: Absent>(_: &T) {}
        let probe = $crate::__probe::Probe($arc);
        fall_back(&probe);
        let mut spec = probe.spec();
        let found = $crate::__probe::Found::NOTHING
            .or(probe.before_graph(&mut spec))
            .or(probe.after_graph(&mut spec))
            .or(probe.finally_graph(&mut spec))
            .or(probe.start_node_turn(&mut spec))
            .or(probe.end_node_turn(&mut spec))
            .or(probe.before_turn(&mut spec))
            .or(probe.after_turn(&mut spec))
            .or(probe.before_iteration(&mut spec))
            .or(probe.after_iteration(&mut spec))
            .or(probe.before_tool_execution(&mut spec))
            .or(probe.after_tool_execution(&mut spec))
            .or(probe.before_llm(&mut spec))
            .or(probe.after_llm_response(&mut spec))
            .or(probe.finalize_content(&mut spec))
            .or(probe.after_approval(&mut spec));
        $crate::__probe::require(&probe, found);
        spec
    }};
}
