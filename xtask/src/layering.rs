//! Who may use whom: edges between our crates, crates that neutral ones must not reach, and
//! vendors' names that they must not know.

mod lists;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use lists::{ALLOWED, FORBIDDEN, NEUTRAL, OPTIONAL, Row, TABLE, TESTKIT, VENDOR_ALLOWED, VENDORS};

use crate::Report;
use crate::process::{capture, cargo};
use crate::source::{Source, find_words, is_test_path, line_of};
use crate::workspace::{self, Kind, Package, files, packages, read};

const LISTS: &str = "xtask/src/layering/lists.rs";

/// Folders under `crates/` that the design knows.
pub(crate) fn designed_folders() -> impl Iterator<Item = &'static str> {
    TABLE.iter().map(|(folder, _)| *folder)
}

/// Runs every rule on the workspace.
pub(crate) fn check() -> Result<Report, String> {
    let root = workspace::root();
    let packages = packages()?;
    let mut failures = edge_faults(&packages, ALLOWED, TABLE);
    let mut seen = BTreeSet::new();
    for package in packages.iter().filter(|p| p.is_crate()) {
        let neutral = NEUTRAL.contains(&package.folder());
        let mut sources = Vec::new();
        for path in files(&root, &format!("{}/src", package.dir))? {
            sources.extend(read(&root, &path)?.map(|text| (path, text)));
        }
        failures.extend(testkit_faults(package, &sources));
        if neutral {
            failures.extend(declared_faults(package));
            failures.extend(vendor_faults(&sources, VENDOR_ALLOWED));
            seen.extend(sources.iter().map(|(path, _)| path.clone()));
            let trees = tree(&package.name, &[])? + &tree(&package.name, &["--all-features"])?;
            failures.extend(tree_faults(&package.name, &trees, FORBIDDEN));
        } else if package.folder() == "turnwright" {
            // A product that embeds the runtime does not compile its test kit.
            failures.extend(tree_faults(&package.name, &tree(&package.name, &[])?, &["turnwright-testkit"]));
        }
    }
    let strays = VENDOR_ALLOWED.iter().filter(|(path, ..)| !seen.contains(*path));
    failures.extend(strays.map(|(path, ..)| {
        format!("{path} in VENDOR_ALLOWED ({LISTS}) is no source of a neutral crate: take it out")
    }));
    Ok(Report { failures, warnings: Vec::new() })
}

/// What a package compiles, one crate a line.
fn tree(package: &str, features: &[&str]) -> Result<String, String> {
    let args = ["tree", "--locked", "-e", "normal", "--prefix", "none", "--format", "{p}", "-p", package];
    capture(&mut cargo(&[&args, features].concat()))
}

/// Prints [`ALLOWED`] as the manifests have it.
pub(crate) fn print_allowed() -> Result<(), String> {
    let packages = packages()?;
    for (folder, uses) in declared(&packages) {
        println!("    {}", row(folder, uses.iter().copied()));
    }
    Ok(())
}

/// Edges of the crates to other crates, by folder, without dev-dependencies.
fn declared(packages: &[Package]) -> BTreeMap<&str, BTreeSet<&str>> {
    let crates = packages.iter().filter(|p| p.is_crate());
    crates.map(|p| (p.folder(), uses(p, packages, Kind::Normal))).collect()
}

fn uses<'a>(package: &Package, packages: &'a [Package], kind: Kind) -> BTreeSet<&'a str> {
    let wanted = package.dependencies.iter().filter(|d| d.kind == kind);
    wanted.filter_map(|d| packages.iter().find(|p| p.name == d.name)).map(Package::folder).collect()
}

fn edge_faults(packages: &[Package], allowed: &[Row], table: &[Row]) -> Vec<String> {
    let declared = declared(packages);
    let allowed_rows: BTreeMap<&str, &[&str]> = allowed.iter().copied().collect();
    let table: BTreeMap<&str, &[&str]> = table.iter().copied().collect();
    let permits = |from: &str, to: &str| table.get(from).is_some_and(|row| row.contains(&to));
    let outside = |from: &str, to: &str| {
        format!(
            "`{from}` must not use `{to}`: the design's table does not permit it. Move what is needed to a crate both may use, or take `{to}` out of crates/{from}/Cargo.toml and of the row of `{from}` in ALLOWED ({LISTS})"
        )
    };
    let mut faults = Vec::new();
    if allowed_rows.len() != allowed.len() {
        faults.push(format!("a crate has two rows in ALLOWED ({LISTS}): join them"));
    }
    for (from, uses) in &declared {
        if !table.contains_key(from) {
            faults.push(format!(
                "crate `{from}` is not in the design: TABLE ({LISTS}) has no row for crates/{from}"
            ));
        }
        let listed = allowed_rows.get(from).copied();
        for to in uses {
            if !permits(from, to) {
                faults.push(outside(from, to));
            } else if listed.is_some_and(|row| !row.contains(to)) {
                faults.push(format!("`{from}` uses `{to}`, which is not listed: add `\"{to}\"` to the row of `{from}` in ALLOWED ({LISTS}), or take the dependency out of crates/{from}/Cargo.toml"));
            }
        }
        for to in listed.unwrap_or_default().iter().filter(|to| !uses.contains(**to)) {
            if permits(from, to) {
                faults.push(format!("`{from}` does not use `{to}` any more: take `\"{to}\"` out of the row of `{from}` in ALLOWED ({LISTS}), or declare the dependency in crates/{from}/Cargo.toml"));
            } else {
                faults.push(outside(from, to));
            }
        }
        let right: BTreeSet<&str> = uses.iter().copied().filter(|to| permits(from, to)).collect();
        if listed.is_none_or(|row| row.len() != right.len() || !row.iter().all(|to| right.contains(to))) {
            faults.push(format!(
                "ALLOWED ({LISTS}) would be right with `{}`",
                row(from, right.iter().copied())
            ));
        }
    }
    let gone = allowed_rows.keys().filter(|from| !declared.contains_key(*from));
    faults.extend(
        gone.map(|from| format!("crate `{from}` has a row in ALLOWED ({LISTS}) but is gone: take it out")),
    );
    faults.extend(packages.iter().flat_map(|package| other_edge_faults(package, packages, &permits)));
    faults
}

/// Optional edges, dev-dependencies, and the packages that nobody may use.
fn other_edge_faults(
    package: &Package,
    packages: &[Package],
    permits: &dyn Fn(&str, &str) -> bool,
) -> Vec<String> {
    let from = package.folder();
    let mut faults = Vec::new();
    let optional = OPTIONAL.iter().filter(|row| row.0 == from).flat_map(|row| row.1);
    for to in optional.map(|to| format!("turnwright-{to}")) {
        if package.dependencies.iter().any(|d| d.name == to && d.kind == Kind::Normal && !d.optional) {
            faults.push(format!(
                "`{from}` uses `{to}` always: make it `optional = true` behind a feature in {}/Cargo.toml",
                package.dir
            ));
        }
    }
    // A crate may name itself: that is how its own features are on in its tests.
    for to in uses(package, packages, Kind::Dev) {
        if package.is_crate() && to != TESTKIT && to != from && !permits(from, to) {
            faults.push(format!("`{from}` must not use `{to}` in tests: the design's table permits only `{TESTKIT}` beside its row. Move the test to the root package `tests`"));
        }
    }
    let any = [Kind::Normal, Kind::Dev].into_iter().flat_map(|kind| uses(package, packages, kind));
    for to in any {
        let leaf = packages.iter().any(|p| p.folder() == to && !p.is_crate());
        if leaf || from == "xtask" {
            faults.push(format!("`{from}` must not use `{to}`: nobody uses `tests` or `xtask`, and `xtask` uses no crate of ours. Take it out of {}/Cargo.toml", package.dir));
        }
    }
    faults
}

/// A crate that has `testkit` for its tests only may name it below its `tests/` folder only: in unit
/// tests its own types would be there twice.
fn testkit_faults(package: &Package, sources: &[(String, String)]) -> Vec<String> {
    let name = format!("turnwright-{TESTKIT}");
    if package.name == name || package.dependencies.iter().any(|d| d.name == name && d.kind == Kind::Normal) {
        return Vec::new();
    }
    let word = name.replace('-', "_");
    let naming = sources.iter().filter(|(path, text)| {
        path.ends_with(".rs") && find_words(Source::parse(path, text).code(), &word).next().is_some()
    });
    naming
        .map(|(path, _)| {
            format!(
                "{path} uses `{TESTKIT}`: move the test to {}/tests/ or to the root package `tests`",
                package.dir
            )
        })
        .collect()
}

/// Forbidden or vendors' crates that a neutral crate declares itself, for whatever target.
fn declared_faults(package: &Package) -> Vec<String> {
    let wanted = package.dependencies.iter().filter(|d| d.kind == Kind::Normal);
    let bad =
        wanted.filter(|d| FORBIDDEN.contains(&d.name.as_str()) || VENDORS.iter().any(|v| d.name.contains(v)));
    bad.map(|d| {
        format!(
            "neutral `{}` declares forbidden `{}`: take it out of {}/Cargo.toml",
            package.folder(),
            d.name,
            package.dir
        )
    })
    .collect()
}

fn tree_faults(package: &str, tree: &str, forbidden: &[&str]) -> Vec<String> {
    let reached: BTreeSet<&str> = tree.lines().filter_map(|line| line.split_whitespace().next()).collect();
    let bad = forbidden.iter().filter(|name| reached.contains(**name));
    bad.map(|name| format!("`{package}` reaches forbidden `{name}`; `cargo tree -p {package} -e normal --all-features -i {name}` shows who brings it")).collect()
}

/// Vendors' names in the sources, comments included, outside `wire/`, tests and the allow-list.
fn vendor_faults(sources: &[(String, String)], allowed: &[(&str, &str, &str)]) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in sources.iter().filter(|(path, _)| !path.contains("/src/wire/") && !is_test_path(path))
    {
        let source = Source::parse(path, text);
        let lower = text.to_ascii_lowercase();
        for vendor in VENDORS {
            let hits = lower.match_indices(vendor).map(|(at, _)| line_of(&lower, at));
            let lines: BTreeSet<usize> = hits.filter(|line| !source.is_test(*line)).collect();
            let excused = allowed.iter().any(|(file, name, _)| file == path && name == vendor);
            if excused && lines.is_empty() {
                faults.push(format!(
                    "{path} does not name `{vendor}` any more: take the entry out of VENDOR_ALLOWED ({LISTS})"
                ));
            } else if !excused {
                faults.extend(lines.iter().map(|line| {
                    format!("{path}:{line}: names the vendor `{vendor}` in a neutral crate: say what is meant without it, move it to `wire/` or to `providers`, or excuse it in VENDOR_ALLOWED ({LISTS}) with a reason")
                }));
            }
        }
    }
    faults
}

fn row<'a>(folder: &str, uses: impl Iterator<Item = &'a str>) -> String {
    let quoted: Vec<String> = uses.map(|to| format!("\"{to}\"")).collect();
    format!("(\"{folder}\", &[{}]),", quoted.join(", "))
}
