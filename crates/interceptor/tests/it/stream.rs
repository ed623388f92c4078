//! Layers round the event stream of a model call.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU32, Ordering::SeqCst},
};

use futures::{FutureExt, Stream, StreamExt, stream, stream::unfold};
use turnwright_control::ControlError;
use turnwright_core::{CancelToken, ErrorInfo, ErrorKind, TurnContext};
use turnwright_interceptor::{AroundStream, Interceptors, StreamCall, StreamChain, interceptor};
use turnwright_llm_stream::{EventStream, FinishReason, LlmEvent, LlmRequest, StreamItem};

use crate::support::*;

#[derive(Clone, Copy, PartialEq)]
enum Act {
    Pass,
    Tag(&'static str),
    EatTheEnd,
    AddAfterTheEnd,
    PanicOnOpen,
    PanicInPoll,
    Raise(&'static str),
    Rewrite,
}

/// Does one thing to the stream it is given.
struct Does(Act);
impl AroundStream for Does {
    fn around_stream(
        &self,
        _: &TurnContext,
        _: &LlmRequest,
        call: &StreamCall,
        inner: EventStream<'_>,
    ) -> impl Stream<Item = LlmEvent> + Send {
        let act = self.0;
        assert!(act != Act::PanicOnOpen, "on open");
        unfold((inner, false), move |(mut inner, ended)| async move {
            if ended {
                return (act == Act::AddAfterTheEnd).then(|| (LlmEvent::text("late"), (inner, true)));
            }
            let event = inner.next().await?;
            let ends = event.is_terminal();
            let event = match (act, event) {
                (Act::Tag(tag), LlmEvent::TextDelta { text }) => LlmEvent::text(text + tag),
                (Act::Tag(tag), LlmEvent::StreamFailure(mut f)) => {
                    f.error.message.push_str(tag);
                    LlmEvent::StreamFailure(f)
                }
                (Act::EatTheEnd, LlmEvent::Finish(_)) => return None,
                (Act::PanicInPoll, LlmEvent::Finish(_)) => panic!("in a poll"),
                (Act::Raise(why), LlmEvent::Finish(_)) => call.raise(ControlError::policy_violation(why)),
                (Act::Rewrite, LlmEvent::StreamFailure(_)) => LlmEvent::finish(FinishReason::Stop),
                (_, event) => event,
            };
            Some((event, (inner, ends)))
        })
    }
}

fn provider<'a>(flag: Option<CountDrop>) -> EventStream<'a> {
    let items = stream::iter([LlmEvent::text("a"), LlmEvent::finish(FinishReason::Stop)]);
    let items = items.map(move |e| {
        let _ = &flag;
        StreamItem::Event(e)
    });
    EventStream::provider(items, &CancelToken::new(), None)
}

struct Run {
    events: Vec<LlmEvent>,
    raised: Option<ControlError>,
}
impl Run {
    fn of(acts: &[Act]) -> Self {
        let chain = StreamChain::default();
        for act in acts {
            chain.register(Does(*act)).keep();
        }
        let (layers, call) = (chain.snapshot(), StreamCall::new());
        let (ctx, request) = (ctx(), LlmRequest::default());
        let stream = layers.wrap(&ctx, &request, &call, provider(None));
        let events: Vec<_> = stream.collect().now_or_never().expect("never waits");
        let ends = events.iter().filter(|e| e.is_terminal()).count();
        assert!(ends == 1 && events.last().unwrap().is_terminal(), "{events:?}");
        Self { events, raised: call.raised().cloned() }
    }
    fn error(&self) -> ErrorInfo {
        match self.events.last() {
            Some(LlmEvent::StreamFailure(f)) => f.error.clone(),
            end => panic!("{end:?}"),
        }
    }
    fn text(&self) -> String {
        let text = |e: &LlmEvent| match e {
            LlmEvent::TextDelta { text } => Some(text.clone()),
            _ => None,
        };
        self.events.iter().filter_map(text).collect()
    }
}

#[test]
fn index_0_wraps_all_others_and_sees_each_event_last() {
    assert_eq!(Run::of(&[Act::Tag("1"), Act::Tag("2"), Act::Pass, Act::Tag("3")]).text(), "a321");
    assert_eq!(Run::of(&[]).events, [LlmEvent::text("a"), LlmEvent::finish(FinishReason::Stop)]);
}

#[test]
fn a_layer_that_breaks_the_rule_ends_in_one_failure_that_names_it_and_outer_layers_see_it() {
    for (act, kind, words, text) in [
        (Act::EatTheEnd, ErrorKind::Interceptor, "without a terminal event", "a"),
        (Act::PanicInPoll, ErrorKind::Panic, "in a poll", "a"),
        (Act::PanicOnOpen, ErrorKind::Panic, "on open", ""),
    ] {
        for acts in [&[act][..], &[Act::Pass, act], &[act, Act::Pass], &[Act::Tag("!"), act, Act::Tag("")]] {
            let run = Run::of(acts);
            let error = run.error();
            assert_eq!(error.kind, kind, "{error}");
            assert!(error.message.contains(words) && error.message.contains("Does"), "{error}");
            assert_eq!(error.message.ends_with('!'), acts.len() == 3, "{error}");
            assert_eq!(run.text().replace('!', ""), text);
        }
    }
}

#[test]
fn what_a_layer_adds_after_the_end_is_not_seen() {
    let run = Run::of(&[Act::AddAfterTheEnd]);
    assert_eq!((run.text().as_str(), run.events.len()), ("a", 2));
}

#[test]
fn fault_h9_a_layer_may_recover_a_failed_stream() {
    let run = Run::of(&[Act::Rewrite, Act::PanicInPoll]);
    assert_eq!(run.events, [LlmEvent::text("a"), LlmEvent::finish(FinishReason::Stop)]);
}

#[test]
fn a_raised_control_error_is_latched_whatever_outer_layers_make_of_it() {
    let run = Run::of(&[Act::Pass, Act::Raise("no shell")]);
    assert_eq!(run.error().kind, ErrorKind::Control);
    assert_eq!(run.raised, Some(ControlError::policy_violation("no shell")));
    for outer in [Act::Rewrite, Act::EatTheEnd, Act::AddAfterTheEnd] {
        let run = Run::of(&[outer, Act::Raise("no shell")]);
        assert_eq!(run.raised, Some(ControlError::policy_violation("no shell")));
    }
    let second = Run::of(&[Act::Raise("second"), Act::Rewrite, Act::Raise("first")]);
    assert_eq!(second.raised, Some(ControlError::policy_violation("first")));
    assert!(second.error().message.contains("first"), "the first one counts");
    assert_eq!(Run::of(&[Act::Pass]).raised, None);
}

#[test]
fn a_layer_that_is_not_interested_is_not_called() {
    #[derive(Clone, Default)]
    struct Shy(Arc<AtomicBool>, Arc<AtomicU32>);
    impl AroundStream for Shy {
        fn around_stream(
            &self,
            _: &TurnContext,
            _: &LlmRequest,
            _: &StreamCall,
            inner: EventStream<'_>,
        ) -> impl Stream<Item = LlmEvent> + Send {
            self.1.fetch_add(1, SeqCst);
            inner
        }
        fn is_interested(&self, _: &TurnContext, request: &LlmRequest) -> bool {
            assert_eq!(request.model, "m");
            self.0.load(SeqCst)
        }
    }
    let (i, shy) = (Interceptors::default(), Shy::default());
    i.register(interceptor!(shy.clone())).keep();
    let request = LlmRequest { model: "m".into(), ..LlmRequest::default() };
    for (interested, opened) in [(false, 0), (true, 1), (false, 1)] {
        shy.0.store(interested, SeqCst);
        let (layers, call, ctx) = (i.llm_stream.snapshot(), StreamCall::new(), ctx());
        let stream = layers.wrap(&ctx, &request, &call, provider(None));
        assert_eq!(stream.count().now_or_never(), Some(2));
        assert_eq!(shy.1.load(SeqCst), opened);
    }
}

#[test]
fn the_provider_is_dropped_before_the_terminal_event_is_seen() {
    for act in [Act::Pass, Act::EatTheEnd, Act::PanicInPoll, Act::Raise("no")] {
        let chain = StreamChain::default();
        for act in [Act::Pass, act, Act::Pass] {
            chain.register(Does(act)).keep();
        }
        let (layers, call, drops) = (chain.snapshot(), StreamCall::new(), Drops::default());
        let (ctx, request) = (ctx(), LlmRequest::default());
        let mut stream = layers.wrap(&ctx, &request, &call, provider(Some(drops.flag())));
        loop {
            let event = stream.next().now_or_never().unwrap().unwrap();
            assert_eq!(drops.count(), usize::from(event.is_terminal()));
            if event.is_terminal() {
                break;
            }
        }
        assert_eq!(stream.next().now_or_never(), Some(None));
    }
}

#[test]
fn a_panic_on_open_drops_the_provider_at_once() {
    let chain = StreamChain::default();
    chain.register(Does(Act::PanicOnOpen)).keep();
    let (layers, call, drops) = (chain.snapshot(), StreamCall::new(), Drops::default());
    let (ctx, request) = (ctx(), LlmRequest::default());
    let _stream = layers.wrap(&ctx, &request, &call, provider(Some(drops.flag())));
    assert_eq!(drops.count(), 1);
}

#[test]
fn a_running_stream_keeps_the_layers_it_began_with() {
    let chain = StreamChain::default();
    let tag = chain.register(Does(Act::Tag("1")));
    let (layers, call, ctx, request) = (chain.snapshot(), StreamCall::new(), ctx(), LlmRequest::default());
    tag.remove();
    chain.register(Does(Act::Tag("2"))).keep();
    let mut stream = layers.wrap(&ctx, &request, &call, provider(None));
    assert_eq!(stream.next().now_or_never(), Some(Some(LlmEvent::text("a1"))));
}
