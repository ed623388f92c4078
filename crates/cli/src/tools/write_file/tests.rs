//! Writing where it may be, and nowhere else.

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::tools::tests::{context_of_a_past_call, names, refused, told, tree};

fn place() -> (TempDir, PathBuf, PathBuf) {
    let base = tree();
    let (root, outside) = (base.path().join("root"), base.path().join("outside"));
    (base, root, outside)
}

async fn wrote(root: &Path, path: &str, content: &str) -> String {
    told(root, "write_file", json!({ "path": path, "content": content })).await
}

async fn not_written(root: &Path, path: &str) -> String {
    refused(root, "write_file", json!({ "path": path, "content": "new" })).await
}

/// Writes, and lets `may_still` act in the last moment before the file takes its place.
fn write_at(root: &Path, path: &str, may_still: MayStill<'_>) -> Result<String, ToolError> {
    let args = Args { path: path.into(), content: "new".into() };
    write(may_still, &Workspace::open(root).unwrap(), &args)
}

#[tokio::test]
async fn a_file_is_created_or_replaced() {
    let (_base, root, _) = place();
    assert_eq!(wrote(&root, "a.txt", "é\n").await, "created a.txt, 3 bytes");
    assert_eq!(wrote(&root, "a.txt", "two\r\n").await, "replaced a.txt, 5 bytes");
    assert_eq!(wrote(&root, "x/y/b.txt", "").await, "created x/y/b.txt, 0 bytes");
    assert_eq!(wrote(&root, "x/../x/y/../z/./c.txt", "").await, "created x/z/c.txt, 0 bytes");
    assert_eq!(fs::read(root.join("a.txt")).unwrap(), b"two\r\n");
    assert_eq!(names(&root), ["a.txt", "x", "x/y", "x/y/b.txt", "x/z", "x/z/c.txt"]);
}

#[tokio::test]
async fn what_is_no_place_for_a_file_is_refused() {
    let (_base, root, _) = place();
    fs::create_dir(root.join("dir")).unwrap();
    fs::write(root.join("a.txt"), "old").unwrap();
    for (path, words) in [
        ("", "is a directory"),
        (".", "is a directory"),
        ("dir", "is a directory"),
        ("dir/", "is a directory"),
        ("new/", "names a directory"),
        ("new/.", "names a directory"),
        ("new/..", "does not exist"),
        ("a.txt/b", "is not a directory"),
        ("a.txt/", "is not a directory"),
        ("none/../b.txt", "does not exist"),
    ] {
        let why = not_written(&root, path).await;
        assert!(why.contains(words), "{path:?}: {why}");
    }
    let too_long = not_written(&root, &"n".repeat(300)).await;
    assert!(too_long.contains("cannot be"), "{too_long}");
    assert_eq!(names(&root), ["a.txt", "dir"]);
    let args = Args { path: "b.txt".into(), content: "x".repeat(LARGEST + 1) };
    assert!(write(&|| Ok(()), &Workspace::open(&root).unwrap(), &args).is_err());
    assert_eq!(names(&root), ["a.txt", "dir"]);
}

#[cfg(unix)]
#[tokio::test]
async fn nothing_is_written_outside_of_the_root() {
    use std::os::unix::fs::symlink;
    let (_base, root, outside) = place();
    fs::write(outside.join("there.txt"), "old").unwrap();
    symlink(&outside, root.join("way-out")).unwrap();
    symlink(outside.join("there.txt"), root.join("file-link")).unwrap();
    symlink(outside.join("none.txt"), root.join("dangling")).unwrap();
    symlink("../outside/none", root.join("dangling-relative")).unwrap();
    symlink("way-out", root.join("chain")).unwrap();
    symlink("nowhere", root.join("dangling-inside")).unwrap();
    symlink("round", root.join("round")).unwrap();
    let absolute = outside.join("new.txt");
    for path in [
        "../outside/new.txt",
        "new/../../outside/new.txt",
        absolute.to_str().unwrap(),
        "way-out/new.txt",
        "way-out/there.txt",
        "way-out/new/new.txt",
        "way-out/../outside/new.txt",
        "chain/new.txt",
        "file-link",
        "dangling",
        "dangling/new.txt",
        "dangling-relative",
        "dangling-relative/x/new.txt",
    ] {
        let why = not_written(&root, path).await;
        assert!(why.contains("outside of the tool root"), "{path}: {why}");
    }
    for path in ["dangling-inside", "dangling-inside/new.txt"] {
        let why = not_written(&root, path).await;
        assert!(why.contains("a link that leads nowhere"), "{path}: {why}");
    }
    assert!(not_written(&root, "round").await.contains("cannot be read"));
    assert_eq!(names(&outside), ["there.txt"]);
    assert_eq!(fs::read(outside.join("there.txt")).unwrap(), b"old");
    assert!(!root.join("nowhere").exists() && !root.join("new").exists());
}

#[cfg(unix)]
#[tokio::test]
async fn a_link_within_the_root_stays_and_what_it_leads_to_is_replaced() {
    use std::os::unix::fs::symlink;
    let (_base, root, _) = place();
    fs::create_dir(root.join("dir")).unwrap();
    fs::write(root.join("dir/a.txt"), "old").unwrap();
    symlink("dir", root.join("in")).unwrap();
    symlink("dir/a.txt", root.join("link")).unwrap();
    assert_eq!(wrote(&root, "link", "new").await, "replaced dir/a.txt, 3 bytes");
    assert_eq!(wrote(&root, "in/sub/b.txt", "new").await, "created dir/sub/b.txt, 3 bytes");
    assert!(root.join("link").is_symlink());
    assert_eq!(fs::read(root.join("dir/a.txt")).unwrap(), b"new");
}

#[cfg(unix)]
#[tokio::test]
async fn permissions_are_kept_and_respected() {
    use std::os::unix::fs::PermissionsExt;
    let (_base, root, _) = place();
    let mode = |path: &str| fs::metadata(root.join(path)).unwrap().permissions().mode() & 0o7777;
    let set = |path: &str, mode| fs::set_permissions(root.join(path), PermissionsExt::from_mode(mode));
    fs::write(root.join("usual"), "").unwrap();
    wrote(&root, "new", "x").await;
    assert_eq!(mode("new"), mode("usual"), "a new file is as the umask has it");
    for bits in [0o600, 0o755, 0o640] {
        set("usual", bits).unwrap();
        wrote(&root, "usual", &format!("{bits}")).await;
        assert_eq!(mode("usual"), bits);
    }
    set("usual", 0o444).unwrap();
    assert!(not_written(&root, "usual").await.contains("write-protected"));
    let pipe = std::process::Command::new("mkfifo").arg(root.join("pipe")).status();
    assert!(pipe.unwrap().success());
    assert!(not_written(&root, "pipe").await.contains("not a regular file"));
    assert_eq!(names(&root), ["new", "pipe", "usual"]);
}

#[test]
fn whatever_fails_leaves_things_as_they_were() {
    let (_base, root, _) = place();
    fs::write(root.join("a.txt"), "old").unwrap();
    let over = || Err(ToolError::model("the call is over"));
    for path in ["a.txt", "b.txt", "x/y/z.txt"] {
        assert!(write_at(&root, path, &over).is_err());
        assert_eq!(names(&root), ["a.txt"], "{path}");
    }
    assert_eq!(fs::read(root.join("a.txt")).unwrap(), b"old");

    // At the rename itself: a directory, even an empty one, is not replaced.
    let becomes_a_directory = || {
        fs::remove_file(root.join("a.txt")).unwrap();
        fs::create_dir(root.join("a.txt")).map_err(ToolError::from)
    };
    assert!(write_at(&root, "a.txt", &becomes_a_directory).is_err());
    assert_eq!(names(&root), ["a.txt"]);
    assert!(root.join("a.txt").is_dir());
}

#[tokio::test]
async fn a_write_whose_call_is_over_does_not_happen() {
    let (_base, root, _) = place();
    let args = Args { path: "x/a.txt".into(), content: "late".into() };
    let late = run(&context_of_a_past_call().await, &Workspace::open(&root).unwrap(), &args);
    assert!(format!("{late:?}").contains("is over"), "{late:?}");
    assert_eq!(names(&root), [""; 0]);
}

#[test]
fn what_somebody_else_wrote_meanwhile_is_not_lost() {
    let (_base, root, _) = place();
    let appears = || fs::write(root.join("a.txt"), "theirs").map_err(ToolError::from);
    let why = write_at(&root, "a.txt", &appears).unwrap_err();
    assert!(format!("{why:?}").contains("created by somebody else"), "{why:?}");
    assert_eq!(fs::read(root.join("a.txt")).unwrap(), b"theirs");

    let place = Place::find(&Workspace::open(&root).unwrap(), "a.txt").unwrap();
    fs::write(root.join("a.txt"), "theirs again").unwrap();
    let why = place.write(&|| Ok(()), b"ours").unwrap_err();
    assert!(format!("{why:?}").contains("changed by somebody else"), "{why:?}");
    assert_eq!(fs::read(root.join("a.txt")).unwrap(), b"theirs again");
    assert_eq!(names(&root), ["a.txt"]);
}

/// A directory that turns into a link between the look and the write leads nowhere either.
#[cfg(unix)]
#[test]
fn a_directory_that_became_a_link_is_refused() {
    let (_base, root, outside) = place();
    let place = Place::find(&Workspace::open(&root).unwrap(), "dir/a.txt").unwrap();
    std::os::unix::fs::symlink(&outside, root.join("dir")).unwrap();
    let why = place.write(&|| Ok(()), b"ours").unwrap_err();
    assert!(format!("{why:?}").contains("outside of the tool root"), "{why:?}");
    assert_eq!(names(&outside), [""; 0]);
}
