//! The rules of instrumentation, without a turn.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use futures::FutureExt;
use parking_lot::Mutex;
use turnwright_control::ControlError;
use turnwright_core::{
    CancelCause, CancelKind, ErrorInfo, ErrorKind, SessionId, Sources,
    clock::{Clock, Instant, SeededRandom, SystemClock, Timestamp},
};

use super::*;

/// Writes down what it sees, with its context: what it wrote before.
#[derive(Clone)]
struct Writes {
    who: &'static str,
    lines: Arc<Mutex<Vec<String>>>,
    scopes: Arc<Mutex<Vec<CallScope>>>,
}

fn writes(who: &'static str) -> Writes {
    Writes { who, lines: Arc::default(), scopes: Arc::default() }
}

impl Writes {
    fn as_well(&self, who: &'static str) -> Self {
        Self { who, ..self.clone() }
    }
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock())
    }
}

impl Instrumentation for Writes {
    type Context = String;
    fn before_tool_call(&self, call: &Call<'_>, tool: &ToolCall) -> Option<String> {
        self.scopes.lock().push(call.scope);
        self.lines.lock().push(format!("{} before {}", self.who, tool.id));
        assert_ne!(self.who, "panics", "boom");
        Some(format!("{}'s {}", self.who, tool.id))
    }
    fn after_tool_call(
        &self,
        _: &Call<'_>,
        _: &ToolCall,
        ended: Ended<'_, ToolResult>,
        context: Option<String>,
    ) {
        let context = context.unwrap_or_else(|| "none".into());
        self.lines.lock().push(format!("{} after {}, {context}", self.who, ended.word()));
        assert_ne!(self.who, "panics", "boom");
    }
}

fn ctx() -> TurnContext {
    TurnContext::builder(SessionId::new("s").unwrap()).build()
}

fn tool() -> ToolCall {
    ToolCall::new("c", "t", "{}")
}

enum Error {
    Failed(ErrorInfo),
    Control(ControlError),
}

fn failure(error: &Error) -> Failure<'_> {
    match error {
        Error::Failed(error) => Failure::Failed(error),
        Error::Control(control) => Failure::Control(control),
    }
}

/// Watches a call of a tool that does this.
async fn call(
    instruments: &Instruments,
    ctx: &TurnContext,
    work: impl Future<Output = Result<ToolResult, Error>> + Send,
) -> Result<ToolResult, Error> {
    let tool = tool();
    instruments.watch::<kind::Tool, _>(ctx, &tool, failure, work).await
}

async fn well() -> Result<ToolResult, Error> {
    Ok(ToolResult::ok(&tool(), "ok"))
}

/// middleware-hooks §7.4 row 6.
#[tokio::test]
async fn all_are_called_in_the_order_they_were_added_each_with_a_context_of_its_own() {
    let (instruments, a) = (Instruments::default(), writes("a"));
    instruments.register(a.clone());
    instruments.register(a.as_well("b"));
    assert!(call(&instruments, &ctx(), well()).await.is_ok());
    assert_eq!(a.take(), ["a before c", "b before c", "a after done, a's c", "b after done, b's c"]);
}

#[tokio::test]
async fn one_that_panics_is_counted_harms_nobody_and_its_after_follows_all_the_same() {
    let (instruments, a) = (Instruments::default(), writes("panics"));
    let panics = instruments.register(a.clone());
    let b = instruments.register(a.as_well("b"));
    assert!(call(&instruments, &ctx(), well()).await.is_ok());
    assert_eq!(a.take(), ["panics before c", "b before c", "panics after done, none", "b after done, b's c"]);
    assert_eq!((panics.overhead().panics, b.overhead().panics), (2, 0));
    assert_eq!((panics.overhead().calls, b.overhead().calls), (2, 2), "and metered");
}

#[tokio::test]
async fn each_way_a_call_ends_is_told_as_what_it_is() {
    let (instruments, a) = (Instruments::default(), writes("a"));
    instruments.register(a.clone());
    let cancelled = CancelCause::runtime(CancelKind::Requested, "stop");
    let ends = [
        (Error::Failed(ErrorInfo::new(ErrorKind::ToolFailed, "no")), "failed"),
        (Error::Control(ControlError::policy_violation("no")), "left"),
        (Error::Control(ControlError::cancelled(cancelled)), "cancelled"),
    ];
    for (error, word) in ends {
        assert!(call(&instruments, &ctx(), async { Err(error) }).await.is_err());
        assert_eq!(a.take(), ["a before c".to_owned(), format!("a after {word}, a's c")]);
    }
}

#[tokio::test]
async fn a_call_that_is_dropped_is_cancelled_and_one_that_panics_panicked_and_both_have_their_after() {
    let (instruments, a, ctx) = (Instruments::default(), writes("a"), ctx());
    instruments.register(a.clone());
    {
        let mut hangs = pin!(call(&instruments, &ctx, std::future::pending()));
        assert!(hangs.as_mut().now_or_never().is_none());
    }
    assert_eq!(a.take(), ["a before c", "a after cancelled, a's c"]);
    let panics = call(&instruments, &ctx, async { panic!("boom") });
    assert!(AssertUnwindSafe(panics).catch_unwind().await.is_err());
    assert_eq!(a.take(), ["a before c", "a after panicked, a's c"]);
    drop(call(&instruments, &ctx, well()));
    assert!(a.take().is_empty(), "what was never polled never began");
}

#[tokio::test]
async fn a_panic_of_an_after_in_the_unwinding_of_a_call_does_not_end_the_process() {
    let (instruments, a) = (Instruments::default(), writes("panics"));
    instruments.register(a.clone());
    let panicked =
        AssertUnwindSafe(call(&instruments, &ctx(), async { panic!("first") })).catch_unwind().await;
    assert!(panicked.is_err());
    assert_eq!(a.take(), ["panics before c", "panics after panicked, none"]);
}

/// middleware-hooks §7.4 row 6.
#[tokio::test]
async fn an_after_goes_to_whoever_saw_the_call_begin_also_when_it_was_removed_and_nobody_else() {
    let (instruments, a) = (Instruments::default(), writes("a"));
    let guard = instruments.register(a.clone()).into_guard();
    let (inner, late) = (instruments.clone(), a.as_well("late"));
    let swaps = async move {
        drop(guard);
        inner.register(late);
        well().await
    };
    assert!(call(&instruments, &ctx(), swaps).await.is_ok());
    assert_eq!(a.take(), ["a before c", "a after done, a's c"]);
    assert!(call(&instruments, &ctx(), well()).await.is_ok());
    assert_eq!(a.take(), ["late before c", "late after done, late's c"]);
}

/// middleware-hooks §7.4 row 1.
#[test]
fn a_guard_takes_off_its_own_also_on_panic_and_twice_is_once() {
    let (instruments, a) = (Instruments::default(), writes("a"));
    let (first, second) = (instruments.register(a.clone()), instruments.register(a.clone()));
    let guard = first.clone().into_guard();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = guard;
        panic!("boom");
    }));
    assert!(panicked.is_err());
    first.remove();
    assert!(!instruments.is_empty(), "an equal one stays");
    second.remove();
    assert!(instruments.is_empty());
}

/// middleware-hooks §7.4 row 6.
#[tokio::test]
async fn inherited_twice_is_there_once_and_in_the_parents_order() {
    let (parent, child, a) = (Instruments::default(), Instruments::default(), writes("a"));
    parent.register(a.clone());
    parent.register(a.as_well("b"));
    child.inherit(&parent);
    child.inherit(&parent);
    child.register(a.as_well("own"));
    assert!(call(&child, &ctx(), well()).await.is_ok());
    assert_eq!(a.take()[..3], ["a before c", "b before c", "own before c"]);
}

/// A clock that is a millisecond later each time it is asked.
struct Ticks(AtomicU64);
impl Clock for Ticks {
    fn now(&self) -> Timestamp {
        Timestamp::UNIX_EPOCH
    }
    fn instant(&self) -> Instant {
        let (ticks, epoch) = (self.0.fetch_add(1, Relaxed), SystemClock.instant());
        epoch + Duration::from_millis(ticks)
    }
}

/// middleware-hooks §7.4 row 3.
#[tokio::test(start_paused = true)]
async fn the_time_of_every_callback_is_metered_of_one_that_panics_too() {
    let sources = Sources::new(Ticks(AtomicU64::new(0)), SeededRandom::new(1));
    let ctx = TurnContext::builder(SessionId::new("s").unwrap()).sources(sources).build();
    let instruments = Instruments::default();
    instruments.register(writes("panics"));
    instruments.register(writes("b"));
    assert!(call(&instruments, &ctx, well()).await.is_ok());
    let expected = Overhead { calls: 4, time: Duration::from_millis(4), panics: 2 };
    assert_eq!(instruments.overhead(), expected);
}

/// middleware-hooks §7.4 row 7.
#[tokio::test]
async fn calls_in_a_call_have_it_as_their_parent_beside_each_other_and_in_spawned_tasks_and_threads() {
    let (instruments, a, ctx) = (Instruments::default(), writes("a"), ctx());
    instruments.register(a.clone());
    let nested = || {
        let (instruments, ctx) = (instruments.clone(), ctx.clone());
        async move { call(&instruments, &ctx, well()).await.is_ok() }
    };
    let outer = call(&instruments, &ctx, async {
        let (one, two) = tokio::join!(nested(), nested());
        let followed = tokio::spawn(follow(nested())).await.unwrap();
        let left = tokio::spawn(nested()).await.unwrap();
        let scope = CallScope::current().unwrap();
        let thread = std::thread::spawn(move || scope.run_blocking(CallScope::current));
        assert_eq!(thread.join().unwrap(), Some(scope));
        assert!(one && two && followed && left);
        well().await
    });
    let beside = call(&instruments, &ctx, well());
    let (outer, beside) = tokio::join!(outer, beside);
    assert!(outer.is_ok() && beside.is_ok() && CallScope::current().is_none());
    let scopes = a.scopes.lock();
    let [outer, rest @ ..] = &scopes[..] else { panic!("no calls") };
    let under: Vec<_> = rest.iter().map(|scope| scope.parent == Some(outer.id)).collect();
    assert_eq!(outer.parent, None);
    assert_eq!(
        under.iter().filter(|under| **under).count(),
        3,
        "two beside each other, and the one that follows"
    );
    assert_eq!(rest.iter().filter(|scope| scope.parent.is_none()).count(), 2, "the others are at the top");
}

#[tokio::test]
async fn with_no_instrumentation_work_has_no_scope() {
    let instruments = Instruments::default();
    let work = async {
        assert_eq!(CallScope::current(), None);
        well().await
    };
    assert!(call(&instruments, &ctx(), work).await.is_ok());
}

/// One that writes nothing down.
struct Silent;
impl Instrumentation for Silent {
    type Context = ();
}

/// middleware-hooks §7.4 row 1: a partial one works.
#[tokio::test]
async fn callbacks_that_are_not_written_do_nothing() {
    let (instruments, a) = (Instruments::default(), writes("a"));
    let silent = instruments.register(Silent);
    instruments.register(a.clone());
    assert!(call(&instruments, &ctx(), well()).await.is_ok());
    assert_eq!((a.take().len(), silent.overhead().panics), (2, 0));
}
