//! The decoders and the classifier against recorded bodies of many servers.
//!
//! The recordings are other projects' data and stand outside this repository: in the folder named by
//! `TURNWRIGHT_CORPUS`, else in `shared/corpus` beside the repository. Where they are missing the tests say so and
//! pass, except with `CI` set.
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test: the helpers of tests count as such")]

mod chat;
mod converse;
mod errors;
mod framing;
mod gemini;
mod messages;
mod ollama;
mod responses;
mod support;
