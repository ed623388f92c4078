//! The table: what each row shows, against what, and the budget of the design.

mod decoding;

use super::figures::Figures;

type Of = fn(&Figures) -> Result<f64, String>;

struct Row {
    what: &'static str,
    figure: Of,
    unit: &'static str,
    /// The same as a ratio, and to what.
    beside: Option<(Of, &'static str)>,
    budget: Budget,
}

/// What the design promises of the figure, or of the ratio.
enum Budget {
    None,
    AtMost(f64),
    RatioAtMost(f64),
    RatioAtLeast(f64),
}
use Budget::{AtMost, RatioAtLeast, RatioAtMost};

const ROWS: &[Row] = &[
    Row {
        what: "point, nobody listens",
        figure: |f| f.get("hook/nobody"),
        unit: "ns",
        beside: Some((|f| Ok(f.get("hook/nobody")? / f.get("hook/boxed")?), "a boxed future")),
        budget: AtMost(7.0),
    },
    Row {
        what: "point, one hook",
        figure: |f| f.get("hook/one"),
        unit: "ns",
        beside: Some((|f| Ok(f.get("hook/one")? / f.get("hook/boxed")?), "a boxed future")),
        budget: Budget::None,
    },
    Row {
        what: "15 points × 8 hooks, a hook",
        figure: |f| Ok(f.get("hook/15_points_x_8")? / 120.0),
        unit: "ns",
        beside: Some((|f| Ok(f.get("hook/15_points_x_8")? / 120.0 / f.get("hook/boxed")?), "a boxed future")),
        budget: Budget::None,
    },
    Row {
        what: "chain without layers, beyond a direct call",
        figure: |f| Ok(f.get("chain/layers_0")? - f.get("chain/direct")?),
        unit: "ns",
        beside: Some((|f| Ok(f.get("chain/layers_0")? / f.get("chain/boxed")?), "a boxed call")),
        budget: Budget::None,
    },
    Row {
        what: "chain, the first layer (two boxes)",
        figure: |f| Ok(f.get("chain/layers_1")? - f.get("chain/layers_0")?),
        unit: "ns",
        beside: Some((
            |f| Ok((f.get("chain/layers_1")? - f.get("chain/layers_0")?) / f.get("chain/boxed")?),
            "a boxed call",
        )),
        budget: AtMost(75.0),
    },
    Row {
        what: "chain of 8, a layer",
        figure: |f| Ok((f.get("chain/layers_8")? - f.get("chain/layers_0")?) / 8.0),
        unit: "ns",
        beside: Some((
            |f| Ok((f.get("chain/layers_8")? - f.get("chain/layers_0")?) / 8.0 / f.get("chain/boxed")?),
            "a boxed call",
        )),
        budget: AtMost(75.0),
    },
    Row {
        what: "one-terminal adapter, an event",
        figure: |f| f.get("stream/one_terminal"),
        unit: "ns",
        beside: Some((|f| Ok(f.get("stream/one_terminal")? / f.get("stream/boxed")?), "a boxed stream")),
        budget: Budget::None,
    },
    Row {
        what: "stream layer, an event",
        figure: |f| Ok((f.get("stream/layers_8")? - f.get("stream/layers_0")?) / 8.0),
        unit: "ns",
        beside: Some((
            |f| Ok((f.get("stream/layers_8")? - f.get("stream/layers_0")?) / 8.0 / f.get("stream/boxed")?),
            "a boxed stream",
        )),
        budget: AtMost(15.0),
    },
    Row {
        what: "assembler, an event",
        figure: |f| f.get("stream/assembler"),
        unit: "ns",
        beside: Some((|f| Ok(f.get("stream/assembler")? / f.get("stream/push_str")?), "`push_str`")),
        budget: Budget::None,
    },
];

/// What a built-in hook costs a turn of one model call, with a history of forty messages.
macro_rules! built_in {
    ($name:literal) => {
        Row {
            what: concat!("built-in hook `", $name, "`, a turn"),
            figure: |f| Ok(f.get(concat!("builtin/", $name))? - f.get("builtin/nobody")?),
            unit: "ns",
            beside: None,
            budget: Budget::None,
        }
    };
}

const BUILT_IN: &[Row] = &[
    built_in!("checkpoint"),
    built_in!("clean_up"),
    built_in!("context_assembly"),
    built_in!("current_time"),
    built_in!("env_injection"),
    built_in!("length_guard"),
    built_in!("logging"),
    built_in!("loop_detection"),
    built_in!("runtime_context"),
    built_in!("task_delegation_nudge"),
    built_in!("todo_continuation"),
    built_in!("todo_planning_nudge"),
];

/// What stands below those of the decoders.
const TURNS: &[Row] = &[
    Row {
        what: "turn, answers event by event, nothing registered",
        figure: |f| Ok(f.get("turn/paced_hand")? * f.get("turn/paced_bare")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("turn/paced_bare"), LOOP)),
        budget: RatioAtMost(1.15),
    },
    Row {
        what: "turn, answers in one piece, nothing registered",
        figure: |f| Ok(f.get("turn/burst_hand")? * f.get("turn/burst_bare")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("turn/burst_bare"), LOOP)),
        budget: RatioAtMost(1.15),
    },
    Row {
        what: "turn, event by event, 120 hooks and 9 layers",
        figure: |f| Ok(f.get("turn/paced_hand")? * f.get("turn/paced_full")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("turn/paced_full"), LOOP)),
        budget: RatioAtMost(1.3),
    },
    Row {
        what: "turn, in one piece, 120 hooks and 9 layers",
        figure: |f| Ok(f.get("turn/burst_hand")? * f.get("turn/burst_full")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("turn/burst_full"), LOOP)),
        budget: RatioAtMost(1.3),
    },
    Row {
        what: "turn, event by event, the built-in hooks",
        figure: |f| Ok(f.get("turn/paced_hand")? * f.get("turn/paced_built_in")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("turn/paced_built_in"), LOOP)),
        budget: RatioAtMost(1.3),
    },
    Row {
        what: "turn, in one piece, the built-in hooks",
        figure: |f| Ok(f.get("turn/burst_hand")? * f.get("turn/burst_built_in")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("turn/burst_built_in"), LOOP)),
        budget: RatioAtMost(1.3),
    },
    Row {
        what: "turn, event by event, traces: sampled out",
        figure: |f| Ok(f.get("trace/paced_none")? * f.get("trace/paced_sampled_out")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("trace/paced_sampled_out"), NO_TRACES)),
        budget: RatioAtMost(1.03),
    },
    Row {
        what: "turn, event by event, traces: minimal",
        figure: |f| Ok(f.get("trace/paced_none")? * f.get("trace/paced_minimal")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("trace/paced_minimal"), NO_TRACES)),
        budget: Budget::None,
    },
    Row {
        what: "turn, event by event, traces: standard",
        figure: |f| Ok(f.get("trace/paced_none")? * f.get("trace/paced_standard")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("trace/paced_standard"), NO_TRACES)),
        budget: RatioAtMost(1.15),
    },
    Row {
        what: "turn, event by event, traces: full",
        figure: |f| Ok(f.get("trace/paced_none")? * f.get("trace/paced_full")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("trace/paced_full"), NO_TRACES)),
        budget: Budget::None,
    },
    Row {
        what: "turn, event by event, traces: standard, the backend down",
        figure: |f| Ok(f.get("trace/paced_none")? * f.get("trace/paced_down")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("trace/paced_down"), NO_TRACES)),
        budget: RatioAtMost(1.15),
    },
    Row {
        what: "turn, in one piece, traces: sampled out",
        figure: |f| Ok(f.get("trace/burst_none")? * f.get("trace/burst_sampled_out")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("trace/burst_sampled_out"), NO_TRACES)),
        budget: RatioAtMost(1.03),
    },
    Row {
        what: "turn, in one piece, traces: minimal",
        figure: |f| Ok(f.get("trace/burst_none")? * f.get("trace/burst_minimal")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("trace/burst_minimal"), NO_TRACES)),
        budget: Budget::None,
    },
    Row {
        what: "turn, in one piece, traces: standard",
        figure: |f| Ok(f.get("trace/burst_none")? * f.get("trace/burst_standard")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("trace/burst_standard"), NO_TRACES)),
        budget: RatioAtMost(1.15),
    },
    Row {
        what: "turn, in one piece, traces: full",
        figure: |f| Ok(f.get("trace/burst_none")? * f.get("trace/burst_full")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("trace/burst_full"), NO_TRACES)),
        budget: Budget::None,
    },
    Row {
        what: "turn, in one piece, traces: standard, the backend down",
        figure: |f| Ok(f.get("trace/burst_none")? * f.get("trace/burst_down")? / 1e3),
        unit: "µs",
        beside: Some((|f| f.get("trace/burst_down"), NO_TRACES)),
        budget: RatioAtMost(1.15),
    },
    Row {
        what: "cancel to stopped, silent server, median",
        figure: |f| Ok(f.get("cancel/silent_server")? / 1e3),
        unit: "µs",
        beside: Some((
            |f| Ok(f.get("cancel/silent_server")? / f.get("cancel/wake_up")?),
            "a wake-up of a task",
        )),
        budget: AtMost(1000.0),
    },
    Row {
        what: "command to another process by SQLite, sent to taken, median",
        figure: |f| f.get("sqlite_wakeup_micros"),
        unit: "µs",
        beside: Some((|f| Ok(f.get("sqlite_wakeup_micros")? / f.get("sqlite_commit_micros")?), "a commit")),
        budget: Budget::None,
    },
    Row {
        what: "idle session, of 1,000",
        figure: |f| f.get("idle_bytes/1000"),
        unit: "bytes",
        beside: None,
        budget: AtMost(8192.0),
    },
    Row {
        what: "idle session, of 100,000",
        figure: |f| f.get("idle_bytes/100000"),
        unit: "bytes",
        beside: Some((|f| Ok(f.get("idle_bytes/100000")? / f.get("idle_bytes/1000")?), "one of 1,000")),
        budget: AtMost(8192.0),
    },
    Row {
        what: "running turn, of 10,000 at once, memory",
        figure: |f| f.get("running_bytes/10000"),
        unit: "bytes",
        beside: Some((|f| Ok(f.get("running_bytes/10000")? / f.get("running_bytes/100")?), "one of 100")),
        budget: Budget::None,
    },
    Row {
        what: "running turn, of 10,000 at once, CPU",
        figure: |f| f.get("running_micros/10000"),
        unit: "µs",
        beside: Some((|f| Ok(f.get("running_micros/10000")? / f.get("running_micros/100")?), "one of 100")),
        budget: Budget::None,
    },
];

const LOOP: &str = "the loop by hand, CPU";
const NO_TRACES: &str = "the same turn without traces, CPU";

/// The table in Markdown: the median over the rounds, and the least and the most of the ratio.
pub(super) fn table(rounds: &[Figures]) -> Result<String, String> {
    let mut out = String::from("| what | figure | ratio | to | budget | |\n|---|---|---|---|---|---|\n");
    for row in ROWS.iter().chain(decoding::ROWS).chain(BUILT_IN).chain(TURNS) {
        let figure = median(rounds, row.figure)?;
        let (ratio, shown, to) = match row.beside {
            Some((of, to)) => {
                let Spread { least, middle, most } = median(rounds, of)?;
                let range =
                    if rounds.len() > 1 { format!(" ({least:.2} to {most:.2})") } else { String::new() };
                (middle, format!("{middle:.2}{range}"), to)
            }
            None => (f64::NAN, String::new(), ""),
        };
        let (budget, holds) = match row.budget {
            Budget::None => (String::new(), None),
            AtMost(most) => (format!("≤ {} {}", number(most), row.unit), Some(figure.middle <= most)),
            RatioAtMost(most) => (format!("≤ {most} ×"), Some(ratio <= most)),
            RatioAtLeast(least) => (format!("≥ {least} ×"), Some(ratio >= least)),
        };
        let verdict = holds.map_or("", |holds| if holds { "holds" } else { "**over**" });
        let figure = format!("{} {}", number(figure.middle), row.unit);
        out.push_str(&format!("| {} | {figure} | {shown} | {to} | {budget} | {verdict} |\n", row.what));
    }
    Ok(out)
}

struct Spread {
    least: f64,
    middle: f64,
    most: f64,
}

fn median(rounds: &[Figures], of: Of) -> Result<Spread, String> {
    let mut values = rounds.iter().map(of).collect::<Result<Vec<f64>, String>>()?;
    values.sort_by(f64::total_cmp);
    let (Some(least), Some(most)) = (values.first(), values.last()) else {
        return Err("nothing was measured".to_owned());
    };
    Ok(Spread { least: *least, middle: values[values.len() / 2], most: *most })
}

fn number(value: f64) -> String {
    if value < 100.0 {
        format!("{value:.1}").trim_end_matches(".0").to_owned()
    } else {
        format!("{value:.0}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figures where every bench measured this, but for those given.
    fn figures(all: f64, others: &[(&str, f64)]) -> Figures {
        let mut figures = Figures::default();
        for group in ["text", "arguments", "chat", "responses", "messages", "gemini", "ollama"] {
            for kind in ["ours", "by_hand", "eventsource", "scan"] {
                figures.set(&format!("decode/{group}_{kind}"), all, Some(1000.0));
            }
            for length in ["1k", "64k", "1m"] {
                figures.set(&format!("decode/{group}_argument_{length}"), all, Some(1000.0));
            }
            figures.set(&format!("decode/{group}_events"), all, None);
        }
        figures.set("builtin/nobody", all, None);
        for row in BUILT_IN {
            let name = row.what.split('`').nth(1).unwrap();
            figures.set(&format!("builtin/{name}"), all, None);
        }
        for id in [
            "hook/nobody",
            "hook/one",
            "hook/boxed",
            "hook/15_points_x_8",
            "chain/direct",
            "chain/boxed",
            "chain/layers_0",
            "chain/layers_1",
            "chain/layers_8",
            "stream/boxed",
            "stream/one_terminal",
            "stream/layers_0",
            "stream/layers_8",
            "stream/assembler",
            "stream/push_str",
            "turn/paced_hand",
            "turn/paced_bare",
            "turn/paced_full",
            "turn/burst_hand",
            "turn/burst_bare",
            "turn/burst_full",
            "turn/paced_built_in",
            "turn/burst_built_in",
            "trace/paced_none",
            "trace/paced_sampled_out",
            "trace/paced_minimal",
            "trace/paced_standard",
            "trace/paced_full",
            "trace/paced_down",
            "trace/burst_none",
            "trace/burst_sampled_out",
            "trace/burst_minimal",
            "trace/burst_standard",
            "trace/burst_full",
            "trace/burst_down",
            "cancel/silent_server",
            "cancel/wake_up",
            "sqlite_wakeup_micros",
            "sqlite_commit_micros",
            "idle_bytes/1000",
            "idle_bytes/100000",
            "running_bytes/100",
            "running_bytes/10000",
            "running_micros/100",
            "running_micros/10000",
        ] {
            figures.set(id, all, None);
        }
        others.iter().for_each(|(id, value)| figures.set(id, *value, Some(1000.0)));
        figures
    }

    fn row<'t>(table: &'t str, begins: &str) -> &'t str {
        table.lines().find(|line| line.starts_with(begins)).unwrap()
    }

    #[test]
    fn the_median_round_counts_and_a_budget_holds_or_is_over() {
        let round = |nobody| figures(1.0, &[("hook/nobody", nobody)]);
        let table = table(&[round(9.0), round(3.0), round(4.0)]).unwrap();
        let nobody = row(&table, "| point, nobody");
        assert_eq!(
            nobody,
            "| point, nobody listens | 4 ns | 4.00 (3.00 to 9.00) | a boxed future | ≤ 7 ns | holds |"
        );
        assert!(row(&table, "| decoding arguments").ends_with("| ≥ 5 × | **over** |"), "{table}");
        assert!(row(&table, "| turn, answers in one").ends_with("| ≤ 1.15 × | holds |"), "{table}");
    }

    #[test]
    fn throughput_is_in_megabytes_a_second_and_a_missing_bench_is_named() {
        let fast = figures(1000.0, &[("decode/text_ours", 100.0)]);
        let table = table(&[fast]).unwrap();
        assert!(
            row(&table, "| decoding text").starts_with("| decoding text | 10000 MB/s | 10.00 | "),
            "{table}"
        );
        let error = super::table(&[Figures::default()]).unwrap_err();
        assert_eq!(error, "no bench measured `hook/nobody`");
    }
}
