//! What a cut came to, held against what the oracle says.

use std::{sync::Arc, time::Duration};

use turnwright_core::{Message, Outcome, Part, Role};
use turnwright_hook::HookPoint;
use turnwright_react_runtime::{GRACE, UNWIND_BUDGET};

use super::{
    cut::Mode,
    leg::Report,
    oracle::{Cut, End},
    promises::ensure,
    scenario::Scenario,
};

/// A turn that was cut before it was decided is cancelled, by whom it says; one that was decided ends as if nobody had
/// cut it (fault A9).
pub(super) fn end(cut: &Cut<'_>, report: &Report) -> Result<(), String> {
    let could = cut.here().has_handle || cut.mode == Mode::RuntimeDrop || cut.mode == Mode::None;
    let did = report.after_cut.is_some() || cut.mode == Mode::None;
    ensure(could == did, || "the knife does not cut where it should".into())?;
    let until = cut.here().hooks;
    let same = report.leg_trace.get(..until) == cut.dry.leg_trace.get(..until);
    ensure(same, || format!("before the cut the hooks were {:?}", cut.dry.leg_trace))?;
    match cut.end() {
        End::Own => is_as_uncut(cut, report),
        End::Cut => is_cut(cut, report),
    }
}

fn is_cut(cut: &Cut<'_>, report: &Report) -> Result<(), String> {
    ensure(!report.is_parked(), || "it was cut and can still be resumed".into())?;
    // A dropped handle has nobody to see the outcome.
    let Some(finished) = report.finished() else {
        return ensure(cut.mode == Mode::DropHandle, || "nobody heard of the end".into());
    };
    if cut.mode == Mode::RuntimeDrop {
        return ensure(finished.outcome == Outcome::Failed, || format!("it ends as {:?}", finished.outcome));
    }
    ensure(finished.outcome == Outcome::Cancelled, || format!("it ends as {:?}", finished.outcome))?;
    let (said, who) = (&finished.cancelled_by, Some(cut.mode.cause()));
    ensure(*said == who, || format!("cancelled by {said:?}, not {who:?}"))
}

fn is_as_uncut(cut: &Cut<'_>, report: &Report) -> Result<(), String> {
    let dry = cut.dry;
    ensure(report.is_parked() == dry.is_parked(), || format!("parked: {}", report.is_parked()))?;
    let said = |m: &Arc<Message>| (m.role, m.parts.clone(), m.interrupted.clone());
    let (kept, uncut): (Vec<_>, Vec<_>) =
        (report.messages.iter().map(said).collect(), dry.messages.iter().map(said).collect());
    ensure(kept == uncut, || format!("the cut came too late, and the messages are not {uncut:?}"))?;
    // The hooks that were left are lost with the runtime.
    let hooks = if cut.mode == Mode::RuntimeDrop { cut.here().hooks } else { dry.leg_trace.len() };
    ensure(report.leg_trace == dry.leg_trace[..hooks], || "the cut came too late, and hooks differ".into())?;
    if cut.mode == Mode::DropHandle {
        return Ok(());
    }
    let end = |r: &Report| r.finished().map(|f| (f.outcome, f.content.clone(), f.cancelled_by.clone()));
    ensure(end(report) == end(dry), || {
        format!("the cut came too late, and it does not end as {:?}", end(dry))
    })
}

/// After a cut no model call begins, no tool, and no work at all: only the hooks that are owed (faults A9, A16).
pub(super) fn nothing_begins(cut: &Cut<'_>, report: &Report) -> Result<(), String> {
    let (model_calls, tools) = cut.may_have_begun();
    let begun = report.places.end;
    ensure(begun.model_calls <= model_calls, || {
        format!("{} model calls, and {model_calls} at the cut", begun.model_calls)
    })?;
    ensure(begun.counts.tools <= tools, || format!("{} tools, and {tools} at the cut", begun.counts.tools))?;
    if cut.end() != End::Cut {
        return Ok(());
    }
    if cut.mode == Mode::RuntimeDrop {
        let same = report.leg_trace.len() == cut.here().hooks;
        return ensure(same, || "a hook began after the runtime was gone".into());
    }
    let after = report.leg_trace.get(cut.seen().hooks..).unwrap_or_default();
    let work = after.iter().find(|(point, _)| {
        use HookPoint::*;
        matches!(
            point,
            BeforeGraph
                | AfterApproval
                | StartNodeTurn
                | BeforeTurn
                | BeforeIteration
                | BeforeLlm
                | BeforeToolExecution
        )
    });
    ensure(work.is_none(), || format!("{work:?} began after the cut"))
}

/// A cut turn is over at once: an interrupt waits for nothing, a cancel for no more than the grace, and for hooks that
/// hang there is one budget.
pub(super) fn in_time(cut: &Cut<'_>, report: &Report) -> Result<(), String> {
    // The timer's granularity.
    let mut limit = Duration::from_millis(2);
    let took = match (cut.end(), report.after_cut) {
        (End::Cut, Some(took)) => took,
        _ if cut.scenario == Scenario::SlowLayer => {
            // The deadline of a leg cuts it as anybody does.
            limit += Duration::from_secs(3600);
            report.took
        }
        _ => return Ok(()),
    };
    if cut.mode.is_raised() || cut.end() == End::Own {
        limit += GRACE;
    }
    if cut.scenario == Scenario::HookHangs {
        limit += UNWIND_BUDGET;
    }
    ensure(took <= limit, || format!("it took {took:?} to end, and {limit:?} is the limit"))
}

/// An answer that was cut is kept with a mark that says why; nothing else is marked so.
pub(super) fn cut_answer_is_marked(cut: &Cut<'_>, report: &Report) -> Result<(), String> {
    // A cancel that acts in mid-poll may be found before the poll ends.
    if cut.end() != End::Cut || (cut.mode.is_at_commit() && cut.mode != Mode::InterruptAtCommit) {
        return Ok(());
    }
    let last = report.messages.iter().rev().find(|m| m.role == Role::Assistant);
    let mark = last.and_then(|m| m.interrupted.as_ref()).map(|i| i.reason.as_str());
    if cut.cuts_an_answer() {
        let (said, due) = (mark, cut.mode.mark());
        return ensure(said == Some(due), || {
            format!("the answer that was cut is marked {said:?}, not {due}")
        });
    }
    // An answer that the provider broke is marked as such.
    ensure(mark.is_none_or(|said| said == "error"), || {
        format!("an answer that was whole is marked {mark:?}")
    })?;
    let has_calls = |m: &&Arc<Message>| m.parts.iter().any(|p| matches!(p, Part::ToolCall(_)));
    let marked = report.messages.iter().filter(|m| m.interrupted.is_some()).find(has_calls);
    ensure(marked.is_none(), || format!("{marked:?} is marked and keeps calls"))
}
