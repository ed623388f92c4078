//! The workspace as `cargo metadata` and the file system show it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::process::{capture, cargo};

/// One member of the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Package {
    /// The package's name, for example `turnwright-core`.
    pub(crate) name: String,
    /// Its folder below the root, for example `crates/core`.
    pub(crate) dir: String,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One dependency as a manifest declares it, on whatever target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) optional: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Normal and build dependencies: both shape what a user compiles.
    Normal,
    Dev,
}

impl Package {
    /// The last part of the folder, by which the lists name a crate.
    pub(crate) fn folder(&self) -> &str {
        self.dir.rsplit('/').next().unwrap_or(&self.dir)
    }

    /// Whether it stands under `crates/`, so is neither `xtask` nor `tests`.
    pub(crate) fn is_crate(&self) -> bool {
        self.dir.starts_with("crates/")
    }
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest_dir.parent().map(Path::to_path_buf).unwrap_or(manifest_dir)
}

/// The members with their declared dependencies, in cargo's order.
pub(crate) fn packages() -> Result<Vec<Package>, String> {
    let json = capture(&mut cargo(&["metadata", "--no-deps", "--format-version", "1"]))?;
    let metadata = serde_json::from_str(&json).map_err(|e| format!("cargo metadata is no JSON: {e}"))?;
    parse(&metadata).ok_or_else(|| "cargo metadata has an unknown shape".to_owned())
}

fn parse(metadata: &Value) -> Option<Vec<Package>> {
    let root = Path::new(metadata["workspace_root"].as_str()?);
    metadata["packages"].as_array()?.iter().map(|package| parse_package(package, root)).collect()
}

fn parse_package(package: &Value, root: &Path) -> Option<Package> {
    let dir = Path::new(package["manifest_path"].as_str()?).parent()?.strip_prefix(root).ok()?;
    let dependencies = package["dependencies"].as_array()?.iter().map(|dependency| {
        Some(Dependency {
            name: dependency["name"].as_str()?.to_owned(),
            kind: if dependency["kind"] == "dev" { Kind::Dev } else { Kind::Normal },
            optional: dependency["optional"].as_bool()?,
        })
    });
    Some(Package {
        name: package["name"].as_str()?.to_owned(),
        dir: slashed(dir),
        dependencies: dependencies.collect::<Option<_>>()?,
    })
}

/// Files below `dir`, as paths from the root with forward slashes, sorted. Build output, version
/// control and installed packages are passed over, and so is a folder that is not there.
pub(crate) fn files(root: &Path, dir: &str) -> Result<Vec<String>, String> {
    let mut found = Vec::new();
    let mut pending = vec![root.join(dir)];
    while let Some(folder) = pending.pop() {
        if !folder.is_dir() {
            continue;
        }
        let unreadable = |e: std::io::Error| format!("{} cannot be read: {e}", folder.display());
        for entry in std::fs::read_dir(&folder).map_err(unreadable)? {
            let entry = entry.map_err(unreadable)?;
            let kind = entry.file_type().map_err(unreadable)?;
            let name = entry.file_name();
            if kind.is_dir() && !matches!(name.to_str(), Some("target" | ".git" | "node_modules" | ".venv")) {
                pending.push(entry.path());
            } else if kind.is_file() && name != ".git" {
                found.extend(entry.path().strip_prefix(root).ok().map(slashed));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// The text of a file, or nothing when it is not UTF-8.
pub(crate) fn read(root: &Path, path: &str) -> Result<Option<String>, String> {
    let bytes = std::fs::read(root.join(path)).map_err(|e| format!("{path} cannot be read: {e}"))?;
    Ok(String::from_utf8(bytes).ok())
}

fn slashed(path: &Path) -> String {
    path.to_string_lossy().replace('\\', "/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_becomes_packages() {
        let metadata = serde_json::json!({
            "workspace_root": "/w",
            "packages": [{
                "name": "turnwright-control",
                "manifest_path": "/w/crates/control/Cargo.toml",
                "dependencies": [
                    { "name": "turnwright-core", "kind": null, "optional": false },
                    { "name": "proptest", "kind": "dev", "optional": false },
                    { "name": "cc", "kind": "build", "optional": true },
                ],
            }],
        });
        let packages = parse(&metadata).unwrap();
        assert_eq!(packages[0].folder(), "control");
        assert!(packages[0].is_crate());
        let kinds: Vec<Kind> = packages[0].dependencies.iter().map(|d| d.kind).collect();
        assert_eq!(kinds, [Kind::Normal, Kind::Dev, Kind::Normal]);
        assert!(parse(&serde_json::json!({ "packages": [] })).is_none());
    }
}
