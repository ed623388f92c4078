//! The files below a directory, but for hidden and ignored ones.
//!
//! The rules of `.gitignore` and `.ignore` are read here and not by the walk of the `ignore` crate: that one opens
//! whatever has such a name, wherever it leads and however long it is, and looks above the root too.

use std::{
    ffi::OsString,
    fs::{self, FileType},
    io::Read,
    path::{Path, PathBuf},
    vec,
};

use ignore::{
    Match,
    gitignore::{Gitignore, GitignoreBuilder},
};

use super::workspace::{Workspace, open_regular};

/// Where rules stand; those of the later one win.
const RULES: [&str; 2] = [".gitignore", ".ignore"];
/// A longer file of rules has none, and so has every further one once a walk has read so much of them.
const LONGEST_RULES: u64 = 64 << 10;
const MOST_RULES: u64 = 256 << 10;
/// The most entries of a directory that are looked at: sorting needs them all.
const MOST_ENTRIES: usize = 100_000;

/// Regular files in the order of their paths, and nothing in the place of any other entry, so that whoever asks can
/// stop there. Links are not followed: a file is found where it is, and not outside.
pub(super) struct Walk {
    /// The start, where it is a file: named by somebody, it is neither hidden nor ignored.
    file: Option<PathBuf>,
    /// Rules of the directories above the start, the root's first.
    above: Vec<Gitignore>,
    open: Vec<Directory>,
    rules_left: u64,
}

struct Directory {
    path: PathBuf,
    rules: Gitignore,
    entries: vec::IntoIter<(OsString, FileType)>,
}

impl Walk {
    /// From a path that the workspace resolved.
    pub(super) fn new(workspace: &Workspace, start: PathBuf) -> Self {
        let mut walk = Self { file: None, above: Vec::new(), open: Vec::new(), rules_left: MOST_RULES };
        if !start.is_dir() {
            walk.file = Some(start);
            return walk;
        }
        let mut above: Vec<_> = start.ancestors().skip(1).filter(|dir| workspace.holds(dir)).collect();
        above.reverse();
        walk.above = above.into_iter().map(|dir| walk.rules(dir)).collect();
        walk.enter(start);
        walk
    }

    fn enter(&mut self, path: PathBuf) {
        // What cannot be read has no files to show.
        let Ok(entries) = fs::read_dir(&path) else { return };
        let mut entries: Vec<_> = entries
            .take(MOST_ENTRIES)
            .filter_map(Result::ok)
            .filter_map(|entry| Some((entry.file_name(), entry.file_type().ok()?)))
            .filter(|(name, _)| !name.as_encoded_bytes().starts_with(b"."))
            .collect();
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        let rules = self.rules(&path);
        self.open.push(Directory { path, rules, entries: entries.into_iter() });
    }

    fn rules(&mut self, dir: &Path) -> Gitignore {
        let mut rules = GitignoreBuilder::new(dir);
        for name in RULES {
            let text = self.rule_text(&dir.join(name)).unwrap_or_default();
            for line in text.trim_start_matches('\u{feff}').lines() {
                // A line that is no glob is no rule.
                let _ = rules.add_line(None, line);
            }
        }
        rules.build().unwrap_or_else(|_| Gitignore::empty())
    }

    fn rule_text(&mut self, path: &Path) -> Option<String> {
        let most = LONGEST_RULES.min(self.rules_left);
        let mut bytes = Vec::new();
        open_regular(path).ok()?.take(most + 1).read_to_end(&mut bytes).ok()?;
        let length = bytes.len() as u64;
        if length > most {
            return None;
        }
        self.rules_left -= length;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// The nearest rule decides.
    fn is_ignored(&self, path: &Path, is_dir: bool) -> bool {
        let near = self.open.iter().rev().map(|dir| &dir.rules);
        let decided =
            near.chain(self.above.iter().rev()).find_map(|rules| match rules.matched(path, is_dir) {
                Match::None => None,
                found => Some(found.is_ignore()),
            });
        decided.unwrap_or(false)
    }
}

impl Iterator for Walk {
    type Item = Option<PathBuf>;

    fn next(&mut self) -> Option<Self::Item> {
        if let Some(file) = self.file.take() {
            return Some(Some(file));
        }
        let dir = self.open.last_mut()?;
        let Some((name, kind)) = dir.entries.next() else {
            self.open.pop();
            return Some(None);
        };
        let path = dir.path.join(name);
        if self.is_ignored(&path, kind.is_dir()) {
            return Some(None);
        }
        if kind.is_dir() {
            self.enter(path);
            return Some(None);
        }
        Some(kind.is_file().then_some(path))
    }
}
