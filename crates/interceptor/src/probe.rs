//! How [`interceptor!`](crate::interceptor!) finds out the scopes of a type: an inherent method where it wraps one, a
//! trait's method where not.

use std::sync::Arc;

pub use turnwright_core::__probe::{Found, No, Yes};

use crate::{Around, AroundStream, LayerSpec, scope};

pub struct Probe<T>(pub Arc<T>);

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

#[diagnostic::on_unimplemented(
    message = "`{T}` wraps none of the interceptor scopes",
    label = "this value is no interceptor",
    note = "implement `Around<scope::ToolCall>` (or another scope) or `AroundStream` for `{T}`",
    note = "in generic code `interceptor!` sees only the bounds in scope: register at the chain itself there"
)]
pub trait SomeScope<T> {}
impl<T> SomeScope<T> for Yes {}
pub fn require<T, A: SomeScope<T>>(_: &Probe<T>, _: Found<A>) {}
