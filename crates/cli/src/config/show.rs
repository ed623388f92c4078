//! What counts, and where it comes from.

use clap::{ArgMatches, parser::ValueSource};
use serde_json::{Map, Value as Json, json};

use super::{Config, KEYS};
use crate::view::printable;

/// Every key with its value and its source, for people or as one JSON object. Secrets are not among them: what an address has
/// before its host is not shown.
pub(crate) fn show(config: &Config, options: &ArgMatches, as_json: bool) -> String {
    let mut rows = Vec::new();
    for key in KEYS {
        let said = key.option.and_then(|option| {
            let source = match options.value_source(option)? {
                ValueSource::CommandLine => format!("--{}", option.replace('_', "-")),
                ValueSource::EnvVariable => format!("TURNWRIGHT_{}", option.to_uppercase()),
                _ => return None,
            };
            let words = options.get_raw(option)?.map(|word| word.to_string_lossy().into_owned());
            Some((words.collect::<Vec<_>>().join(","), source))
        });
        let row = match (said, config.get(key.name)) {
            (Some((value, source)), _) => (value, source),
            (None, Some((value, line))) => {
                let path = config.path.as_deref().map(|path| path.display().to_string()).unwrap_or_default();
                (value.to_string(), format!("{path}:{line}"))
            }
            (None, None) => (key.default.to_owned(), "default".to_owned()),
        };
        let row = if key.name == "agent.base_url" { (without_user(&row.0), row.1) } else { row };
        rows.push((key, row));
    }
    if as_json {
        let all: Map<String, Json> = rows
            .into_iter()
            .map(|(key, (value, source))| {
                let row = json!({ "value": value, "source": source, "meaning": key.meaning });
                (key.name.to_owned(), row)
            })
            .collect();
        return format!("{}\n", Json::Object(all));
    }
    let widest = rows.iter().map(|(key, _)| key.name.len()).max().unwrap_or_default();
    let lines = rows.iter().map(|(key, (value, source))| {
        let name = key.name;
        format!("{name:widest$}  {value}  ({source})\n")
    });
    printable(&lines.collect::<String>()).into_owned()
}

/// A URL without what stands before an `@` of its host, also one that cannot be read.
fn without_user(url: &str) -> String {
    let begin = url.find("://").map_or(0, |at| at + 3);
    let (scheme, rest) = url.split_at(begin);
    // What is no legal password may be meant as one: in `http://u:a/b@host` too.
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}***@{host}"),
        None => url.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn user_and_password_of_a_url_are_not_shown() {
        for (url, shown) in [
            ("http://h:1/v1", "http://h:1/v1"),
            ("http://me:secret@h/v1", "http://***@h/v1"),
            ("https://secret@h", "https://***@h"),
            ("http://me:secret@h:port/v1", "http://***@h:port/v1"),
            ("http://me:se@cr/et@h/v1", "http://***@h/v1"),
            ("me:secret@h/v1", "***@h/v1"),
            ("http://", "http://"),
        ] {
            assert_eq!(without_user(url), shown);
        }
    }
}
