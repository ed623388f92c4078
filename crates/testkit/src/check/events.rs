//! Streams of a model and events of a turn.

use std::{collections::HashSet, sync::Arc};

use turnwright_core::{Message, Outcome, Role};
use turnwright_llm_stream::LlmEvent;
use turnwright_react_runtime::{TurnEvent, TurnEventKind};

use super::Verdict;

/// A model's stream ends with exactly one terminal event.
///
/// # Errors
/// What is wrong with it.
pub fn stream(events: &[LlmEvent]) -> Verdict {
    let terminals = events.iter().filter(|e| e.is_terminal()).count();
    if terminals != 1 {
        return Err(format!("{terminals} terminal events"));
    }
    match events.last() {
        Some(last) if last.is_terminal() => Ok(()),
        last => Err(format!("the last event is {last:?}")),
    }
}

/// The events of one leg: numbered from 1 without a gap, one session and turn, one last event, and each tool result
/// after its call and only once.
///
/// # Errors
/// What is wrong with them.
pub fn turn_events(events: &[TurnEvent]) -> Verdict {
    let Some(first) = events.first() else { return Err("no events".into()) };
    let (mut called, mut answered) = (HashSet::new(), HashSet::new());
    for (i, event) in events.iter().enumerate() {
        if event.seq != i as u64 + 1 {
            return Err(format!("event {} has number {}", i + 1, event.seq));
        }
        if event.turn != first.turn || event.session != first.session {
            return Err(format!("event {} is of another turn", event.seq));
        }
        let last = i + 1 == events.len();
        match &event.kind {
            TurnEventKind::TurnFinished(_) if !last => return Err("events after the last one".into()),
            TurnEventKind::ToolCall(call) if !called.insert(call.id.clone()) => {
                return Err(format!("call {} twice", call.id));
            }
            TurnEventKind::ToolResult(result) if !answered.insert(result.call_id().clone()) => {
                return Err(format!("result of {} twice", result.call_id()));
            }
            _ => {}
        }
    }
    match events.last().map(|e| &e.kind) {
        Some(TurnEventKind::TurnFinished(finished)) => {
            let terminal = !matches!(finished.outcome, Outcome::Suspended | Outcome::Drained);
            if finished.terminal == terminal {
                Ok(())
            } else {
                Err("terminal does not fit the outcome".into())
            }
        }
        last => Err(format!("the last event is {last:?}")),
    }
}

/// Whatever was visible is in the history: all text, in order, and every tool result that was shown. `turn` are the
/// messages of the turn.
///
/// # Errors
/// What is missing.
pub fn visible_is_kept(events: &[TurnEvent], turn: &[Arc<Message>]) -> Verdict {
    let shown: String = events
        .iter()
        .filter_map(|e| match &e.kind {
            TurnEventKind::TextDelta { text } => Some(text.as_str()),
            _ => None,
        })
        .collect();
    let kept: String = turn.iter().filter(|m| m.role == Role::Assistant).map(|m| m.text()).collect();
    if !kept.ends_with(&shown) {
        return Err(format!("shown {shown:?}, kept {kept:?}"));
    }
    for event in events {
        if let TurnEventKind::ToolResult(result) = &event.kind
            && !turn.iter().flat_map(|m| m.tool_results()).any(|kept| kept == result)
        {
            return Err(format!("the result of {} was shown and is not kept", result.call_id()));
        }
    }
    Ok(())
}
