//! Real threads: turns are cut from another thread at random moments. Complements the sweep, which is exhaustive but
//! runs on one thread.

use std::{collections::BTreeMap, sync::Arc};

use futures::{FutureExt, StreamExt};
use turnwright_control::{CommandBody, ControlChannel, ControlCommand, ControlScope, InMemoryControlChannel};
use turnwright_core::{CancelCause, Outcome, RandomSource, Sources, clock::SeededRandom};
use turnwright_hook::hook;
use turnwright_react_runtime::{Agent, store::MemoryStore, tool::tool};
use turnwright_testkit::{
    Reply, ScriptedModel,
    check::{HookExpectation, history, hook_trace, turn_events, visible_is_kept},
    trace::{HookTrace, TraceHook},
};

const TURNS: u64 = 3_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_keeps_its_promises_when_another_thread_cuts_it() {
    let random = SeededRandom::new(11);
    let mut outcomes: BTreeMap<String, u64> = BTreeMap::new();
    for n in 0..TURNS {
        let (sources, trace) = (Sources::default(), HookTrace::new());
        let channel = Arc::new(InMemoryControlChannel::new(&sources));
        let model = ScriptedModel::new([
            Reply::new().text("Hel").text("lo ").call("a", "work", "{}").call("b", "work", "{}").finish(),
            Reply::new().text("do").text("ne").finish(),
        ]);
        let work = tool("work", "", async |_ctx, (): ()| {
            tokio::task::yield_now().await;
            Ok("worked")
        });
        let agent = Agent::builder("threads", model.handle())
            .channel(channel.clone())
            .store(Arc::new(MemoryStore::new()))
            .tool(work.parallel())
            .hook(hook!(TraceHook::new(0, &trace)))
            .build()
            .unwrap();
        let session = agent.new_session();
        let mut handle = session.start("hi").unwrap();
        // Some moment within the turn: spinning, so that it is no safe point of the executor.
        for _ in 0..random.next_u64() % 20_000 {
            std::hint::spin_loop();
        }
        match n % 4 {
            0 => drop(handle.cancel(CancelCause::requested("user"))),
            1 => drop(handle.interrupt(CancelCause::requested("user"))),
            2 => {
                let scope = ControlScope::turn(handle.session().clone(), handle.turn());
                let stop = CommandBody::CancelTurn { reason: None };
                let command = ControlCommand::new(&sources, scope, "user", stop);
                channel.send(command).now_or_never().unwrap().unwrap();
            }
            _ => drop(handle.drain()),
        }
        let outcome = handle.outcome().await.outcome();
        let mut events = Vec::new();
        while let Some(event) = handle.next().await {
            events.push(event);
        }
        let messages = session.messages();
        let at = || format!("turn {n}: {events:#?}\n{messages:#?}\n{:?}", trace.calls());
        turn_events(&events).unwrap_or_else(|e| panic!("{e} {}", at()));
        let over = outcome != Outcome::Drained;
        if over {
            history(&messages).unwrap_or_else(|e| panic!("{e} {}", at()));
            visible_is_kept(&events, &messages).unwrap_or_else(|e| panic!("{e} {}", at()));
        }
        if !trace.calls().is_empty() {
            let expect = HookExpectation { hooks: 1, legs: 1, over, cut: outcome == Outcome::Cancelled };
            hook_trace(&trace.calls(), expect).unwrap_or_else(|e| panic!("{e} {}", at()));
        }
        *outcomes.entry(format!("{outcome:?}")).or_default() += 1;
    }
    println!("{TURNS} turns cut from another thread: {outcomes:?}");
    assert!(outcomes["Cancelled"] > 0 && outcomes["Drained"] > 0, "{outcomes:?}");
}
