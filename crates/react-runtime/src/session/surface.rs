//! Decisions about what agents ask that a call started: they are made at the turn of that call, and are its tool's to pass
//! on.

use turnwright_core::{ApprovalTransaction, Decision, Timestamp, Verdict};

use crate::{event::TurnEventKind, snapshot::BatchCall};

/// How many questions have an answer.
pub(super) struct Surfaced {
    pub(super) decided: usize,
    pub(super) undecided: usize,
}

/// Gives a call what was decided about what it asks; it runs again when that is anything. What has expired meanwhile is the
/// asking agent's to find out.
pub(super) fn decide(
    entry: &mut BatchCall,
    transaction: Option<&ApprovalTransaction>,
    now: Timestamp,
    resolved: &mut Vec<TurnEventKind>,
) -> Surfaced {
    let (mut decisions, mut expired, mut undecided) = (Vec::new(), 0, 0);
    for request in &entry.asks {
        let id = entry.surfaced_id(&request.call.id);
        let is_expired = request.expires_at.is_some_and(|at| at <= now);
        let (allowed, actor) = match transaction.and_then(|transaction| transaction.decision(&id)) {
            Some(decision) => {
                // One decision may be about calls of several agents.
                decisions.push(Decision { calls: vec![request.call.id.clone()], ..decision.clone() });
                (!matches!(decision.verdict, Verdict::Deny { .. }), decision.actor.clone())
            }
            None if is_expired => {
                expired += 1;
                (false, "runtime".into())
            }
            None => {
                undecided += 1;
                continue;
            }
        };
        resolved.push(TurnEventKind::ApprovalResolved { id, allowed, actor });
    }
    let decided = decisions.len() + expired;
    if decided > 0 {
        (entry.asks, entry.decided) = (Vec::new(), decisions);
        // The tool asks again about what is left.
        undecided = 0;
    }
    Surfaced { decided, undecided }
}
