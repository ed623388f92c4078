//! What the runner promises.

use std::sync::{
    Mutex,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use turnwright_core::{CancelCause, SessionId, StopReason};

use super::*;
use crate::{AnyHook, DispatchLog, OutcomeFinallyHook, hook, hook_points, on, point::*};

fn ctx() -> TurnContext {
    TurnContext::builder(SessionId::new("s").unwrap()).build()
}

#[derive(Default)]
struct Notes {
    begun: Mutex<Vec<(HookPoint, usize)>>,
    failures: Mutex<Vec<HookFailure>>,
}
impl DispatchLog for Notes {
    fn resume_at(&self, point: HookPoint) -> usize {
        self.begun.lock().unwrap().iter().filter(|(p, _)| *p == point).count()
    }
    fn begun(&self, point: HookPoint, index: usize) {
        self.begun.lock().unwrap().push((point, index));
    }
    fn failed(&self, failure: HookFailure) {
        self.failures.lock().unwrap().push(failure);
    }
}
impl Notes {
    fn kinds(&self) -> Vec<HookFailureKind> {
        self.failures.lock().unwrap().iter().map(|f| f.kind).collect()
    }
}

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<&'static str>>>);
impl Log {
    fn push(&self, s: &'static str) {
        self.0.lock().unwrap().push(s);
    }
    fn take(&self) -> Vec<&'static str> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Named(&'static str, Log);
impl BeforeTurn for Named {
    async fn before_turn(&self, _: &TurnContext) -> Result<(), HookError> {
        self.1.push(self.0);
        Ok(())
    }
}

enum Bad {
    Fails,
    Panics,
    PanicsAtOnce,
    Hangs,
    Exits,
}
impl BeforeTurn for Bad {
    fn before_turn(&self, _: &TurnContext) -> impl Future<Output = Result<(), HookError>> + Send {
        if matches!(self, Bad::PanicsAtOnce) {
            panic!("at once");
        }
        async move {
            match self {
                Bad::Fails => Err("no".parse::<i32>().unwrap_err().into()),
                Bad::Panics => panic!("in a poll"),
                Bad::Hangs => std::future::pending().await,
                Bad::Exits | Bad::PanicsAtOnce => {
                    Err(ControlError::loop_detected("again").user_content("I am stuck.").into())
                }
            }
        }
    }
}

#[tokio::test]
async fn fault_h13_priority_is_ascending_and_equal_ones_keep_their_order() {
    let log = Log::default();
    let named = |n| hook!(Named(n, log.clone()));
    let runner = HookRunner::new([
        named("c").priority(1),
        named("a").priority(-1000),
        named("d").priority(1),
        named("b"),
    ]);
    runner.before_turn(&ctx(), Dispatch::new()).await.unwrap();
    assert_eq!(log.take(), ["a", "b", "c", "d"]);
    assert_eq!(runner.plan()[0].priority, -1000);
    assert_eq!(runner.plan()[0].points, [HookPoint::BeforeTurn]);
}

#[tokio::test(start_paused = true)]
async fn fault_h1_each_failure_goes_through_the_policy() {
    for (bad, kind) in [
        (Bad::Fails, HookFailureKind::Error),
        (Bad::Panics, HookFailureKind::Panic),
        (Bad::PanicsAtOnce, HookFailureKind::Panic),
        (Bad::Hangs, HookFailureKind::Timeout(Duration::from_secs(10))),
    ] {
        let log = Log::default();
        let bad = hook!(bad).name("bad");
        let after = || hook!(Named("after", log.clone()));
        for policy in [ErrorPolicy::Ignore, ErrorPolicy::Log, ErrorPolicy::Abort] {
            let notes = Notes::default();
            let runner = HookRunner::new([bad.clone().on_error(policy), after()]);
            let out = runner.before_turn(&ctx(), Dispatch::new().log(&notes)).await;
            if policy == ErrorPolicy::Abort {
                let e = out.unwrap_err();
                assert_eq!(e.stop_reason(), StopReason::PolicyViolation);
                assert!(e.to_string().contains("\"bad\"") && e.to_string().contains("before_turn"), "{e}");
                assert_eq!(log.take(), [""; 0]);
            } else {
                out.unwrap();
                assert_eq!(log.take(), ["after"]);
            }
            let expected = if policy == ErrorPolicy::Ignore { vec![] } else { vec![kind] };
            assert_eq!(notes.kinds(), expected, "{policy:?}");
        }
    }
}

#[tokio::test]
async fn a_control_error_is_no_failure_and_later_hooks_do_not_run() {
    let (log, notes) = (Log::default(), Notes::default());
    let runner = HookRunner::new([hook!(Bad::Exits), hook!(Named("after", log.clone()))]);
    let e = runner.before_turn(&ctx(), Dispatch::new().log(&notes)).await.unwrap_err();
    assert_eq!((e.stop_reason(), e.user_content.as_deref()), (StopReason::LoopDetected, Some("I am stuck.")));
    assert!(log.take().is_empty() && notes.kinds().is_empty());
}

#[tokio::test]
async fn while_unwinding_a_control_error_is_recorded_and_all_hooks_run() {
    let (log, notes) = (Log::default(), Notes::default());
    let runner = HookRunner::new([hook!(Bad::Exits), hook!(Named("after", log.clone()))]);
    runner.before_turn(&ctx(), Dispatch::new().log(&notes).unwinding(None)).await.unwrap();
    assert_eq!(log.take(), ["after"]);
    assert_eq!(notes.kinds(), [HookFailureKind::ControlWhileUnwinding]);
}

#[tokio::test(start_paused = true)]
async fn once_the_shared_time_is_spent_each_hook_is_still_polled_once() {
    let (log, notes, ctx) = (Log::default(), Notes::default(), ctx());
    let runner = HookRunner::new([hook!(Bad::Hangs), hook!(Bad::Hangs), hook!(Named("after", log.clone()))]);
    let start = ctx.sources().clock.instant();
    let until = start + Duration::from_secs(2);
    runner.before_turn(&ctx, Dispatch::new().log(&notes).unwinding(Some(until))).await.unwrap();
    assert_eq!(ctx.sources().clock.instant() - start, Duration::from_secs(2));
    assert_eq!(log.take(), ["after"]);
    assert_eq!(
        notes.kinds(),
        [HookFailureKind::Timeout(Duration::from_secs(2)), HookFailureKind::Timeout(Duration::ZERO)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_was_cut_is_not_called_twice_and_none_is_lost() {
    let (log, notes, ctx) = (Log::default(), Notes::default(), ctx());
    let named = |n| hook!(Named(n, log.clone()));
    let runner = HookRunner::new([named("a"), hook!(Bad::Hangs), named("c")]);
    let cut =
        tokio::time::timeout(Duration::from_secs(1), runner.before_turn(&ctx, Dispatch::new().log(&notes)));
    assert!(cut.await.is_err());
    runner.before_turn(&ctx, Dispatch::new().log(&notes).unwinding(None)).await.unwrap();
    assert_eq!(log.take(), ["a", "c"]);
}

struct Judge(TurnAnswer, &'static str);
impl AfterTurn for Judge {
    async fn after_turn(&self, _: &TurnContext, result: &mut AgentResult) -> Result<TurnAnswer, HookError> {
        result.content.push_str(self.1);
        if self.1 == "!" {
            return Err(HookError::msg("changed half of it"));
        }
        Ok(self.0)
    }
}
impl FinalizeContent for Judge {
    fn finalize_content(&self, _: &TurnContext, content: String) -> Result<String, HookError> {
        match self.1 {
            "!" => Err(ControlError::from(CancelCause::requested("x")).into()),
            "?" => panic!("in finalize"),
            s => Ok(content + s),
        }
    }
}

#[tokio::test]
async fn after_turn_keeps_what_succeeded_and_the_strongest_answer() {
    let runner = HookRunner::new([
        hook!(Judge(TurnAnswer::ContinueAndRenew, "a")),
        hook!(Judge(TurnAnswer::ContinueAndRenew, "!")),
        hook!(Judge(TurnAnswer::Continue, "b")),
    ]);
    let mut result = AgentResult::new("", StopReason::Completed);
    let answer = runner.after_turn(&ctx(), &mut result, Dispatch::new()).await.unwrap();
    assert_eq!((answer, result.content.as_str()), (TurnAnswer::ContinueAndRenew, "ab"));
}

#[test]
fn finalize_is_a_chain_that_loses_neither_content_nor_control_errors() {
    let judge = |s| hook!(Judge(TurnAnswer::Done, s));
    let runner = HookRunner::new([judge("a"), judge("!"), judge("?"), judge("b")]);
    let (content, raised) = runner.finalize_content(&ctx(), "x".into(), Dispatch::new());
    assert_eq!(content, "xab");
    assert_eq!(raised.unwrap().stop_reason(), StopReason::Cancelled);
}

#[derive(Default)]
struct Everywhere(AtomicUsize);
macro_rules! everywhere {
    ($($point:ident $method:ident ($($ty:ty)?);)*) => {
        $(impl $point for Everywhere {
            async fn $method(&self, _: &TurnContext $(, _: $ty)?) -> Result<(), HookError> {
                self.0.fetch_add(1, SeqCst);
                Ok(())
            }
        })*
    };
}
everywhere! {
    BeforeGraph before_graph ();
    AfterGraph after_graph (&AgentResult);
    FinallyGraph finally_graph (LegEnd<'_>);
    StartNodeTurn start_node_turn ();
    EndNodeTurn end_node_turn ();
    BeforeTurn before_turn ();
    BeforeIteration before_iteration ();
    AfterIteration after_iteration ();
    BeforeToolExecution before_tool_execution (&[DecidedCall]);
    AfterToolExecution after_tool_execution (&[ToolResult]);
    BeforeLlm before_llm (&LlmRequest);
    AfterLlmResponse after_llm_response (&LlmResponse);
    AfterApproval after_approval (&ApprovalTransaction);
}
impl AfterTurn for Everywhere {
    async fn after_turn(&self, _: &TurnContext, _: &mut AgentResult) -> Result<TurnAnswer, HookError> {
        self.0.fetch_add(1, SeqCst);
        Ok(TurnAnswer::Done)
    }
}
impl FinalizeContent for Everywhere {
    fn finalize_content(&self, _: &TurnContext, content: String) -> Result<String, HookError> {
        self.0.fetch_add(1, SeqCst);
        Ok(content)
    }
}
hook_points!(Everywhere);

#[test]
fn every_way_to_register_finds_all_fifteen_points() {
    fn generic<H: AnyHook>(h: H) -> HookSpec {
        h.into()
    }
    let boxed: Box<dyn AnyHook> = Box::new(Everywhere::default());
    for spec in [hook!(Everywhere::default()), generic(Everywhere::default()), boxed.into()] {
        assert_eq!(spec.points(), HookPoint::ALL);
        assert_eq!(&*spec.name, "Everywhere");
    }
    let built = HookSpec::builder(Everywhere::default()).before_turn().after_turn().build();
    assert_eq!(built.points(), [HookPoint::BeforeTurn, HookPoint::AfterTurn]);
}

/// Notes the point a closure was called at. The answer of each is the default one.
macro_rules! closures {
    ($log:expr; $($point:ident $method:ident ($($arg:ident)?);)*) => {
        [$({
            let log: Arc<Mutex<Vec<HookPoint>>> = $log.clone();
            on::$method(move |_ctx $(, $arg)?| {
                let log = log.clone();
                Box::pin(async move {
                    log.lock().unwrap().push(HookPoint::$point);
                    $(let _ = $arg;)?
                    Ok(Default::default())
                })
            })
        }),*]
    };
}

#[tokio::test]
async fn a_closure_is_a_hook_of_its_point_and_named_after_it() {
    let called: Arc<Mutex<Vec<HookPoint>>> = Arc::default();
    let mut hooks = closures! { called;
        BeforeGraph before_graph ();
        AfterApproval after_approval (transaction);
        StartNodeTurn start_node_turn ();
        BeforeTurn before_turn ();
        BeforeIteration before_iteration ();
        BeforeLlm before_llm (request);
        AfterLlmResponse after_llm_response (response);
        BeforeToolExecution before_tool_execution (calls);
        AfterToolExecution after_tool_execution (results);
        AfterIteration after_iteration ();
        AfterTurn after_turn (result);
        EndNodeTurn end_node_turn ();
        AfterGraph after_graph (result);
        FinallyGraph finally_graph (end);
    }
    .to_vec();
    hooks.push(on::finalize_content(|_, content| Ok(content + "!")));
    for hook in &hooks {
        assert_eq!(hook.points(), [*HookPoint::ALL.iter().find(|p| *p.name() == *hook.name).unwrap()]);
    }
    let (runner, ctx, d) = (HookRunner::new(hooks), ctx(), Dispatch::new);
    let mut result = AgentResult::new("", StopReason::Completed);
    runner.before_graph(&ctx, d()).await.unwrap();
    runner.before_llm(&ctx, &LlmRequest::default(), d()).await.unwrap();
    runner.after_turn(&ctx, &mut result, d()).await.unwrap();
    runner.finally_graph(&ctx, LegEnd::Suspended, d()).await.unwrap();
    assert_eq!(runner.finalize_content(&ctx, "ok".into(), d()).0, "ok!");
    use HookPoint::*;
    assert_eq!(*called.lock().unwrap(), [BeforeGraph, BeforeLlm, AfterTurn, FinallyGraph]);
}

#[tokio::test]
async fn a_closure_that_panics_at_once_is_a_failed_hook() {
    let (notes, hook) = (Notes::default(), on::before_turn(|_| panic!("at once")));
    HookRunner::new([hook]).before_turn(&ctx(), Dispatch::new().log(&notes)).await.unwrap();
    assert_eq!(notes.kinds(), [HookFailureKind::Panic]);
}

struct Outcomes(Log);
impl OutcomeFinallyHook for Outcomes {
    async fn on_outcome(&self, _: &TurnContext, result: &AgentResult) -> Result<(), HookError> {
        self.0.push(if result.error.is_some() { "failed" } else { "ended" });
        Ok(())
    }
}

#[tokio::test]
async fn an_outcome_hook_never_sees_a_suspension_and_sees_a_crash_as_an_end() {
    let log = Log::default();
    let runner = HookRunner::new([hook!(Outcomes(log.clone()))]);
    let result = AgentResult::new("", StopReason::Completed);
    let error = turnwright_core::ErrorInfo::new(turnwright_core::ErrorKind::Store, "gone");
    for end in [LegEnd::Suspended, LegEnd::Drained, LegEnd::Terminal(&result), LegEnd::Crashed(&error)] {
        runner.finally_graph(&ctx(), end, Dispatch::new()).await.unwrap();
    }
    assert_eq!(log.take(), ["ended", "failed"]);
}

struct DropsBadly;
struct Bomb;
impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("on the way out");
    }
}
impl BeforeTurn for DropsBadly {
    async fn before_turn(&self, _: &TurnContext) -> Result<(), HookError> {
        let _bomb = Bomb;
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn fault_r4_68_a_hook_that_panics_when_its_time_is_up_harms_nobody() {
    let (log, notes) = (Log::default(), Notes::default());
    let limit = Duration::from_secs(1);
    let runner = HookRunner::new([hook!(DropsBadly).timeout(limit), hook!(Named("later", log.clone()))]);
    runner.before_turn(&ctx(), Dispatch::new().log(&notes)).await.unwrap();
    assert_eq!((notes.kinds(), log.take()), (vec![HookFailureKind::Timeout(limit)], vec!["later"]));
}

#[test]
fn a_spec_has_priority_0_ten_seconds_and_logs_unless_it_says_otherwise() {
    let of = |spec: HookSpec| {
        let row = HookRunner::new([spec]).plan().remove(0);
        (row.priority, row.timeout_ms, row.on_error)
    };
    assert_eq!(of(hook!(Named("a", Log::default()))), (0, 10_000, ErrorPolicy::Log));
    let other = hook!(Named("a", Log::default())).priority(-3).timeout(Duration::from_millis(5));
    assert_eq!(of(other.on_error(ErrorPolicy::Abort)), (-3, 5, ErrorPolicy::Abort));
}
