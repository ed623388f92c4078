//! `context_assembly`: what is told, when, and what is left out.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering::SeqCst},
};

use turnwright_builtin::memory::{CleanUp, ContextAssembly, ContextSource, DynamicInstructions};
use turnwright_control::ControlError;
use turnwright_core::{BoxFuture, StopReason, TurnContext};
use turnwright_hook::{HookError, MemoryEvent, MemoryHook, MemoryRunner};
use turnwright_react_runtime::tool::tool;
use turnwright_testkit::{ScriptedModel, virtual_sources};

use super::{Seen, says};
use crate::support::{agent, ask, calls, reminders};

struct Says(&'static str, String);

impl ContextSource for Says {
    fn name(&self) -> &str {
        self.0
    }
    fn retrieve<'a>(&'a self, _: &'a TurnContext) -> BoxFuture<'a, Result<String, HookError>> {
        Box::pin(async move {
            match self.1.as_str() {
                "fails" => Err(HookError::msg("no")),
                #[expect(clippy::panic, reason = "a source that panics is what is tried")]
                "panics" => panic!("at the disco"),
                "hangs" => std::future::pending().await,
                "stops" => Err(ControlError::policy_violation("enough").into()),
                text => Ok(text.to_owned()),
            }
        })
    }
}

#[tokio::test(start_paused = true)]
async fn of_what_does_not_fit_the_lowest_priority_is_cut_and_a_source_that_fails_is_left_out() {
    let seen = Seen::default();
    let count = Arc::new(AtomicUsize::new(0));
    let clock = virtual_sources(1).clock;
    let began = clock.instant();
    let counted = count.clone();
    let assembly = ContextAssembly::default()
        .budget(100)
        .source(1, Says("low", "l".repeat(240)))
        .source(9, Says("broken", "fails".into()))
        .source(9, Says("mad", "panics".into()))
        .source(9, Says("slow", "hangs".into()))
        .source(5, Says("high", "h".repeat(240)))
        .source(
            9,
            DynamicInstructions::new("turn", move |_| format!("turn {}", counted.fetch_add(1, SeqCst))),
        )
        .tell(seen.runner());
    let session = agent([says("a"), says("b")]).hook(assembly).build().unwrap().new_session();
    ask(&session).await;
    ask(&session).await;
    assert_eq!((clock.instant() - began).as_secs(), 10, "five seconds a turn, however many hang");
    let told = reminders(&session);
    let first: Vec<_> = told.iter().map(|text| text.lines().nth(1).unwrap()).collect();
    assert_eq!(first, ["## low", "## high", "## turn", "## turn"], "what was said is not said again");
    assert!(told[0].contains(&"l".repeat(152)) && !told[0].contains(&"l".repeat(153)), "{}", told[0]);
    assert!(told[0].contains("… [the rest did not fit]") && told[1].contains(&"h".repeat(240)));
    assert!(told[2].contains("turn 0") && told[3].contains("turn 1"));
    let MemoryEvent::ContextAssembled { sections, .. } = seen.events()[0].clone() else { panic!() };
    let rows: Vec<_> =
        sections.iter().map(|s| (s.source.as_str(), s.retrieved, s.injected, s.pruned)).collect();
    assert_eq!(rows[0], ("low", 60, 38, 22));
    assert_eq!(
        rows[1..],
        [("broken", 0, 0, 0), ("mad", 0, 0, 0), ("slow", 0, 0, 0), ("high", 60, 60, 0), ("turn", 2, 2, 0)]
    );
}

#[tokio::test(start_paused = true)]
async fn a_control_error_of_a_source_ends_the_turn() {
    let assembly = ContextAssembly::default().source(0, Says("a", "stops".into()));
    let session = agent([says("a")]).hook(assembly).build().unwrap().new_session();
    assert_eq!(ask(&session).await.stop_reason, StopReason::PolicyViolation);
}

#[tokio::test(start_paused = true)]
async fn each_request_begins_with_the_bytes_of_the_one_before() {
    let turn = AtomicUsize::new(0);
    let counts =
        DynamicInstructions::new("turn", move |_| format!("This is turn {}.", turn.fetch_add(1, SeqCst)));
    let assembly = ContextAssembly::default().source(0, Says("a", "always".into())).source(0, counts);
    let model = ScriptedModel::new([calls("look", "{}"), says("a"), says("b"), says("c")]);
    let look = tool("look", "", async |_, _: serde_json::Value| Ok("seen"));
    let builder = turnwright_react_runtime::Agent::builder("agent", model.handle()).instructions("Be kind.");
    let builder = builder.sources(virtual_sources(1)).tool(look).hook(assembly);
    let session = builder.build().unwrap().new_session();
    for _ in 0..3 {
        ask(&session).await;
    }
    let requests = model.requests();
    let bytes = |n: usize| -> Vec<String> {
        requests[n].messages.iter().map(|message| serde_json::to_string(message).unwrap()).collect()
    };
    for n in 1..4 {
        let (before, now) = (bytes(n - 1), bytes(n));
        assert!(now.len() > before.len());
        assert_eq!(now[..before.len()], before[..], "request {n}");
        assert_eq!((&requests[n].system, &requests[n].tools), (&requests[0].system, &requests[0].tools));
    }
    assert_eq!(reminders(&session).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn what_a_summary_took_out_of_sight_is_told_again_in_the_same_turn() {
    let assembly = ContextAssembly::default()
        .source(0, Says("rule", "Never say no.".into()))
        .source(0, Says("rule", "Another of that name.".into()));
    let runner = MemoryRunner::new([Arc::new(assembly.clone()) as Arc<dyn MemoryHook>]);
    let model = ScriptedModel::new((0..5).map(|_| calls("dump", "{}")).chain([says("done")]));
    let dump = tool("dump", "", async |_, _: serde_json::Value| Ok("x".repeat(900)));
    let builder = turnwright_react_runtime::Agent::builder("agent", model.handle()).tool(dump);
    let builder = builder.sources(virtual_sources(1)).hook(assembly);
    let session = builder.hook(CleanUp::for_window(1000).tell(runner)).build().unwrap().new_session();
    ask(&session).await;
    let requests = model.requests();
    assert!(requests[5].messages[0].text().contains("are left out"), "there was a clean-up");
    for request in requests {
        let texts: Vec<_> = request.messages.iter().map(|message| message.text()).collect();
        for rule in ["Never say no.", "Another of that name."] {
            assert_eq!(texts.iter().filter(|text| text.contains(rule)).count(), 1, "{texts:?}");
        }
    }
}
