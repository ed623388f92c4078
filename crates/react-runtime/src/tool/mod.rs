//! Tools: typed async functions with a derived schema.
//!
//! ```
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use turnwright_react_runtime::tool::tool;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct City { name: String }
//!
//! let weather = tool("weather", "The weather in a city", async |_ctx, city: City| {
//!     Ok(format!("sunny in {}", city.name))
//! });
//! # use turnwright_react_runtime::tool::Tool;
//! assert_eq!(weather.definition().name, "weather");
//! ```
//!
//! A tool's error goes back to the model. Two kinds of error do not: [`ToolError::abort`] ends the turn as failed, and
//! a control error ends it with its own stop reason.

mod blocking;
mod context;
mod desk;
mod error;
mod failure;
mod function;
mod output;

use turnwright_core::{BoxFuture, ToolDefinition};

pub(crate) use blocking::BlockingPool;
pub(crate) use context::CallSink;
pub(crate) use context::Fence;
pub use context::{Fenced, ToolContext};
pub(crate) use desk::{Asked, Desk};
pub(crate) use error::Kind as ToolErrorKind;
pub use error::{OrAbort, ToolError};
pub use failure::OnToolFailure;
pub use function::{FunctionTool, schema_of, tool};
pub use output::{IntoToolOutput, Json, ToolOutput};

/// A tool. [`tool`] makes one from a function; implement this for tools whose definition is not known at compile time.
///
/// # Cancel safety
/// The future is dropped when the turn is cancelled and when its deadline passes. What the tool began outside must stop
/// with it, or be fenced: see [`ToolContext`].
pub trait Tool: Send + Sync + 'static {
    /// Its definition. Read once, when the agent is built.
    fn definition(&self) -> ToolDefinition;

    /// Runs a call. The arguments are valid JSON text.
    fn call(
        &self,
        ctx: ToolContext,
        arguments: String,
    ) -> impl Future<Output = Result<ToolOutput, ToolError>> + Send;
}

/// The object-safe twin of [`Tool`]; implemented for every tool.
pub trait DynTool: Send + Sync {
    /// As [`Tool::definition`].
    fn dyn_definition(&self) -> ToolDefinition;

    /// As [`Tool::call`], boxed; with the same cancel safety.
    fn dyn_call(&self, ctx: ToolContext, arguments: String) -> BoxFuture<'_, Result<ToolOutput, ToolError>>;
}

impl<T: Tool> DynTool for T {
    fn dyn_definition(&self) -> ToolDefinition {
        self.definition()
    }

    fn dyn_call(&self, ctx: ToolContext, arguments: String) -> BoxFuture<'_, Result<ToolOutput, ToolError>> {
        Box::pin(self.call(ctx, arguments))
    }
}
