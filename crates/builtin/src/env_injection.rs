//! `env_injection`: child processes know which turn they belong to.

use turnwright_core::{CHILD_ENV, TurnContext};
use turnwright_hook::{HookError, point::BeforeGraph};

/// What the names of its variables begin with.
pub const ENV_PREFIX: &str = "TURNWRIGHT_CTX_";

/// What it tells in any case, in the order in which it is read off a turn.
const OWN: [&str; 5] = ["SESSION", "RUN", "TURN", "LEG", "AGENT"];
/// What it tells of a turn that another agent's call began: the session of that.
const PARENT: &str = "PARENT";

/// Tells the child processes of a turn where they belong: `TURNWRIGHT_CTX_SESSION`, `_RUN`, `_TURN`, `_LEG` and `_AGENT`;
/// of a turn that another agent's call began, `_PARENT`, the session of that; and what [`with`](EnvInjection::with) adds.
///
/// BEFORE_GRAPH, name `env_injection`. It writes [`CHILD_ENV`] in the turn's state, which tools that start processes hand on;
/// the environment of the process itself is not touched. Each leg writes it anew.
#[derive(Debug, Clone, Default)]
pub struct EnvInjection {
    more: Vec<(String, String)>,
}

impl EnvInjection {
    /// A further variable, by the rest of its name: `TENANT` becomes `TURNWRIGHT_CTX_TENANT`.
    ///
    /// # Errors
    /// When the name has other characters than `A-Z`, `0-9` and `_`, or the value has a null character, which no system takes;
    /// or when the name is one of the hook's own, so that no value can pass for the turn it belongs to.
    pub fn with(mut self, name: &str, value: impl Into<String>) -> Result<Self, InvalidVariable> {
        let value = value.into();
        let is_name = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
        if OWN.contains(&name) || name == PARENT {
            return Err(InvalidVariable::Own(name.into()));
        }
        if name.is_empty() || !name.chars().all(is_name) || value.contains('\0') {
            return Err(InvalidVariable::Malformed(name.into()));
        }
        self.more.push((name.into(), value));
        Ok(self)
    }
}

/// Why a variable is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidVariable {
    /// No system takes it.
    #[error("{0:?} is no variable: names have A-Z, 0-9 and _, and values no null character")]
    Malformed(String),
    /// The hook writes it itself.
    #[error("{0:?} is written by the hook itself: it writes {own}, {PARENT}", own = OWN.join(", "))]
    Own(String),
}

impl BeforeGraph for EnvInjection {
    async fn before_graph(&self, ctx: &TurnContext) -> Result<(), HookError> {
        let own = [
            ctx.session().to_string(),
            ctx.run().to_string(),
            ctx.turn().to_string(),
            ctx.leg().to_string(),
            ctx.agent().to_owned(),
        ];
        let own = OWN.into_iter().map(str::to_owned).zip(own);
        let parent = ctx.parent().map(|parent| (PARENT.to_owned(), parent.session.to_string()));
        let all: Vec<_> = own.chain(parent).chain(self.more.iter().cloned()).collect();
        ctx.state().update(&CHILD_ENV, |before| {
            let mut map = before.cloned().unwrap_or_default();
            map.extend(all.iter().map(|(name, value)| (format!("{ENV_PREFIX}{name}"), value.clone())));
            map
        })?;
        Ok(())
    }
}
