//! Taking up a turn whose process went away in the middle of a leg: the last checkpoint, and what the journal says
//! happened since.

use std::sync::Arc;

use turnwright_core::{
    ErrorInfo, ErrorKind, Interrupted, Message, Part, Reasoning, Recovery, Role, Sources, Synthetic,
    ToolResult,
};
use turnwright_hook::ToolDecision;

use crate::{
    agent::AgentInner,
    event::TurnEventKind,
    snapshot::{BatchCall, TurnSnapshot},
    store::JournalRecord,
};

/// What the journal adds.
pub(super) struct Recovered {
    /// What was shown of answers that nobody finished, one message each.
    pub(super) shown: Vec<Message>,
    /// What the next leg tells.
    pub(super) events: Vec<TurnEventKind>,
}

/// Brings a snapshot up to what the journal says.
pub(super) fn recover(
    snapshot: &mut TurnSnapshot,
    journal: &[JournalRecord],
    agent: &AgentInner,
) -> Recovered {
    let shown = shown(journal, &agent.sources);
    let calls = snapshot.batch.iter_mut().flat_map(|batch| &mut batch.calls);
    let (mut events, mut is_asked_anew) = (Vec::new(), false);
    for entry in calls.filter(|entry| entry.result.is_none()) {
        note(entry, journal, agent);
        if entry.is_open() && entry.in_doubt {
            is_asked_anew |= is_started(entry, journal);
            let tool = agent.tools.get(&entry.call.name);
            let recovery = tool.map_or(Recovery::Report, |tool| tool.definition.recovery());
            events.push(TurnEventKind::InDoubt { id: entry.call.id.clone(), recovery });
            settle(entry, recovery, &mut events);
        }
    }
    // A decision covers one run of a call. The batch has what was decided before, so that nothing else is lost.
    if is_asked_anew {
        snapshot.transaction = None;
    }
    Recovered { shown, events }
}

/// Whether the process that went away started it, and not one before.
fn is_started(entry: &BatchCall, journal: &[JournalRecord]) -> bool {
    journal
        .iter()
        .any(|record| matches!(record, JournalRecord::Intent { call, .. } if *call == entry.call.id))
}

/// The last record of a call counts.
fn note(entry: &mut BatchCall, journal: &[JournalRecord], agent: &AgentInner) {
    for record in journal {
        match record {
            JournalRecord::Intent { call, ran_with } if *call == entry.call.id => {
                entry.ran_with.clone_from(ran_with);
                (entry.entered, entry.in_doubt, entry.recovered) = (true, true, None);
            }
            JournalRecord::Result { result } if *result.call_id() == entry.call.id => {
                let result = agent.tool_result_limit.limited(result.clone());
                (entry.in_doubt, entry.recovered) = (false, Some(result));
            }
            _ => {}
        }
    }
}

fn settle(entry: &mut BatchCall, recovery: Recovery, events: &mut Vec<TurnEventKind>) {
    match recovery {
        // What was allowed then is allowed now; the call is the same, and so is its idempotency key.
        Recovery::Rerun => {}
        Recovery::Ask => {
            let reason = "it was started before the process went away, and nobody knows whether it took effect. \
                          Allow it to run it again";
            entry.decision = Some(ToolDecision::Pending(reason.into()));
            (entry.allowed, entry.expires_at) = (None, None);
        }
        Recovery::Report => {
            let result = in_doubt(entry, None);
            events.push(TurnEventKind::ToolResult(result.clone()));
            entry.result = Some(result);
        }
    }
}

/// What the model is told of a call in doubt that does not run again.
pub(crate) fn in_doubt(entry: &BatchCall, why_not: Option<&str>) -> ToolResult {
    let mut message = String::from(
        "the process that ran this call went away before it was done: it may have taken effect or not. Check before \
         you call it again",
    );
    if let Some(why_not) = why_not {
        message.push_str(". It was not run again: ");
        message.push_str(why_not);
    }
    let error = ErrorInfo::new(ErrorKind::InDoubt, message);
    let mut result = ToolResult::synthetic(&entry.call, Synthetic::InDoubt, error);
    result.ran_with.clone_from(&entry.ran_with);
    result
}

/// Each answer that was being shown becomes an interrupted message.
fn shown(journal: &[JournalRecord], sources: &Sources) -> Vec<Message> {
    let mut answers: Vec<(u32, String, String)> = Vec::new();
    for record in journal {
        let JournalRecord::Shown { answer, text, reasoning } = record else { continue };
        match answers.last_mut() {
            Some((same, words, thoughts)) if same == answer => {
                words.push_str(text);
                thoughts.push_str(reasoning);
            }
            _ => answers.push((*answer, text.clone(), reasoning.clone())),
        }
    }
    let parts = |text: String, reasoning: String| {
        let thought = (!reasoning.is_empty())
            .then(|| Part::Reasoning(Reasoning { text: reasoning, ..Reasoning::default() }));
        let text = (!text.is_empty()).then(|| Part::text(text));
        thought.into_iter().chain(text).collect::<Vec<_>>()
    };
    let message = |(_, text, reasoning)| {
        let mut message = Message::new(sources.id(), Role::Assistant, parts(text, reasoning));
        message.interrupted = Some(Interrupted { reason: "crash".into(), pending_tools: Vec::new() });
        message
    };
    answers.into_iter().map(message).collect()
}

/// The messages of a session with what was shown last.
pub(super) fn with_shown(mut messages: Vec<Arc<Message>>, shown: Vec<Message>) -> Vec<Arc<Message>> {
    messages.extend(shown.into_iter().map(Arc::new));
    messages
}
