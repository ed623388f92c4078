//! `cargo xtask bench`: what things cost, as ratios within one run, with the machine's load beside them.

mod figures;
mod rows;

use std::path::PathBuf;
use std::process::ExitCode;

use figures::Figures;

use crate::process::{cargo, run, tee};
use crate::workspace;

const USAGE: &str = "\
Usage: cargo xtask bench [--rounds N] [--save FILE]

Runs the benches of the tests' package and prints a table: figure, ratio, budget. `micro` is run N times (3 by
default) and the median over the rounds counts; `scale` is run once. Takes about a minute and a half a round beside
building, and is worth little on a machine that does other things: the load is printed.

  --rounds N    rounds of `micro`
  --save FILE   writes the table there too

The exit code says whether the benches ran, not whether a budget holds: one round on a busy machine is no verdict.
docs/performance.md says how to read the table.
";

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    rounds: usize,
    save: Option<PathBuf>,
}

pub(crate) fn main(args: &[&str]) -> ExitCode {
    match parse(args) {
        Ok(None) => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        Ok(Some(asked)) => match bench(&asked) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("error: bench: {why}");
                ExitCode::FAILURE
            }
        },
        Err(message) => crate::usage(&message),
    }
}

/// What to do, or none when help is asked for.
fn parse(args: &[&str]) -> Result<Option<Asked>, String> {
    let mut asked = Asked { rounds: 3, save: None };
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match *arg {
            "-h" | "--help" => return Ok(None),
            "--rounds" => {
                let rounds = rest.next().and_then(|n| n.parse().ok()).filter(|n| *n > 0);
                asked.rounds = rounds.ok_or("`--rounds` wants a number from 1 on")?;
            }
            "--save" => asked.save = Some(rest.next().ok_or("`--save` wants a file")?.into()),
            other => return Err(format!("unknown argument `{other}` of `bench`")),
        }
    }
    Ok(Some(asked))
}

fn bench(asked: &Asked) -> Result<(), String> {
    let package = ["bench", "--locked", "--package", "turnwright-tests"];
    run(cargo(&package).args(["--bench", "micro", "--bench", "scale", "--no-run"]))?;
    let home = workspace::root().join("target/criterion");
    let mut loads = vec![load()];
    let mut rounds = Vec::new();
    for round in 1..=asked.rounds {
        println!("\n==> round {round} of {}", asked.rounds);
        let mut figures = Figures::default();
        let mut micro = cargo(&package);
        micro.args(["--bench", "micro", "--", "--noplot", "--quiet"]).env("CRITERION_HOME", &home);
        tee(&mut micro, |line| figures.see(line))?;
        figures.read(&home)?;
        rounds.push(figures);
        loads.push(load());
    }
    println!("\n==> scale");
    let mut scale = Figures::default();
    tee(cargo(&package).args(["--bench", "scale"]), |line| scale.see(line))?;
    loads.push(load());
    rounds.iter_mut().for_each(|figures| figures.join(&scale));
    let table = format!("{}\n{}", rows::table(&rounds)?, machine(&loads));
    println!("\n{table}");
    match &asked.save {
        Some(file) => {
            std::fs::write(file, table).map_err(|e| format!("{} cannot be written: {e}", file.display()))
        }
        None => Ok(()),
    }
}

/// The load of the last minute, where the system tells it.
fn load() -> Option<String> {
    std::fs::read_to_string("/proc/loadavg").ok()?.split_whitespace().next().map(str::to_owned)
}

fn machine(loads: &[Option<String>]) -> String {
    let cores = std::thread::available_parallelism().map_or_else(|_| "?".to_owned(), |n| n.to_string());
    let loads: Vec<&str> = loads.iter().map(|load| load.as_deref().unwrap_or("?")).collect();
    format!("{cores} cores; load before, and after each step: {}\n", loads.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_are_a_number_and_files_have_a_name() {
        assert_eq!(parse(&[]).unwrap().unwrap(), Asked { rounds: 3, save: None });
        let asked = parse(&["--rounds", "5", "--save", "x.md"]).unwrap().unwrap();
        assert_eq!(asked, Asked { rounds: 5, save: Some("x.md".into()) });
        assert_eq!(parse(&["--rounds", "1", "--help"]), Ok(None));
        for wrong in [&["--rounds"][..], &["--rounds", "0"], &["--rounds", "x"], &["--save"], &["--fast"]] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
