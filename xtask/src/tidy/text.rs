//! Any text file: trailing white space, and paths that exist on one machine only.

use std::collections::BTreeMap;

/// Top folders of somebody's machine, without the slash.
const MACHINE_FOLDERS: &[&str] = &["home", "root", "tmp", "work"];

/// Where such a path may stand all the same: file, the path as it stands there, reason.
const PATH_ALLOWED: &[(&str, &str, &str)] = &[];

pub(crate) fn faults(path: &str, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let spaced = [".md", ".rs", ".toml"].iter().any(|extension| path.ends_with(extension));
    for (number, line) in text.lines().enumerate().map(|(index, line)| (index + 1, line)) {
        if spaced && line.ends_with([' ', '\t']) {
            faults.push(format!("{path}:{number}: trailing white space"));
        }
        for found in machine_paths(line).filter(|found| !allowed(PATH_ALLOWED, path, found)) {
            faults.push(format!("{path}:{number}: `{found}` exists on one machine only: use a relative path or a temporary folder"));
        }
    }
    faults
}

/// Entries of the allow-list that excuse nothing any more.
pub(crate) fn unused_allowances(texts: &BTreeMap<String, String>) -> Vec<String> {
    let used = |file: &str, path: &str| {
        texts.get(file).is_some_and(|text| text.lines().flat_map(machine_paths).any(|found| found == path))
    };
    let unused = PATH_ALLOWED.iter().filter(|(file, path, _)| !used(file, path));
    unused
        .map(|(file, path, _)| format!("{file} has no `{path}` any more: take it out of PATH_ALLOWED"))
        .collect()
}

fn allowed(list: &[(&str, &str, &str)], file: &str, path: &str) -> bool {
    list.iter().any(|(in_file, text, _)| *in_file == file && *text == path)
}

/// Absolute paths below one of [`MACHINE_FOLDERS`], each up to the end of its word.
fn machine_paths(line: &str) -> impl Iterator<Item = &str> {
    let starts = line.match_indices('/').map(|(at, _)| at);
    starts.filter_map(|at| {
        let rest = &line[at + 1..];
        let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-' | '.');
        let first = &rest[..rest.find(|c| !part(c)).unwrap_or(rest.len())];
        // Behind these the slash goes on a path or a tag that began elsewhere.
        let inside = line[..at]
            .ends_with(|c: char| part(c) || matches!(c, '/' | '}' | ']' | ')' | '<' | '>' | '*' | '~'));
        let length = rest.find(|c: char| !part(c) && c != '/').unwrap_or(rest.len());
        (!inside && MACHINE_FOLDERS.contains(&first)).then(|| &line[at..=at + length])
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trailing_white_space_fails_in_texts_that_people_write() {
        assert_eq!(
            faults("a.md", "a\nb \nc\t"),
            ["a.md:2: trailing white space", "a.md:3: trailing white space"]
        );
        assert!(faults("a.snap", "a ").is_empty());
    }

    #[test]
    fn machine_paths_are_found_where_they_start() {
        for folder in MACHINE_FOLDERS {
            let path = format!("/{folder}/x-1/y.rs");
            assert_eq!(machine_paths(&format!("see `{path}`, and more")).collect::<Vec<_>>(), [&path]);
            assert_eq!(faults("a.json", &format!("{{\"a\": \"{path}\"}}")).len(), 1);
            assert!(faults("a.json", &format!("cd /{folder}")).len() == 1);
            for other in [
                format!("..{path}"),
                format!("https://x.org{path}"),
                format!("${{X}}{path}"),
                format!("<{path}>"),
            ] {
                assert_eq!(machine_paths(&other).count(), 0, "{other}");
            }
            assert_eq!(machine_paths(&format!("/{folder}space /x{folder}")).count(), 0);
        }
    }

    #[test]
    fn an_allowance_is_for_one_path_in_one_file() {
        let list = [("a.rs", "x/y", "why")];
        assert!(allowed(&list, "a.rs", "x/y"));
        assert!(!allowed(&list, "b.rs", "x/y") && !allowed(&list, "a.rs", "x/z"));
    }
}
