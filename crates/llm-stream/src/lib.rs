//! The typed LLM event stream: a closed union of six events, sans-IO decoders that produce it, and the adapter that
//! makes every stream end exactly once.
//!
//! - [`LlmEvent`]: the union. Every stream ends with one [`LlmEvent::Finish`] or one [`LlmEvent::StreamFailure`].
//! - [`StreamItem`]: what decoders and clients yield: events, and beside them the provisional progress lane.
//! - [`OneTerminal`], [`Legal`], [`EventStream`]: the rule about the terminal event, kept by construction.
//! - [`Assembler`], [`LlmResponse`]: events put together.
//! - [`LlmClient`], [`LlmRequest`]: what a provider client implements and is given.
//! - [`OutputSchema`], [`AnswerTool`]: answers of a given form, where a format has a word for them and where not.
//! - [`prices`], [`estimate`]: what tokens cost, and how many there are, about.
//! - [`wire`]: decoders (bytes in, events out) and request serializers, one folder a format.
//!
//! No HTTP lives here: a decoder is fed by whoever reads the socket, the file or the test.

mod answer_tool;
mod assemble;
pub mod classify;
mod client;
pub mod estimate;
mod event;
pub mod prices;
mod request;
mod response;
pub mod sse;
mod terminal;
pub mod wire;

pub use answer_tool::AnswerTool;
pub use assemble::Assembler;
pub use client::{DynLlmClient, LlmClient, ModelHandle, OutputWay};
pub use event::{Finish, FinishReason, LlmEvent, ReasoningDelta, StreamFailure, StreamItem, ToolProgress};
pub use request::{CacheHint, LlmRequest, OutputSchema, ToolChoice};
pub use response::LlmResponse;
pub use terminal::{EventStream, Legal, OneTerminal, ProgressSink};
