//! Finding, reading and checking the file.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Command;

use super::{
    keys,
    mistake::{self, Mistake},
    read::Reader,
    sense,
};
use crate::{Refusal, provider::var};

/// The file that is read where it lies in the current directory.
const USUAL: &str = "turnwright.toml";
/// The largest file that is read.
const LARGEST: u64 = 1 << 20;

/// A value, as options take it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Texts(Vec<String>),
    Number(f64),
}

impl Value {
    fn words(&self) -> Vec<String> {
        match self {
            Self::Text(text) => vec![text.clone()],
            Self::Texts(texts) => texts.clone(),
            Self::Number(number) => vec![number.to_string()],
        }
    }
}

impl std::fmt::Display for Value {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.words().join(","))
    }
}

/// What the file says.
#[derive(Debug, Clone, Default)]
pub(crate) struct Config {
    pub(crate) path: Option<PathBuf>,
    /// By name: the value, where it begins, and the line it stands on.
    pub(super) values: BTreeMap<&'static str, (Value, usize, usize)>,
}

impl Config {
    /// What a key says, and where.
    pub(crate) fn get(&self, name: &str) -> Option<(&Value, usize)> {
        self.values.get(name).map(|(value, _, line)| (value, *line))
    }

    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        match self.get(name)? {
            (Value::Text(text), _) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn texts(&self, name: &str) -> &[String] {
        match self.get(name) {
            Some((Value::Texts(texts), _)) => texts,
            _ => &[],
        }
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it was checked to be a count"
    )]
    pub(crate) fn count(&self, name: &str) -> Option<u32> {
        match self.get(name)? {
            (Value::Number(number), _) => Some(*number as u32),
            _ => None,
        }
    }

    pub(crate) fn seconds(&self, name: &str) -> Option<Duration> {
        match self.get(name)? {
            (Value::Number(number), _) => Duration::try_from_secs_f64(*number).ok(),
            _ => None,
        }
    }

    /// What is wrong with a key, with its place.
    pub(crate) fn refuse(&self, name: &str, why: &str) -> Refusal {
        let path = self.path.as_deref().map_or_else(|| USUAL.into(), |path| path.display().to_string());
        let line = self.get(name).map_or(0, |(_, line)| line);
        Refusal::new(format!("{path}:{line}: {name}: {why}"))
    }

    /// The command line with what the file says as its defaults.
    pub(crate) fn as_defaults(&self, command: Command) -> Command {
        let mut command = command.mut_subcommands(|sub| self.as_defaults(sub));
        for key in keys::KEYS {
            let (Some(option), Some((value, _))) = (key.option, self.get(key.name)) else { continue };
            if command.get_arguments().any(|argument| argument.get_id() == option) {
                let words = value.words();
                // `--help` shows defaults; that of the base URL may hold a password.
                let is_hidden = option == "base_url";
                command = command
                    .mut_arg(option, |argument| argument.default_values(words).hide_default_value(is_hidden));
            }
        }
        command
    }
}

/// What the file says, if there is one.
pub(crate) fn find() -> Result<Config, Refusal> {
    which().map_or_else(|| Ok(Config::default()), |path| check(&path))
}

/// The file: that of the command line, of the environment, or the one that lies here.
pub(super) fn which() -> Option<PathBuf> {
    let mut words = env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    let mut named = None;
    while let Some(word) = words.next() {
        match word.split_once('=') {
            // What follows are no options.
            _ if word == "--" => break,
            Some(("--config", path)) => named = Some(path.to_owned()),
            _ if word == "--config" => named = words.next(),
            _ => {}
        }
    }
    let named = named.or_else(|| var("TURNWRIGHT_CONFIG")).map(PathBuf::from);
    named.or_else(|| Some(PathBuf::from(USUAL)).filter(|usual| usual.is_file()))
}

/// Reads a file. All its mistakes are told at once.
pub(super) fn check(path: &Path) -> Result<Config, Refusal> {
    let (config, mistakes) = examine(path, sense::mistakes)?;
    if mistakes.is_empty() { Ok(config) } else { Err(mistake::refusal(path, &mistakes)) }
}

/// What is wrong with a file by itself, and on this machine.
pub(super) fn mistakes(path: &Path) -> Result<Vec<Mistake>, Refusal> {
    let both = |config: &Config| [sense::mistakes(config), sense::here(config)].concat();
    examine(path, both).map(|(_, mistakes)| mistakes)
}

fn examine(
    path: &Path,
    look: impl FnOnce(&Config) -> Vec<(&'static str, String)>,
) -> Result<(Config, Vec<Mistake>), Refusal> {
    let unreadable = |why: String| {
        Refusal::new(format!("the configuration {} cannot be read: {why}", path.display()))
            .hint("name another one with --config FILE")
    };
    let size = fs::metadata(path).map_err(|e| unreadable(e.to_string()))?.len();
    if size > LARGEST {
        return Err(unreadable(format!("it has more than {LARGEST} bytes")));
    }
    let text = fs::read_to_string(path).map_err(|e| unreadable(e.to_string()))?;
    let config = Config { path: Some(path.to_owned()), values: BTreeMap::new() };
    let mut reader = Reader::new(&text, config);
    for (key, why) in look(&reader.config) {
        reader.wrong(key, why);
    }
    Ok(reader.done())
}
