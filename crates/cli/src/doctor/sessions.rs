//! Whether sessions can be kept, and where.

use std::path::Path;

use turnwright::store::SqliteStore;

use super::check::{Report, Status};
use crate::{Global, kept};

/// The file sessions are kept in. One that is not there yet is not made.
pub(super) fn store(global: &Global, report: &mut Report) {
    let Some(path) = kept::path(global) else {
        let check = report.add("sessions", Status::Missing, "kept in memory: they end with the program");
        check.hint("--store PATH keeps them in a file");
        return;
    };
    let shown = path.display();
    let problem = match path.exists() {
        true => SqliteStore::open(&path).err().map(|e| e.to_string()),
        false => no_room(&path, global.store.is_none()),
    };
    match problem {
        Some(why) => {
            let check = report.add("sessions", Status::Problem, why);
            check.hint(
                "point --store at a file that can be written; `--store none` keeps sessions in memory only",
            );
        }
        None if path.exists() => drop(report.add("sessions", Status::Ok, format!("kept in {shown}"))),
        None => {
            let detail = format!("kept in {shown}, which the first one makes");
            report.add("sessions", Status::Ok, detail);
        }
    }
}

/// Why the file could not be made. Directories are made above the usual one only.
fn no_room(path: &Path, is_usual: bool) -> Option<String> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut above = parent.ancestors().take(if is_usual { usize::MAX } else { 1 });
    let there = above.find(|directory| directory.exists()).unwrap_or(parent);
    let words = |why: &str| Some(format!("{} cannot be made: {} {why}", path.display(), there.display()));
    match there.is_dir() {
        false => words("is no directory"),
        true if !super::machine::is_writable(there) => words("cannot be written"),
        true => None,
    }
}
