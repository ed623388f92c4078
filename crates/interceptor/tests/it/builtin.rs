//! The built-in layers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::SeqCst},
    },
    time::Duration,
};

use futures::{FutureExt, StreamExt, channel::mpsc};
use turnwright_control::{
    CommandBody, ControlChannel, ControlCommand, ControlError, ControlScope, Fate, InMemoryControlChannel,
    Receipt, drain_control_channel,
};
use turnwright_core::{
    CancelCause, CancelKind, CancelToken, ErrorInfo, ErrorKind, ImageRef, SessionId, Sources, ToolCall,
    ToolResult, TurnContext,
};
use turnwright_interceptor::{
    CallState, Chain, Core, Exit, StreamCall, StreamChain,
    builtin::{ControlDrain, LlmCancel, ToolResultLimit, ToolTimeout},
    scope,
};
use turnwright_llm_stream::{EventStream, LlmEvent, LlmRequest, StreamItem};

use crate::support::*;

type Tools = Chain<scope::ToolCall>;

const SECOND: Duration = Duration::from_secs(1);

/// Runs for this long, unless it is cancelled.
struct Slow(Duration, Drops);
impl Core<scope::ToolCall> for Slow {
    async fn call(
        &self,
        ctx: &TurnContext,
        call: ToolCall,
        _: &CallState<scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        let _running = self.1.flag();
        tokio::select! {
            biased;
            cause = ctx.cancel().cancelled() => Err(ControlError::from(cause).into()),
            () = tokio::time::sleep(self.0) => Ok(ToolResult::ok(&call, "done")),
        }
    }
}

fn timed(timeout: ToolTimeout) -> Tools {
    let chain = Tools::default();
    chain.register(timeout).keep();
    chain
}

/// The result of a tool of this name that runs so long, and how long it took.
async fn time(chain: &Tools, tool: &str, runs: Duration) -> (ToolResult, Duration) {
    let (ctx, drops) = (ctx(), Drops::default());
    let clock = ctx.sources().clock.clone();
    let began = clock.instant();
    let slow = Slow(runs, drops.clone());
    let out = chain.call(&ctx, ToolCall::new("c1", tool, ""), &slow, None).await.unwrap();
    assert_eq!(drops.count(), 1, "the tool's future is gone");
    assert_eq!((out.call_id().as_str(), out.tool()), ("c1", tool));
    (out, clock.instant() - began)
}

fn is_timeout(out: &ToolResult) -> bool {
    out.error.as_ref().is_some_and(|e| e.kind == ErrorKind::ToolTimeout)
}

#[tokio::test(start_paused = true)]
async fn fault_r4_60_a_tool_is_cut_at_its_deadline_and_the_model_is_told() {
    assert_eq!(ToolTimeout::DEFAULT, 540 * SECOND);
    let chain = timed(ToolTimeout::new(ToolTimeout::DEFAULT));
    let (out, took) = time(&chain, "fast", 539 * SECOND).await;
    assert_eq!((out.content.as_str(), out.is_error(), took.as_secs()), ("done", false, 539));
    let (out, took) = time(&chain, "a<b>&c", 541 * SECOND).await;
    assert!(is_timeout(&out));
    assert!(took >= 540 * SECOND && took < 540 * SECOND + Duration::from_millis(50), "{took:?}");
    assert_eq!(out.elapsed, Some(took));
    assert_eq!(out.error.unwrap().message, "the tool did not finish within 540 s");
    assert_eq!(
        out.content,
        "<tool_timeout><tool_name>a&lt;b&gt;&amp;c</tool_name><status>timeout</status>\
         <timeout_seconds>540.000</timeout_seconds><elapsed_seconds>540.00</elapsed_seconds>\
         <message>The tool was stopped at its deadline. It may have had effects.</message></tool_timeout>"
    );
}

#[tokio::test(start_paused = true)]
async fn fault_i5_of_the_deadlines_that_are_set_the_least_counts_and_unset_overrides_nothing() {
    let chain = timed(ToolTimeout::new(10 * SECOND).per_tool(|tool| match tool {
        "short" => Some(3 * SECOND),
        "long" => Some(60 * SECOND),
        _ => None,
    }));
    for (tool, seconds) in [("short", 3), ("long", 10), ("unset", 10)] {
        let (out, took) = time(&chain, tool, 3600 * SECOND).await;
        assert!(is_timeout(&out));
        assert_eq!(took.as_secs(), seconds, "{tool}");
    }
    let never = timed(ToolTimeout::new(Duration::MAX));
    assert!(!is_timeout(&time(&never, "t", 3600 * SECOND).await.0));
}

#[tokio::test(start_paused = true)]
async fn fault_i7_a_timeout_the_tool_reports_itself_stays_its_own_error() {
    type Body = fn(&ToolCall) -> Result<ToolResult, Exit>;
    let says: Body =
        |call| Ok(ToolResult::error(call, ErrorInfo::new(ErrorKind::ToolFailed, "the host timed out")));
    let fails: Body = |_| Err(Exit::failed(ErrorKind::ToolFailed, "the host timed out"));
    let converts: Body = |_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into());
    let chain = timed(ToolTimeout::new(SECOND));
    for body in [says, fails, converts] {
        let tool = CoreFn(move |call: ToolCall, _: &CallState<_>| body(&call));
        let out = chain.call(&ctx(), call(), &tool, None).await.unwrap();
        assert!(out.is_error() && !is_timeout(&out) && out.content.contains("timed out"), "{out:?}");
        assert!(!out.content.contains("<tool_timeout>"));
    }
}

#[tokio::test(start_paused = true)]
async fn innermost_it_measures_the_tool_and_not_the_layers_round_it() {
    let chain = Tools::default();
    chain
        .register(layer::<scope::ToolCall, _>(|call, next| {
            Box::pin(async move {
                tokio::time::sleep(3600 * SECOND).await;
                let out = next.run(call).await;
                tokio::time::sleep(3600 * SECOND).await;
                out
            })
        }))
        .keep();
    chain.register(ToolTimeout::new(SECOND)).keep();
    let (out, took) = time(&chain, "t", Duration::from_millis(900)).await;
    assert_eq!((out.content.as_str(), took.as_secs()), ("done", 7200));
}

#[tokio::test(start_paused = true)]
async fn a_cancel_passes_through_the_timeout_and_so_does_a_dropped_call() {
    let (ctx, drops) = (ctx(), Drops::default());
    let (chain, tool) = (timed(ToolTimeout::new(SECOND)), Slow(3600 * SECOND, drops.clone()));
    let mut running = Box::pin(chain.call(&ctx, call(), &tool, None));
    assert!((&mut running).now_or_never().is_none());
    ctx.cancel().cancel(CancelCause::requested("ann"));
    let cancelled = ControlError::cancelled(CancelCause::requested("ann"));
    assert_eq!(running.await, Err(Exit::Control(cancelled)));

    let ctx = crate::support::ctx();
    let mut running = Box::pin(chain.call(&ctx, call(), &tool, None));
    assert!((&mut running).now_or_never().is_none());
    assert_eq!(drops.count(), 1);
    drop(running);
    assert_eq!(drops.count(), 2);
}

#[tokio::test]
async fn fault_i11_long_results_are_cut_errors_too_and_nothing_else_of_them_changes() {
    let chain = Tools::default();
    chain.register(ToolResultLimit::default()).keep();
    let long = "x".repeat(ToolResultLimit::DEFAULT_CHARS + 1);
    let image = ImageRef { uri: "blob:1".into(), media_type: None };
    let run = async |result: fn(&ToolCall, &str) -> ToolResult, content: &str| {
        let (content, image) = (content.to_owned(), image.clone());
        let tool = CoreFn(move |call: ToolCall, _: &CallState<_>| {
            let mut out = result(&call, &content).with_elapsed(SECOND);
            out.images.push(image.clone());
            Ok(out)
        });
        let out = chain.call(&ctx(), call(), &tool, None).await.unwrap();
        assert_eq!((out.elapsed, out.images.len(), out.call_id().as_str()), (Some(SECOND), 1, "c1"));
        out
    };
    let ok = |call: &ToolCall, content: &str| ToolResult::ok(call, content);
    let error = |call: &ToolCall, content: &str| {
        ToolResult::error(call, ErrorInfo::new(ErrorKind::ToolFailed, content))
    };
    for content in ["", "short", &long[1..]] {
        assert_eq!(run(ok, content).await.content, content);
    }
    for (result, is_error) in [(ok as fn(&_, &_) -> _, false), (error, true)] {
        let out = run(result, &long).await;
        assert_eq!(out.is_error(), is_error);
        assert!(out.content.len() < 13_000, "{}", out.content.len());
        assert!(out.content.ends_with("[output of 50001 characters, cut to fit]"));
    }
    assert_eq!(run(error, &long).await.error.unwrap().kind, ErrorKind::ToolFailed);
}

#[tokio::test]
async fn a_control_error_passes_through_the_result_limit() {
    let chain = Tools::default();
    chain.register(ToolResultLimit::new(10)).keep();
    let tool = CoreFn(|_: ToolCall, _: &CallState<_>| Err(control(&"x".repeat(1000))));
    assert_eq!(chain.call(&ctx(), call(), &tool, None).await, Err(control(&"x".repeat(1000))));
}

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
    let steer = d.send(d.scope(), CommandBody::InjectSteer { parts: Vec::new() }).await;
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
            Some(LlmEvent::StreamFailure(f)) => assert_eq!(f.error, Desk::cancelled().info()),
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
        t.d.send(t.d.scope(), CommandBody::InjectSteer { parts: Vec::new() }).await;
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
