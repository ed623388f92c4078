//! The next leg of a turn at rest: what was decided since, and what a process that went away left.

use std::sync::Arc;

use turnwright_core::{CancelCause, Message, Timestamp, ToolResult, TurnState, Verdict, state::StateError};
use turnwright_hook::ToolDecision;

use super::{
    Parent, StartError,
    recover::{Recovered, in_doubt, recover, with_shown},
    start::NewLeg,
    surface,
};
use crate::{
    agent::AgentInner,
    approval::OnDenial,
    driver::{LegRt, refused},
    event::TurnEventKind,
    ledger::LegParts,
    snapshot::TurnSnapshot,
    store::JournalRecord,
};

/// Makes the next leg of a turn at rest, with the decisions made since applied to its batch.
pub(super) fn next_leg(
    mut snapshot: TurnSnapshot,
    (messages, journal): (Vec<Arc<Message>>, &[JournalRecord]),
    agent: &AgentInner,
    (mut cancelled, is_answered): (Option<CancelCause>, bool),
    now: Timestamp,
) -> Result<NewLeg, StartError> {
    if snapshot.schema != TurnSnapshot::SCHEMA {
        let words = format!("its schema is {}, this program reads {}", snapshot.schema, TurnSnapshot::SCHEMA);
        return Err(StartError::Unreadable(super::unreadable(words)));
    }
    if snapshot.tools != agent.fingerprint && cancelled.is_none() {
        return Err(StartError::ToolsChanged);
    }
    let was_cut_off = snapshot.running;
    // What the process that went away left is stored with the mark of this leg: it is not read from the journal twice.
    let Recovered { shown, events: mut resolved } = recover(&mut snapshot, journal, agent);
    let mut deferred = std::mem::take(&mut snapshot.deferred);
    let messages = match &snapshot.batch {
        // The results of the batch come first.
        Some(_) => {
            deferred.extend(shown);
            messages
        }
        None => with_shown(messages, shown),
    };
    let begun_from = TurnSnapshot { running: true, deferred: deferred.clone(), ..snapshot.clone() };
    let TurnSnapshot { mut machine, mut batch, transaction, .. } = snapshot;
    let (mut decided, mut undecided, mut granted) = (0, 0, Vec::new());
    for entry in batch.iter_mut().flat_map(|b| &mut b.calls).filter(|e| e.is_pending()) {
        let id = entry.call.id.clone();
        if !entry.asks.is_empty() {
            let surfaced = surface::decide(entry, transaction.as_ref(), now, &mut resolved);
            (decided, undecided) = (decided + surfaced.decided, undecided + surfaced.undecided);
            continue;
        }
        // Recovery asks without a transaction: the leg opens one.
        let Some(transaction) = transaction.as_ref().filter(|t| t.request(&id).is_some()) else { continue };
        let expired = transaction.request(&id).and_then(|r| r.expires_at).is_some_and(|at| at <= now);
        let (verdict, actor) = match transaction.decision(&id) {
            Some(decision) => {
                if let (Some(request), Verdict::Allow { .. }) = (transaction.request(&id), &decision.verdict)
                {
                    granted.push((request.clone(), decision.clone()));
                }
                (decision.verdict.clone(), decision.actor.clone())
            }
            None if expired => {
                (Verdict::Deny { reason: Some("the approval expired".into()) }, "runtime".into())
            }
            None => {
                undecided += 1;
                continue;
            }
        };
        decided += 1;
        let allowed = !matches!(verdict, Verdict::Deny { .. });
        entry.waits = None;
        if cancelled.is_none() {
            resolved.push(TurnEventKind::ApprovalResolved { id, allowed, actor: actor.clone() });
        }
        match verdict {
            Verdict::Allow { edit } => {
                entry.decision = Some(ToolDecision::Allowed);
                entry.in_doubt = false;
                if let Some(arguments) = edit {
                    // Classified again before it runs: until then no digest is allowed.
                    entry.edited = Some(turnwright_core::ToolCall { arguments, ..entry.call.clone() });
                } else {
                    entry.allowed = transaction.request(&entry.call.id).map(|r| r.digest);
                }
            }
            Verdict::Answer { content, error } => {
                let result = match error {
                    Some(error) => ToolResult::error(&entry.call, error).with_content(content),
                    None => ToolResult::ok(&entry.call, content),
                };
                let result = agent.tool_result_limit.limited(result);
                resolved.push(TurnEventKind::ToolResult(result.clone()));
                entry.result = Some(result);
            }
            Verdict::Deny { reason } => {
                if agent.on_denial == OnDenial::CancelTurn && cancelled.is_none() {
                    let cause = CancelCause::requested(&actor);
                    let why = format!(
                        "call {} was denied: {}",
                        entry.call.id,
                        reason.as_deref().unwrap_or("no reason")
                    );
                    cancelled = Some(cause.reason(why));
                }
                let reason = reason.unwrap_or_else(|| "a person denied it".into());
                let result = match entry.in_doubt {
                    true => in_doubt(entry, Some(&reason)),
                    false => refused(&entry.call, &reason),
                };
                entry.result = Some(agent.tool_result_limit.limited(result));
                entry.decision = Some(ToolDecision::Denied(reason));
            }
        }
    }
    let runnable = batch.iter().flat_map(|b| &b.calls).any(|e| e.result.is_none() && !e.is_pending());
    if undecided > 0 && decided == 0 && !runnable && cancelled.is_none() && !was_cut_off && !is_answered {
        return Err(StartError::Undecided(undecided));
    }
    machine.resume(decided > 0).map_err(|e| StartError::Unreadable(super::unreadable(e)))?;
    Ok(NewLeg {
        turn: snapshot.turn,
        run: snapshot.run,
        leg: machine.leg(),
        started_at: snapshot.started_at,
        state: TurnState::restore(snapshot.state),
        parent: Parent::new(),
        budget: None,
        answer: None,
        last_word: None,
        cancelled,
        resolved,
        granted,
        begun_from,
        parts: LegParts {
            machine,
            messages,
            turn_start: snapshot.turn_start,
            batch,
            deferred,
            usage: snapshot.usage,
            transaction,
        },
    })
}

impl LegRt {
    /// The turn at rest, as a value.
    pub(crate) fn snapshot(&self) -> Result<TurnSnapshot, StateError> {
        let state = self.ctx.state().snapshot()?;
        Ok(self.ledger.with(|leg| TurnSnapshot {
            schema: TurnSnapshot::SCHEMA,
            session: self.ctx.session().clone(),
            run: self.ctx.run(),
            turn: self.ctx.turn(),
            agent: self.ctx.agent().into(),
            started_at: self.ctx.started_at(),
            tools: self.agent.fingerprint.clone(),
            running: false,
            machine: leg.machine.at_rest(),
            turn_start: leg.turn_start(),
            batch: leg.batch.clone(),
            deferred: leg.deferred().to_vec(),
            usage: leg.usage(),
            budget_used: self.budget_used(),
            transaction: leg.transaction.clone(),
            state,
        }))
    }
}
