//! What must hold after every cut.

use std::collections::HashSet;

use turnwright_core::{Outcome, Role};
use turnwright_hook::HookPoint;
use turnwright_testkit::check::{HookExpectation, history, hook_trace, turn_events_after, visible_is_kept};

use super::{
    cut::Mode,
    leg::Report,
    oracle::{Cut, End},
    scenario::HOOKS,
    verdict, watched,
};

/// Panics when a promise is broken.
pub(super) fn check(cut: &Cut<'_>, report: &Report) {
    let at = || {
        format!(
            "{:?} leg {} {:?} at {}, must end as {:?}\n kinds {:#?}\n messages {:#?}\n trace {:?}",
            cut.scenario,
            cut.earlier.len() + 1,
            cut.mode,
            cut.k,
            cut.end(),
            report.kinds,
            report.messages,
            report.leg_trace
        )
    };
    for (what, verdict) in [
        ("events", events(cut, report)),
        ("messages", messages(cut, report)),
        ("hooks", hooks(cut, report)),
        ("callbacks", watched::callbacks(cut, report)),
        ("records", watched::records(cut, report)),
        ("spans", watched::spans(cut, report)),
        ("end", verdict::end(cut, report)),
        ("begun", verdict::nothing_begins(cut, report)),
        ("time", verdict::in_time(cut, report)),
        ("answer", verdict::cut_answer_is_marked(cut, report)),
    ] {
        if let Err(e) = verdict {
            panic!("{what}: {e}\n at {}", at());
        }
    }
}

pub(super) fn ensure(holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(what()) }
}

/// Invariants 1 and 3: one last event, and what was shown is kept.
fn events(cut: &Cut<'_>, report: &Report) -> Result<(), String> {
    let before: Vec<_> = cut.earlier.iter().flat_map(|r| &r.events).cloned().collect();
    // A dropped handle has nobody to see the events: the uncut leg says what its reader had seen.
    let shown = match cut.mode {
        Mode::DropHandle => &cut.dry.events[..cut.here().events],
        _ => {
            turn_events_after(&report.events, &before)?;
            &report.events
        }
    };
    if report.is_parked() { Ok(()) } else { visible_is_kept(&[&before, shown].concat(), &report.messages) }
}

/// Invariant 2: a turn that is over leaves a legal history; a parked one has an open batch in its snapshot.
fn messages(cut: &Cut<'_>, report: &Report) -> Result<(), String> {
    ensure(!report.busy, || "the session is not free".into())?;
    if !report.is_parked() {
        history(&report.messages)?;
    }
    ensure(report.messages[0].text() == "hi", || "the prompt is lost".into())?;
    // What is in memory is in the store too, unless the runtime went away.
    let (stored, kept) = (report.stored, report.messages.len());
    ensure(cut.mode == Mode::RuntimeDrop || stored == kept, || format!("{stored} of {kept} are stored"))?;
    // Whatever the model said last is what the last event says.
    if let Some(finished) = report.finished()
        && finished.outcome == Outcome::Completed
    {
        let last = report.messages.iter().rev().find(|m| m.role == Role::Assistant).map(|m| m.text());
        let last = last.unwrap_or_default();
        ensure(finished.content == last, || format!("content {:?}, last {last:?}", finished.content))?;
    }
    Ok(())
}

/// Invariant 7: the hook matrix.
fn hooks(cut: &Cut<'_>, report: &Report) -> Result<(), String> {
    if cut.mode == Mode::None {
        // A leg resumed by a decision tells of it first; no other leg does.
        let decided = cut.earlier.last().is_some_and(|r| r.outcome() == Some(Outcome::Suspended));
        let second = report.leg_trace.get(HOOKS).map(|(point, _)| *point);
        let told = second == Some(HookPoint::AfterApproval);
        ensure(told == decided, || format!("decided {decided}, then {second:?}"))?;
    }
    if cut.mode == Mode::RuntimeDrop {
        return no_hook_twice(&report.trace);
    }
    let (legs, over) = (cut.earlier.len() + 1, !report.is_parked());
    let is_cut = cut.end() != End::Own || cut.scenario.cuts_itself();
    hook_trace(&report.trace, HookExpectation { hooks: HOOKS, legs, over, cut: is_cut })?;
    // A turn that was cut has its content finalised if there is some.
    if let Some(finished) = report.finished()
        && finished.outcome == Outcome::Cancelled
    {
        let fired = |point| report.trace.iter().any(|call| call.0 == point);
        let is_due = fired(HookPoint::StartNodeTurn) && !finished.content.is_empty();
        ensure(fired(HookPoint::FinalizeContent) == is_due, || format!("FINALIZE_CONTENT is due: {is_due}"))?;
    }
    Ok(())
}

/// Within one firing no hook is called twice.
fn no_hook_twice(trace: &[(HookPoint, usize)]) -> Result<(), String> {
    let (mut seen, mut previous) = (HashSet::new(), None);
    for call in trace {
        if previous.is_some_and(|(point, hook): (HookPoint, usize)| point != call.0 || call.1 <= hook) {
            seen.clear();
        }
        ensure(seen.insert(*call), || format!("{call:?} fired twice"))?;
        previous = Some(*call);
    }
    Ok(())
}
