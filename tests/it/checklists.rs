//! The tests that `docs/checklists.md` names exist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
};

/// The names of all tests and functions of our sources.
fn functions(folder: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            functions(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let names = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
            found.extend(names.map(str::to_owned));
        }
    }
}

#[test]
fn every_test_that_a_checklist_names_exists() {
    let root: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = BTreeSet::new();
    functions(&root.join("crates"), &mut found);
    functions(&root.join("tests/it"), &mut found);
    let page = fs::read_to_string(root.join("docs/checklists.md")).unwrap();
    let rows: Vec<_> =
        page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| row ")).collect();
    assert!(rows.len() > 40, "{}", rows.len());
    for row in rows {
        let named: Vec<_> = row.split('`').skip(1).step_by(2).collect();
        assert!(!named.is_empty() || row.contains("by type"), "nothing pins {row}");
        for name in named {
            assert!(found.contains(name), "there is no test {name}: {row}");
        }
    }
}
