//! From TOML to values, each of them looked at by itself.

use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

use super::{
    Config, Value,
    keys::{self, Key, Kind, LATER},
    mistake::{Mistake, place},
};

/// Reads a file, and gathers what is wrong with it.
pub(super) struct Reader<'a> {
    text: &'a str,
    pub(super) config: Config,
    mistakes: Vec<(usize, Option<String>, String)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, config: Config) -> Self {
        let mut reader = Self { text, config, mistakes: Vec::new() };
        match DeTable::parse(text) {
            Ok(table) => reader.table("", table.get_ref()),
            Err(e) => {
                let at = e.span().map_or(0, |span| span.start);
                reader.mistakes.push((at, None, e.message().to_owned()));
            }
        }
        reader
    }

    /// What was read, and all mistakes in the order of the file.
    pub(super) fn done(mut self) -> (Config, Vec<Mistake>) {
        self.mistakes.sort_by_key(|(at, ..)| *at);
        let told = self.mistakes.into_iter();
        let mistakes = told.map(|(at, key, why)| Mistake::at(self.text, at, key, why)).collect();
        (self.config, mistakes)
    }

    /// Says that something is wrong with the value of a key.
    pub(super) fn wrong(&mut self, key: &str, why: impl Into<String>) {
        let at = self.config.values.get(key).map_or(0, |(_, at, _)| *at);
        self.note(at, key, why);
    }

    /// Says that something is wrong at this byte.
    fn note(&mut self, at: usize, key: &str, why: impl Into<String>) {
        self.mistakes.push((at, Some(key.to_owned()), why.into()));
    }

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
        let begin = value.span().start;
        if let Some(key) = keys::find(name) {
            match read(key, value.get_ref()) {
                Ok(read) => {
                    self.config.values.insert(key.name, (read, begin, place(self.text, at).0));
                }
                Err(why) => self.note(begin, name, why),
            }
            return;
        }
        if let Some((_, what)) = LATER.iter().find(|(table, _)| name == *table) {
            self.note(at, name, format!("{what} cannot be configured in this version"));
            return;
        }
        let within = format!("{name}.");
        let is_table = keys::KEYS.iter().any(|key| key.name.starts_with(&within));
        match value.get_ref() {
            DeValue::Table(table) if is_table => self.table(name, table),
            other if is_table => {
                self.note(begin, name, format!("it wants a table, and there is {}", what(other)));
            }
            _ => {
                let meant = keys::nearest(name).map(|key| format!("; did you mean {key}?"));
                self.note(at, name, format!("there is no such key{}", meant.unwrap_or_default()));
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
        (Kind::Count, DeValue::Integer(_), Some(n)) | (Kind::Seconds | Kind::Dollars, _, Some(n)) => {
            let range = key.kind.range();
            match n {
                n if range.contains(&n) => Ok(Value::Number(n)),
                n if n > *range.end() => {
                    Err(format!("it may be {} at most, and there is {}", range.end(), what(value)))
                }
                _ => wrong(),
            }
        }
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
