//! Some lines of a text, for the model to see what became of it.

use std::{collections::BTreeMap, ops::Range};

use crate::tools::cut;

/// How many changed places are shown, with how many lines round each, and how many lines in all.
pub(super) const MOST_PLACES: usize = 5;
const ROUND: usize = 3;
const MOST_LINES: usize = 60;
const MOST_OF_A_LINE: usize = 240;

/// The lines of these ranges, marked, and the lines round them.
pub(super) fn of(text: &str, changed: &[Range<usize>]) -> String {
    let mut wanted = BTreeMap::<usize, bool>::new();
    let mut is_whole = true;
    for range in changed {
        let (first, last) =
            (line(text, range.start), line(text, range.end.saturating_sub(1).max(range.start)));
        for n in first.saturating_sub(ROUND)..=last + ROUND {
            if wanted.len() == MOST_LINES && !wanted.contains_key(&n) {
                is_whole = false;
                break;
            }
            *wanted.entry(n).or_default() |= (first..=last).contains(&n) && !range.is_empty();
        }
    }
    let mut out = String::new();
    let mut next = None;
    for (n, line) in text.lines().enumerate() {
        let Some(is_changed) = wanted.get(&n) else { continue };
        if next.is_some_and(|next| next != n) {
            out.push_str("…\n");
        }
        next = Some(n + 1);
        let (head, is_cut) = cut(line, MOST_OF_A_LINE);
        let (mark, end) = (if *is_changed { '>' } else { ' ' }, if is_cut { "…" } else { "" });
        out.push_str(&format!("{mark} {}: {head}{end}\n", n + 1));
    }
    if !is_whole {
        out.push_str("[further lines are not shown]\n");
    }
    out
}

/// The line a byte stands in, from 0.
fn line(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count()
}
