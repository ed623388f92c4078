//! That the conformance suite finds what is wrong: clients that break one rule each.

use std::{pin::Pin, time::Duration};

use futures::{Stream, StreamExt, future::ready, stream};
use tokio::sync::mpsc;
use turnwright_core::{ErrorInfo, ErrorKind, TurnContext};
use turnwright_llm_stream::{FinishReason, LlmClient, LlmEvent, LlmRequest, StreamItem};
use turnwright_providers::{Chat, ChatClient};
use turnwright_testkit::{
    conformance::{self, KEY},
    provider::WireFormat,
};

use crate::{conformance::client, support::run_for};

type Items = Pin<Box<dyn Stream<Item = StreamItem> + Send>>;

/// A good client, and what is done to its streams.
struct Misfit {
    good: ChatClient,
    break_it: fn(Misfit, &TurnContext, &LlmRequest) -> Items,
}

impl Misfit {
    fn items(&self, ctx: &TurnContext, request: &LlmRequest) -> Items {
        Box::pin(self.good.stream(ctx, request))
    }
}

impl LlmClient for Misfit {
    fn provider(&self) -> &str {
        self.good.provider()
    }

    fn stream(
        &self,
        ctx: &TurnContext,
        request: &LlmRequest,
    ) -> impl Stream<Item = StreamItem> + Send + 'static {
        let twin = Self { good: self.good.clone(), break_it: self.break_it };
        (self.break_it)(twin, ctx, request)
    }
}

fn terminal(item: &StreamItem) -> bool {
    matches!(item, StreamItem::Event(event) if event.is_terminal())
}

fn failed(item: &StreamItem) -> bool {
    matches!(item, StreamItem::Event(LlmEvent::StreamFailure(_)))
}

/// Which of these names fail for a client broken in this way.
async fn fails(
    names: &[&str],
    break_it: fn(Misfit, &TurnContext, &LlmRequest) -> Items,
) -> Vec<(&'static str, String)> {
    let make = |base_url: &str| Misfit { good: client::<Chat>(base_url), break_it };
    let report = conformance::run_only(WireFormat::Chat, make, |name| names.contains(&name)).await;
    assert_eq!(report.outcomes.len(), names.len(), "{report}");
    report.failures().map(|(name, why)| (name, why.to_owned())).collect()
}

#[test]
fn the_suite_finds_clients_that_break_a_rule() {
    run_for(Duration::from_secs(40), async {
        let names =
            |found: Vec<(&'static str, String)>| found.into_iter().map(|(n, _)| n).collect::<Vec<_>>();

        // It asks again where it failed.
        let found = fails(&["lf", "500", "wrong-key"], |misfit, ctx, request| {
            let again = misfit.items(ctx, request);
            let first = misfit.items(ctx, request).take_while(|item| ready(!failed(item)));
            Box::pin(first.chain(again.filter(|item| ready(failed(item)))))
        });
        let retries = found.await;
        assert!(retries.iter().all(|(_, why)| why.contains("2 requests")), "{retries:?}");
        assert!(names(retries).contains(&"500"));

        // It ends twice.
        let found = fails(&["lf", "end-at-once"], |misfit, ctx, request| {
            let finish = StreamItem::from(LlmEvent::finish(FinishReason::Stop));
            Box::pin(misfit.items(ctx, request).chain(stream::iter([finish])))
        });
        assert_eq!(names(found.await), ["lf", "end-at-once"]);

        // It does not say how it ends.
        let found = fails(&["crlf", "stall"], |misfit, ctx, request| {
            Box::pin(misfit.items(ctx, request).take_while(|item| ready(!terminal(item))))
        });
        assert_eq!(names(found.await), ["crlf", "stall"]);

        // It calls an answer whole that was cut.
        let found = fails(&["end-in-the-midst", "garbage", "crlf"], |misfit, ctx, request| {
            let whole = |item| if failed(&item) { LlmEvent::finish(FinishReason::Stop).into() } else { item };
            Box::pin(misfit.items(ctx, request).map(whole))
        });
        assert_eq!(names(found.await), ["end-in-the-midst", "garbage"]);

        // It repeats the key.
        let found = fails(&["wrong-key", "crlf"], |misfit, ctx, request| {
            let tell = |item| match failed(&item) {
                true => {
                    let error = ErrorInfo::new(ErrorKind::Authentication, format!("{KEY} is no key"));
                    LlmEvent::failure(error.provider("p").status(401)).into()
                }
                false => item,
            };
            Box::pin(misfit.items(ctx, request).map(tell))
        });
        let leaks = found.await;
        assert!(
            leaks.iter().any(|(name, why)| *name == "wrong-key" && why.contains("the key is in")),
            "{leaks:?}"
        );
        assert!(!format!("{leaks:?}").contains(KEY));

        // Somebody else reads on when it is dropped, without a limit.
        let found = fails(&["a-dropped-stream-closes-its-connection"], |misfit, ctx, request| {
            let (sender, receiver) = mpsc::unbounded_channel();
            let mut items = misfit.items(ctx, request);
            tokio::spawn(async move {
                while let Some(item) = items.next().await {
                    let is_text = matches!(item, StreamItem::Event(LlmEvent::TextDelta { .. }));
                    // Nobody may listen any more.
                    let _ = sender.send(item);
                    if is_text {
                        std::future::pending::<()>().await;
                    }
                }
            });
            Box::pin(stream::unfold(receiver, |mut receiver| async move {
                receiver.recv().await.map(|item| (item, receiver))
            }))
        });
        assert_eq!(names(found.await), ["a-dropped-stream-closes-its-connection"]);

        // It asks before it is polled.
        let found = fails(&["nothing-is-asked-before-it-is-polled", "crlf"], |misfit, ctx, request| {
            let mut early = misfit.items(ctx, request);
            tokio::spawn(async move { early.next().await });
            misfit.items(ctx, request)
        });
        assert_eq!(names(found.await), ["crlf", "nothing-is-asked-before-it-is-polled"]);
    });
}
