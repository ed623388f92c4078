//! Relative links in the documents, which must lead to a file, and to a heading where they name one.

use std::collections::{BTreeMap, BTreeSet};

/// The documents whose links readers follow in the repository.
fn is_document(path: &str) -> bool {
    path.ends_with(".md")
        && (path.starts_with("docs/") || !path.contains('/') || path.ends_with("/README.md"))
}

pub(crate) fn faults(texts: &BTreeMap<String, String>) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in texts.iter().filter(|(path, _)| is_document(path)) {
        for (line, target) in targets(text) {
            if let Err(why) = resolve(path, target, texts) {
                faults.push(format!("{path}:{line}: the link `{target}` {why}"));
            }
        }
    }
    faults
}

fn resolve(from: &str, target: &str, texts: &BTreeMap<String, String>) -> Result<(), &'static str> {
    let scheme =
        target.split_once(':').is_some_and(|(scheme, _)| scheme.chars().all(|c| c.is_ascii_alphanumeric()));
    if scheme || target.starts_with("//") {
        return Ok(());
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let path = if file.is_empty() {
        from.to_owned()
    } else {
        join(from, file).ok_or("is absolute or leaves the repository")?
    };
    let folder = if path.is_empty() { String::new() } else { format!("{path}/") };
    match texts.get(&path) {
        None if texts.keys().any(|known| known.starts_with(&folder)) => Ok(()),
        None => Err("leads to no file"),
        Some(text) if !anchor.is_empty() && path.ends_with(".md") && !headings(text).contains(anchor) => {
            Err("leads to no heading")
        }
        Some(_) => Ok(()),
    }
}

/// The target as a path from the root.
fn join(from: &str, target: &str) -> Option<String> {
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in target.trim_end_matches('/').split('/') {
        match part {
            "" => return None,
            "." => {}
            ".." => drop(parts.pop()?),
            _ => parts.push(part),
        }
    }
    Some(parts.join("/"))
}

/// Targets of inline links and of link definitions, with their lines, outside of code.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let definition = line.trim_start().strip_prefix('[').and_then(|rest| rest.split_once("]: "));
        found.extend(definition.map(|(_, target)| (number, target)));
        let inline = line.match_indices("](").filter(|(at, _)| line[..*at].matches('`').count() % 2 == 0);
        found.extend(inline.map(|(at, _)| (number, &line[at + 2..])));
    }
    let cleaned = found.into_iter().map(|(number, rest)| {
        let rest = rest.trim_start();
        let end = rest.find(|c: char| c == ')' || c.is_whitespace()).unwrap_or(rest.len());
        (number, rest[..end].trim_matches(['<', '>']))
    });
    cleaned.filter(|(_, target)| !target.is_empty()).collect()
}

/// Lines outside of fenced code, counted from 1.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fence = None;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let start = line.trim_start();
        let mark = ["```", "~~~"].into_iter().find(|mark| start.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, None) => return Some((index + 1, line)),
            _ => {}
        }
        None
    })
}

/// The anchors of a document's headings, made as code hosts make them.
fn headings(text: &str) -> BTreeSet<String> {
    let mut anchors: BTreeSet<String> = BTreeSet::new();
    for (_, line) in prose(text).filter(|(_, line)| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        let anchor: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let numbered = (1..).map(|n| format!("{anchor}-{n}"));
        anchors.extend(std::iter::once(anchor.clone()).chain(numbered).find(|a| !anchors.contains(a)));
    }
    anchors
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str) -> Vec<String> {
        let texts = [
            (path, text),
            ("docs/guide/hooks.md", "# Hooks & co.\n## The `Hook`\n## The `Hook`\n"),
            ("LICENSE", ""),
        ];
        faults(&texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect())
    }

    #[test]
    fn links_that_lead_somewhere_pass() {
        let text = "[a](guide/hooks.md#hooks--co) ![b](../LICENSE \"t\") [c](https://x.org/y) [d](#me) [e](guide/)\n\
                    # Me\n[f]: guide/hooks.md#the-hook-1\n`[g](gone.md)`\n```\n[h](gone.md)\n```\n[i](mailto:a@b.c)\n";
        assert_eq!(check("docs/a.md", text), Vec::<String>::new());
        assert_eq!(check("crates/core/src/a.md", "[a](crate::Hook)"), Vec::<String>::new());
    }

    #[test]
    fn dead_links_fail_with_their_line() {
        for (target, why) in [
            ("gone.md", "no file"),
            ("guide/hooks.md#gone", "no heading"),
            ("#gone", "no heading"),
            ("../../x.md", "leaves the repository"),
            ("/docs/a.md", "absolute"),
        ] {
            for text in [format!("\nsee [a]({target}).\n"), format!("\n[a]: {target}\n")] {
                let found = check("docs/a.md", &text);
                assert!(found.len() == 1 && found[0].contains(why), "{target}: {found:?}");
                assert!(found[0].starts_with("docs/a.md:2:"), "{found:?}");
            }
        }
        assert_eq!(check("README.md", "[a](docs/gone.md)").len(), 1);
        assert_eq!(check("crates/core/README.md", "[a](gone.md)").len(), 1);
    }
}
