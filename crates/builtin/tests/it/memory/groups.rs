//! Clean-up over random conversations: what the model is sent stays a legal history, and no call is parted from its results.

use std::sync::Arc;

use proptest::prelude::*;
use turnwright_builtin::memory::CleanUp;
use turnwright_core::{
    History, Interrupted, MemoryHistory, Message, Origin, Part, Role, SessionId, Sources, ToolCall,
    ToolResult, TurnContext, history,
};
use turnwright_hook::{Dispatch, HookRunner, HookSpec};
use turnwright_llm_stream::{LlmRequest, estimate};

/// A piece of a conversation. Numbers are lengths in bytes.
#[derive(Debug, Clone)]
enum Piece {
    User(usize),
    Answer(usize, bool),
    /// Calls of one answer, with a result each.
    Calls(Vec<usize>),
    Reminder(usize),
}

fn pieces() -> impl Strategy<Value = Vec<Piece>> {
    let long = || prop_oneof![4 => 0_usize..400, 1 => 400_usize..6_000];
    let piece = prop_oneof![
        long().prop_map(Piece::User),
        (long(), any::<bool>()).prop_map(|(length, cut)| Piece::Answer(length, cut)),
        prop::collection::vec(long(), 1..4).prop_map(Piece::Calls),
        long().prop_map(Piece::Reminder),
    ];
    prop::collection::vec(piece, 1..40)
}

fn text(length: usize) -> String {
    format!(".{}", "x".repeat(length))
}

fn messages(pieces: &[Piece]) -> Vec<Arc<Message>> {
    let sources = Sources::default();
    let mut messages = Vec::new();
    for (n, piece) in pieces.iter().enumerate() {
        match piece {
            Piece::User(length) => messages.push(Message::user(sources.id(), text(*length))),
            Piece::Answer(length, cut) => {
                let mut answer = Message::new(sources.id(), Role::Assistant, vec![Part::text(text(*length))]);
                answer.interrupted =
                    cut.then(|| Interrupted { reason: "cut".into(), pending_tools: Vec::new() });
                messages.push(answer);
            }
            Piece::Calls(results) => {
                let calls: Vec<_> =
                    (0..results.len()).map(|at| ToolCall::new(format!("c{n}-{at}"), "look", "{}")).collect();
                let parts = calls.iter().cloned().map(Part::ToolCall).collect();
                messages.push(Message::new(sources.id(), Role::Assistant, parts));
                for (call, length) in calls.iter().zip(results) {
                    messages.push(Message::tool(sources.id(), ToolResult::ok(call, text(*length))));
                }
            }
            Piece::Reminder(length) => {
                messages.push(Message::user(sources.id(), text(*length)).origin(Origin::Hook("h".into())));
            }
        }
    }
    messages.into_iter().map(Arc::new).collect()
}

fn seen(history: &MemoryHistory) -> Vec<Arc<Message>> {
    history::view(history.snapshot().messages)
}

proptest! {
    #[test]
    fn fault_b7_b8_a_clean_up_never_parts_a_call_from_its_results(pieces in pieces(), window in 100_u64..4_000) {
        let all = messages(&pieces);
        let history = Arc::new(MemoryHistory::new(all.clone()));
        let spec: HookSpec = CleanUp::for_window(window).into();
        let runner = HookRunner::new([spec]);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        // A second one finds the summary of the first.
        for _ in 0..3 {
            let ctx = TurnContext::builder(SessionId::new("s").unwrap()).history(history.clone()).build();
            let before = seen(&history);
            let request = LlmRequest { messages: before.clone(), ..LlmRequest::default() };
            runtime.block_on(runner.before_llm(&ctx, &request, Dispatch::default())).unwrap();
            let after = seen(&history);
            prop_assert_eq!(history::check(after.iter().map(|message| &**message)), Ok(()));
            // Nothing is invented, nothing out of order, and what is not seen any more is from the beginning.
            let kept: Vec<_> = after.iter().filter(|m| !matches!(m.origin, Origin::Summary { .. })).map(|m| m.id).collect();
            let expected: Vec<_> = before.iter().map(|message| message.id).collect();
            prop_assert!(expected.ends_with(&kept) || kept == expected, "{:?}", kept.len());
            // What the model did not see yet is there whole.
            let answer = all.iter().rposition(|message| message.role == Role::Assistant);
            for unseen in &all[answer.map_or(0, |at| if all[at].tool_calls().next().is_some() { at } else { at + 1 })..] {
                prop_assert!(kept.contains(&unseen.id));
            }
            let shorter = |messages: &[Arc<Message>]| messages.iter().map(|m| estimate::message(m)).sum::<u64>();
            prop_assert!(shorter(&after) <= shorter(&before));
        }
        prop_assert_eq!(history.snapshot().messages.iter().filter(|m| !matches!(m.origin, Origin::Summary { .. })).count(), all.len(), "all that was said stays");
    }
}
