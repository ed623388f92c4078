//! House rules that no compiler lint knows: manifests, modules, leftovers, links, the changelog.

mod links;
mod manifest;
mod rust;
mod text;

use std::collections::BTreeMap;

use crate::workspace::{self, Package, files, packages, read};
use crate::{Report, layering};

/// Runs every rule on the workspace.
pub(crate) fn check() -> Result<Report, String> {
    let root = workspace::root();
    let mut texts = BTreeMap::new();
    for path in files(&root, "")? {
        // What is not UTF-8 (a picture, recorded bytes) is there for links but has no text.
        let text = read(&root, &path)?.unwrap_or_default();
        texts.insert(path, text);
    }
    Ok(check_texts(&texts, &packages()?))
}

/// The rules on texts by path from the root.
fn check_texts(texts: &BTreeMap<String, String>, packages: &[Package]) -> Report {
    let mut report = Report::default();
    for package in packages {
        let manifest = texts.get(&format!("{}/Cargo.toml", package.dir)).map_or("", String::as_str);
        report.failures.extend(manifest::faults(package, manifest));
    }
    let designed: Vec<&str> = layering::designed_folders().collect();
    for package in packages.iter().filter(|p| p.is_crate() && !designed.contains(&p.folder())) {
        report.failures.push(format!("{}: the design knows no such folder", package.dir));
    }
    for (path, text) in texts {
        if path.ends_with(".rs") {
            report.extend(rust::check(path, text));
        }
        report.failures.extend(text::faults(path, text));
    }
    report.failures.extend(text::unused_allowances(texts));
    report.failures.extend(links::faults(texts));
    match texts.get("CHANGELOG.md") {
        None => report.failures.push("CHANGELOG.md is missing".to_owned()),
        Some(text) if !text.lines().any(|line| line.trim_end() == "## [Unreleased]") => {
            report.failures.push("CHANGELOG.md has no `## [Unreleased]` heading".to_owned());
        }
        Some(_) => {}
    }
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_workspace_is_tidy() {
        let report = check().unwrap();
        assert!(report.failures.is_empty(), "{}", report.failures.join("\n"));
    }

    #[test]
    fn each_rule_is_reached() {
        let texts = [
            ("crates/misc/src/lib.rs", "fn a() {} \n"),
            ("crates/misc/Cargo.toml", "[package]\nname = \"turnwright-misc\"\n"),
            ("README.md", "[a](gone.md)\n"),
            ("CHANGELOG.md", "## 0.1.0\n"),
        ];
        let texts = texts.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect();
        let package = Package {
            name: "turnwright-misc".to_owned(),
            dir: "crates/misc".to_owned(),
            dependencies: Vec::new(),
        };
        let failures = check_texts(&texts, &[package]).failures.join("\n");
        for word in ["[lints]", "knows no such folder", "`//!`", "trailing", "gone.md", "Unreleased"] {
            assert!(failures.contains(word), "{word}: {failures}");
        }
        assert!(check_texts(&BTreeMap::new(), &[]).failures.join("\n").contains("CHANGELOG.md is missing"));
    }
}
