//! The control layers: cancels that come through the channel, or through the turn's token.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::{FutureExt, StreamExt, channel::mpsc};
use turnwright_control::{
    CommandBody, CommandType, ControlChannel, ControlCommand, ControlError, ControlScope, Delivery, Fate,
    InMemoryControlChannel, Receipt, SendError, Wakeup, drain_control_channel,
};
use turnwright_core::{
    BoxFuture, CancelCause, CancelKind, CancelToken, Part, SessionId, Sources, ToolCall, ToolResult,
    TurnContext,
};
use turnwright_interceptor::{
    CallState, Chain, Exit, StreamCall, StreamChain,
    builtin::{ControlDrain, LlmCancel, ToolResultLimit, ToolTimeout},
    scope,
};
use turnwright_llm_stream::{EventStream, LlmEvent, LlmRequest, StreamItem};

use crate::support::*;

type Tools = Chain<scope::ToolCall>;

const SECOND: Duration = Duration::from_secs(1);

/// A channel, a turn, and somebody who sends.
struct Desk {
    sources: Sources,
    channel: Arc<InMemoryControlChannel>,
    ctx: TurnContext,
}
impl Desk {
    fn new() -> Self {
        let sources = Sources::default();
        let channel = Arc::new(InMemoryControlChannel::new(&sources));
        let ctx = TurnContext::builder(SessionId::new("s").unwrap()).sources(sources.clone()).build();
        Self { sources, channel, ctx }
    }
    fn scope(&self) -> ControlScope {
        ControlScope::session(self.ctx.session().clone())
    }
    async fn send(&self, scope: ControlScope, body: CommandBody) -> Receipt {
        self.channel.send(ControlCommand::new(&self.sources, scope, "ann", body)).await.unwrap()
    }
    async fn cancel(&self) -> Receipt {
        self.send(self.scope(), CommandBody::CancelTurn { reason: Some("enough".into()) }).await
    }
    fn cancelled() -> ControlError {
        ControlError::cancelled(CancelCause::requested("ann").reason("enough"))
    }
}

/// A chain with a drain, and how often its tool ran.
fn drained(d: &Desk) -> impl AsyncFn() -> (Result<ToolResult, Exit>, u32) {
    let chain = Tools::default();
    chain.register(ToolResultLimit::default()).keep();
    chain.register(ControlDrain::new(d.channel.clone())).keep();
    let (ctx, ran) = (d.ctx.clone(), Arc::new(AtomicU32::new(0)));
    async move || {
        let count = ran.clone();
        let tool = CoreFn(move |call: ToolCall, _: &CallState<_>| {
            count.fetch_add(1, SeqCst);
            Ok(ToolResult::ok(&call, "ran"))
        });
        let out = chain.call(&ctx, call(), &tool, None).await;
        (out, ran.load(SeqCst))
    }
}

#[tokio::test]
async fn fault_h18_a_cancelled_turn_starts_no_further_tool() {
    let d = Desk::new();
    let run = drained(&d);
    assert_eq!(run().await.1, 1);
    let receipt = d.cancel().await;
    for _ in 0..2 {
        assert_eq!(run().await, (Err(Desk::cancelled().into()), 1), "the latch is seen by later calls");
    }
    assert_eq!(receipt.fate().await, Fate::Applied);
    assert_eq!(drain_control_channel(&*d.channel, &d.ctx), Err(Desk::cancelled()));
}

#[tokio::test]
async fn whoever_drains_first_the_tool_does_not_start() {
    let d = Desk::new();
    d.cancel().await;
    drain_control_channel(&*d.channel, &d.ctx).unwrap_err();
    assert_eq!(drained(&d)().await, (Err(Desk::cancelled().into()), 0));

    let d = Desk::new();
    d.ctx.cancel().cancel(CancelCause::runtime(CancelKind::Deadline, "60 s"));
    assert_eq!(drained(&d)().await, (Err(ControlError::timeout("60 s").into()), 0));
}

#[tokio::test]
async fn a_stale_command_a_drain_and_a_message_stop_no_tool() {
    let d = Desk::new();
    let other_turn = ControlScope::turn(d.ctx.session().clone(), d.sources.id());
    let stale = d.send(other_turn, CommandBody::CancelTurn { reason: None }).await;
    let other_session = ControlScope::session(SessionId::new("t").unwrap());
    let not_ours = d.send(other_session, CommandBody::CancelTurn { reason: None }).await;
    let steer = d.send(d.scope(), CommandBody::InjectSteer { parts: vec![Part::text("left")] }).await;
    let drain = d.send(d.scope(), CommandBody::DrainTurn).await;
    assert_eq!(drained(&d)().await.1, 1);
    assert_eq!(stale.fate().await, Fate::Stale);
    assert_eq!((not_ours.try_fate(), steer.try_fate()), (None, None));
    assert_eq!(drain.fate().await, Fate::Applied);
    assert!(d.ctx.is_drain_requested());
}

#[tokio::test]
async fn the_default_order_lets_a_cancel_through_the_limit_and_before_the_tool() {
    let d = Desk::new();
    let chain = Tools::default();
    chain.register(ToolResultLimit::default()).keep();
    chain.register(ControlDrain::new(d.channel.clone())).keep();
    let entered = Arc::new(AtomicU32::new(0));
    let users = entered.clone();
    chain
        .register(layer::<scope::ToolCall, _>(move |call, next| {
            users.fetch_add(1, SeqCst);
            next.run(call)
        }))
        .keep();
    chain.register(ToolTimeout::new(ToolTimeout::DEFAULT)).keep();
    d.cancel().await;
    let out = chain.call(&d.ctx, call(), &echo(), None).await;
    assert_eq!((out, entered.load(SeqCst)), (Err(Desk::cancelled().into()), 0));
}

/// A model that says what it is told to, watched by a cancel layer.
struct Talk {
    d: Desk,
    says: mpsc::UnboundedSender<StreamItem>,
    hears: Option<mpsc::UnboundedReceiver<StreamItem>>,
    drops: Drops,
    chain: StreamChain,
    call: StreamCall,
    request: LlmRequest,
}
impl Talk {
    fn new() -> Self {
        let d = Desk::new();
        let (says, hears) = mpsc::unbounded();
        let chain = StreamChain::default();
        chain.register(LlmCancel::new(d.channel.clone())).keep();
        Self {
            d,
            says,
            hears: Some(hears),
            drops: Drops::default(),
            chain,
            call: StreamCall::new(),
            request: LlmRequest::default(),
        }
    }
    /// The provider does not know of the turn's token, so that whatever ends the stream is the layer's doing.
    fn provider(&mut self) -> EventStream<'static> {
        let flag = self.drops.flag();
        let hears = self.hears.take().unwrap().inspect(move |_| {
            let _ = &flag;
        });
        EventStream::provider(hears, &CancelToken::new(), None)
    }
    fn say(&self, text: &str) {
        self.says.unbounded_send(LlmEvent::text(text).into()).unwrap();
    }
    fn assert_cancelled(&self, event: Option<LlmEvent>) {
        match event {
            Some(LlmEvent::StreamFailure(f)) => {
                assert_eq!(
                    (f.error.kind, f.error.message),
                    (turnwright_core::ErrorKind::Control, Desk::cancelled().to_string())
                );
            }
            other => panic!("{other:?}"),
        }
        assert_eq!(self.call.raised(), Some(&Desk::cancelled()));
        assert_eq!(self.drops.count(), 1, "the provider is gone");
    }
}

/// The next event while something else happens; virtual time bounds the wait.
async fn next_while(stream: &mut EventStream<'_>, other: impl Future<Output = ()>) -> Option<LlmEvent> {
    let both = async { tokio::join!(biased; stream.next(), other).0 };
    tokio::time::timeout(SECOND, both).await.expect("it was woken")
}

#[tokio::test(start_paused = true)]
async fn a_cancel_between_events_yields_no_further_event() {
    let mut t = Talk::new();
    let (layers, provider) = (t.chain.snapshot(), t.provider());
    let mut stream = layers.wrap(&t.d.ctx, &t.request, &t.call, provider);
    t.say("a");
    assert_eq!(stream.next().await, Some(LlmEvent::text("a")));
    t.say("b");
    let receipt = t.d.cancel().await;
    let event = stream.next().await;
    t.assert_cancelled(event);
    assert_eq!(stream.next().await, None);
    assert_eq!(receipt.fate().await, Fate::Applied);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_waits_before_the_call_opens_yields_no_event_at_all() {
    let mut t = Talk::new();
    t.d.cancel().await;
    t.say("a");
    let (layers, provider) = (t.chain.snapshot(), t.provider());
    let mut stream = layers.wrap(&t.d.ctx, &t.request, &t.call, provider);
    let event = stream.next().await;
    t.assert_cancelled(event);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_interrupts_a_silent_provider_at_once() {
    let mut t = Talk::new();
    let (layers, provider) = (t.chain.snapshot(), t.provider());
    let mut stream = layers.wrap(&t.d.ctx, &t.request, &t.call, provider);
    let clock = t.d.sources.clock.clone();
    let began = clock.instant();
    let event = next_while(&mut stream, t.d.cancel().map(drop)).await;
    t.assert_cancelled(event);
    assert_eq!(clock.instant(), began, "not at a tick, and not at the next event");
    assert_eq!(
        drain_control_channel(&*t.d.channel, &t.d.ctx),
        Err(Desk::cancelled()),
        "others see the latch"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cancel_goes_before_an_event_that_arrived_with_it() {
    let mut t = Talk::new();
    let (layers, provider) = (t.chain.snapshot(), t.provider());
    let mut stream = layers.wrap(&t.d.ctx, &t.request, &t.call, provider);
    let both = async {
        t.say("a");
        t.d.cancel().await;
    };
    let event = next_while(&mut stream, both).await;
    t.assert_cancelled(event);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_that_somebody_else_took_interrupts_as_well() {
    let mut t = Talk::new();
    let (layers, provider) = (t.chain.snapshot(), t.provider());
    let mut stream = layers.wrap(&t.d.ctx, &t.request, &t.call, provider);
    let takes = async {
        t.d.cancel().await;
        drain_control_channel(&*t.d.channel, &t.d.ctx).unwrap_err();
    };
    let event = next_while(&mut stream, takes).await;
    t.assert_cancelled(event);
}

#[tokio::test(start_paused = true)]
async fn a_command_that_is_no_cancel_of_this_turn_leaves_the_stream_alone() {
    let mut t = Talk::new();
    let (layers, provider) = (t.chain.snapshot(), t.provider());
    let mut stream = layers.wrap(&t.d.ctx, &t.request, &t.call, provider);
    let other_turn = ControlScope::turn(t.d.ctx.session().clone(), t.d.sources.id());
    let sends = async {
        t.d.send(other_turn, CommandBody::CancelTurn { reason: None }).await;
        t.d.send(t.d.scope(), CommandBody::InjectSteer { parts: vec![Part::text("left")] }).await;
        t.say("a");
    };
    assert_eq!(next_while(&mut stream, sends).await, Some(LlmEvent::text("a")));
    assert_eq!(t.call.raised(), None);
}

#[tokio::test(start_paused = true)]
async fn one_cancel_of_the_run_ends_all_streams_of_its_turns() {
    let mut t = Talk::new();
    let (layers, provider) = (t.chain.snapshot(), t.provider());
    let mut stream = layers.wrap(&t.d.ctx, &t.request, &t.call, provider);
    let sends = t.d.send(t.d.scope(), CommandBody::CancelRun { reason: Some("enough".into()) }).map(drop);
    let event = next_while(&mut stream, sends).await;
    t.assert_cancelled(event);
    assert!(t.d.ctx.run_cancel().is_cancelled());
}

/// Counts the drains of the channel.
struct Counted(Arc<InMemoryControlChannel>, AtomicU32);
impl ControlChannel for Counted {
    fn send(&self, command: ControlCommand) -> BoxFuture<'_, Result<Receipt, SendError>> {
        self.0.send(command)
    }
    fn take(&self, scope: &ControlScope, types: &[CommandType]) -> Vec<Delivery> {
        self.1.fetch_add(1, SeqCst);
        self.0.take(scope, types)
    }
    fn wakeup(&self, session: &SessionId) -> Wakeup {
        self.0.wakeup(session)
    }
}

#[tokio::test(start_paused = true)]
async fn the_channel_is_drained_at_open_and_after_a_wake_up_and_not_an_event() {
    let mut t = Talk::new();
    let counted = Arc::new(Counted(t.d.channel.clone(), AtomicU32::new(0)));
    t.chain = StreamChain::default();
    t.chain.register(LlmCancel::new(counted.clone())).keep();
    let (layers, provider) = (t.chain.snapshot(), t.provider());
    let mut stream = layers.wrap(&t.d.ctx, &t.request, &t.call, provider);
    for _ in 0..100 {
        t.say("a");
        assert_eq!(stream.next().await, Some(LlmEvent::text("a")));
        assert_eq!(next_while(&mut stream, async { t.say("b") }).await, Some(LlmEvent::text("b")));
    }
    assert_eq!(counted.1.load(SeqCst), 1, "at open");
    t.d.send(t.d.scope(), CommandBody::InjectSteer { parts: vec![Part::text("left")] }).await;
    for _ in 0..100 {
        t.say("a");
        assert_eq!(stream.next().await, Some(LlmEvent::text("a")));
    }
    assert_eq!(counted.1.load(SeqCst), 2, "after the wake-up");
    t.d.cancel().await;
    t.say("a");
    let event = stream.next().await;
    t.assert_cancelled(event);
    assert_eq!(counted.1.load(SeqCst), 3);
}

/// Nothing came through the channel, and the provider does not listen to the token.
#[tokio::test(start_paused = true)]
async fn a_cancel_of_the_token_alone_interrupts_a_silent_provider_and_goes_before_the_next_event() {
    let cause = || CancelCause::requested("ann").reason("enough");
    let mut t = Talk::new();
    let (layers, provider) = (t.chain.snapshot(), t.provider());
    let mut stream = layers.wrap(&t.d.ctx, &t.request, &t.call, provider);
    let token = t.d.ctx.cancel().clone();
    let event = next_while(&mut stream, async { assert!(token.cancel(cause())) }).await;
    t.assert_cancelled(event);

    let mut t = Talk::new();
    let (layers, provider) = (t.chain.snapshot(), t.provider());
    let mut stream = layers.wrap(&t.d.ctx, &t.request, &t.call, provider);
    t.say("a");
    assert_eq!(stream.next().await, Some(LlmEvent::text("a")));
    t.say("b");
    t.d.ctx.run_cancel().cancel(cause());
    let event = stream.next().await;
    t.assert_cancelled(event);
}

/// From another thread, at any moment: the wake-up is not lost.
#[tokio::test]
async fn a_cancel_from_another_thread_is_never_lost() {
    for n in 0..200 {
        let mut t = Talk::new();
        let (layers, provider) = (t.chain.snapshot(), t.provider());
        let mut stream = layers.wrap(&t.d.ctx, &t.request, &t.call, provider);
        let (channel, sources, scope) = (t.d.channel.clone(), t.d.sources.clone(), t.d.scope());
        let (says, token) = (t.says.clone(), t.d.ctx.cancel().clone());
        let cause = || CancelCause::requested("ann").reason("enough");
        let other = std::thread::spawn(move || {
            for _ in 0..n % 7 {
                says.unbounded_send(LlmEvent::text("a").into()).unwrap();
            }
            if n % 2 == 0 {
                token.cancel(cause());
            } else {
                let body = CommandBody::CancelTurn { reason: Some("enough".into()) };
                let command = ControlCommand::new(&sources, scope, "ann", body);
                channel.send(command).now_or_never().unwrap().unwrap();
            }
        });
        let ends = async {
            loop {
                match stream.next().await {
                    Some(LlmEvent::TextDelta { .. }) => {}
                    end => break end,
                }
            }
        };
        t.assert_cancelled(tokio::time::timeout(10 * SECOND, ends).await.expect("it was woken"));
        other.join().unwrap();
    }
}

/// The same without threads: the cancel comes while the provider is polled, when nobody can be woken yet.
#[test]
fn a_cancel_that_comes_while_the_provider_is_polled_is_seen_in_that_very_poll() {
    let t = Talk::new();
    let (layers, flag, token) = (t.chain.snapshot(), t.drops.flag(), t.d.ctx.cancel().clone());
    let cancels = futures::stream::poll_fn(move |_| {
        let _ = &flag;
        token.cancel(CancelCause::requested("ann").reason("enough"));
        std::task::Poll::<Option<StreamItem>>::Pending
    });
    let provider = EventStream::provider(cancels, &CancelToken::new(), None);
    let mut stream = layers.wrap(&t.d.ctx, &t.request, &t.call, provider);
    let event = stream.next().now_or_never().expect("ready at once");
    t.assert_cancelled(event);
}
