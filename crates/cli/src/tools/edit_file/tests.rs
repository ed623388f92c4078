//! Edits as an agent asks for them, and what becomes of the text.

use std::{fs, path::PathBuf};

use serde_json::json;
use tempfile::TempDir;

use super::*;
use crate::tools::tests::{context_of_a_past_call, names, refused, told, tree};

fn edited(text: &str, old: &str, new: &str) -> Result<String, String> {
    splice::replace(text, old, new, false).map(|edited| edited.text)
}

fn with(content: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let base = tree();
    let root = base.path().join("root");
    fs::write(root.join("a.txt"), content).unwrap();
    (base, root)
}

#[tokio::test]
async fn a_text_is_replaced_and_the_changed_lines_are_shown() {
    let text: String = (1..=12).map(|n| format!("line {n}\n")).collect();
    let (_base, root) = with(&text);
    let edit = json!({ "path": "a.txt", "old_text": "line 6\nline 7\n", "new_text": "six\n" });
    let shown = told(&root, "edit_file", edit).await;
    let expected = "replaced once in a.txt\n  3: line 3\n  4: line 4\n  5: line 5\n> 6: six\n  7: line 8\n  8: line 9\n  9: line 10\n";
    assert_eq!(shown, expected);
    assert_eq!(fs::read_to_string(root.join("a.txt")).unwrap(), text.replace("line 6\nline 7\n", "six\n"));
    assert_eq!(names(&root), ["a.txt"]);

    let all = json!({ "path": "a.txt", "old_text": "line", "new_text": "row", "replace_all": true });
    let shown = told(&root, "edit_file", all).await;
    assert!(shown.starts_with("replaced 10 times in a.txt; the first 5 are shown\n> 1: row 1\n"), "{shown}");
}

#[tokio::test]
async fn what_cannot_be_edited_is_said_and_stays() {
    let (_base, root) = with("one\ntwo\ntwo\n");
    fs::write(root.join("latin"), b"caf\xe9 one").unwrap();
    fs::create_dir(root.join("dir")).unwrap();
    let cases = [
        ("a.txt", "two", "2", "occurs 2 times, at lines 2, 3"),
        ("a.txt", "three", "3", "does not occur"),
        ("a.txt", "", "3", "old_text is empty"),
        ("a.txt", "one", "one", "are the same"),
        ("latin", "one", "1", "is no text in UTF-8"),
        ("dir", "one", "1", "is a directory"),
        ("none", "one", "1", "write_file creates it"),
        ("none/../../x", "one", "1", "outside of the tool root"),
    ];
    for (path, old, new, words) in cases {
        let edit = json!({ "path": path, "old_text": old, "new_text": new });
        let why = refused(&root, "edit_file", edit).await;
        assert!(why.contains(words), "{path} {old}: {why}");
    }
    assert_eq!(fs::read(root.join("a.txt")).unwrap(), b"one\ntwo\ntwo\n");
    assert_eq!(fs::read(root.join("latin")).unwrap(), b"caf\xe9 one");

    fs::File::create(root.join("big")).unwrap().set_len(LARGEST as u64 + 1).unwrap();
    let big = json!({ "path": "big", "old_text": "a", "new_text": "b" });
    assert!(refused(&root, "edit_file", big).await.contains("larger than 8 MiB"));
}

#[tokio::test]
async fn an_edit_whose_call_is_over_does_not_happen() {
    let (_base, root) = with("one\n");
    let args =
        Args { path: "a.txt".into(), old_text: "one".into(), new_text: "1".into(), replace_all: false };
    let late = run(&context_of_a_past_call().await, &Workspace::open(&root).unwrap(), &args);
    assert!(format!("{late:?}").contains("is over"), "{late:?}");
    assert_eq!(fs::read(root.join("a.txt")).unwrap(), b"one\n");
    assert_eq!(names(&root), ["a.txt"]);
}

#[test]
fn line_ends_follow_the_file() {
    assert_eq!(edited("a\r\nb\r\nc", "a\nb", "x\ny\nz").unwrap(), "x\r\ny\r\nz\r\nc");
    assert_eq!(edited("a\r\nb\r\nc", "a\r\nb", "x\r\ny").unwrap(), "x\r\ny\r\nc");
    assert_eq!(edited("a\r\nb\r\n", "b\n", "").unwrap(), "a\r\n");
    assert_eq!(edited("a\r\nb", "\nb", "\nc").unwrap(), "a\r\nc");
    assert_eq!(edited("a\r\nb", "b", "b\nc").unwrap(), "a\r\nb\r\nc", "the line before tells how");
    assert_eq!(
        edited("a\r\nb\nc\nd\r\n", "c", "x\ny").unwrap(),
        "a\r\nb\nx\ny\nd\r\n",
        "where ends are mixed"
    );
    assert_eq!(edited("a\r\nb\nc\nd\r\n", "d\n", "x\ny\n").unwrap(), "a\r\nb\nc\nx\r\ny\r\n");
    assert_eq!(edited("a\nb\n", "a", "a\r").unwrap(), "a\r\nb\n", "what is asked for in so many words");
    assert!(edited("a\nb\n", "a\r\n", "x").unwrap_err().contains("does not occur"));
    assert!(edited("a\r\nb", "a\r\nb", "a\nb").unwrap_err().contains("the same"));
    assert!(edited("a\r\nb\nc", "a\nb\nc", "a\nb\nc\n").unwrap().ends_with("c\r\n"));
}

#[test]
fn a_byte_order_mark_and_a_missing_last_newline_stay() {
    assert_eq!(edited("\u{feff}a\r\nb", "a\nb", "c").unwrap(), "\u{feff}c");
    assert_eq!(edited("\u{feff}a\nb", "\u{feff}a", "c").unwrap(), "\u{feff}c\nb");
    assert!(edited("\u{feff}a", "\u{feff}", "").unwrap_err().contains("empty"));
    assert_eq!(edited("a\nb", "b", "c").unwrap(), "a\nc");
}

#[test]
fn once_means_once() {
    assert!(edited("aaa", "aa", "b").unwrap_err().contains("2 times, at lines 1, 1"));
    assert!(edited("ééé", "éé", "b").unwrap_err().contains("2 times"));
    assert_eq!(splice::replace("aaa", "aa", "b", true).unwrap().text, "ba");
    let many = edited(&"x\n".repeat(100), "x", "y").unwrap_err();
    assert!(many.contains("100 times, at lines 1, 2, 3,") && many.contains(", 20, …;"), "{many}");
}

#[test]
fn what_grows_and_what_is_shown_is_bounded() {
    let text = "a".repeat(1 << 20);
    let why = splice::replace(&text, "a", "aaaaaaaaaa", true).unwrap_err();
    assert!(why.contains("beyond 8 MiB"), "{why}");
    let edited = splice::replace("x", "x", &"y\n".repeat(10_000), false).unwrap();
    let shown = excerpt::of(&edited.text, &edited.changed);
    assert_eq!(shown.lines().count(), 61);
    assert!(shown.ends_with("> 60: y\n[further lines are not shown]\n"), "{shown}");
    let edited = splice::replace("x", "x", &"é".repeat(10_000), false).unwrap();
    assert!(excerpt::of(&edited.text, &edited.changed).len() < 300);
}
