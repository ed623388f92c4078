//! All chains of one agent.

use serde::Serialize;

use crate::{
    Chain, ScopeName, StreamChain,
    scope::{AgentRun, ExecuteCode, Iteration, LlmCall, ToolCall, Turn},
};

/// The chains of one agent, one a scope. Clones are the same chains.
#[derive(Clone, Default)]
pub struct Interceptors {
    /// Around one call of the agent.
    pub agent_run: Chain<AgentRun>,
    /// Around one leg.
    pub turn: Chain<Turn>,
    /// Around one iteration.
    pub iteration: Chain<Iteration>,
    /// Around one logical model call.
    pub llm_call: Chain<LlmCall>,
    /// Around the event stream inside it.
    pub llm_stream: StreamChain,
    /// Around one tool execution.
    pub tool_call: Chain<ToolCall>,
    /// Around one code cell.
    pub execute_code: Chain<ExecuteCode>,
}

/// One row of [`Interceptors::plan`].
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PlannedLayer {
    /// The scope.
    pub scope: ScopeName,
    /// Its place in the chain, 0 outermost.
    pub index: usize,
    /// Its name.
    pub name: String,
    /// Whether agents started by this one have it too.
    pub inherited: bool,
    /// Whether it may change finished answers, so that streamed ones are withheld. Layers of the stream never are.
    pub gating: bool,
}

impl Interceptors {
    /// The chains of an agent that this one starts: the entries registered as inherited, to stand outside the child's
    /// own. The child keeps what it got: later changes here do not reach it.
    #[must_use]
    pub fn for_child(&self) -> Self {
        let child = Self::default();
        child.inherit(self);
        child
    }

    /// Appends the inherited entries of another, inside what is here already.
    pub fn inherit(&self, parent: &Self) {
        macro_rules! inherit {
            ($($scope:ident)*) => {
                $(self.$scope.0.inherit(&parent.$scope.0);)*
            };
        }
        inherit!(agent_run turn iteration llm_call llm_stream tool_call execute_code);
    }

    /// What is registered, scope by scope, outermost first.
    pub fn plan(&self) -> Vec<PlannedLayer> {
        let mut rows = Vec::new();
        macro_rules! rows {
            ($($scope:ident $name:ident,)*) => {
                $(for (index, entry) in self.$scope.0.list().iter().enumerate() {
                    let (name, inherited) = (entry.name.to_string(), entry.inherited);
                    let gating = entry.layer.dyn_is_gating();
                    rows.push(PlannedLayer { scope: ScopeName::$name, index, name, inherited, gating });
                })*
            };
        }
        rows!(
            agent_run AgentRun,
            turn Turn,
            iteration Iteration,
            llm_call LlmCall,
            llm_stream LlmStream,
            tool_call ToolCall,
            execute_code ExecuteCode,
        );
        rows
    }
}

impl std::fmt::Debug for Interceptors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.plan()).finish()
    }
}
