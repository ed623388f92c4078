//! Asking with less, over random conversations: what is left out is whole.

use std::sync::Arc;

use parking_lot::Mutex;
use proptest::prelude::*;
use turnwright_core::{
    ContextSize, ErrorInfo, ErrorKind, Message, Origin, Part, Role, Sources, ToolCall, ToolResult,
    TurnContext, history,
};
use turnwright_interceptor::{CallState, Core, Exit, builtin::ContextRetry, scope};
use turnwright_llm_stream::{LlmRequest, LlmResponse, estimate};

use crate::model::{chain, request, turn};

/// A model that refuses what is too large for it, and notes what it was asked.
struct Narrow {
    window: u64,
    asked: Mutex<Vec<LlmRequest>>,
}

impl Core<scope::LlmCall> for Narrow {
    async fn call(
        &self,
        _: &TurnContext,
        request: LlmRequest,
        _: &CallState<scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        let needed = estimate::request(&request);
        self.asked.lock().push(request);
        if needed <= self.window {
            return Ok(LlmResponse::text_only("ok"));
        }
        let mut error = ErrorInfo::new(ErrorKind::ContextOverflow, "too large");
        error.context =
            Some(Box::new(ContextSize { needed: Some(needed), limit: Some(self.window), excess: None }));
        Err(Exit::Failed(error))
    }
}

/// What stands at a place of a conversation: words of the user, of the model, of a hook, or calls with this many results.
fn conversation(pieces: &[(u8, usize)]) -> Vec<Arc<Message>> {
    let sources = Sources::default();
    let text = |length: usize| "x".repeat(length + 1);
    let mut messages = vec![Message::user(sources.id(), "first")];
    for (n, (kind, length)) in pieces.iter().enumerate() {
        match kind {
            0 => messages.push(Message::user(sources.id(), text(*length))),
            1 => messages.push(Message::new(sources.id(), Role::Assistant, vec![Part::text(text(*length))])),
            2 => messages.push(Message::user(sources.id(), text(*length)).origin(Origin::Hook("h".into()))),
            many => {
                let calls: Vec<_> =
                    (2..*many).map(|at| ToolCall::new(format!("c{n}-{at}"), "look", "{}")).collect();
                let parts = calls.iter().cloned().map(Part::ToolCall).collect();
                messages.push(Message::new(sources.id(), Role::Assistant, parts));
                let results = calls.iter().map(|call| ToolResult::ok(call, text(*length)));
                messages.extend(results.map(|result| Message::tool(sources.id(), result)));
            }
        }
    }
    messages.into_iter().map(Arc::new).collect()
}

proptest! {
    #[test]
    fn fault_b7_b8_a_smaller_request_never_parts_a_call_from_its_results(
        pieces in prop::collection::vec((0_u8..6, prop_oneof![4 => 0_usize..300, 1 => 300_usize..4_000]), 0..30),
        window in 50_u64..2_000,
    ) {
        let messages = conversation(&pieces);
        let request = LlmRequest { messages: messages.clone(), ..request() };
        let model = Narrow { window, asked: Mutex::default() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let out = runtime.block_on(chain(ContextRetry::default()).call(&turn(1, None), request, &model, None));
        let asked = model.asked.into_inner();
        prop_assert!(asked.len() <= 2);
        for request in &asked {
            let sent: Vec<_> = request.messages.iter().map(|message| &**message).collect();
            prop_assert_eq!(history::check(sent.iter().copied()), Ok(()));
            // The user's last words, and what came last.
            let users = |m: &&Arc<Message>| m.role == Role::User && m.origin == Origin::Conversation;
            let last = messages.iter().rfind(users).unwrap();
            prop_assert!(sent.iter().any(|message| message.id == last.id));
            prop_assert_eq!(sent.last().map(|m| m.id), messages.last().map(|m| m.id));
        }
        if let [first, second] = &asked[..] {
            prop_assert!(estimate::request(second) < estimate::request(first), "asked again with no less");
        }
        prop_assert!(out.is_ok() || asked.last().is_some_and(|last| estimate::request(last) > window));
    }
}
