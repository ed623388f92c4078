//! Registration: handles, names, inheritance, the plan.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex},
};

use futures::{FutureExt, Stream};
use turnwright_core::{ToolCall, ToolResult, TurnContext};
use turnwright_interceptor::{
    Around, AroundStream, CallState, Chain, Exit, Interceptors, Next, RegistrationGuard, ScopeName,
    StreamCall, interceptor, scope,
};
use turnwright_llm_stream::{EventStream, LlmEvent, LlmRequest};

use crate::support::*;

/// Appends its tag to every tool's answer.
#[derive(Clone)]
struct Tag(&'static str);
impl Around<scope::ToolCall> for Tag {
    async fn around(
        &self,
        _: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        let out = next.run(call).await?;
        let content = format!("{}{}", out.content, self.0);
        Ok(out.with_content(content))
    }
}

/// Wraps every scope.
struct All;
impl<S: Sample> Around<S> for All {
    async fn around(&self, _: &TurnContext, input: S::In, next: Next<'_, S>) -> Result<S::Out, Exit> {
        next.run(input).await
    }
}
impl AroundStream for All {
    fn around_stream(
        &self,
        _: &TurnContext,
        _: &LlmRequest,
        _: &StreamCall,
        inner: EventStream<'_>,
    ) -> impl Stream<Item = LlmEvent> + Send {
        inner
    }
}

struct Gate;
impl Around<scope::LlmCall> for Gate {
    async fn around(
        &self,
        _: &TurnContext,
        request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<turnwright_llm_stream::LlmResponse, Exit> {
        next.run(request).await
    }
    fn is_gating(&self) -> bool {
        true
    }
}

async fn answer(chain: &Chain<scope::ToolCall>) -> String {
    chain.call(&ctx(), call(), &echo(), None).await.unwrap().content
}

fn plan(i: &Interceptors) -> Vec<String> {
    i.plan()
        .into_iter()
        .map(|p| format!("{} {} {}{}", p.scope, p.index, p.name, if p.inherited { " inherited" } else { "" }))
        .collect()
}

/// middleware-hooks §7.1 rows 6 and 8 (a handle is consumed by removing).
#[tokio::test]
async fn a_handle_removes_exactly_its_own_entry_also_among_equal_ones() {
    let chain = Chain::default();
    let (a, b, c) = (chain.register(Tag("x")), chain.register(Tag("y")), chain.register(Tag("x")));
    assert_eq!(answer(&chain).await, "[in]xyx");
    c.remove();
    assert_eq!(answer(&chain).await, "[in]yx", "index 0 leaves last");
    a.remove();
    assert_eq!(answer(&chain).await, "[in]y");
    drop(b);
    assert_eq!(chain.len(), 1, "dropping the handle leaves the layer");

    let i = Interceptors::default();
    let spec = interceptor!(Tag("x"));
    let (first, second) = (i.register(spec.clone().name("first")), i.register(spec.name("second")));
    first.remove();
    assert_eq!(plan(&i), ["tool_call 0 second"]);
    second.remove();
    assert!(i.tool_call.is_empty());
}

#[test]
fn one_handle_removes_a_layer_from_every_scope_it_wraps() {
    let i = Interceptors::default();
    i.register(interceptor!(Tag("x"))).keep();
    let all = i.register(interceptor!(All));
    assert_eq!(i.plan().len(), 8);
    all.remove();
    assert_eq!(plan(&i), ["tool_call 0 Tag"]);
}

#[test]
fn handles_outlive_their_chain_and_can_be_joined() {
    let chain = Chain::default();
    let both = chain.register(Tag("x")).and(chain.register(Tag("y")));
    let late = chain.register(Tag("z"));
    both.remove();
    assert_eq!(chain.len(), 1);
    drop(chain);
    late.remove();
}

#[tokio::test]
async fn a_running_call_keeps_the_list_it_began_with() {
    let chain = Chain::default();
    let x = chain.register(Tag("x"));
    let (ctx, tool) = (ctx(), echo());
    let mut running = Box::pin(chain.call(&ctx, call(), &tool, None));
    assert!((&mut running).now_or_never().is_none(), "it waits in the core");
    x.remove();
    chain.register(Tag("y")).keep();
    assert_eq!(running.await.unwrap().content, "[in]x");
    assert_eq!(answer(&chain).await, "[in]y");
}

/// middleware-hooks §7.1 row 13.
#[tokio::test]
async fn a_layer_may_change_its_own_chain_and_every_attempt_of_the_call_has_the_old_list() {
    let chain = Chain::<scope::ToolCall>::default();
    let own = chain.clone();
    chain
        .register(layer::<scope::ToolCall, _>(move |call, next| {
            let own = own.clone();
            Box::pin(async move {
                let mut replay = next.replayable().unwrap();
                let _ = replay.run(call.clone()).await?;
                own.register(Tag("late")).keep();
                replay.run(call).await
            })
        }))
        .keep();
    let tool =
        CoreFn(|call: ToolCall, state: &CallState<_>| Ok(ToolResult::ok(&call, state.attempt().to_string())));
    assert_eq!(chain.call(&ctx(), call(), &tool, None).await.unwrap().content, "2");
    assert_eq!(chain.len(), 2);
}

#[test]
fn a_guard_removes_its_layer_when_dropped_and_on_panic() {
    let chain = Chain::default();
    let guard = chain.register(Tag("x")).into_guard();
    assert_eq!(chain.len(), 1);
    drop(guard);
    assert!(chain.is_empty());
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        let _guard = chain.register(Tag("x")).into_guard();
        assert_eq!(chain.len(), 1);
        panic!("in the owner");
    }));
    assert!(panicked.is_err() && chain.is_empty());
}

/// Invariant 8: a layer's destructor is user code.
#[test]
fn a_layer_that_is_removed_is_dropped_outside_the_lock() {
    struct Owner(Chain<scope::ToolCall>, Mutex<Option<RegistrationGuard>>);
    impl Drop for Owner {
        fn drop(&mut self) {
            self.1.lock().unwrap().take();
            assert!(self.0.is_empty());
        }
    }
    impl Around<scope::ToolCall> for Owner {
        async fn around(
            &self,
            _: &TurnContext,
            call: ToolCall,
            next: Next<'_, scope::ToolCall>,
        ) -> Result<ToolResult, Exit> {
            next.run(call).await
        }
    }
    let chain = Chain::default();
    let partner = chain.register(Tag("x")).into_guard();
    let owner = chain.register(Owner(chain.clone(), Mutex::new(Some(partner))));
    let (done, finished) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        owner.remove();
        let _ = done.send(());
    });
    let ended = finished.recv_timeout(std::time::Duration::from_secs(10));
    assert!(ended.is_ok(), "the destructor waits for the lock under which it runs");
    assert!(chain.is_empty());
}

/// middleware-hooks §7.1 row 7.
#[test]
fn reserved_unknown_and_unwrapped_scopes_are_refused_by_name() {
    let i = Interceptors::default();
    let refused = |scope: &str| i.register_at(scope, interceptor!(All)).map(|_| ()).unwrap_err().to_string();
    for reserved in ["pipeline_step", "pool_task"] {
        assert_eq!(
            refused(reserved),
            format!(
                "{reserved:?} is reserved and not wired; wired scopes are agent_run, turn, iteration, llm_call, \
                 llm_stream, tool_call, execute_code"
            )
        );
    }
    let unknown = refused("tool");
    assert!(
        unknown.starts_with("\"tool\" is no interceptor scope; wired scopes are agent_run, "),
        "{unknown}"
    );
    let not_wrapped = i.register_at("turn", interceptor!(Tag("x"))).map(|_| ()).unwrap_err();
    assert_eq!(not_wrapped.to_string(), "the layer \"Tag\" does not wrap turn; it wraps tool_call");
    assert!(i.plan().is_empty(), "nothing was registered");
}

/// middleware-hooks §7.1 row 9.
#[test]
fn a_layer_registered_by_name_stands_at_that_scope_only() {
    for scope in ScopeName::ALL {
        let i = Interceptors::default();
        let registration = i.register_at(scope.name(), interceptor!(All).name("one")).unwrap();
        assert_eq!(plan(&i), [format!("{scope} 0 one")]);
        registration.remove();
        assert!(i.plan().is_empty());
    }
}

#[test]
fn the_scopes_of_a_type_are_found_out() {
    assert_eq!(interceptor!(All).scopes(), ScopeName::ALL);
    assert_eq!(interceptor!(Tag("x")).scopes(), [ScopeName::ToolCall]);
    assert_eq!(interceptor!(Gate).scopes(), [ScopeName::LlmCall]);
    assert!(format!("{:?}", interceptor!(Gate)).contains("\"Gate\""));
}

#[tokio::test]
async fn fault_h4_inherited_layers_stand_outside_the_childs_own_at_any_depth() {
    let parent = Interceptors::default();
    parent.register(interceptor!(Tag("o")).name("own")).keep();
    parent.register(interceptor!(Tag("p")).name("policy").inherited()).keep();
    parent.register(interceptor!(All).name("limits").inherited()).keep();
    let child = parent.for_child();
    child.register(interceptor!(Tag("c")).name("child")).keep();
    let grandchild = child.for_child();
    grandchild.register(interceptor!(Tag("g")).name("grandchild")).keep();

    let tools =
        |i: &Interceptors| plan(i).into_iter().filter(|row| row.starts_with("tool_call")).collect::<Vec<_>>();
    assert_eq!(
        tools(&parent),
        ["tool_call 0 own", "tool_call 1 policy inherited", "tool_call 2 limits inherited"]
    );
    assert_eq!(
        tools(&child),
        ["tool_call 0 policy inherited", "tool_call 1 limits inherited", "tool_call 2 child"]
    );
    assert_eq!(tools(&grandchild)[2], "tool_call 2 grandchild");
    assert_eq!(child.plan().len(), 8 + 1, "every scope inherits, the stream too");
    assert_eq!(answer(&parent.tool_call).await, "[in]po");
    assert_eq!(answer(&child.tool_call).await, "[in]cp");
    assert_eq!(answer(&grandchild.tool_call).await, "[in]gp");
}

/// middleware-hooks §7.1 row 14.
#[tokio::test]
async fn a_later_change_of_the_parent_does_not_reach_the_child_nor_the_other_way_round() {
    let parent = Interceptors::default();
    let policy = parent.register(interceptor!(Tag("p")).name("policy").inherited());
    let child = parent.for_child();
    policy.remove();
    parent.register(interceptor!(Tag("q")).inherited()).keep();
    child.register(interceptor!(Tag("c")).inherited()).keep();
    assert_eq!(answer(&child.tool_call).await, "[in]cp");
    assert_eq!(answer(&parent.tool_call).await, "[in]q");
}

#[test]
fn clones_are_the_same_chains() {
    let i = Interceptors::default();
    let same = i.clone();
    i.tool_call.clone().register(Tag("x")).keep();
    same.llm_stream.register(All).keep();
    assert_eq!((same.tool_call.len(), i.llm_stream.len()), (1, 1));
    assert!(!i.llm_stream.is_empty());
}

#[test]
fn fault_h13_h14_the_plan_shows_every_layer_in_its_place() {
    let i = Interceptors::default();
    i.register(interceptor!(Tag("x")).name("limit")).keep();
    i.register(interceptor!(All).inherited()).keep();
    i.register(interceptor!(Gate)).keep();
    assert_eq!(
        plan(&i),
        [
            "agent_run 0 All inherited",
            "turn 0 All inherited",
            "iteration 0 All inherited",
            "llm_call 0 All inherited",
            "llm_call 1 Gate",
            "llm_stream 0 All inherited",
            "tool_call 0 limit",
            "tool_call 1 All inherited",
            "execute_code 0 All inherited",
        ]
    );
    assert!(format!("{i:?}").contains("\"limit\""));
}

#[test]
fn the_plan_and_the_chain_of_a_child_know_what_is_gating() {
    let i = Interceptors::default();
    i.register(interceptor!(All)).keep();
    assert!(!i.llm_call.is_gating());
    let gate = i.register(interceptor!(Gate).inherited());
    assert!(i.llm_call.is_gating() && i.for_child().llm_call.is_gating());
    let gating: Vec<_> = i.plan().into_iter().filter(|row| row.gating).map(|row| row.name).collect();
    assert_eq!(gating, ["Gate"]);
    gate.remove();
    assert!(!i.llm_call.is_gating());
}

#[tokio::test]
async fn registering_from_many_threads_loses_nothing() {
    let chain = Arc::new(Chain::<scope::ToolCall>::default());
    std::thread::scope(|s| {
        for _ in 0..4 {
            s.spawn(|| {
                for n in 0..50 {
                    let registration = chain.register(Tag("x"));
                    if n % 2 == 0 {
                        registration.remove();
                    }
                }
            });
        }
    });
    assert_eq!(chain.len(), 100);
    assert_eq!(answer(&chain).await.len(), 4 + 100);
}
