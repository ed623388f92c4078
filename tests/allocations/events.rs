//! What one more event of a stream allocates, told by streams that differ in their length only.

use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use turnwright_core::{CancelToken, SessionId, TurnContext};
use turnwright_interceptor::{AroundStream, StreamCall, StreamChain};
use turnwright_llm_stream::{
    Assembler, EventStream, FinishReason, LlmClient, LlmEvent, LlmRequest, ModelHandle, StreamItem,
};
use turnwright_react_runtime::{Agent, TurnEventKind};

use crate::count;

const FEW: usize = 1_000;
const MANY: usize = 9_000;
/// What buffers that double may add over all those events together.
const GROWTH: u64 = 40;

/// How often an event allocates, given the counts for few and for many of them.
#[track_caller]
pub(crate) fn an_event_allocates(times: u64, count: impl Fn(usize) -> u64) {
    // What is made once a thread or a process is not counted.
    count(FEW);
    let (few, many) = (count(FEW), count(MANY));
    let (more, events) = (many - few, (MANY - FEW) as u64);
    let range = times * events..=times * events + GROWTH;
    assert!(range.contains(&more), "{events} more events made {more} more allocations, not {range:?}");
}

/// So many deltas without text, and the end.
fn empty_deltas(n: usize) -> impl Stream<Item = StreamItem> + Send {
    let deltas = stream::iter(0..n).map(|_| LlmEvent::text(String::new()));
    deltas.chain(stream::iter([LlmEvent::finish(FinishReason::Stop)])).map(Into::into)
}

struct Looks;
impl AroundStream for Looks {
    fn around_stream(
        &self,
        _: &TurnContext,
        _: &LlmRequest,
        _: &StreamCall,
        inner: EventStream<'_>,
    ) -> impl Stream<Item = LlmEvent> + Send {
        inner.inspect(|event| assert!(!matches!(event, LlmEvent::ReasoningDelta(_))))
    }
}

#[test]
fn an_event_passes_the_adapter_and_eight_layers_without_an_allocation() {
    let ctx = TurnContext::builder(SessionId::new("s").unwrap()).build();
    let (request, cancel) = (LlmRequest::default(), CancelToken::new());
    for layers in [0, 8] {
        let chain = StreamChain::default();
        for _ in 0..layers {
            chain.register(Looks).keep();
        }
        an_event_allocates(0, |n| {
            let (call, layers) = (StreamCall::new(), chain.snapshot());
            let provider = EventStream::provider(empty_deltas(n), &cancel, None);
            count(layers.wrap(&ctx, &request, &call, provider).for_each(|_| std::future::ready(())))
        });
    }
}

#[test]
fn the_assembler_only_grows() {
    let delta = LlmEvent::text("some words");
    an_event_allocates(0, |n| {
        count(async {
            let mut assembler = Assembler::new();
            (0..n).for_each(|_| assembler.feed(&delta));
            assembler.finish()
        })
    });
}

/// Yields deltas that it made beforehand.
struct Made(Arc<parking_lot::Mutex<Vec<StreamItem>>>);
impl LlmClient for Made {
    fn provider(&self) -> &str {
        "made"
    }
    fn stream(&self, _: &TurnContext, _: &LlmRequest) -> impl Stream<Item = StreamItem> + Send + 'static {
        stream::iter(std::mem::take(&mut *self.0.lock()))
    }
}

#[test]
fn a_text_delta_goes_through_a_turn_to_its_reader_without_an_allocation() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    an_event_allocates(0, |n| {
        let deltas = (0..n).map(|_| LlmEvent::text("some words").into());
        let end = [LlmEvent::finish(FinishReason::Stop).into()];
        let made = Made(Arc::new(parking_lot::Mutex::new(deltas.chain(end).collect())));
        let agent = Agent::builder("a", ModelHandle::new(made, "m")).build().unwrap();
        let counted = allocation_counter::measure(|| {
            let text: usize = runtime.block_on(async {
                let turn = agent.run("hi").unwrap();
                let text = turn.map(|event| match event.kind {
                    TurnEventKind::TextDelta { text } => text.len(),
                    _ => 0,
                });
                text.fold(0, |sum, len| std::future::ready(sum + len)).await
            });
            assert_eq!(text, n * "some words".len());
        });
        counted.count_total
    });
}
