//! Finding, reading and checking the file.

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Command;
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::keys::{self, Key, Kind, LATER};
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
    values: BTreeMap<&'static str, (Value, usize, usize)>,
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

/// The file: that of the command line, of the environment, or the one that lies here.
pub(crate) fn find() -> Result<Config, Refusal> {
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
    match named.or_else(|| var("TURNWRIGHT_CONFIG")) {
        Some(path) => check(Path::new(&path)),
        None if Path::new(USUAL).is_file() => check(Path::new(USUAL)),
        None => Ok(Config::default()),
    }
}

/// Reads a file. All its mistakes are told at once.
pub(crate) fn check(path: &Path) -> Result<Config, Refusal> {
    let name = path.display();
    let unreadable = |why: String| {
        Refusal::new(format!("the configuration {name} cannot be read: {why}"))
            .hint("name another one with --config FILE")
    };
    let size = fs::metadata(path).map_err(|e| unreadable(e.to_string()))?.len();
    if size > LARGEST {
        return Err(unreadable(format!("it has more than {LARGEST} bytes")));
    }
    let text = fs::read_to_string(path).map_err(|e| unreadable(e.to_string()))?;
    let mut config = Config { path: Some(path.to_owned()), values: BTreeMap::new() };
    let mut mistakes = match DeTable::parse(&text) {
        Ok(table) => {
            let mut reader = Reader { text: &text, config: &mut config, mistakes: Vec::new() };
            reader.table("", table.get_ref());
            reader.mistakes
        }
        Err(e) => {
            let at = e.span().map_or(0, |span| span.start);
            vec![(at, e.message().to_owned())]
        }
    };
    for (key, why) in super::sense::mistakes(&config) {
        let at = config.values.get(key).map_or(0, |(_, at, _)| *at);
        mistakes.push((at, format!("{key}: {why}")));
    }
    if mistakes.is_empty() {
        return Ok(config);
    }
    mistakes.sort_by_key(|(at, _)| *at);
    let told: Vec<String> =
        mistakes.iter().map(|(at, why)| mistake(&name.to_string(), &text, *at, why)).collect();
    Err(Refusal::new(told.join("\n"))
        .hint("docs/configuration.md lists every key; `turnwright config show` those that count"))
}

/// A line and column, counted from 1.
fn place(text: &str, at: usize) -> (usize, usize) {
    let before = text.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

fn mistake(name: &str, text: &str, at: usize, why: &str) -> String {
    let (line, column) = place(text, at);
    let shown = text.lines().nth(line - 1).unwrap_or_default();
    format!("{name}:{line}:{column}: {why}\n  {shown}")
}

struct Reader<'a> {
    text: &'a str,
    config: &'a mut Config,
    mistakes: Vec<(usize, String)>,
}

impl Reader<'_> {
    fn table(&mut self, above: &str, table: &DeTable<'_>) {
        for (key, value) in table {
            let dotted = match above {
                "" => key.get_ref().to_string(),
                above => format!("{above}.{}", key.get_ref()),
            };
            self.entry(&dotted, key.span().start, value);
        }
    }

    fn entry(&mut self, name: &str, at: usize, value: &Spanned<DeValue<'_>>) {
        if let Some(key) = keys::find(name) {
            match read(key, value.get_ref()) {
                Ok(read) => {
                    let (value, start) = (read, value.span().start);
                    let line = place(self.text, at).0;
                    self.config.values.insert(key.name, (value, start, line));
                }
                Err(why) => self.mistakes.push((value.span().start, format!("{name}: {why}"))),
            }
            return;
        }
        if let Some((_, what)) = LATER.iter().find(|(table, _)| name == *table) {
            self.mistakes.push((at, format!("{name}: {what} cannot be configured in this version")));
            return;
        }
        let within = format!("{name}.");
        match value.get_ref() {
            DeValue::Table(table) if keys::KEYS.iter().any(|key| key.name.starts_with(&within)) => {
                self.table(name, table);
            }
            other if keys::KEYS.iter().any(|key| key.name.starts_with(&within)) => {
                let why = format!("{name}: it wants a table, and there is {}", what(other));
                self.mistakes.push((value.span().start, why));
            }
            _ => {
                let meant = keys::nearest(name).map(|key| format!("; did you mean {key}?"));
                self.mistakes
                    .push((at, format!("{name}: there is no such key{}", meant.unwrap_or_default())));
            }
        }
    }
}

/// The value, if it is what the key wants.
fn read(key: &Key, value: &DeValue<'_>) -> Result<Value, String> {
    let wrong = || Err(format!("it wants {}, and there is {}", key.kind.wanted(), what(value)));
    let number = match value {
        DeValue::Integer(integer) => i64::from_str_radix(integer.as_str(), integer.radix()).ok().map(|n| {
            #[expect(clippy::cast_precision_loss, reason = "counts are small")]
            let number = n as f64;
            number
        }),
        DeValue::Float(float) => float.as_str().parse().ok(),
        _ => None,
    };
    match (key.kind, value, number) {
        (Kind::Text, DeValue::String(text), _) if !text.trim().is_empty() => {
            Ok(Value::Text(text.to_string()))
        }
        (Kind::OneOf(words), DeValue::String(text), _) if words.contains(&&**text) => {
            Ok(Value::Text(text.to_string()))
        }
        (Kind::Texts, DeValue::Array(items), _) => {
            let texts: Option<Vec<String>> = items
                .iter()
                .map(|item| match item.get_ref() {
                    DeValue::String(text) if !text.trim().is_empty() => Some(text.to_string()),
                    _ => None,
                })
                .collect();
            texts.map_or_else(wrong, |texts| Ok(Value::Texts(texts)))
        }
        (Kind::Count, DeValue::Integer(_), Some(n)) if (1.0..=f64::from(u32::MAX)).contains(&n) => {
            Ok(Value::Number(n))
        }
        (Kind::Seconds, _, Some(n)) if (0.001..=366.0 * 86_400.0).contains(&n) => Ok(Value::Number(n)),
        (Kind::Dollars, _, Some(n)) if (1e-6..=1e9).contains(&n) => Ok(Value::Number(n)),
        _ => wrong(),
    }
}

fn what(value: &DeValue<'_>) -> String {
    match value {
        DeValue::String(text) => format!("the text {text:?}"),
        DeValue::Integer(number) => format!("the number {}", number.as_str()),
        DeValue::Float(number) => format!("the number {}", number.as_str()),
        DeValue::Boolean(is) => is.to_string(),
        DeValue::Datetime(_) => "a date".into(),
        DeValue::Array(_) => "a list".into(),
        DeValue::Table(_) => "a table".into(),
    }
}
