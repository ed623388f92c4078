//! Wire formats: a sans-IO decoder and a request serializer each.

pub(crate) mod buffer;
pub mod chat;
pub mod converse;
mod count;
mod events;
pub mod eventstream;
mod fields;
mod finish;
mod functions;
pub mod gemini;
mod head;
mod history;
mod ids;
mod lenient;
mod limits;
mod list;
pub mod messages;
mod names;
pub mod ollama;
pub mod responses;
pub(crate) mod scan;
mod sse_decoder;
mod template;
#[cfg(test)]
mod testing;
mod text;
mod turns;
mod usage;

pub use limits::{MAX_ARGUMENT_BYTES, MAX_CALLS, MAX_LABEL_BYTES};
pub use sse_decoder::SseDecoder;

use crate::StreamItem;

/// A decoder of one answer: bytes in, items out.
///
/// Any split of the bytes gives the same items. The items end with exactly one terminal event, after which nothing
/// comes and further bytes are ignored. Nothing blocks, and every buffer has a cap.
pub trait WireDecoder: Send {
    /// Takes the next bytes of the body and appends what they mean.
    fn feed(&mut self, bytes: &[u8], out: &mut Vec<StreamItem>);

    /// Says that no more bytes come: the body ended, the connection broke, or the caller stopped reading. Appends
    /// what is left, and the terminal event if it has not come: a finish when a finish reason was seen, else a
    /// failure of kind [`turnwright_core::ErrorKind::Truncated`].
    fn end(&mut self, out: &mut Vec<StreamItem>);

    /// Whether the terminal event was appended. Whoever reads the body should close it then.
    fn is_done(&self) -> bool;

    /// Whether the model gave its finish reason, so that only usage and the end mark may be missing. Whoever reads
    /// the body should then wait for no more than a short drain time before calling [`Self::end`]. False again when
    /// the answer goes on after all.
    fn finish_seen(&self) -> bool;

    /// Grows with every byte that is not a comment or a keep-alive. An idle timer restarts when it grew.
    fn progress(&self) -> u64;
}
