//! Layers around the event stream of a model call.

use std::{
    any::type_name,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
};

use futures::Stream;
use turnwright_control::ControlError;
use turnwright_core::{ErrorInfo, ErrorKind, TurnContext, panic::panic_text};
use turnwright_llm_stream::{EventStream, LlmEvent, LlmRequest};

use crate::{Registration, chain::Registry};

/// One stream call: what its layers share.
#[derive(Debug, Default)]
pub struct StreamCall {
    raised: OnceLock<ControlError>,
}

impl StreamCall {
    /// A call.
    pub fn new() -> Self {
        Self::default()
    }

    /// Leaves the turn from inside a stream: the error is latched, and the event returned here must be the layer's
    /// last. Whatever layers outside make of it, the model call ends with the latched error.
    pub fn raise(&self, error: ControlError) -> LlmEvent {
        let first = self.raised.get_or_init(|| error);
        LlmEvent::failure(first.info())
    }

    /// The error that was raised, if one was.
    pub fn raised(&self) -> Option<&ControlError> {
        self.raised.get()
    }
}

/// A layer around the event stream. It is given the inner stream and returns its own; there is no `next`, so it cannot
/// repeat the call. A layer that eats the terminal event, adds after it or panics ends in one failure that names it.
///
/// # Cancel safety
/// The stream is dropped with the call.
pub trait AroundStream: Send + Sync + 'static {
    /// Wraps the stream of one model call.
    fn around_stream(
        &self,
        ctx: &TurnContext,
        request: &LlmRequest,
        call: &StreamCall,
        inner: EventStream<'_>,
    ) -> impl Stream<Item = LlmEvent> + Send;

    /// Whether it wants to wrap this call at all; if not, it costs the call nothing.
    fn is_interested(&self, _ctx: &TurnContext, _request: &LlmRequest) -> bool {
        true
    }
}

pub(crate) trait DynAroundStream: Send + Sync {
    fn dyn_is_interested(&self, ctx: &TurnContext, request: &LlmRequest) -> bool;
    fn dyn_around<'a>(
        &'a self,
        ctx: &'a TurnContext,
        request: &'a LlmRequest,
        call: &'a StreamCall,
        inner: EventStream<'a>,
    ) -> EventStream<'a>;
}

impl<L: AroundStream> DynAroundStream for L {
    fn dyn_is_interested(&self, ctx: &TurnContext, request: &LlmRequest) -> bool {
        self.is_interested(ctx, request)
    }

    fn dyn_around<'a>(
        &'a self,
        ctx: &'a TurnContext,
        request: &'a LlmRequest,
        call: &'a StreamCall,
        inner: EventStream<'a>,
    ) -> EventStream<'a> {
        match catch_unwind(AssertUnwindSafe(|| self.around_stream(ctx, request, call, inner))) {
            Ok(stream) => EventStream::layer(stream, type_name::<L>),
            Err(panic) => {
                let message = format!("{} panicked: {}", type_name::<L>(), panic_text(&*panic));
                EventStream::failed(ErrorInfo::new(ErrorKind::Panic, message))
            }
        }
    }
}

/// The layers around the event stream. Index 0 is outermost. Clones are the same chain.
#[derive(Clone, Default)]
pub struct StreamChain(pub(crate) Registry<dyn DynAroundStream>);

impl StreamChain {
    /// Appends a layer, innermost so far.
    pub fn register<L: AroundStream>(&self, layer: L) -> Registration {
        self.0.push(type_name::<L>().into(), false, Arc::new(layer))
    }

    /// How many layers there are.
    pub fn len(&self) -> usize {
        self.0.layers().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The layers as they are now, to wrap the streams of one call.
    pub fn snapshot(&self) -> StreamLayers {
        StreamLayers(self.0.layers())
    }
}

/// The layers of one call.
pub struct StreamLayers(Arc<[Arc<dyn DynAroundStream>]>);

impl StreamLayers {
    /// Wraps a provider's stream. A layer whose interest check panics is treated as not interested.
    pub fn wrap<'a>(
        &'a self,
        ctx: &'a TurnContext,
        request: &'a LlmRequest,
        call: &'a StreamCall,
        provider: EventStream<'a>,
    ) -> EventStream<'a> {
        let wants = |layer: &&Arc<dyn DynAroundStream>| {
            catch_unwind(AssertUnwindSafe(|| layer.dyn_is_interested(ctx, request))).unwrap_or(false)
        };
        self.0
            .iter()
            .rev()
            .filter(wants)
            .fold(provider, |inner, layer| layer.dyn_around(ctx, request, call, inner))
    }
}
