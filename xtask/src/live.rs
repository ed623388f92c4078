//! `cargo xtask live`: a real model on this machine, and turns that are held to their promises against it.

mod server;
mod setup;

use std::process::{Command, ExitCode};

use server::Server;

use crate::process::{cargo, run};
use crate::workspace;

const USAGE: &str = "\
Usage: cargo xtask live [--release] [--json]
       cargo xtask live --record

Sets up a small real model and llama.cpp's server below target/live/ (once; 130 MB are fetched, Python is needed),
starts the server on a free port of this machine, runs turns against it in the three formats it speaks (chat completions,
Responses, Messages) and ends it. Prints what it saw and measured; the exit code is 1 when a promise broke. Takes about
a minute and a half beside building.

  --release   times of an optimized build
  --json      the figures once more as one line of JSON, the last one of standard output
  --record    writes the server's answers to tests/recordings/smollm2/ and runs no turns
";

/// Where the recordings stand, from the root.
const RECORDINGS: &str = "tests/recordings/smollm2";

/// What the command line asks for.
#[derive(Debug, Default, PartialEq, Eq)]
struct Asked {
    release: bool,
    json: bool,
    record: bool,
}

pub(crate) fn main(args: &[&str]) -> ExitCode {
    match parse(args) {
        Ok(None) => {
            print!("{USAGE}");
            ExitCode::SUCCESS
        }
        Ok(Some(asked)) => match live(&asked) {
            Ok(()) => ExitCode::SUCCESS,
            Err(why) => {
                eprintln!("error: live: {why}");
                ExitCode::FAILURE
            }
        },
        Err(message) => crate::usage(&message),
    }
}

/// What to do, or none when help is asked for.
fn parse(args: &[&str]) -> Result<Option<Asked>, String> {
    let mut asked = Asked::default();
    for arg in args {
        match *arg {
            "-h" | "--help" => return Ok(None),
            "--release" => asked.release = true,
            "--json" => asked.json = true,
            "--record" => asked.record = true,
            other => return Err(format!("unknown argument `{other}` of `live`")),
        }
    }
    if asked.record && (asked.release || asked.json) {
        return Err("`--record` runs no turns: it goes with no other option".to_owned());
    }
    Ok(Some(asked))
}

fn live(asked: &Asked) -> Result<(), String> {
    // First what takes the processor: the server starts on a quiet machine, and is not kept waiting.
    if !asked.record {
        run(&mut example("build", asked.release))?;
    }
    let ready = setup::ready()?;
    let server = Server::start(&ready)?;
    if asked.record {
        let mut recorder = Command::new(&ready.python);
        recorder.arg("xtask/live/record.py").args([server.url(), RECORDINGS]);
        return run(recorder.current_dir(workspace::root()));
    }
    let mut turns = example("run", asked.release);
    turns.arg("--").arg(format!("{}/v1", server.url()));
    if asked.json {
        turns.arg("--json");
    }
    run(&mut turns)
}

fn example(what: &str, release: bool) -> Command {
    let mut command =
        cargo(&[what, "--quiet", "--locked", "--package", "turnwright-tests", "--example", "live"]);
    if release {
        command.arg("--release");
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_understood_or_refused() {
        assert_eq!(parse(&[]).unwrap(), Some(Asked::default()));
        let both = Asked { release: true, json: true, record: false };
        assert_eq!(parse(&["--json", "--release"]).unwrap(), Some(both));
        assert_eq!(parse(&["--record", "--help"]).unwrap(), None);
        assert!(parse(&["--record", "--json"]).unwrap_err().contains("`--record`"));
        assert!(parse(&["--fast"]).unwrap_err().contains("`--fast`"));
    }
}
