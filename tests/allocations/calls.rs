//! Points, chains, observers and instrumentation: nothing where nobody is registered, and one box a hook or layer.

use std::sync::Arc;

use turnwright_core::{IterationEnd, SessionId, ToolCall, ToolResult, TurnContext};
use turnwright_hook::{
    Dispatch, HookError, HookRunner, hook_points,
    instrument::{Failure, Instrumentation, Instruments, kind},
    observe::{Observed, Observers},
    point::BeforeIteration,
};
use turnwright_interceptor::{Around, CallState, Chain, Core, Exit, Next, scope};

use crate::count;

fn ctx() -> TurnContext {
    TurnContext::builder(SessionId::new("s").unwrap()).build()
}

#[derive(Clone, Copy)]
struct Listens;
impl BeforeIteration for Listens {
    async fn before_iteration(&self, _: &TurnContext) -> Result<(), HookError> {
        Ok(())
    }
}
hook_points!(Listens);

#[test]
fn a_point_allocates_one_box_a_hook_and_nothing_when_nobody_listens() {
    let ctx = ctx();
    for hooks in [0, 1, 8] {
        let runner = HookRunner::new(vec![Listens; hooks].into_iter().map(Into::into));
        let fired = count(runner.before_iteration(&ctx, Dispatch::new()));
        assert_eq!(fired, hooks as u64, "with {hooks} hooks");
    }
}

struct Passes;
impl Around<scope::Iteration> for Passes {
    async fn around(
        &self,
        _: &TurnContext,
        iteration: u32,
        next: Next<'_, scope::Iteration>,
    ) -> Result<IterationEnd, Exit> {
        next.run(iteration).await
    }
}

struct Work;
impl Core<scope::Iteration> for Work {
    async fn call(
        &self,
        _: &TurnContext,
        _: u32,
        _: &CallState<scope::Iteration>,
    ) -> Result<IterationEnd, Exit> {
        Ok(IterationEnd::Continue)
    }
}

#[test]
fn an_empty_chain_allocates_nothing_and_others_one_box_a_layer_and_one_for_the_call() {
    let ctx = ctx();
    for (layers, boxes) in [(0, 0), (1, 2), (8, 9)] {
        let chain = Chain::<scope::Iteration>::default();
        for _ in 0..layers {
            chain.register(Passes).keep();
        }
        assert_eq!(count(chain.call(&ctx, 1, &Work, None)), boxes, "with {layers} layers");
    }
}

struct Event;
impl Observed for Event {
    type Name = ();
    fn name(&self) {}
}

#[test]
fn telling_observers_allocates_nothing_however_many_there_are() {
    let event = Arc::new(Event);
    for observers in [0, 1, 8] {
        let told = Observers::<Event>::default();
        for _ in 0..observers {
            told.on_all(|_: &Arc<Event>| {});
        }
        assert_eq!(count(async { told.tell(&event) }), 0, "with {observers} observers");
    }
}

struct Silent;
impl Instrumentation for Silent {
    type Context = ();
}

#[test]
fn a_call_that_nobody_watches_allocates_nothing_and_one_that_is_watched_two_boxes_however_many_watch() {
    let (ctx, call) = (ctx(), ToolCall::new("c", "t", "{}"));
    let failure = |_: &Exit| -> Failure<'_> { unreachable!("it does not fail") };
    for (watching, boxes) in [(0, 0), (1, 2), (8, 2)] {
        let instruments = Instruments::default();
        for _ in 0..watching {
            instruments.register(Silent);
        }
        let result = ToolResult::ok(&call, "ok");
        let work = async { Ok::<_, Exit>(result) };
        let counted =
            count(async { drop(instruments.watch::<kind::Tool, _>(&ctx, &call, failure, work).await) });
        assert_eq!(counted, boxes, "with {watching} that watch");
    }
}
