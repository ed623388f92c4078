//! OpenAI's Responses format, and as the servers that copy it speak it.

mod call;
mod calls;
mod decode;
mod event;
mod finish;
mod items;
mod reasoning;
mod request;
mod tools;

pub use decode::ResponsesDecoder;
pub use request::{responses_body, responses_output_way};
