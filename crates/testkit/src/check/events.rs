//! Streams of a model and events of a turn.

use std::{collections::HashSet, sync::Arc};

use turnwright_core::{Message, Outcome, Part, Role};
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
/// after its call and only once. A call that is answered in a later leg was shown in an earlier one: of such a leg
/// alone only that is not checked; [`turn_events_after`] checks it.
///
/// # Errors
/// What is wrong with them.
pub fn turn_events(events: &[TurnEvent]) -> Verdict {
    let is_first = matches!(events.first().map(|e| &e.kind), Some(TurnEventKind::TurnStarted { leg: 1, .. }));
    let is_cut_off = events.iter().any(|e| matches!(e.kind, TurnEventKind::Lagged { .. }));
    check_leg(events, &[], is_first && !is_cut_off)
}

/// The same for a leg whose earlier ones are known: a result answers a call that was shown in this leg or in one before
/// it, and was not answered yet.
///
/// # Errors
/// What is wrong with them.
pub fn turn_events_after(events: &[TurnEvent], earlier: &[TurnEvent]) -> Verdict {
    check_leg(events, earlier, true)
}

fn check_leg(events: &[TurnEvent], earlier: &[TurnEvent], all_calls_shown: bool) -> Verdict {
    let Some(first) = events.first() else { return Err("no events".into()) };
    let (mut called, mut answered) = (HashSet::new(), HashSet::new());
    for event in earlier {
        match &event.kind {
            TurnEventKind::ToolCall(call) => drop(called.insert(call.id.clone())),
            TurnEventKind::ToolResult(result) => drop(answered.insert(result.call_id().clone())),
            _ => {}
        }
    }
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
            TurnEventKind::ToolResult(result) if all_calls_shown && !called.contains(result.call_id()) => {
                return Err(format!("a result of {}, which was not called", result.call_id()));
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

/// Whatever was visible is in the history: all text and all reasoning, in order, and every tool result that was shown.
/// `turn` are the messages of the turn.
///
/// # Errors
/// What is missing.
pub fn visible_is_kept(events: &[TurnEvent], turn: &[Arc<Message>]) -> Verdict {
    let shown = |text: fn(&TurnEventKind) -> Option<&str>| -> String {
        events.iter().filter_map(|e| text(&e.kind)).collect()
    };
    let text = shown(|kind| match kind {
        TurnEventKind::TextDelta { text } => Some(text),
        _ => None,
    });
    let reasoning = shown(|kind| match kind {
        TurnEventKind::ReasoningDelta { text } => Some(text),
        _ => None,
    });
    let answers = || turn.iter().filter(|m| m.role == Role::Assistant);
    let kept: String = answers().map(|m| m.text()).collect();
    if !kept.ends_with(&text) {
        return Err(format!("shown {text:?}, kept {kept:?}"));
    }
    let kept: String = answers()
        .flat_map(|m| &m.parts)
        .filter_map(|p| match p {
            Part::Reasoning(reasoning) => Some(reasoning.text.as_str()),
            _ => None,
        })
        .collect();
    if !kept.ends_with(&reasoning) {
        return Err(format!("shown reasoning {reasoning:?}, kept {kept:?}"));
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

#[cfg(test)]
mod tests {
    use super::*;
    use turnwright_core::{
        ErrorInfo, ErrorKind, Reasoning, SessionId, StopReason, Timestamp, TokenUsage, ToolCall, ToolResult,
    };
    use turnwright_llm_stream::FinishReason;
    use turnwright_react_runtime::TurnFinished;

    use crate::virtual_sources;

    fn leg(leg: u32, kinds: impl IntoIterator<Item = TurnEventKind>) -> Vec<TurnEvent> {
        let last = TurnFinished {
            outcome: Outcome::Completed,
            terminal: true,
            content: String::new(),
            streamed: None,
            stop_reason: Some(StopReason::Completed),
            usage: TokenUsage::UNKNOWN,
            iterations: 1,
            error: None,
            cancelled_by: None,
            returned: Vec::new(),
            queued: Vec::new(),
            pending: Vec::new(),
        };
        let started = TurnEventKind::TurnStarted { agent: "a".into(), leg };
        let kinds = [started].into_iter().chain(kinds).chain([TurnEventKind::TurnFinished(Box::new(last))]);
        let (session, turn) = (SessionId::new("s").unwrap(), virtual_sources(1).id());
        let event = |(i, kind): (u64, _)| TurnEvent {
            seq: i + 1,
            session: session.clone(),
            turn,
            at: Timestamp::UNIX_EPOCH,
            kind,
        };
        (0..).zip(kinds).map(event).collect()
    }
    fn call() -> ToolCall {
        ToolCall::new("c", "work", "{}")
    }
    fn result(content: &str) -> ToolResult {
        ToolResult::ok(&call(), content)
    }
    fn shown() -> Vec<TurnEventKind> {
        vec![
            TurnEventKind::TextDelta { text: "Hel".into() },
            TurnEventKind::ReasoningDelta { text: "hm".into() },
            TurnEventKind::TextDelta { text: "lo".into() },
            TurnEventKind::ToolCall(call()),
            TurnEventKind::ToolResult(result("done")),
        ]
    }

    #[test]
    fn the_stream_checker_can_fail() {
        let (text, end) = (LlmEvent::text("a"), LlmEvent::finish(FinishReason::Stop));
        let failure = LlmEvent::failure(ErrorInfo::new(ErrorKind::Server, "500"));
        stream(&[text.clone(), end.clone()]).unwrap();
        for bad in [vec![], vec![text.clone()], vec![end.clone(), failure], vec![end, text]] {
            assert!(stream(&bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_checker_of_turn_events_can_fail() {
        let good = leg(1, shown());
        turn_events(&good).unwrap();
        let fails = |spoil: fn(&mut Vec<TurnEvent>)| {
            let mut bad = good.clone();
            spoil(&mut bad);
            assert!(turn_events(&bad).is_err(), "{bad:?}");
        };
        fails(Vec::clear);
        fails(|e| drop(e.pop()));
        fails(|e| drop(e.remove(2)));
        fails(|e| e[2].turn = virtual_sources(2).id());
        fails(|e| e.push(TurnEvent { seq: 8, ..e[6].clone() }));
        fails(|e| e[1].kind = e[4].kind.clone());
        fails(|e| e[1].kind = e[5].kind.clone());
        fails(|e| e[4].kind = e[1].kind.clone());
        fails(|e| {
            let TurnEventKind::TurnFinished(finished) = &mut e[6].kind else { return };
            finished.terminal = false;
        });
    }

    #[test]
    fn a_result_answers_a_call_of_its_leg_or_an_earlier_one() {
        let (asked, answered) = (leg(1, [TurnEventKind::ToolCall(call())]), shown().pop());
        let second = leg(2, answered);
        turn_events(&second).unwrap();
        turn_events_after(&second, &asked).unwrap();
        assert!(turn_events_after(&second, &[]).is_err(), "never called");
        assert!(turn_events_after(&second, &[asked, second.clone()].concat()).is_err(), "answered before");
    }

    #[test]
    fn the_checker_of_what_was_visible_can_fail() {
        let answer = |parts| Arc::new(Message::new(virtual_sources(3).id(), Role::Assistant, parts));
        let thought = |text: &str| Part::Reasoning(Reasoning { text: text.into(), ..Reasoning::default() });
        let tool = |content| Arc::new(Message::tool(virtual_sources(4).id(), result(content)));
        let events = leg(1, shown());
        let check = |text, reasoning, result| {
            visible_is_kept(&events, &[answer(vec![thought(reasoning), Part::text(text)]), tool(result)])
        };
        check("Hello", "hm", "done").unwrap();
        check("before. Hello", "hm", "done").unwrap();
        check("Hel", "hm", "done").unwrap_err();
        check("Hello", "", "done").unwrap_err();
        check("Hello", "hm", "other").unwrap_err();
    }
}
