//! Ollama's own format: a JSON object a line.

mod decode;
mod line;
mod lines;
mod request;

pub use decode::OllamaDecoder;
pub use request::{ollama_body, ollama_output_way};

/// Under which key it is marked that a model of this format thought something, in [`crate::ReasoningDelta::opaque`].
const THINKING: &str = "ollama_thinking";
