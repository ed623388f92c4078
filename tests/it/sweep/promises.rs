//! What must hold after every cut.

use turnwright_core::{Outcome, Role};
use turnwright_hook::HookPoint;
use turnwright_testkit::check::{HookExpectation, history, hook_trace, turn_events, visible_is_kept};

use super::{
    cut::Mode,
    leg::Report,
    scenario::{HOOKS, Scenario},
};

pub(super) fn check(scenario: Scenario, mode: Mode, k: usize, earlier: &[Report], report: &Report) {
    let at = || {
        format!(
            "{scenario:?} leg {} {mode:?} at {k}\n kinds {:#?}\n messages {:#?}\n trace {:?}",
            earlier.len() + 1,
            report.kinds,
            report.messages,
            report.trace
        )
    };
    let ok = |what: &str, verdict: Result<(), String>| {
        if let Err(e) = verdict {
            panic!("{what}: {e}\n at {}", at());
        }
    };
    assert!(!report.busy, "the session is free again {}", at());
    // Invariant 1: one last event. A dropped handle has nobody to see it.
    if mode != Mode::DropHandle {
        ok("events", turn_events(&report.events));
    }
    let over = !report.is_parked();
    // Invariant 2: a turn that is over leaves a legal history; a parked one has an open batch in its snapshot.
    if over {
        ok("history", history(&report.messages));
    }
    assert_eq!(report.messages[0].text(), "hi", "the prompt is kept {}", at());
    // Invariant 3: what was shown is kept.
    let events: Vec<_> = earlier.iter().flat_map(|r| &r.events).chain(&report.events).cloned().collect();
    if over && mode != Mode::DropHandle {
        ok("visible", visible_is_kept(&events, &report.messages));
    }
    // What is in memory is in the store too, unless the runtime went away.
    if mode != Mode::RuntimeDrop {
        assert_eq!(report.stored, report.messages.len(), "stored {}", at());
    }
    // Invariant 7: the hook matrix.
    let legs = earlier.len() + 1;
    if let Some(at_drop) = report.trace_len_at_drop {
        assert_eq!(report.trace.len(), at_drop, "a hook started after the runtime was gone {}", at());
        let mut seen = std::collections::HashSet::new();
        let mut previous = None;
        for call in &report.trace {
            // Within one firing no hook is called twice.
            if previous.is_some_and(|(point, hook): (HookPoint, usize)| point != call.0 || call.1 <= hook) {
                seen.clear();
            }
            assert!(seen.insert(*call), "a hook fired twice {}", at());
            previous = Some(*call);
        }
    } else {
        let cut = report.finished().is_none_or(|f| {
            !matches!(f.outcome, Outcome::Completed | Outcome::Suspended | Outcome::Drained)
                || f.error.is_some()
        }) || scenario.cuts_itself();
        let never_polled = mode != Mode::None && report.trace.is_empty();
        if !never_polled {
            ok("hooks", hook_trace(&report.trace, HookExpectation { hooks: HOOKS, legs, over, cut }));
        }
    }
    // Who cut it is said.
    if let Some(finished) = report.finished()
        && finished.outcome == Outcome::Cancelled
    {
        assert!(finished.cancelled_by.is_some(), "who cancelled {}", at());
    }
    // Whatever was said last by the model is what the last event says.
    if let Some(finished) = report.finished()
        && finished.outcome == Outcome::Completed
    {
        let last = report.messages.iter().rev().find(|m| m.role == Role::Assistant).map(|m| m.text());
        assert_eq!(Some(finished.content.clone()), last.or(Some(String::new())), "{}", at());
    }
}
