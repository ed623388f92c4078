//! The cancel sweep: a turn is cut at every poll of its one future and at every commit of its ledger, by every path, in
//! every scenario; after each cut the promises hold.

mod cut;
mod leg;
mod promises;
mod scenario;

use std::{collections::BTreeMap, time::Instant};

use cut::Mode;
use leg::{Report, leg};
use promises::check;
use scenario::Scenario;
pub(crate) use scenario::quiet_panics;

/// Sweeps one leg of a scenario. `earlier` are the reports of the legs before it.
fn sweep_leg(scenario: Scenario, earlier: &[Report], totals: &mut Totals) -> Report {
    let dry = leg(scenario, Mode::None, usize::MAX, earlier);
    let again = leg(scenario, Mode::None, usize::MAX, earlier);
    assert_eq!(
        (dry.polls, dry.commits, &dry.kinds, &dry.trace),
        (again.polls, again.commits, &again.kinds, &again.trace),
        "{scenario:?} is deterministic"
    );
    check(scenario, Mode::None, 0, earlier, &dry);
    for mode in Mode::CUTS {
        let places = if mode.is_at_commit() { dry.commits } else { dry.polls };
        for k in 0..places {
            let report = leg(scenario, mode, k, earlier);
            check(scenario, mode, k, earlier, &report);
            totals.note(mode, &report);
        }
    }
    println!(
        "{:<28} leg {} polls {:>3} commits {:>3} uncut {:<14} cuts so far {}",
        format!("{scenario:?}"),
        earlier.len() + 1,
        dry.polls,
        dry.commits,
        dry.outcome_name(),
        totals.cuts,
    );
    dry
}

#[derive(Default)]
struct Totals {
    cuts: usize,
    outcomes: BTreeMap<String, usize>,
}

impl Totals {
    fn note(&mut self, mode: Mode, report: &Report) {
        self.cuts += 1;
        *self.outcomes.entry(format!("{mode:?} {}", report.outcome_name())).or_default() += 1;
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "how long the sweep took is printed, and nothing depends on it"
)]
fn a_turn_keeps_its_promises_wherever_it_is_cut() {
    quiet_panics();
    let (start, mut totals) = (Instant::now(), Totals::default());
    for scenario in Scenario::ALL {
        let mut legs = vec![sweep_leg(scenario, &[], &mut totals)];
        while legs.last().is_some_and(Report::is_parked) {
            let next = sweep_leg(scenario, &legs, &mut totals);
            legs.push(next);
            assert!(legs.len() < 8, "{scenario:?} does not end");
        }
    }
    for (how, n) in &totals.outcomes {
        println!("{n:>6}  {how}");
    }
    println!("{} cut turns in {:?}", totals.cuts, start.elapsed());
    assert!(totals.cuts > 10_000, "{} cuts only", totals.cuts);
}
