//! `cargo xtask fuzz`: the fuzz targets one after another, each for a time, and what they did.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use crate::process::{capture, run, succeeds, tee};
use crate::workspace;

const USAGE: &str = "\
Usage: cargo xtask fuzz [--seconds N] [--corpus FOLDER] [TARGET…]

Builds the fuzz targets in fuzz/ and runs each of them, or those named, for N seconds (130 by default), one at a time,
from the seeds in fuzz/seeds, our own recordings, and what earlier runs kept below target/fuzz/corpus. Ends with a table:
target, executions, seconds, findings. The exit code is 1 when a target found something; the input is then below
target/fuzz/artifacts. Needs a nightly toolchain and `cargo install cargo-fuzz`; where one of them is missing nothing is
run, which is said, and the exit code is 0: `cargo test` runs the same checks for some seconds.

  --seconds N       for how long a target runs
  --corpus FOLDER   further seeds, in a folder a target; they are read and left alone
";

/// The most bytes of an input. Larger ones find nothing else, and cost time.
const MAX_INPUT: &str = "-max_len=4096";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    seconds: u32,
    corpus: Option<PathBuf>,
    targets: Vec<String>,
}

/// What a target did.
struct Done {
    target: String,
    executions: String,
    finding: bool,
}

pub(crate) fn main(args: &[&str]) -> ExitCode {
    match parse(args) {
        Ok(None) => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        Ok(Some(asked)) => match fuzz(&asked) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("error: fuzz: {why}");
                ExitCode::FAILURE
            }
        },
        Err(message) => crate::usage(&message),
    }
}

/// What to do, or none when help is asked for.
fn parse(args: &[&str]) -> Result<Option<Asked>, String> {
    let mut asked = Asked { seconds: 130, corpus: None, targets: Vec::new() };
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match *arg {
            "-h" | "--help" => return Ok(None),
            "--seconds" => {
                let seconds = rest.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
                asked.seconds = seconds.ok_or("`--seconds` wants a number from 1 on")?;
            }
            "--corpus" => asked.corpus = Some(rest.next().ok_or("`--corpus` wants a folder")?.into()),
            other if other.starts_with('-') => return Err(format!("unknown argument `{other}` of `fuzz`")),
            target => asked.targets.push(target.to_owned()),
        }
    }
    Ok(Some(asked))
}

fn fuzz(asked: &Asked) -> Result<(), String> {
    if let Some(missing) = missing() {
        println!("skipped: {missing}");
        return Ok(());
    }
    let known = capture(&mut nightly(&["list"]))?;
    let known: Vec<&str> = known.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    if let Some(unknown) = asked.targets.iter().find(|target| !known.contains(&target.as_str())) {
        return Err(format!("no target is named `{unknown}`; there are: {}", known.join(", ")));
    }
    let is_asked = |target: &&&str| asked.targets.is_empty() || asked.targets.iter().any(|t| t == *target);
    run(&mut nightly(&["build"]))?;
    let done = known.iter().filter(is_asked).map(|target| fuzz_one(target, asked));
    let done = done.collect::<Result<Vec<Done>, String>>()?;
    println!("\n| target | executions | seconds | findings |\n|---|---|---|---|");
    for Done { target, executions, finding } in &done {
        println!("| {target} | {executions} | {} | {} |", asked.seconds, u8::from(*finding));
    }
    match done.iter().filter(|done| done.finding).count() {
        0 => Ok(()),
        n => Err(format!("findings: {n}; their inputs are in target/fuzz/artifacts")),
    }
}

/// What there is not on this machine, and how it comes there.
fn missing() -> Option<&'static str> {
    if !succeeds(Command::new("cargo").args(["+nightly", "--version"])) {
        return Some("there is no nightly toolchain; `rustup toolchain install nightly` brings one");
    }
    let has_tool = succeeds(Command::new("cargo").args(["+nightly", "fuzz", "--version"]));
    (!has_tool).then_some("there is no cargo-fuzz; `cargo install cargo-fuzz` brings it")
}

/// Through the toolchain manager, which the cargo that runs us is not.
fn nightly(args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(["+nightly", "fuzz"]).args(args).current_dir(workspace::root());
    if args.first() != Some(&"list") {
        command.args(["--target-dir", "target/fuzz/build"]);
    }
    command
}

fn fuzz_one(target: &str, asked: &Asked) -> Result<Done, String> {
    let root = workspace::root();
    let [corpus, artifacts] = ["corpus", "artifacts"].map(|kind| format!("target/fuzz/{kind}/{target}/"));
    for folder in [&corpus, &artifacts] {
        std::fs::create_dir_all(root.join(folder)).map_err(|e| format!("{folder} cannot be made: {e}"))?;
    }
    copy_recordings(target, &root.join(&corpus))?;
    let mut command = nightly(&["run"]);
    // The first folder is the one that new inputs are kept in.
    command.args([target, &corpus]);
    // Of some targets our recordings are the only seeds.
    let seeds = format!("fuzz/seeds/{target}");
    command.args(root.join(&seeds).is_dir().then_some(seeds));
    if let Some(more) = asked.corpus.as_ref().map(|folder| folder.join(target)).filter(|more| more.is_dir()) {
        command.arg(more);
    }
    command.args(["--", MAX_INPUT, "-print_final_stats=1", "-verbosity=0"]);
    command.arg(format!("-max_total_time={}", asked.seconds)).arg(format!("-artifact_prefix={artifacts}"));
    // The figures come on standard error.
    let mut executions = "?".to_owned();
    let outcome = tee_errors(&mut command, |line| {
        if let Some(count) = line.strip_prefix("stat::number_of_executed_units:") {
            executions = count.trim().to_owned();
        }
    });
    Ok(Done { target: target.to_owned(), executions, finding: outcome.is_err() })
}

/// Runs with both output streams copied line by line to ours.
fn tee_errors(command: &mut Command, see: impl FnMut(&str)) -> Result<(), String> {
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$@\" 2>&1", "sh"]).arg(command.get_program()).args(command.get_args());
    tee(shell.current_dir(workspace::root()), see)
}

/// Our own recordings are seeds of the target of their format.
fn copy_recordings(target: &str, corpus: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("the recordings cannot be read: {e}");
    for entry in std::fs::read_dir(workspace::root().join("tests/recordings/smollm2")).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with(&format!("{target}-")) && !name.ends_with(".request.json") {
            std::fs::copy(entry.path(), corpus.join(name)).map_err(failed)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_understood_or_refused() {
        let asked = Asked { seconds: 130, corpus: None, targets: Vec::new() };
        assert_eq!(parse(&[]).unwrap(), Some(asked));
        let asked =
            Asked { seconds: 5, corpus: Some("c".into()), targets: vec!["sse".into(), "chat".into()] };
        assert_eq!(parse(&["sse", "--seconds", "5", "--corpus", "c", "chat"]).unwrap(), Some(asked));
        assert_eq!(parse(&["--help"]), Ok(None));
        for wrong in [&["--seconds"][..], &["--seconds", "0"], &["--corpus"], &["--fast"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn every_target_has_its_file_and_its_seeds() {
        let root = workspace::root();
        let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
        let names = manifest.lines().filter_map(|line| line.strip_prefix("name = \"")?.strip_suffix('"'));
        let targets: Vec<&str> = names.filter(|name| *name != "turnwright-fuzz").collect();
        assert!(!targets.is_empty());
        for target in targets {
            let source = std::fs::read_to_string(root.join(format!("fuzz/targets/{target}.rs"))).unwrap();
            assert!(source.contains(&format!("run(\"{target}\", input)")), "{target}");
            let corpus =
                std::env::temp_dir().join(format!("turnwright-seeds-{}-{target}", std::process::id()));
            std::fs::create_dir_all(&corpus).unwrap();
            copy_recordings(target, &corpus).unwrap();
            let has_recordings = std::fs::read_dir(&corpus).unwrap().next().is_some();
            std::fs::remove_dir_all(&corpus).unwrap();
            assert!(has_recordings || root.join(format!("fuzz/seeds/{target}")).is_dir(), "{target}");
        }
    }
}
