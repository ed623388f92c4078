//! The seeds: our own recordings, and what was written by hand or found by a fuzzer, in `fuzz/seeds/TARGET`.

use std::{fs, path::Path};

/// The seeds of this body, in the order of their names.
pub(crate) fn of(name: &str) -> Vec<Vec<u8>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let own = files(&root.join("fuzz/seeds").join(name), "");
    let recorded = match name {
        "chat" | "responses" | "messages" => files(&root.join("tests/recordings/smollm2"), name),
        _ => Vec::new(),
    };
    own.into_iter().chain(recorded).collect()
}

/// The files of a folder whose names begin so; none where there is no folder.
fn files(folder: &Path, begin: &str) -> Vec<Vec<u8>> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let is_ours = |path: &&std::path::PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(begin) && !name.ends_with(".request.json")
    };
    paths.iter().filter(is_ours).map(|path| fs::read(path).unwrap()).collect()
}
