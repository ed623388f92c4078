//! Whom `context_assembly` asks.

use turnwright_core::{BoxFuture, TurnContext};
use turnwright_hook::HookError;

use super::super::CoreMemory;

/// Knows something that the model should be told at the beginning of a turn.
pub trait ContextSource: Send + Sync + 'static {
    /// Its name: the heading of what it says.
    fn name(&self) -> &str;

    /// What it knows; empty when that is nothing.
    ///
    /// # Errors
    /// Why it cannot say. It is left out then, and the turn goes on; a control error ends the turn.
    ///
    /// # Cancel safety
    /// When the turn is cancelled, or after five seconds, its future is dropped at its current await.
    fn retrieve<'a>(&'a self, ctx: &'a TurnContext) -> BoxFuture<'a, Result<String, HookError>>;
}

impl ContextSource for CoreMemory {
    fn name(&self) -> &str {
        "Core memory"
    }

    fn retrieve<'a>(&'a self, _: &'a TurnContext) -> BoxFuture<'a, Result<String, HookError>> {
        Box::pin(async move { Ok(self.read().await?) })
    }
}

/// Instructions that are made anew for each turn: a source of [`ContextAssembly`](super::ContextAssembly) from a function.
pub struct DynamicInstructions<F> {
    name: String,
    make: F,
}

impl<F: Fn(&TurnContext) -> String + Send + Sync + 'static> DynamicInstructions<F> {
    /// Under this heading, by this function. It must not block.
    pub fn new(name: impl Into<String>, make: F) -> Self {
        Self { name: name.into(), make }
    }
}

impl<F: Fn(&TurnContext) -> String + Send + Sync + 'static> ContextSource for DynamicInstructions<F> {
    fn name(&self) -> &str {
        &self.name
    }

    fn retrieve<'a>(&'a self, ctx: &'a TurnContext) -> BoxFuture<'a, Result<String, HookError>> {
        Box::pin(async move { Ok((self.make)(ctx)) })
    }
}
