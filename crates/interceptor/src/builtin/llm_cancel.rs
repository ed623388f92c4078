//! Takes cancels from the control channel while a model streams.

use std::sync::Arc;

use futures::{Stream, StreamExt, stream::unfold};
use turnwright_control::{ControlChannel, drain_control_channel};
use turnwright_core::TurnContext;
use turnwright_llm_stream::{EventStream, LlmEvent, LlmRequest};

use crate::{AroundStream, StreamCall};

/// Drains the control channel while a model streams, between events and while the provider is silent: a cancel
/// interrupts the stream at once, not at its next event.
pub struct LlmCancel(Arc<dyn ControlChannel>);

impl LlmCancel {
    /// Drains this channel.
    pub fn new(channel: Arc<dyn ControlChannel>) -> Self {
        Self(channel)
    }
}

impl AroundStream for LlmCancel {
    fn around_stream(
        &self,
        ctx: &TurnContext,
        _request: &LlmRequest,
        call: &StreamCall,
        inner: EventStream<'_>,
    ) -> impl Stream<Item = LlmEvent> + Send {
        let channel = &*self.0;
        let wakeup = channel.wakeup(ctx.session());
        unfold((inner, wakeup), move |(mut inner, mut wakeup)| async move {
            loop {
                // What was pulled but not yielded was not seen by anybody: it is dropped with the stream.
                if let Err(control) = drain_control_channel(channel, ctx) {
                    return Some((call.raise(control), (inner, wakeup)));
                }
                tokio::select! {
                    biased;
                    () = wakeup.arrived() => {}
                    event = inner.next() => return event.map(|event| (event, (inner, wakeup))),
                }
            }
        })
    }
}
