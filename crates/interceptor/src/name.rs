//! The names of scopes, as plans and configuration spell them.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The name of a wired scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ScopeName {
    /// [`scope::AgentRun`](crate::scope::AgentRun).
    AgentRun,
    /// [`scope::Turn`](crate::scope::Turn).
    Turn,
    /// [`scope::Iteration`](crate::scope::Iteration).
    Iteration,
    /// [`scope::LlmCall`](crate::scope::LlmCall).
    LlmCall,
    /// The event stream inside a model call.
    LlmStream,
    /// [`scope::ToolCall`](crate::scope::ToolCall).
    ToolCall,
    /// [`scope::ExecuteCode`](crate::scope::ExecuteCode).
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

impl UnknownScope {
    /// Whether it is one of the reserved names, in whatever spelling, and not just unknown.
    pub fn is_reserved(&self) -> bool {
        self.reserved
    }
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

    /// Reads the name of a wired scope. `pipeline_step` and `pool_task`, however they are spelled, are reserved and
    /// refused.
    fn from_str(s: &str) -> Result<Self, UnknownScope> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.name() == s)
            .ok_or_else(|| UnknownScope { given: s.into(), reserved: is_reserved(s) })
    }
}

/// `pool_task`, `POOL_TASK`, `PoolTask` and `pool-task` are one name.
fn is_reserved(name: &str) -> bool {
    let letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' ')).map(|c| c.to_ascii_lowercase());
    ["pipelinestep", "pooltask"].into_iter().any(|reserved| letters.clone().eq(reserved.chars()))
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
