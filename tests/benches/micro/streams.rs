//! What one event costs on its way: the adapter that ends every stream once, layers round the stream, the assembler.

use std::{
    hint::black_box,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{Stream, StreamExt};
use turnwright_core::{CancelToken, SessionId, TurnContext};
use turnwright_interceptor::{AroundStream, StreamCall, StreamChain};
use turnwright_llm_stream::{
    Assembler, EventStream, FinishReason, LlmEvent, LlmRequest, OneTerminal, StreamItem,
};

use crate::cpu::{self, Bench, Group};

/// A provider that is never late: so many empty deltas, then the end.
struct Provider(u64);
impl Stream for Provider {
    type Item = StreamItem;
    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<StreamItem>> {
        let event = match self.0 {
            0 => LlmEvent::finish(FinishReason::Stop),
            _ => LlmEvent::text(String::new()),
        };
        self.0 = self.0.saturating_sub(1);
        Poll::Ready(Some(event.into()))
    }
}

/// A layer that looks at each event and passes it.
struct Looks;
impl AroundStream for Looks {
    fn around_stream(
        &self,
        _: &TurnContext,
        _: &LlmRequest,
        _: &StreamCall,
        inner: EventStream<'_>,
    ) -> impl Stream<Item = LlmEvent> + Send {
        inner.inspect(|event| {
            black_box(event.is_terminal());
        })
    }
}

pub(crate) fn all(c: &mut Bench) {
    let mut group = c.benchmark_group("stream");
    // A boxed stream is what every client is anyway.
    per_event(&mut group, "boxed", async |n| {
        let provider: Pin<Box<dyn Stream<Item = StreamItem> + Send>> = Box::pin(Provider(n).take(n as usize));
        drain(provider).await;
    });
    let cancel = CancelToken::new();
    per_event(&mut group, "one_terminal", async |n| {
        drain(OneTerminal::new(Provider(n), &cancel, None)).await;
    });
    let ctx = TurnContext::builder(SessionId::new("s").unwrap()).build();
    for layers in [0, 1, 8] {
        let chain = StreamChain::default();
        for _ in 0..layers {
            chain.register(Looks).keep();
        }
        let request = LlmRequest::default();
        per_event(&mut group, &format!("layers_{layers}"), async |n| {
            let (call, layers) = (StreamCall::new(), chain.snapshot());
            let provider = EventStream::provider(Provider(n), &cancel, None);
            drain(layers.wrap(&ctx, &request, &call, provider)).await;
        });
    }
    let words = "some words";
    per_event(&mut group, "push_str", async |n| {
        let mut text = String::new();
        for _ in 0..n {
            text.push_str(black_box(words));
        }
        black_box(text);
    });
    let delta = LlmEvent::text(words);
    per_event(&mut group, "assembler", async |n| {
        let mut assembler = Assembler::new();
        for _ in 0..n {
            assembler.feed(black_box(&delta));
        }
        black_box(assembler.finish());
    });
    group.finish();
}

async fn drain<S: Stream>(stream: S) {
    let mut stream = std::pin::pin!(stream);
    while let Some(event) = stream.next().await {
        black_box(event);
    }
}

/// Measures one run over so many events, as time an event.
fn per_event(group: &mut Group<'_>, id: &str, mut run: impl AsyncFnMut(u64)) {
    let runtime = cpu::runtime();
    group.bench_function(id, |b| {
        b.iter_custom(|events| {
            let begun = cpu::now();
            runtime.block_on(run(events));
            cpu::now() - begun
        });
    });
}
