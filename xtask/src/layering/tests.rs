//! Every rule on a small example that breaks it, and all of them on this workspace.

use super::*;
use crate::workspace::Dependency;

const SMALL: &[Row] =
    &[("core", &[]), ("hook", &["core"]), ("testkit", &["core"]), ("turnwright", &["core", "testkit"])];

fn package(dir: &str, normal: &[&str], dev: &[&str]) -> Package {
    let folder = dir.rsplit('/').next().unwrap();
    let named = |name: &&str, kind| Dependency { name: format!("turnwright-{name}"), kind, optional: false };
    let dependencies = normal.iter().map(|n| named(n, Kind::Normal));
    let dependencies = dependencies.chain(dev.iter().map(|n| named(n, Kind::Dev))).collect();
    Package { name: format!("turnwright-{folder}"), dir: dir.to_owned(), dependencies }
}

fn sources(path: &str, text: &str) -> Vec<(String, String)> {
    vec![(path.to_owned(), text.to_owned())]
}

#[track_caller]
fn one(faults: &[String], words: &[&str]) {
    let holds = |fault: &&String| words.iter().all(|word| fault.contains(word));
    assert_eq!(faults.iter().filter(holds).count(), 1, "{words:?} in {faults:#?}");
}

#[test]
fn this_workspace_keeps_its_layers() {
    let report = check().unwrap();
    assert!(report.failures.is_empty(), "{}", report.failures.join("\n"));
}

#[test]
fn lists_are_consistent() {
    let folders: BTreeSet<&str> = designed_folders().collect();
    assert_eq!(folders.len(), TABLE.len(), "a crate has two rows");
    for (from, row) in TABLE.iter().chain(ALLOWED).chain(OPTIONAL) {
        assert!(folders.contains(from), "{from}");
        assert!(row.iter().all(|to| folders.contains(to) && to != from), "{from}: {row:?}");
    }
    assert!(NEUTRAL.iter().all(|folder| folders.contains(folder)));
    assert!(VENDORS.iter().all(|vendor| *vendor == vendor.to_ascii_lowercase()));
}

#[test]
fn matching_edges_pass() {
    let packages = [package("crates/core", &[], &["testkit"]), package("crates/hook", &["core"], &["core"])];
    let more = [package("crates/testkit", &["core"], &[]), package("tests", &["hook", "testkit"], &[])];
    let allowed: &[Row] = &[("core", &[]), ("hook", &["core"]), ("testkit", &["core"])];
    assert_eq!(edge_faults(&[&packages[..], &more].concat(), allowed, SMALL), Vec::<String>::new());
}

#[test]
fn unlisted_stale_and_forbidden_edges_fail() {
    let packages = [package("crates/core", &["hook"], &[]), package("crates/hook", &["core"], &[])];
    let faults = edge_faults(&packages, &[("core", &[]), ("hook", &[])], SMALL);
    one(&faults, &["`core` must not use `hook`", "crates/core/Cargo.toml"]);
    one(&faults, &["`hook` uses `core`, which is not listed", "add `\"core\"` to the row of `hook`"]);
    one(&faults, &["would be right", "(\"hook\", &[\"core\"]),"]);

    let packages = [package("crates/core", &[], &[]), package("crates/hook", &[], &[])];
    let faults = edge_faults(&packages, &[("core", &["hook"]), ("hook", &["core"])], SMALL);
    one(&faults, &["`hook` does not use `core` any more", "take `\"core\"` out"]);
    one(&faults, &["`core` must not use `hook`"]);
    one(&faults, &["would be right", "(\"core\", &[]),"]);
}

#[test]
fn unknown_missing_and_doubled_crates_fail() {
    let faults = edge_faults(&[package("crates/misc", &[], &[])], &[("core", &[]), ("core", &[])], SMALL);
    one(&faults, &["`misc` is not in the design"]);
    one(&faults, &["would be right", "(\"misc\", &[]),"]);
    one(&faults, &["`core` has a row", "gone"]);
    one(&faults, &["two rows"]);
}

#[test]
fn edges_beside_the_table_fail() {
    let packages = [
        package("crates/core", &[], &["hook", "tests"]),
        package("crates/hook", &[], &[]),
        package("crates/testkit", &[], &[]),
        package("crates/turnwright", &["testkit"], &[]),
        package("tests", &[], &[]),
        package("xtask", &["hook"], &[]),
    ];
    let allowed: &[Row] = &[("core", &[]), ("hook", &[]), ("testkit", &[]), ("turnwright", &["testkit"])];
    let faults = edge_faults(&packages, allowed, SMALL);
    one(&faults, &["`core` must not use `hook` in tests"]);
    one(&faults, &["`core` must not use `tests`: nobody"]);
    one(&faults, &["`xtask` must not use `hook`"]);
    one(&faults, &["`turnwright` uses `turnwright-testkit` always", "optional = true"]);
}

#[test]
fn unit_tests_may_not_name_testkit() {
    let text = "#[cfg(test)]\nmod tests {\n use turnwright_testkit::Script;\n}";
    let user = package("crates/hook", &[], &["testkit"]);
    one(
        &testkit_faults(&user, &sources("crates/hook/src/a.rs", text)),
        &["move the test to crates/hook/tests/"],
    );
    assert!(testkit_faults(&user, &sources("crates/hook/src/a.rs", "// turnwright_testkit")).is_empty());
    let facade = package("crates/turnwright", &["testkit"], &[]);
    assert!(testkit_faults(&facade, &sources("crates/turnwright/src/lib.rs", text)).is_empty());
}

#[test]
fn forbidden_crates_are_found_in_trees_and_manifests() {
    let tree = "turnwright-core v0.1.0 (/w/crates/core)\nserde v1.0.0\nhyper v1.0.0\nhyper v1.0.0 (*)\nhyperx v1.0.0";
    let faults = tree_faults("turnwright-core", tree, FORBIDDEN);
    assert_eq!(faults.len(), 1);
    one(&faults, &["`turnwright-core` reaches forbidden `hyper`"]);

    let mut declares = package("crates/core", &[], &[]);
    let named = |name: &str, kind| Dependency { name: name.to_owned(), kind, optional: false };
    declares.dependencies =
        vec![named("reqwest", Kind::Normal), named("async-openai", Kind::Normal), named("axum", Kind::Dev)];
    assert_eq!(declared_faults(&declares).len(), 2);
}

#[test]
fn vendors_are_named_in_wire_and_tests_only() {
    let text = "//! Like OpenAI.\nconst A: &str = \"groq\";\n#[cfg(test)]\nmod tests { /* gemini */ }\n";
    let path = "crates/core/src/a.rs";
    let faults = vendor_faults(&sources(path, text), &[]);
    assert_eq!(faults.len(), 2, "{faults:?}");
    one(&faults, &["crates/core/src/a.rs:1:", "`openai`"]);
    one(&faults, &["crates/core/src/a.rs:2:", "`groq`"]);
    assert!(vendor_faults(&sources("crates/llm-stream/src/wire/a.rs", text), &[]).is_empty());
    assert!(vendor_faults(&sources("crates/core/src/a/tests.rs", text), &[]).is_empty());

    let faults = vendor_faults(&sources(path, text), &[(path, "openai", "why"), (path, "azure", "why")]);
    assert_eq!(faults.len(), 2, "{faults:?}");
    one(&faults, &["does not name `azure` any more"]);
    one(&faults, &["`groq`"]);
}
