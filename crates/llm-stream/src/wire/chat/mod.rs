//! The chat completions format, as OpenAI defined it and as the servers that copy it speak it.

mod calls;
mod chunk;
mod content;
mod decode;
mod finish;
mod reasoning;
mod request;

pub use decode::ChatDecoder;
pub use request::{chat_body, chat_output_way};
