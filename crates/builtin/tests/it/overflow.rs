//! Results that are too long for the model, and how it reads them.

use std::{borrow::Cow, sync::Arc, time::Duration};

use serde_json::Value;
use turnwright_builtin::OverflowFiles;
use turnwright_core::{SessionId, Timestamp};
use turnwright_interceptor::{builtin::Redact, interceptor};
use turnwright_react_runtime::{
    AgentBuilder, Session,
    tool::{ToolContext, ToolError, tool},
};
use turnwright_testkit::Reply;

use crate::support::{agent, ask};

fn long() -> String {
    format!("first {} last", "é".repeat(60_000))
}

fn with_files(files: &OverflowFiles, script: Vec<Reply>) -> AgentBuilder {
    let dump = tool("dump", "", async |_: ToolContext, _: Value| Ok(long()));
    let fails = tool("fails", "", async |_: ToolContext, _: Value| Err::<(), _>(ToolError::model(long())));
    let short = tool("short", "", async |_: ToolContext, _: Value| Ok("x".repeat(50_000)));
    let agent = agent(script).tool(dump).tool(fails).tool(short).tool(files.reader());
    agent.tool_result_overflow(Arc::new(files.clone()))
}

fn said(session: &Session) -> Vec<String> {
    let messages = session.messages();
    messages.iter().flat_map(|m| m.tool_results()).map(|r| r.content.clone()).collect()
}

fn call(id: &str, name: &str, arguments: &str) -> Reply {
    Reply::new().call(id, name, arguments).finish()
}

#[tokio::test]
async fn fault_i14_what_is_cut_is_kept_whole_and_read_in_parts_which_are_not_kept_again() {
    let folder = tempfile::tempdir().unwrap();
    let files = OverflowFiles::below(folder.path().join("made"));
    let script = vec![
        call("a", "dump", "{}"),
        call("b", "fails", "{}"),
        call("c", "short", "{}"),
        call("d", "read_overflow", r#"{"call":"a"}"#),
        call("e", "read_overflow", r#"{"call":"a","offset":120005}"#),
        call("f", "read_overflow", r#"{"call":"c"}"#),
        call("g", "read_overflow", r#"{"call":"../a"}"#),
        Reply::new().text("done").finish(),
    ];
    let session = with_files(&files, script).build().unwrap().new_session();
    assert_eq!(ask(&session).await.content, "done");
    let said = said(&session);
    for (text, id) in said.iter().zip(["a", "b"]) {
        assert!(text.chars().count() <= 50_000 && text.starts_with("first é"), "{}", &text[..20]);
        assert!(
            text.contains(&format!("it is saved whole: read_overflow with call \"{id}\" reads it")),
            "{id}"
        );
    }
    assert_eq!(said[2].len(), 50_000, "what fits is neither cut nor kept");
    assert!(
        said[3].starts_with("first é") && said[3].ends_with("go on with offset 40000]"),
        "{}",
        &said[3][39_900..]
    );
    assert!(
        said[4].starts_with("é last\n\n[bytes 120005 to 120011, the end]") || said[4].contains("last"),
        "{}",
        said[4]
    );
    assert!(said[5].contains("nothing is kept of call \"c\""), "{}", said[5]);
    assert!(said[6].contains("nothing is kept of call \"../a\""), "{}", said[6]);
    let kept = files.list(session.id()).await.unwrap();
    let calls: Vec<_> =
        kept.iter().map(|entry| (entry.call.as_str(), entry.tool.as_str(), entry.total_chars)).collect();
    assert_eq!(
        calls,
        [("a", "dump", 60_011), ("b", "fails", 60_011)],
        "errors too, and no page of a reading"
    );
    files.forget(session.id()).await.unwrap();
    assert!(files.list(session.id()).await.unwrap().is_empty());
}

#[tokio::test]
async fn fault_i14_where_results_are_cut_short_all_of_it_can_be_read_in_shorter_parts() {
    let folder = tempfile::tempdir().unwrap();
    let files = OverflowFiles::below(folder.path());
    let text: String = (0..300).map(|n| format!("line {n:04} ")).collect();
    let given = text.clone();
    let list = tool("list", "", move |_: ToolContext, _: Value| {
        let given = given.clone();
        async move { Ok(given) }
    });
    let mut script = vec![call("a", "list", "{}")];
    let part = |nth: usize| format!(r#"{{"call":"a","offset":{},"length":900}}"#, nth * 900);
    script.extend((0..4).map(|nth| call(&format!("p{nth}"), "read_overflow", &part(nth))));
    script.push(Reply::new().text("done").finish());
    let agent = agent(script).tool(list).tool(files.reader()).tool_result_chars(1_000);
    let session = agent.tool_result_overflow(Arc::new(files.clone())).build().unwrap().new_session();
    assert_eq!(ask(&session).await.content, "done");
    let parts: String =
        said(&session)[1..].iter().map(|part| part.split("\n\n[bytes").next().unwrap()).collect();
    assert_eq!(parts, text);
    assert_eq!(files.list(session.id()).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_folder_that_cannot_be_written_leaves_the_result_cut_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "").unwrap();
    let script = vec![call("a", "dump", "{}"), Reply::new().text("done").finish()];
    let session = with_files(&OverflowFiles::below(&file), script).build().unwrap().new_session();
    assert_eq!(ask(&session).await.content, "done");
    assert!(said(&session)[0].contains("the rest was not saved"));
}

#[tokio::test]
async fn what_is_old_is_swept_and_what_was_cut_off_counts_for_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let files = OverflowFiles::below(folder.path());
    let script = vec![call("a", "dump", "{}"), Reply::new().text("done").finish()];
    let session = with_files(&files, script).build().unwrap().new_session();
    ask(&session).await;
    let of_session = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    // A writing that was cut off has no mark.
    std::fs::create_dir(of_session.join("half-0")).unwrap();
    std::fs::write(of_session.join("half-0").join("full.txt"), "half").unwrap();
    let kept = files.list(session.id()).await.unwrap();
    assert_eq!(kept.len(), 1);
    let now = kept[0].created_at;
    let later = |hours: u64| now.checked_add(Duration::from_secs(3600 * hours)).unwrap();
    assert_eq!(files.sweep(later(1), Duration::from_secs(7200)).await.unwrap(), 0);
    assert_eq!(
        files.sweep(later(3), Duration::from_secs(7200)).await.unwrap(),
        1,
        "the young half may be under way"
    );
    assert!(files.list(session.id()).await.unwrap().is_empty());
    assert_eq!(files.sweep(Timestamp::MAX, Duration::ZERO).await.unwrap(), 0);
}

#[tokio::test]
async fn names_of_ids_lead_nowhere_else_and_never_meet() {
    let folder = tempfile::tempdir().unwrap();
    let files = OverflowFiles::below(folder.path().join("in"));
    let agent = |script| with_files(&files, script).build().unwrap();
    for id in ["a.b", "a_b", "...", "a:b"] {
        let script = vec![call("c", "dump", "{}"), Reply::new().text("done").finish()];
        let session = agent(script).open_session(SessionId::new(id).unwrap()).await.unwrap();
        ask(&session).await;
        assert_eq!(files.list(session.id()).await.unwrap().len(), 1, "{id}");
    }
    let made = std::fs::read_dir(folder.path().join("in")).unwrap().count();
    assert_eq!((made, std::fs::read_dir(folder.path()).unwrap().count()), (4, 1));
}

#[tokio::test]
async fn a_call_of_a_later_turn_with_the_same_id_leaves_what_an_earlier_one_was_told_to_read() {
    let folder = tempfile::tempdir().unwrap();
    let files = OverflowFiles::below(folder.path());
    let turn = || [call("a", "dump", "{}"), Reply::new().text("done").finish()];
    let reads = ["a", "a~2"].map(|id| call(id, "read_overflow", &format!(r#"{{"call":"{id}"}}"#)));
    let script = turn().into_iter().chain(turn()).chain(reads);
    let dumps = std::sync::atomic::AtomicUsize::new(0);
    let dump = tool("dump", "", move |_: ToolContext, _: Value| {
        let n = dumps.fetch_add(1, std::sync::atomic::Ordering::SeqCst) + 1;
        async move { Ok(format!("dump {n} {}", long())) }
    });
    let session = agent(script.chain([Reply::new().text("done").finish()]))
        .tool(dump)
        .tool(files.reader())
        .tool_result_overflow(Arc::new(files.clone()))
        .build()
        .unwrap()
        .new_session();
    for _ in 0..3 {
        ask(&session).await;
    }
    let said = said(&session);
    assert!(said[0].contains(r#"with call "a" reads it"#) && said[1].contains(r#"with call "a~2" reads it"#));
    assert!(said[2].starts_with("dump 1 first") && said[3].starts_with("dump 2 first"), "{}", &said[2][..20]);
}

fn without_last(text: &str) -> Cow<'_, str> {
    match text.contains("last") {
        true => Cow::Owned(text.replace("last", "[secret]")),
        false => Cow::Borrowed(text),
    }
}

#[tokio::test]
async fn what_a_layer_takes_out_is_not_kept_either_the_layer_of_a_parent_included() {
    let folder = tempfile::tempdir().unwrap();
    let redact = interceptor!(Redact::new(without_last)).inherited();
    let parent = agent([]).interceptor(redact).build().unwrap();
    for child in [false, true] {
        let files = OverflowFiles::below(folder.path().join(child.to_string()));
        let script = vec![call("a", "dump", "{}"), Reply::new().text("done").finish()];
        let agent = with_files(&files, script);
        let agent = match child {
            true => agent.inherit(&parent),
            false => agent.interceptor(interceptor!(Redact::new(without_last))),
        };
        let session = agent.build().unwrap().new_session();
        ask(&session).await;
        assert!(said(&session)[0].contains("é [secret]"));
        let of_session = std::fs::read_dir(folder.path().join(child.to_string())).unwrap().next().unwrap();
        let of_call = std::fs::read_dir(of_session.unwrap().path()).unwrap().next().unwrap().unwrap();
        let text = std::fs::read_to_string(of_call.path().join("full.txt")).unwrap();
        assert!(text.ends_with("é [secret]"), "child: {child}");
    }
}

#[tokio::test]
async fn a_session_keeps_so_many_and_the_oldest_go_first() {
    let folder = tempfile::tempdir().unwrap();
    let files = OverflowFiles::below(folder.path());
    let mut script: Vec<_> = (0..3).map(|n| call(&format!("new{n}"), "dump", "{}")).collect();
    script.push(Reply::new().text("done").finish());
    let session = with_files(&files, vec![call("old", "dump", "{}"), Reply::new().text("done").finish()]);
    let session = session.build().unwrap().open_session(SessionId::new("s").unwrap()).await.unwrap();
    ask(&session).await;
    let of_session = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let first = std::fs::read_dir(&of_session).unwrap().next().unwrap().unwrap().path();
    let meta = std::fs::read_to_string(first.join("meta.json")).unwrap();
    for n in 0..499 {
        let copy = of_session.join(format!("copy-{n}"));
        std::fs::create_dir(&copy).unwrap();
        std::fs::write(copy.join("meta.json"), meta.replace("\"old\"", &format!("\"z{n:03}\""))).unwrap();
    }
    assert_eq!(files.list(session.id()).await.unwrap().len(), 500);
    let later = with_files(&files, script).sources(turnwright_core::Sources::default()).build().unwrap();
    let session = later.open_session(SessionId::new("s").unwrap()).await.unwrap();
    ask(&session).await;
    let kept = files.list(session.id()).await.unwrap();
    let ids: Vec<_> = kept.iter().map(|entry| entry.call.as_str()).collect();
    assert_eq!((ids.len(), ids[0], &ids[497..]), (500, "z002", &["new0", "new1", "new2"][..]));
}
