//! Which files a call is about, and whether they lie where it may act.

use std::{
    collections::BTreeSet,
    env, io,
    path::{Component, Path, PathBuf},
};

use serde_json::Value;

/// Arguments that name a path, by convention.
const KEYS: [&str; 7] = ["path", "file_path", "target", "dest", "directory", "dir", "working_dir"];
/// How deep arguments are searched.
const DEPTH: usize = 16;

/// A root that cannot be resolved.
#[derive(Debug, thiserror::Error)]
#[error("the allowed path {} cannot be resolved: {source}", path.display())]
pub struct NoRoot {
    /// The path.
    pub path: PathBuf,
    /// Why.
    #[source]
    pub source: io::Error,
}

/// What a call's arguments say about paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Paths {
    /// All of them lie in one allowed directory.
    Inside,
    /// This one does not, or cannot be resolved.
    Outside(String),
    /// There is none that is known as one: nobody knows what the call touches.
    Unknown,
}

/// Compares the paths in a call's arguments with the directories it may act in.
///
/// Each path is taken below the base directory unless it is absolute, `~` is the home directory, and symbolic links and `..`
/// are resolved; of what does not exist yet the part that does is resolved. All must lie in one allowed directory, compared
/// by whole segments. Keys named `path`, `file_path`, `target`, `dest`, `directory`, `dir` and `working_dir` are known as
/// paths, at any depth; a tool that names its paths otherwise declares them ([`ArgumentMatcher::key`]), else its calls are
/// unknown, and unknown is not allowed.
///
/// It looks before the tool acts: a link that is made in between leads elsewhere. Tools that must not be led out of a
/// directory open their files below it themselves; this decides only whether a person is asked.
#[derive(Debug, Clone)]
pub struct ArgumentMatcher {
    roots: Vec<PathBuf>,
    everywhere: bool,
    base: PathBuf,
    keys: BTreeSet<String>,
    depth: usize,
}

impl ArgumentMatcher {
    /// Allows these directories and what is below them. `*` and `**` allow every path that is known as one, blank ones
    /// nothing; `/*` and `/**` at the end say nothing more. Relative ones lie below the current directory, which is the base
    /// as well.
    ///
    /// # Errors
    /// [`NoRoot`] for a directory that does not exist.
    pub fn below<P: AsRef<str>>(roots: impl IntoIterator<Item = P>) -> Result<Self, NoRoot> {
        let base = env::current_dir().map_err(|source| NoRoot { path: ".".into(), source })?;
        let mut matcher = Self {
            roots: Vec::new(),
            everywhere: false,
            base,
            keys: KEYS.iter().map(|key| (*key).to_owned()).collect(),
            depth: DEPTH,
        };
        for root in roots {
            let root = root.as_ref().trim();
            if matches!(root, "*" | "**") {
                matcher.everywhere = true;
            } else if !root.is_empty() {
                let stripped = root.trim_end_matches('*').trim_end_matches('/');
                let path = match (stripped.is_empty(), root.starts_with('/')) {
                    (true, true) => PathBuf::from("/"),
                    (true, false) => matcher.base.clone(),
                    (false, _) => matcher.base.join(at_home(stripped)),
                };
                let resolved = path.canonicalize().map_err(|source| NoRoot { path, source })?;
                matcher.roots.push(resolved);
            }
        }
        Ok(matcher)
    }

    /// Takes relative paths from this directory in place of the current one.
    ///
    /// # Errors
    /// [`NoRoot`] when it does not exist.
    pub fn base(mut self, base: impl Into<PathBuf>) -> Result<Self, NoRoot> {
        let base = base.into();
        self.base = base.canonicalize().map_err(|source| NoRoot { path: base, source })?;
        Ok(self)
    }

    /// Knows arguments of this name as paths too.
    #[must_use]
    pub fn key(mut self, key: impl Into<String>) -> Self {
        self.keys.insert(key.into());
        self
    }

    /// What these arguments say.
    pub fn paths(&self, arguments: &Value) -> Paths {
        let mut found = Vec::new();
        if !self.collect(arguments, self.depth, &mut found) || found.is_empty() {
            return Paths::Unknown;
        }
        if self.everywhere {
            return Paths::Inside;
        }
        let mut resolved = Vec::with_capacity(found.len());
        for path in found {
            match self.resolve(&path) {
                Some(real) => resolved.push((path, real)),
                None => return Paths::Outside(path),
            }
        }
        let inside = |root: &PathBuf| resolved.iter().all(|(_, real)| real.starts_with(root));
        if self.roots.iter().any(inside) {
            return Paths::Inside;
        }
        let stray = resolved.iter().find(|(_, real)| !self.roots.iter().any(|root| real.starts_with(root)));
        let named = stray.or(resolved.last()).map(|(path, _)| path.clone());
        Paths::Outside(named.unwrap_or_default())
    }

    /// Collects what stands under the known keys. Says whether all of it could be a path.
    fn collect(&self, value: &Value, depth: usize, found: &mut Vec<String>) -> bool {
        let Some(deeper) = depth.checked_sub(1) else { return false };
        match value {
            Value::Object(fields) => fields.iter().all(|(key, value)| match value {
                _ if !self.keys.contains(key) => self.collect(value, deeper, found),
                Value::String(path) => {
                    found.push(path.clone());
                    true
                }
                Value::Array(paths) => paths.iter().all(|path| match path {
                    Value::String(path) => {
                        found.push(path.clone());
                        true
                    }
                    _ => false,
                }),
                Value::Null => true,
                _ => false,
            }),
            Value::Array(items) => items.iter().all(|item| self.collect(item, deeper, found)),
            _ => true,
        }
    }

    /// The real path, links and `..` resolved; of what does not exist the part that does. None when it cannot be known.
    fn resolve(&self, path: &str) -> Option<PathBuf> {
        if path.trim().is_empty() || path.contains('\0') {
            return None;
        }
        let path = self.base.join(at_home(path));
        let mut real = PathBuf::new();
        let mut missing = false;
        for part in path.components() {
            match part {
                Component::Prefix(_) | Component::RootDir => real.push(part),
                Component::CurDir => {}
                // What is not there has no parent that could be known.
                Component::ParentDir if missing => return None,
                Component::ParentDir => drop(real.pop()),
                Component::Normal(name) => {
                    real.push(name);
                    if !missing {
                        match real.canonicalize() {
                            Ok(resolved) => real = resolved,
                            // A link to nothing leads wherever it is written to.
                            Err(e) if e.kind() == io::ErrorKind::NotFound && !is_link(&real) => {
                                missing = true;
                            }
                            Err(_) => return None,
                        }
                    }
                }
            }
        }
        Some(real)
    }
}

fn is_link(path: &Path) -> bool {
    path.symlink_metadata().is_ok()
}

/// `~` is the home directory; of other users' nothing is known, and the name stays.
fn at_home(path: &str) -> PathBuf {
    let rest = match path {
        "~" => Some(""),
        _ => path.strip_prefix("~/"),
    };
    match (rest, env::var_os("HOME")) {
        (Some(rest), Some(home)) if !home.is_empty() => PathBuf::from(home).join(rest),
        _ => PathBuf::from(path),
    }
}
