//! Layers around the event stream of a model call.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, OnceLock},
};

use futures::{Stream, future::Either};
use turnwright_control::ControlError;
use turnwright_core::{ErrorInfo, ErrorKind, TurnContext, short_name};
use turnwright_llm_stream::{EventStream, LlmEvent, LlmRequest};

use crate::{
    Registration,
    erased::panicked,
    registry::{Entry, Registry},
};

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
    /// last. Whatever layers outside make of it, the model call ends with the latched error. Its kind is
    /// [`ErrorKind::Control`].
    pub fn raise(&self, error: ControlError) -> LlmEvent {
        let first = self.raised.get_or_init(|| error);
        LlmEvent::failure(ErrorInfo::new(ErrorKind::Control, first.to_string()))
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

    /// Whether it wants to wrap this call at all; if not, it costs the call nothing. A panic is no "no": it fails the
    /// stream as a panic of the layer itself does.
    fn is_interested(&self, _ctx: &TurnContext, _request: &LlmRequest) -> bool {
        true
    }
}

impl<L: AroundStream> AroundStream for Option<L> {
    fn around_stream(
        &self,
        ctx: &TurnContext,
        request: &LlmRequest,
        call: &StreamCall,
        inner: EventStream<'_>,
    ) -> impl Stream<Item = LlmEvent> + Send {
        match self {
            Some(layer) => Either::Left(layer.around_stream(ctx, request, call, inner)),
            None => Either::Right(inner),
        }
    }

    fn is_interested(&self, ctx: &TurnContext, request: &LlmRequest) -> bool {
        self.as_ref().is_some_and(|layer| layer.is_interested(ctx, request))
    }
}

pub(crate) trait DynAroundStream: Send + Sync {
    /// Wraps the stream if the layer is interested. `who` is the name the layer is registered under.
    fn dyn_around<'a>(
        &'a self,
        who: &'a str,
        ctx: &'a TurnContext,
        request: &'a LlmRequest,
        call: &'a StreamCall,
        inner: EventStream<'a>,
    ) -> EventStream<'a>;

    /// What a stream layer changes nobody has seen yet: nothing need be withheld for it.
    fn dyn_is_gating(&self) -> bool {
        false
    }
}

impl<L: AroundStream> DynAroundStream for L {
    fn dyn_around<'a>(
        &'a self,
        who: &'a str,
        ctx: &'a TurnContext,
        request: &'a LlmRequest,
        call: &'a StreamCall,
        inner: EventStream<'a>,
    ) -> EventStream<'a> {
        let open = || {
            if !self.is_interested(ctx, request) {
                return inner;
            }
            EventStream::layer(self.around_stream(ctx, request, call, inner), who)
        };
        catch_unwind(AssertUnwindSafe(open))
            .unwrap_or_else(|panic| EventStream::failed(panicked(who, &*panic)))
    }
}

/// The layers around the event stream. Index 0 is outermost. Clones are the same chain.
#[derive(Clone, Debug, Default)]
pub struct StreamChain(pub(crate) Registry<dyn DynAroundStream>);

impl StreamChain {
    /// Appends a layer, innermost so far, under the name of its type.
    pub fn register<L: AroundStream>(&self, layer: L) -> Registration {
        self.register_as(short_name::<L>(), false, layer)
    }

    /// The same under another name, and inherited by the agents this one starts if that is wanted.
    pub fn register_as<L: AroundStream>(
        &self,
        name: impl Into<Arc<str>>,
        inherited: bool,
        layer: L,
    ) -> Registration {
        self.0.push(name.into(), inherited, Arc::new(layer))
    }

    /// How many layers there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The layers as they are now, to wrap the streams of one call.
    pub fn snapshot(&self) -> StreamLayers {
        StreamLayers(self.0.list())
    }
}

/// The layers of one call.
#[derive(Clone)]
pub struct StreamLayers(Arc<[Entry<dyn DynAroundStream>]>);

impl StreamLayers {
    /// Wraps a provider's stream with every layer that is interested.
    pub fn wrap<'a>(
        &'a self,
        ctx: &'a TurnContext,
        request: &'a LlmRequest,
        call: &'a StreamCall,
        provider: EventStream<'a>,
    ) -> EventStream<'a> {
        let entries = self.0.iter().rev();
        entries.fold(provider, |inner, e| e.layer.dyn_around(&e.name, ctx, request, call, inner))
    }
}

impl fmt::Debug for StreamLayers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("StreamLayers").field(&self.0.iter().map(|e| &*e.name).collect::<Vec<_>>()).finish()
    }
}
