//! What subagents deliver: numbered files.

use std::{
    fs::{self, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

/// Numbers that are tried when others write into the directory at the same time.
const TRIES: u64 = 1_000;

/// Writes the text to the next `OUTPUT_<n>.md` of a directory, which is made where there is none. A number is taken by
/// making its file, so that no two writers take one, in whatever processes. Blocks.
pub(crate) fn write(directory: &Path, text: &str) -> io::Result<PathBuf> {
    fs::create_dir_all(directory)?;
    let next = highest(directory)?.saturating_add(1);
    for n in next..next.saturating_add(TRIES) {
        let path = directory.join(format!("OUTPUT_{n}.md"));
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(mut file) => {
                let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
                if written.is_err() {
                    // Half of it is nobody's delivery. That it is left when this fails too harms nobody: nobody is told of it.
                    let _ = fs::remove_file(&path);
                }
                return written.map(|()| path);
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(e),
        }
    }
    Err(io::Error::new(io::ErrorKind::AlreadyExists, "others take every number"))
}

fn highest(directory: &Path) -> io::Result<u64> {
    let mut highest = 0;
    for entry in fs::read_dir(directory)? {
        highest = highest.max(entry?.file_name().to_str().and_then(number).unwrap_or(0));
    }
    Ok(highest)
}

/// The number of a name that is exactly as [`write`] makes it.
fn number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("OUTPUT_")?.strip_suffix(".md")?;
    let n: u64 = digits.parse().ok()?;
    (n.to_string() == digits).then_some(n)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn a_number_is_one_more_than_the_highest_of_names_that_are_ours() {
        let directory = tempfile::TempDir::new().unwrap();
        let below = directory.path().join("a");
        assert!(write(&below, "one").unwrap().ends_with("OUTPUT_1.md"));
        for name in ["OUTPUT_7.md", "OUTPUT_08.md", "OUTPUT_99.txt", "output_100.md", "OUTPUT_-3.md"] {
            fs::write(below.join(name), "").unwrap();
        }
        let path = write(&below, "eight").unwrap();
        assert!(path.ends_with("OUTPUT_8.md"));
        assert_eq!(fs::read_to_string(path).unwrap(), "eight");
    }

    #[test]
    fn no_two_writers_take_one_number() {
        let directory = tempfile::TempDir::new().unwrap();
        let paths: Vec<PathBuf> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|n| {
                    let directory = directory.path();
                    scope.spawn(move || {
                        (0..20).map(|m| write(directory, &format!("{n} {m}")).unwrap()).collect::<Vec<_>>()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        let texts: BTreeSet<_> = paths.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
        assert_eq!(
            (paths.len(), texts.len()),
            (160, 160),
            "each writer finds its own text under its own number"
        );
    }
}
