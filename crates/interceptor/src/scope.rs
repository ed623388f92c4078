//! The call boundaries that can be wrapped.

use turnwright_core::{
    CallId, CodeCell, CodeResult, ErrorInfo, ErrorKind, IterationEnd, LegOutcome, Part, ToolResult,
};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use crate::ScopeName;

/// A call boundary: what goes in, what comes out, and how a failure becomes an output. The markers of this module are
/// the six call scopes; the stream inside a model call is wrapped by [`crate::AroundStream`].
pub trait Scope: Send + Sync + 'static {
    /// What a layer is given and may change.
    type In: Send + 'static;
    /// What a layer returns. The return type is the output, so a short-circuit cannot forget it.
    type Out: Send + 'static;
    /// What must survive the input being moved into a layer.
    type Key: Send + Sync + 'static;
    /// The scope.
    const NAME: ScopeName;
    /// Whether a layer may call the rest more than once at all.
    const REPLAYABLE: bool;

    /// The key of an input.
    fn key(input: &Self::In) -> Self::Key;

    /// How a failure leaves each layer.
    ///
    /// # Errors
    /// The failure itself, in scopes whose output cannot express one.
    fn settle(_key: &Self::Key, error: ErrorInfo) -> Result<Self::Out, ErrorInfo> {
        Err(error)
    }

    /// Whether an input that a layer hands on is one for this call. If not, nothing inside the layer runs.
    ///
    /// # Errors
    /// What is wrong with it; the name of the layer is put before the message.
    fn check_input(_key: &Self::Key, _input: &Self::In) -> Result<(), ErrorInfo> {
        Ok(())
    }

    /// Whether an output is legal for its key.
    ///
    /// # Errors
    /// What is wrong with it; the name of who gave it is put before the message.
    fn check(_key: &Self::Key, _out: &Self::Out) -> Result<(), ErrorInfo> {
        Ok(())
    }
}

/// One call of an agent by a caller. A resumed leg enters it anew.
#[derive(Debug)]
pub enum AgentRun {}
/// One leg of a turn.
#[derive(Debug)]
pub enum Turn {}
/// One iteration.
#[derive(Debug)]
pub enum Iteration {}
/// One logical model call.
#[derive(Debug)]
pub enum LlmCall {}
/// One tool execution.
#[derive(Debug)]
pub enum ToolCall {}
/// One code cell.
#[derive(Debug)]
pub enum ExecuteCode {}

impl Scope for AgentRun {
    type In = Vec<Part>;
    type Out = LegOutcome;
    type Key = ();
    const NAME: ScopeName = ScopeName::AgentRun;
    const REPLAYABLE: bool = false;
    fn key(_: &Self::In) {}
}

impl Scope for Turn {
    type In = ();
    type Out = LegOutcome;
    type Key = ();
    const NAME: ScopeName = ScopeName::Turn;
    const REPLAYABLE: bool = false;
    fn key(_: &Self::In) {}
}

impl Scope for Iteration {
    type In = u32;
    type Out = IterationEnd;
    type Key = ();
    const NAME: ScopeName = ScopeName::Iteration;
    const REPLAYABLE: bool = false;
    fn key(_: &Self::In) {}
}

impl Scope for LlmCall {
    type In = LlmRequest;
    type Out = LlmResponse;
    type Key = ();
    const NAME: ScopeName = ScopeName::LlmCall;
    const REPLAYABLE: bool = true;
    fn key(_: &Self::In) {}
}

impl Scope for ToolCall {
    type In = turnwright_core::ToolCall;
    type Out = ToolResult;
    type Key = turnwright_core::ToolCall;
    const NAME: ScopeName = ScopeName::ToolCall;
    const REPLAYABLE: bool = true;

    fn key(input: &Self::In) -> Self::Key {
        // Only id and name are needed, so the arguments are not copied.
        turnwright_core::ToolCall::new(input.id.clone(), input.name.clone(), String::new())
    }

    fn settle(key: &Self::Key, error: ErrorInfo) -> Result<ToolResult, ErrorInfo> {
        Ok(ToolResult::error(key, error))
    }

    fn check_input(key: &Self::Key, input: &Self::In) -> Result<(), ErrorInfo> {
        same_call(key, &input.id, &input.name, "was turned into")
    }

    fn check(key: &Self::Key, out: &ToolResult) -> Result<(), ErrorInfo> {
        same_call(key, out.call_id(), out.tool(), "was answered with a result for")
    }
}

fn same_call(
    key: &turnwright_core::ToolCall,
    id: &CallId,
    name: &str,
    but_it: &str,
) -> Result<(), ErrorInfo> {
    if *id == key.id && name == key.name {
        return Ok(());
    }
    let message = format!("call {} of {:?} {but_it} call {id} of {name:?}", key.id, key.name);
    Err(ErrorInfo::new(ErrorKind::Interceptor, message))
}

impl Scope for ExecuteCode {
    type In = CodeCell;
    type Out = CodeResult;
    type Key = ();
    const NAME: ScopeName = ScopeName::ExecuteCode;
    const REPLAYABLE: bool = true;
    fn key(_: &Self::In) {}
}
