//! The object-safe twins of the point traits, and the hooks that are closures.

use turnwright_core::{AgentResult, ApprovalTransaction, BoxFuture, ToolResult, TurnContext};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use crate::{
    HookError, LegEnd,
    point::{
        AfterApproval, AfterGraph, AfterIteration, AfterLlmResponse, AfterToolExecution, AfterTurn,
        BeforeGraph, BeforeIteration, BeforeLlm, BeforeToolExecution, BeforeTurn, DecidedCall, EndNodeTurn,
        FinalizeContent, FinallyGraph, StartNodeTurn, TurnAnswer,
    },
};

/// A closure that stands for a hook of one point. Its future is boxed: a bound on `AsyncFn` could not say that it is
/// `Send`.
struct Closure<F>(F);

macro_rules! erase {
    ($($twin:ident: $point:ident $method:ident ($($arg:ident: $ty:ty)?) -> $out:ty;)*) => {
        $(
            /// The twin; implemented for every implementor, and for closures.
            pub(crate) trait $twin: Send + Sync {
                fn call<'a>(&'a self, ctx: &'a TurnContext $(, $arg: $ty)?) -> BoxFuture<'a, Result<$out, HookError>>;
            }
            impl<T: $point> $twin for T {
                fn call<'a>(&'a self, ctx: &'a TurnContext $(, $arg: $ty)?) -> BoxFuture<'a, Result<$out, HookError>> {
                    Box::pin(self.$method(ctx $(, $arg)?))
                }
            }
            impl<F> $twin for Closure<F>
            where
                F: for<'a> Fn(&'a TurnContext $(, $ty)?) -> BoxFuture<'a, Result<$out, HookError>> + Send + Sync,
            {
                fn call<'a>(&'a self, ctx: &'a TurnContext $(, $arg: $ty)?) -> BoxFuture<'a, Result<$out, HookError>> {
                    (self.0)(ctx $(, $arg)?)
                }
            }
        )*

        /// Hooks of one point from closures: one function a point, named as the method of its trait.
        ///
        /// ```
        /// use turnwright_hook::{HookPoint, on};
        ///
        /// let hook = on::before_turn(|ctx| {
        ///     Box::pin(async move {
        ///         println!("turn {}, attempt {}", ctx.turn(), ctx.attempt());
        ///         Ok(())
        ///     })
        /// });
        /// assert_eq!(hook.points(), [HookPoint::BeforeTurn]);
        /// ```
        ///
        /// The future is boxed by the closure, since it borrows from what the closure is given. What else it needs is
        /// cloned into it. The hook's name is the point's, unless [`HookSpec::name`](crate::HookSpec::name) gives
        /// another. A hook of several points is a type: see [`hook!`](crate::hook!).
        pub mod on {
            use std::sync::Arc;

            use super::*;
            use crate::{HookPoint, HookSpec};

            $(
                #[doc = concat!("A hook of [`", stringify!($point), "`].")]
                pub fn $method<F>(hook: F) -> HookSpec
                where
                    F: for<'a> Fn(&'a TurnContext $(, $ty)?) -> BoxFuture<'a, Result<$out, HookError>>,
                    F: Send + Sync + 'static,
                {
                    let mut spec = HookSpec::empty::<F>().name(HookPoint::$point.name());
                    spec.slots.$method = Some(Arc::new(Closure(hook)));
                    spec
                }
            )*

            /// A hook of [`FinalizeContent`]: synchronous, so without a future.
            pub fn finalize_content<F>(hook: F) -> HookSpec
            where
                F: Fn(&TurnContext, String) -> Result<String, HookError> + Send + Sync + 'static,
            {
                let mut spec = HookSpec::empty::<F>().name(HookPoint::FinalizeContent.name());
                spec.slots.finalize_content = Some(Arc::new(Closure(hook)));
                spec
            }
        }
    };
}
erase! {
    DynBeforeGraph: BeforeGraph before_graph () -> ();
    DynAfterGraph: AfterGraph after_graph (result: &'a AgentResult) -> ();
    DynFinallyGraph: FinallyGraph finally_graph (end: LegEnd<'a>) -> ();
    DynStartNodeTurn: StartNodeTurn start_node_turn () -> ();
    DynEndNodeTurn: EndNodeTurn end_node_turn () -> ();
    DynBeforeTurn: BeforeTurn before_turn () -> ();
    DynAfterTurn: AfterTurn after_turn (result: &'a mut AgentResult) -> TurnAnswer;
    DynBeforeIteration: BeforeIteration before_iteration () -> ();
    DynAfterIteration: AfterIteration after_iteration () -> ();
    DynBeforeToolExecution: BeforeToolExecution before_tool_execution (calls: &'a [DecidedCall]) -> ();
    DynAfterToolExecution: AfterToolExecution after_tool_execution (results: &'a [ToolResult]) -> ();
    DynBeforeLlm: BeforeLlm before_llm (request: &'a LlmRequest) -> ();
    DynAfterLlmResponse: AfterLlmResponse after_llm_response (response: &'a LlmResponse) -> ();
    DynAfterApproval: AfterApproval after_approval (transaction: &'a ApprovalTransaction) -> ();
}

impl<F> FinalizeContent for Closure<F>
where
    F: Fn(&TurnContext, String) -> Result<String, HookError> + Send + Sync + 'static,
{
    fn finalize_content(&self, ctx: &TurnContext, content: String) -> Result<String, HookError> {
        (self.0)(ctx, content)
    }
}
