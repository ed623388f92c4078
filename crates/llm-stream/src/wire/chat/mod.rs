//! The chat completions format, as OpenAI defined it and as the servers that copy it speak it.

mod calls;
mod chunk;
mod content;
mod decode;
mod finish;
mod list;
mod reasoning;
mod request;
mod template;
mod text;
mod usage;

pub use calls::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_LABEL_BYTES};
pub use decode::ChatDecoder;
pub use request::chat_body;
