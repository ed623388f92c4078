//! The figures of a run.

use std::{fmt::Write, time::Duration};

use serde_json::{Value, json};

use crate::{Promises, model::Wire, watch::Seen};

/// One scenario.
pub(crate) struct Row {
    what: String,
    turns: usize,
    deltas: usize,
    tokens: Option<u64>,
    first: Vec<Duration>,
    rates: Vec<f64>,
    stopped: Vec<Duration>,
    freed: Vec<Duration>,
    /// A line a turn: what it showed.
    saw: Vec<String>,
}

impl Row {
    pub(crate) fn new(wire: Wire, what: &str) -> Self {
        let what = format!("{}: {what}", wire.name());
        let (first, rates, stopped, freed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { what, turns: 0, deltas: 0, tokens: None, first, rates, stopped, freed, saw: Vec::new() }
    }

    /// Counts a turn in.
    pub(crate) fn add(&mut self, seen: &Seen) {
        self.turns += 1;
        self.saw.push(seen.line());
        self.deltas += seen.deltas();
        if let Some(tokens) = seen.result.usage.output_tokens {
            self.tokens = Some(self.tokens.unwrap_or(0) + tokens);
        }
        self.first.extend(seen.first);
        self.stopped.extend(seen.stopped);
        // The first token ends the time that is not counted; between two model calls a prompt is read.
        if let (1, Some(first), Some(last), Some(tokens)) =
            (seen.result.iterations, seen.first, seen.last, seen.result.usage.output_tokens)
            && last > first
            && tokens > 1
        {
            self.rates.push((tokens as f64 - 1.0) / (last - first).as_secs_f64());
        }
    }

    /// What its turns showed, for people.
    pub(crate) fn saw(&self) -> String {
        let lines = self.saw.iter().map(|line| format!("\n  {line}"));
        format!("{}{}\n", self.what, lines.collect::<String>())
    }

    /// Counts in how long the server took to have room again.
    pub(crate) fn freed(&mut self, after: Option<Duration>) {
        self.freed.extend(after);
    }

    fn json(&self) -> Value {
        json!({
            "what": self.what,
            "turns": self.turns,
            "deltas": self.deltas,
            "output_tokens": self.tokens,
            "first_delta_ms": median(&self.first).map(millis),
            "tokens_per_s": median_rate(&self.rates),
            "cancel_to_stopped_ms": median(&self.stopped).map(millis),
            "cancel_to_stopped_ms_worst": self.stopped.iter().max().copied().map(millis),
            "server_free_ms": median(&self.freed).map(millis),
        })
    }
}

const HEAD: [&str; 9] =
    ["what", "turns", "tokens", "deltas", "first ms", "tokens/s", "stopped ms", "worst ms", "server free ms"];

/// The table for people. Times are medians, but for the worst.
pub(crate) fn text(rows: &[Row]) -> String {
    let shown = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let ms = |value: Option<Duration>| shown(value.map(|d| format!("{:.2}", millis(d))));
    let mut cells = vec![HEAD.map(str::to_owned)];
    cells.extend(rows.iter().map(|row| {
        [
            row.what.clone(),
            row.turns.to_string(),
            shown(row.tokens.map(|n| n.to_string())),
            row.deltas.to_string(),
            ms(median(&row.first)),
            shown(median_rate(&row.rates).map(|rate| format!("{rate:.1}"))),
            ms(median(&row.stopped)),
            ms(row.stopped.iter().max().copied()),
            ms(median(&row.freed)),
        ]
    }));
    let width = |column: usize| cells.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEAD.len()).map(width).collect();
    let mut out = String::new();
    for row in &cells {
        let _ = write!(out, "{:<w$}", row[0], w = widths[0]);
        for (cell, w) in row.iter().zip(&widths).skip(1) {
            let _ = write!(out, "  {cell:>w$}");
        }
        out.push('\n');
    }
    out
}

/// The same for programs, with the promises.
pub(crate) fn json(rows: &[Row], promises: &Promises) -> Value {
    let rows: Vec<Value> = rows.iter().map(Row::json).collect();
    json!({ "rows": rows, "held": promises.kept(), "broken": promises.broken() })
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}

fn median(times: &[Duration]) -> Option<Duration> {
    let mut times = times.to_vec();
    times.sort();
    times.get(times.len() / 2).copied()
}

fn median_rate(rates: &[f64]) -> Option<f64> {
    let mut rates = rates.to_vec();
    rates.sort_by(f64::total_cmp);
    rates.get(rates.len() / 2).copied()
}
