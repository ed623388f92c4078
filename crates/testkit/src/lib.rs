//! Tools for tests of agents: servers and models that misbehave on purpose, and checkers.

pub mod provider;
