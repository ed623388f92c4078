//! What keeps a conversation short enough, and what outlives it.

mod clean_up;
mod context;
mod core;
mod groups;

use std::sync::Arc;

use parking_lot::Mutex;
use turnwright_builtin::memory::instruction_files;
use turnwright_core::{BoxFuture, TurnContext};
use turnwright_hook::{HookError, MemoryEvent, MemoryHook, MemoryRunner};
use turnwright_testkit::Reply;

/// Writes down what it is told.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<MemoryEvent>>>);

impl MemoryHook for Seen {
    fn name(&self) -> &str {
        "seen"
    }
    fn on<'a>(&'a self, _: &'a TurnContext, event: &'a MemoryEvent) -> BoxFuture<'a, Result<(), HookError>> {
        self.0.lock().push(event.clone());
        Box::pin(async { Ok(()) })
    }
}

impl Seen {
    pub(crate) fn runner(&self) -> MemoryRunner {
        MemoryRunner::new([Arc::new(self.clone()) as Arc<dyn MemoryHook>])
    }
    pub(crate) fn events(&self) -> Vec<MemoryEvent> {
        self.0.lock().clone()
    }
    pub(crate) fn points(&self) -> Vec<&'static str> {
        self.0.lock().iter().map(MemoryEvent::point).collect()
    }
}

pub(crate) fn says(text: &str) -> Reply {
    Reply::new().text(text).finish()
}

pub(crate) fn long(word: &str) -> String {
    format!("{word} ").repeat(400)
}

#[test]
fn instruction_files_are_read_outermost_first_up_to_the_repository_and_none_is_left_out_in_silence() {
    let root = tempfile::tempdir().unwrap();
    let deep = root.path().join("repository").join("a").join("b");
    std::fs::create_dir_all(&deep).unwrap();
    std::fs::create_dir(root.path().join("repository").join(".git")).unwrap();
    for (folder, text) in [("", "outside"), ("repository", "all of it"), ("repository/a/b", "here")] {
        std::fs::write(root.path().join(folder).join("AGENTS.md"), text).unwrap();
    }
    let text = instruction_files(&deep, &["CLAUDE.md", "AGENTS.md"]).unwrap();
    let (first, second) = (text.find("all of it").unwrap(), text.find("here").unwrap());
    assert!(first < second && !text.contains("outside"), "{text}");
    std::fs::write(deep.join("CLAUDE.md"), "\u{feff}first name").unwrap();
    assert!(instruction_files(&deep, &["CLAUDE.md", "AGENTS.md"]).unwrap().contains("first name"));
    std::fs::write(deep.join("CLAUDE.md"), [0xff, 0xfe]).unwrap();
    let error = instruction_files(&deep, &["CLAUDE.md"]).unwrap_err();
    assert!(error.path.ends_with("CLAUDE.md"), "{error}");
    std::fs::write(deep.join("CLAUDE.md"), "x".repeat(70_000)).unwrap();
    assert!(instruction_files(&deep, &["CLAUDE.md"]).unwrap_err().to_string().contains("65536 bytes"));
}
