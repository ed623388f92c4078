//! Bedrock ConverseStream: JSON payloads in the messages of a binary event stream.

mod bare;
mod blocks;
mod decode;
mod event;
mod failure;
mod request;
mod thought;
mod usage;

pub use decode::ConverseDecoder;
pub use request::{converse_body, converse_output_way};
