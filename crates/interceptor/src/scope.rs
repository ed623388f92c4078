//! The call boundaries that can be wrapped.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};
use turnwright_core::{
    CallId, CodeCell, CodeResult, ErrorInfo, ErrorKind, IterationEnd, LegOutcome, Part, ToolResult,
};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

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

    /// Whether an output is legal for its key.
    ///
    /// # Errors
    /// What is wrong with it.
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

    fn check(key: &Self::Key, out: &ToolResult) -> Result<(), ErrorInfo> {
        if *out.call_id() == key.id && out.tool() == key.name {
            return Ok(());
        }
        let wrong: (&CallId, &str) = (out.call_id(), out.tool());
        Err(ErrorInfo::new(
            ErrorKind::Interceptor,
            format!("a layer answered call {} of {:?} with a result for {wrong:?}", key.id, key.name),
        ))
    }
}

impl Scope for ExecuteCode {
    type In = CodeCell;
    type Out = CodeResult;
    type Key = ();
    const NAME: ScopeName = ScopeName::ExecuteCode;
    const REPLAYABLE: bool = true;
    fn key(_: &Self::In) {}
}

/// The name of a wired scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScopeName {
    /// [`AgentRun`].
    AgentRun,
    /// [`Turn`].
    Turn,
    /// [`Iteration`].
    Iteration,
    /// [`LlmCall`].
    LlmCall,
    /// The event stream inside a model call.
    LlmStream,
    /// [`ToolCall`].
    ToolCall,
    /// [`ExecuteCode`].
    ExecuteCode,
}

impl ScopeName {
    /// The wired scopes, outermost first.
    pub const ALL: [Self; 7] = [
        Self::AgentRun,
        Self::Turn,
        Self::Iteration,
        Self::LlmCall,
        Self::LlmStream,
        Self::ToolCall,
        Self::ExecuteCode,
    ];

    /// The name in plans and configuration, for example `tool_call`.
    pub fn name(self) -> &'static str {
        match self {
            Self::AgentRun => "agent_run",
            Self::Turn => "turn",
            Self::Iteration => "iteration",
            Self::LlmCall => "llm_call",
            Self::LlmStream => "llm_stream",
            Self::ToolCall => "tool_call",
            Self::ExecuteCode => "execute_code",
        }
    }
}

impl fmt::Display for ScopeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A scope name that names no wired scope.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnknownScope {
    given: String,
    reserved: bool,
}

impl fmt::Display for UnknownScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = if self.reserved { "is reserved and not wired" } else { "is no interceptor scope" };
        let wired: Vec<_> = ScopeName::ALL.iter().map(|s| s.name()).collect();
        write!(f, "{:?} {why}; wired scopes are {}", self.given, wired.join(", "))
    }
}
impl std::error::Error for UnknownScope {}

impl FromStr for ScopeName {
    type Err = UnknownScope;

    /// Reads the name of a wired scope. `pipeline_step` and `pool_task` are reserved and refused.
    fn from_str(s: &str) -> Result<Self, UnknownScope> {
        Self::ALL.into_iter().find(|scope| scope.name() == s).ok_or_else(|| UnknownScope {
            given: s.into(),
            reserved: matches!(s, "pipeline_step" | "pool_task"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserved_and_unknown_scopes_are_refused_and_the_wired_ones_named() {
        for scope in ScopeName::ALL {
            assert_eq!(scope.name().parse(), Ok(scope));
        }
        let e = "pool_task".parse::<ScopeName>().unwrap_err().to_string();
        assert!(
            e.starts_with("\"pool_task\" is reserved and not wired; wired scopes are agent_run, turn, "),
            "{e}"
        );
        assert!("pipeline_step".parse::<ScopeName>().unwrap_err().to_string().contains("reserved"));
        assert!("tool".parse::<ScopeName>().unwrap_err().to_string().contains("is no interceptor scope"));
    }
}
