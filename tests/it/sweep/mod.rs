//! The cancel sweep: a turn is cut at every poll of its one future and at every commit of its ledger, by every path, in
//! every scenario; after each cut the promises hold.

mod counts;
mod cut;
mod layers;
mod leg;
mod oracle;
mod place;
mod promises;
mod scenario;
mod verdict;
mod watched;

use std::{
    collections::BTreeMap,
    panic::resume_unwind,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
    thread,
    time::Instant,
};

use cut::Mode;
use leg::{Report, leg};
use oracle::Cut;
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
    check(&Cut { scenario, mode: Mode::None, k: 0, earlier, dry: &dry }, &dry);
    for mode in Mode::CUTS {
        let places = if mode.is_at_commit() { dry.commits } else { dry.polls };
        for k in 0..places {
            let report = leg(scenario, mode, k, earlier);
            check(&Cut { scenario, mode, k, earlier, dry: &dry }, &report);
            totals.note(mode, &report);
        }
    }
    println!(
        "{:<28} leg {} polls {:>3} commits {:>3} uncut {}",
        format!("{scenario:?}"),
        earlier.len() + 1,
        dry.polls,
        dry.commits,
        dry.outcome_name(),
    );
    dry
}

/// Sweeps all legs of a scenario.
fn sweep(scenario: Scenario, totals: &mut Totals) {
    let mut legs = vec![sweep_leg(scenario, &[], totals)];
    while legs.last().is_some_and(Report::is_parked) {
        let next = sweep_leg(scenario, &legs, totals);
        legs.push(next);
        assert!(legs.len() < 8, "{scenario:?} does not end");
    }
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

    fn add(&mut self, other: Self) {
        self.cuts += other.cuts;
        for (how, n) in other.outcomes {
            *self.outcomes.entry(how).or_default() += n;
        }
    }
}

#[test]
#[expect(
    clippy::disallowed_methods,
    reason = "how long the sweep took is printed, and nothing depends on it"
)]
fn a_turn_keeps_its_promises_wherever_it_is_cut() {
    quiet_panics();
    let (start, next, mut totals) = (Instant::now(), AtomicUsize::new(0), Totals::default());
    let work = || {
        let mut totals = Totals::default();
        while let Some(scenario) = Scenario::ALL.get(next.fetch_add(1, Relaxed)) {
            sweep(*scenario, &mut totals);
        }
        totals
    };
    // A scenario stays on its thread, and shares nothing with others.
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        for worker in workers {
            totals.add(worker.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
    });
    for (how, n) in &totals.outcomes {
        println!("{n:>6}  {how}");
    }
    println!("{} cut turns in {:?}", totals.cuts, start.elapsed());
    assert!(totals.cuts > 10_000, "{} cuts only", totals.cuts);
}
