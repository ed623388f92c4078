//! Any events through the adapters and the assembler.

use futures::{FutureExt, StreamExt, stream};
use serde_json::Map;
use turnwright_core::{CancelToken, ErrorInfo, ErrorKind, TokenUsage, ToolCall};
use turnwright_llm_stream::{
    Assembler, EventStream, FinishReason, LlmEvent, LlmResponse, ReasoningDelta, StreamItem, ToolProgress,
};

use super::dice::Dice;

/// However a client and a layer end their streams, there is one terminal event, the last; the events before it are
/// theirs, and the answer is what they say.
pub(crate) fn any_events(input: &[u8]) {
    let mut dice = Dice::new(input);
    let count = dice.below(24);
    let items: Vec<StreamItem> = (0..count).map(|_| item(&mut dice)).collect();
    let token = CancelToken::new();
    let provider = EventStream::provider(stream::iter(items.clone()), &token, None);
    // A layer that drops some events, perhaps the last one, and goes on after it.
    let (drops, adds) = (dice.byte(), dice.maybe());
    let layered = provider.enumerate().filter_map(move |(at, event)| {
        std::future::ready((drops == 0 || at % usize::from(drops) != 1).then_some(event))
    });
    let more = stream::iter(adds.then(|| LlmEvent::text("late")));
    let events: Vec<LlmEvent> =
        EventStream::layer(layered.chain(more), "layer").collect::<Vec<_>>().now_or_never().expect("no wait");
    let terminals = events.iter().filter(|event| event.is_terminal()).count();
    assert_eq!((terminals, events.last().is_some_and(LlmEvent::is_terminal)), (1, true), "{events:?}");
    check_answer(&events);
}

fn check_answer(events: &[LlmEvent]) {
    let mut assembler = Assembler::new();
    events.iter().for_each(|event| assembler.feed(event));
    // What follows the end changes nothing.
    assembler.feed(LlmEvent::text("after the end"));
    let response: LlmResponse = assembler.finish();
    let (mut text, mut reasoning, mut calls, mut usage) = (String::new(), String::new(), Vec::new(), None);
    for event in events {
        match event {
            LlmEvent::TextDelta { text: delta } => text.push_str(delta),
            LlmEvent::ReasoningDelta(delta) => reasoning.push_str(&delta.text),
            LlmEvent::ToolCallComplete(call) => calls.push((**call).clone()),
            LlmEvent::UsageSnapshot(snapshot) => usage = Some(**snapshot),
            _ => {}
        }
    }
    assert_eq!((response.text(), response.reasoning()), (text, reasoning));
    assert_eq!(response.tool_calls().cloned().collect::<Vec<_>>(), calls);
    let failed = matches!(events.last(), Some(LlmEvent::StreamFailure(_)));
    assert_eq!((response.error.is_some(), response.finish_reason.is_none()), (failed, failed));
    let expected = usage.unwrap_or(TokenUsage::UNKNOWN);
    assert_eq!(response.usage.partial, expected.partial || failed);
    assert_eq!(response.usage.output_tokens, expected.output_tokens);
}

fn item(dice: &mut Dice<'_>) -> StreamItem {
    let text = dice.one_of(&["", "a", "é😀", "\n"]);
    match dice.below(12) {
        0..3 => LlmEvent::text(text).into(),
        3..5 => LlmEvent::reasoning(text).into(),
        5 => {
            let opaque = Map::from_iter([(text.to_owned(), text.into())]);
            let delta = ReasoningDelta { text: text.to_owned(), opaque: Some(Box::new(opaque)) };
            LlmEvent::ReasoningDelta(delta).into()
        }
        6 => LlmEvent::ToolCallComplete(Box::new(ToolCall::new("c", "f", text))).into(),
        7 => {
            let usage = TokenUsage { output_tokens: Some(u64::from(dice.byte())), ..TokenUsage::UNKNOWN };
            LlmEvent::UsageSnapshot(Box::new(usage)).into()
        }
        8 => StreamItem::Progress(ToolProgress::Started { id: "c".into(), name: "f".into() }),
        9 => LlmEvent::finish(dice.one_of(&[FinishReason::Stop, FinishReason::Length])).into(),
        10 => LlmEvent::failure(ErrorInfo::new(ErrorKind::Server, text)).into(),
        _ => LlmEvent::text("b").into(),
    }
}
