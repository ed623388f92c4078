//! Manifests: what members inherit from the workspace, and how they are named.

use std::collections::BTreeMap;

use crate::workspace::Package;

/// Package fields that every member inherits, and those that a published one inherits or states.
const INHERITED: &[&str] = &["edition", "rust-version", "license"];
const INHERITED_IF_PUBLISHED: &[&str] = &["version", "repository", "keywords", "categories"];

pub(crate) fn faults(package: &Package, manifest: &str) -> Vec<String> {
    let path = format!("{}/Cargo.toml", package.dir);
    let sections = sections(manifest);
    let holds = |section: &str, line: &str| {
        sections
            .get(section)
            .is_some_and(|lines| lines.iter().any(|l| l.replace(' ', "") == line.replace(' ', "")))
    };
    let mut faults = Vec::new();
    if !holds("lints", "workspace = true") {
        faults.push(format!("{path}: inherit the lints: `[lints]` with `workspace = true`"));
    }
    let published = !holds("package", "publish = false");
    let wanted = INHERITED.iter().chain(INHERITED_IF_PUBLISHED.iter().filter(|_| published));
    for field in wanted.filter(|field| !holds("package", &format!("{field}.workspace = true"))) {
        faults.push(format!("{path}: inherit the field: `{field}.workspace = true`"));
    }
    let described =
        sections.get("package").is_some_and(|lines| lines.iter().any(|l| l.starts_with("description")));
    if published && !described {
        faults.push(format!("{path}: a published package has a `description`"));
    }
    let folder = package.folder();
    if package.is_crate() && package.name != "turnwright" && package.name != format!("turnwright-{folder}") {
        faults.push(format!("{path}: the package in crates/{folder} is named `turnwright-{folder}`"));
    }
    faults.extend(sections.iter().flat_map(|(section, lines)| dependency_faults(&path, section, lines)));
    faults
}

/// Dependencies whose version the root does not own.
fn dependency_faults(path: &str, section: &str, lines: &[&str]) -> Vec<String> {
    let fault =
        |name: &str| format!("{path}: `{}` takes its version from the root: `workspace = true`", name.trim());
    if let Some((_, name)) = section.rsplit_once("dependencies.") {
        let inherits = lines.iter().any(|line| line.replace(' ', "") == "workspace=true");
        return if inherits { Vec::new() } else { vec![fault(name)] };
    }
    if !section.ends_with("dependencies") {
        return Vec::new();
    }
    let entries = lines.iter().filter_map(|line| line.split_once('='));
    let entries =
        entries.filter(|(name, _)| name.trim().chars().all(|c| c.is_alphanumeric() || "-_.".contains(c)));
    entries
        .filter(|(name, value)| {
            let value = value.replace(' ', "");
            let inherits = name.trim().ends_with(".workspace") && value == "true";
            // The package itself, with features for its tests: without a version, or it could not be published first.
            let itself = section == "dev-dependencies" && value.contains("path=\".\"");
            !inherits && !itself && !value.contains("workspace=true")
        })
        .map(|(name, _)| fault(name))
        .collect()
}

/// The lines of each table, without comments and blank lines.
fn sections(manifest: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut sections: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut current = "";
    for line in manifest.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        match line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            // A line that only closes an array of several lines is no header.
            Some(name) if !name.contains(['"', ',']) || name.starts_with("target.") => {
                current = name;
                sections.entry(current).or_default();
            }
            _ => sections.entry(current).or_default().push(line),
        }
    }
    sections
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "[package]\nname = \"turnwright-core\"\ndescription = \"x\"\nversion.workspace = true\n\
        edition.workspace = true\nrust-version.workspace = true\nlicense.workspace = true\n\
        repository.workspace = true\nkeywords.workspace = true\ncategories.workspace = true\n\n\
        [lints]\nworkspace = true\n\n[dependencies]\nserde.workspace = true # why\n";

    fn core() -> Package {
        Package {
            name: "turnwright-core".to_owned(),
            dir: "crates/core".to_owned(),
            dependencies: Vec::new(),
        }
    }

    #[track_caller]
    fn fails(manifest: &str, word: &str) {
        let faults = faults(&core(), manifest);
        assert!(faults.len() == 1 && faults[0].contains(word), "{word}: {faults:?}");
    }

    #[test]
    fn what_is_not_inherited_fails() {
        let more = "tokio = { workspace = true, features = [\n  \"rt\",\n] }\n[target.'cfg(unix)'.dependencies.a]\nworkspace = true\n";
        let good = GOOD.replace(" # why", "");
        assert_eq!(faults(&core(), &format!("{good}{more}")), Vec::<String>::new());
        fails(&good.replace("[lints]\nworkspace = true", ""), "[lints]");
        fails(&good.replace("license.workspace = true", "license = \"MIT\""), "`license.workspace = true`");
        fails(&good.replace("keywords.workspace = true\n", ""), "keywords");
        fails(&good.replace("description", "descr"), "description");
        fails(&good.replace("serde.workspace = true", "serde = \"1\""), "`serde`");
        fails(&good.replace("serde.workspace = true", "serde = { version = \"1\" }"), "`serde`");
        fails(&format!("{good}[dev-dependencies.a]\nversion = \"1\""), "`a`");
        let itself = "turnwright-core = { path = \".\" }\n";
        assert_eq!(faults(&core(), &format!("{good}[dev-dependencies]\n{itself}")), Vec::<String>::new());
        fails(&format!("{good}{itself}"), "`turnwright-core`");
    }

    #[test]
    fn unpublished_packages_inherit_less_and_names_follow_folders() {
        let unpublished = "[package]\npublish = false\nedition.workspace = true\nrust-version.workspace = true\n\
            license.workspace = true\n[lints]\nworkspace = true\n";
        assert_eq!(faults(&core(), unpublished), Vec::<String>::new());
        let misnamed = Package { name: "turnwright-kern".to_owned(), ..core() };
        assert!(faults(&misnamed, GOOD).iter().any(|fault| fault.contains("is named `turnwright-core`")));
    }
}
