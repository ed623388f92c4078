//! What a subagent has of its parent, and what not.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;
use turnwright_core::{
    BudgetLimits, CancelCause, CancelToken, ErrorKind, ParentCall, SessionId, ToolCall, ToolResult,
    TurnContext,
};
use turnwright_hook::{HookError, hook, point::StartNodeTurn};
use turnwright_interceptor::{Around, Exit, Next, interceptor, scope};
use turnwright_testkit::Reply;

use super::{World, head, open, reader, results, says, task};

/// What the context of a subagent's turn says.
#[derive(Debug, Clone, Default)]
struct Seen {
    parent: Option<ParentCall>,
    left: Option<Duration>,
    budget: Option<String>,
    session: Option<SessionId>,
}

struct Look(Arc<Mutex<Seen>>);

impl StartNodeTurn for Look {
    async fn start_node_turn(&self, ctx: &TurnContext) -> Result<(), HookError> {
        *self.0.lock() = Seen {
            parent: ctx.parent().cloned(),
            left: ctx.deadline().map(|at| at - ctx.sources().clock.instant()),
            budget: ctx.budget().and_then(|b| b.parent()).map(|b| format!("{:?}", b.limits().model_calls)),
            session: Some(ctx.session().clone()),
        };
        Ok(())
    }
}

struct Veto;

impl Around<scope::ToolCall> for Veto {
    async fn around(
        &self,
        _: &TurnContext,
        call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        match call.name == "look" {
            true => Err(Exit::failed(ErrorKind::Denied, "not here")),
            false => next.run(call).await,
        }
    }
}

#[tokio::test(start_paused = true)]
async fn fault_m5_deadline_budget_and_whose_it_is_are_inherited() {
    for detach in [false, true] {
        let (world, seen) = (World::new(), Arc::new(Mutex::new(Seen::default())));
        let child = reader([says("x")]).hook(hook!(Look(seen.clone())));
        let more = if detach { r#","detach":true"# } else { "" };
        let parent = world
            .parent([task("a", more), says("done")])
            .deadline(Duration::from_secs(50))
            .budget(BudgetLimits { model_calls: Some(17), ..BudgetLimits::default() });
        let (agent, _) = world.crew().agent("", child).build(parent).unwrap();
        let session = open(&agent).await;
        let mut handle = session.start("go").unwrap();
        let (turn, run) = (handle.turn(), handle.context().run());
        handle.result().await.unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let seen = seen.lock().clone();
        let call = ParentCall { session: session.id().clone(), run, turn, call: "a".into() };
        assert_eq!(seen.parent, Some(call));
        assert_eq!(seen.budget.as_deref(), Some("Some(17)"));
        let own = Duration::from_secs(3600);
        assert_eq!(
            seen.left.is_some_and(|left| left <= Duration::from_secs(50)),
            !detach,
            "{:?} of {own:?}",
            seen.left
        );
        assert_ne!(seen.session.as_ref(), Some(session.id()));
    }
}

#[tokio::test(start_paused = true)]
async fn fault_m5_a_deadline_of_the_parent_ends_the_subagent_as_timed_out() {
    let world = World::new();
    let parent = world.parent([task("a", ""), says("done")]).deadline(Duration::from_secs(50));
    let crew = world.crew().agent("", reader([Reply::new().text("so far").silence()]));
    let (agent, _) = crew.build(parent).unwrap();
    open(&agent).await.start("go").unwrap().result().await.unwrap();
    assert_eq!(head(&world.mail().await[0].text, "status"), "timed_out");
}

#[tokio::test(start_paused = true)]
async fn fault_m5_a_cancel_reaches_the_subagent_with_its_cause() {
    let world = World::new();
    let (agent, _) = world.pair([task("a", "")], reader([Reply::new().text("so far").silence()]));
    let (session, caller) = (open(&agent).await, CancelToken::new());
    let mut handle = session.start_under(&caller, "go").unwrap();
    tokio::time::sleep(Duration::from_secs(5)).await;
    caller.cancel(CancelCause::requested("ann").reason("enough"));
    handle.result().await.unwrap();
    let report = world.mail().await.remove(0).text;
    assert_eq!((head(&report, "status"), head(&report, "issue")), ("cancelled", "cancelled by ann: enough"));
    assert!(report.contains("so far"), "what was shown is told: {report}");
}

#[tokio::test(start_paused = true)]
async fn fault_h4_r4_61_inherited_layers_stand_round_the_calls_of_subagents_and_others_do_not() {
    for inherited in [true, false] {
        let world = World::new();
        let looks = Reply::new().call("l", "look", "{}").finish();
        let layer = interceptor!(Veto);
        let layer = if inherited { layer.inherited() } else { layer };
        let parent = world.parent([task("a", ""), says("done")]).interceptor(layer);
        let (agent, subagents) = world.crew().agent("", reader([looks, says("x")])).build(parent).unwrap();
        open(&agent).await.start("go").unwrap().result().await.unwrap();
        let child = world.sessions().await.remove(0);
        let child = subagents.agent("reader").unwrap().open_session(child).await.unwrap();
        assert_eq!(results(&child)[0].content == "seen", !inherited, "{:?}", results(&child));
    }
}

#[tokio::test(start_paused = true)]
async fn fault_m6_what_a_subagent_uses_is_counted_once_and_is_not_its_parents_own() {
    let world = World::new();
    let parent = world
        .parent([
            Reply::new().usage(10, 1).call("a", "task", &super::arguments("")).finish(),
            Reply::new().usage(20, 2).text("done").finish(),
        ])
        .budget(BudgetLimits { tokens: Some(1_000_000), ..BudgetLimits::default() });
    let child = reader([Reply::new().usage(500, 50).text("x").finish()]);
    let (agent, _) = world.crew().agent("", child).build(parent).unwrap();
    let mut handle = open(&agent).await.start("go").unwrap();
    let result = handle.result().await.unwrap();
    assert_eq!((result.usage.input_tokens, result.usage.output_tokens), (Some(30), Some(3)));
    let used = handle.context().budget().unwrap().used();
    assert_eq!((used.tokens, used.model_calls), (583, 3));
}

#[tokio::test(start_paused = true)]
async fn a_budget_that_a_subagent_uses_up_ends_it_and_its_parent() {
    let world = World::new();
    let parent = world
        .parent([task("a", ""), says("done")])
        .budget(BudgetLimits { model_calls: Some(2), ..BudgetLimits::default() });
    let looks = Reply::new().call("l", "look", "{}").finish();
    let (agent, _) = world.crew().agent("", reader([looks, says("x")])).build(parent).unwrap();
    let session = open(&agent).await;
    let result = session.start("go").unwrap().result().await.unwrap();
    let report = &results(&session)[0].content;
    assert_eq!(head(report, "status"), "limit_reached");
    assert!(head(report, "issue").contains("2 model calls"), "{report}");
    assert_eq!(result.stop_reason, turnwright_core::StopReason::Budget);
}
