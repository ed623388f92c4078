//! What child processes of a turn are told in their environment.

use std::collections::BTreeMap;

use crate::{StateKey, TurnContext, state::StateError};

/// Variables for the child processes that the tools of a turn start: a map in the turn's state, and never the environment of
/// the process itself, which all sessions share.
///
/// Hooks write it; tools that start processes hand it on ([`child_env`]).
pub static CHILD_ENV: StateKey<BTreeMap<String, String>> = StateKey::new("turnwright.core/child_env", 1);

/// The variables of [`CHILD_ENV`]; none when nobody set any.
///
/// # Errors
/// [`StateError`] when what is stored cannot be read.
pub fn child_env(ctx: &TurnContext) -> Result<BTreeMap<String, String>, StateError> {
    Ok(ctx.state().get(&CHILD_ENV)?.map(|map| (*map).clone()).unwrap_or_default())
}
