//! The project's own checks, run as `cargo xtask COMMAND`; see `cargo xtask --help`.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program for the terminal")]

mod bench;
mod ci;
mod deny;
mod fuzz;
mod layering;
mod live;
mod model;
mod process;
mod source;
mod tidy;
mod workspace;

use std::process::ExitCode;

const USAGE: &str = "\
Usage: cargo xtask COMMAND

Commands:
  bench       what things cost, as ratios within one run; `cargo xtask bench --help`
  ci          everything that must hold before a change lands; `cargo xtask ci --help`
  model       every interleaving of what threads share, by a model checker
  fuzz        any input against the stream's decoders, for a time; `cargo xtask fuzz --help`
  layering    who may use whom: edges, forbidden crates, vendor names
                --print   print the ALLOWED rows that match the manifests
  live        turns against a real model, set up on this machine; `cargo xtask live --help`
  tidy        manifests, module docs, file sizes, leftovers, links, changelog

Exit codes: 0 all holds, 1 a check failed, 2 wrong usage.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["-h" | "--help" | "help"] => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        ["bench", rest @ ..] => bench::main(rest),
        ["ci", rest @ ..] => ci::main(rest),
        ["fuzz", rest @ ..] => fuzz::main(rest),
        ["layering"] => report("layering", layering::check()),
        ["layering", "--print"] => report("layering", layering::print_allowed().map(|()| Report::default())),
        ["live", rest @ ..] => live::main(rest),
        ["model"] => model::main(),
        ["tidy"] => report("tidy", tidy::check()),
        [] => usage("a command is missing"),
        other => usage(&format!("unknown command `{}`", other.join(" "))),
    }
}

/// What a check found. Failures fail it, warnings are printed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Report {
    pub(crate) failures: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

impl Report {
    /// Prints the findings; an error when one of them is a failure.
    pub(crate) fn conclude(&self, check: &str) -> Result<(), String> {
        for warning in &self.warnings {
            eprintln!("warning: {warning}");
        }
        for failure in &self.failures {
            eprintln!("error: {failure}");
        }
        match self.failures.len() {
            0 => Ok(()),
            1 => Err(format!("{check}: 1 failure")),
            n => Err(format!("{check}: {n} failures")),
        }
    }

    pub(crate) fn extend(&mut self, other: Report) {
        self.failures.extend(other.failures);
        self.warnings.extend(other.warnings);
    }
}

fn report(check: &str, outcome: Result<Report, String>) -> ExitCode {
    match outcome.and_then(|found| found.conclude(check)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

pub(crate) fn usage(message: &str) -> ExitCode {
    eprintln!("error: {message}\n\n{USAGE}");
    ExitCode::from(2)
}
