//! Anthropic's Messages format, and as the servers that copy it speak it.

mod blocks;
mod calls;
mod decode;
mod event;
mod finish;
mod reasoning;
mod request;
mod usage;

pub use decode::MessagesDecoder;
pub use request::{DEFAULT_MAX_TOKENS, messages_body, messages_output_way};
