//! The hook matrix of the design.

use std::collections::BTreeMap;

use turnwright_hook::HookPoint;

use super::Verdict;

/// What is known of the run a trace is of.
#[derive(Debug, Clone, Copy)]
pub struct HookExpectation {
    /// How many hooks the runner has at every point.
    pub hooks: usize,
    /// How many legs were begun.
    pub legs: usize,
    /// Whether the turn is over, and not parked.
    pub over: bool,
    /// Whether any leg was cut (cancelled, control error, failed layer): then a point's hooks may not all have run.
    pub cut: bool,
}

/// The trace of a turn, over all its legs, keeps the matrix: befores and afters nest, each before has its after once
/// the turn is over, FINALLY_GRAPH fires once a leg, hooks of a point run in order and none twice a firing, and those of
/// a point that is owed all run.
///
/// # Errors
/// What is broken.
pub fn hook_trace(calls: &[(HookPoint, usize)], expect: HookExpectation) -> Verdict {
    use HookPoint::*;
    let firings = firings(calls, expect.hooks)?;
    let mut stack: Vec<HookPoint> = Vec::new();
    let mut count: BTreeMap<HookPoint, usize> = BTreeMap::new();
    let mut previous = None;
    for (point, ran) in &firings {
        if *point == AfterApproval && previous != Some(BeforeGraph) {
            return Err(format!("{point} fired after {previous:?}"));
        }
        previous = Some(*point);
        *count.entry(*point).or_default() += 1;
        match point {
            StartNodeTurn => stack.push(EndNodeTurn),
            BeforeTurn => stack.push(AfterTurn),
            BeforeIteration => stack.push(AfterIteration),
            BeforeLlm => stack.push(AfterLlmResponse),
            BeforeToolExecution => stack.push(AfterToolExecution),
            BeforeGraph | AfterApproval | FinalizeContent => {}
            AfterGraph | FinallyGraph => {
                if expect.over && *ran != expect.hooks {
                    return Err(format!("{point} ran {ran} of {} hooks", expect.hooks));
                }
            }
            after => match stack.pop() {
                Some(owed) if owed == *after => {
                    if *ran != expect.hooks {
                        return Err(format!("{after} is owed and ran {ran} of {} hooks", expect.hooks));
                    }
                }
                owed => return Err(format!("{after} fired where {owed:?} is owed")),
            },
        }
        if *ran != expect.hooks && !expect.cut {
            return Err(format!("{point} ran {ran} of {} hooks in a turn that was not cut", expect.hooks));
        }
    }
    if expect.over && !stack.is_empty() {
        return Err(format!("still owed at the end: {stack:?}"));
    }
    let n = |point: HookPoint| count.get(&point).copied().unwrap_or(0);
    if n(FinallyGraph) != expect.legs {
        return Err(format!("FINALLY_GRAPH fired {} times in {} legs", n(FinallyGraph), expect.legs));
    }
    for once in [StartNodeTurn, EndNodeTurn, AfterGraph, FinalizeContent] {
        if n(once) > 1 {
            return Err(format!("{once} fired {} times in one turn", n(once)));
        }
    }
    if n(AfterGraph) > 0 && n(BeforeGraph) == 0 {
        return Err("AFTER_GRAPH without BEFORE_GRAPH".into());
    }
    for once in [AfterGraph, FinalizeContent] {
        if expect.over && !expect.cut && n(once) != 1 {
            return Err(format!("{once} fired {} times in a turn that is over", n(once)));
        }
    }
    Ok(())
}

/// Splits the calls into firings: runs of hook numbers 0, 1, 2 … of one point.
fn firings(calls: &[(HookPoint, usize)], hooks: usize) -> Result<Vec<(HookPoint, usize)>, String> {
    let mut firings: Vec<(HookPoint, usize)> = Vec::new();
    for (point, hook) in calls.iter().copied() {
        if hook >= hooks {
            return Err(format!("hook {hook} of {hooks} at {point}"));
        }
        match firings.last_mut() {
            Some((last, ran)) if *last == point && *ran == hook => *ran += 1,
            _ if hook == 0 => firings.push((point, 1)),
            last => return Err(format!("hook {hook} of {point} was called after {last:?}")),
        }
    }
    Ok(firings)
}

#[cfg(test)]
mod tests {
    use super::*;
    use HookPoint::*;

    const ONE: HookExpectation = HookExpectation { hooks: 1, legs: 1, over: true, cut: false };

    fn trace(points: &[HookPoint]) -> Vec<(HookPoint, usize)> {
        points.iter().map(|p| (*p, 0)).collect()
    }

    #[test]
    fn the_checker_can_fail() {
        let good = [
            BeforeGraph,
            AfterApproval,
            StartNodeTurn,
            BeforeTurn,
            AfterTurn,
            FinalizeContent,
            EndNodeTurn,
            AfterGraph,
            FinallyGraph,
        ];
        hook_trace(&trace(&good), ONE).unwrap();
        let without = |p: HookPoint| trace(&good.iter().copied().filter(|q| *q != p).collect::<Vec<_>>());
        for point in [AfterTurn, FinalizeContent, EndNodeTurn, AfterGraph, FinallyGraph, BeforeTurn] {
            assert!(hook_trace(&without(point), ONE).is_err(), "{point}");
        }
        hook_trace(&without(AfterApproval), ONE).unwrap();
        // A turn that was cut has its content finalised if there is some.
        hook_trace(&without(FinalizeContent), HookExpectation { cut: true, ..ONE }).unwrap();
        for (from, to) in [(1, 2), (1, 0)] {
            let mut late = good;
            late.swap(from, to);
            assert!(hook_trace(&trace(&late), ONE).is_err(), "AFTER_APPROVAL at {to}");
        }
        let mut twice = trace(&good);
        twice.insert(1, (BeforeGraph, 1));
        assert!(hook_trace(&twice, ONE).is_err());
        assert!(hook_trace(&twice, HookExpectation { hooks: 2, ..ONE }).is_err(), "not all hooks ran");
    }
}
