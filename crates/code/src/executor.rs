//! Who runs a cell.

use turnwright_core::{BoxFuture, CodeCell, CodeResult, ErrorInfo};
use turnwright_react_runtime::tool::ToolContext;

/// Runs code cells. One executor serves any number of sessions at once.
///
/// # Cancel safety
/// The future of [`execute`](CodeExecutor::execute) is dropped when the call is cancelled and when its deadline passes.
/// Whatever the cell began must end with it.
pub trait CodeExecutor: Send + Sync + 'static {
    /// What it runs, for example `python`: the [`CodeCell::language`] of its cells.
    fn language(&self) -> &str;

    /// What the model must know to write cells: what there is, what stays between them, and the limits.
    fn describe(&self) -> String;

    /// Runs a cell of the call's session. A cell that fails is a result with an error.
    ///
    /// # Errors
    /// An error says that the cell did not run at all.
    fn execute(
        &self,
        ctx: &ToolContext,
        cell: CodeCell,
    ) -> impl Future<Output = Result<CodeResult, ErrorInfo>> + Send;
}

/// The object-safe twin of [`CodeExecutor`]; implemented for every executor.
pub trait DynCodeExecutor: Send + Sync {
    /// As [`CodeExecutor::language`].
    fn dyn_language(&self) -> &str;

    /// As [`CodeExecutor::describe`].
    fn dyn_describe(&self) -> String;

    /// As [`CodeExecutor::execute`], boxed.
    fn dyn_execute<'a>(
        &'a self,
        ctx: &'a ToolContext,
        cell: CodeCell,
    ) -> BoxFuture<'a, Result<CodeResult, ErrorInfo>>;
}

impl<E: CodeExecutor> DynCodeExecutor for E {
    fn dyn_language(&self) -> &str {
        self.language()
    }

    fn dyn_describe(&self) -> String {
        self.describe()
    }

    fn dyn_execute<'a>(
        &'a self,
        ctx: &'a ToolContext,
        cell: CodeCell,
    ) -> BoxFuture<'a, Result<CodeResult, ErrorInfo>> {
        Box::pin(self.execute(ctx, cell))
    }
}
