//! What servers of a single format do.

pub(super) mod converse;
pub(super) mod gemini;
pub(super) mod messages;
pub(super) mod ollama;
pub(super) mod responses;
