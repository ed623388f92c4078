//! Google's Gemini format, `streamGenerateContent`, as the Gemini API and Vertex AI speak it.

mod array;
mod calls;
mod chunk;
mod decode;
mod finish;
mod kept;
mod part;
mod partial;
mod request;
mod usage;

pub use decode::GeminiDecoder;
pub use request::{gemini_body, gemini_output_way};
