//! What is logged of a turn, and what is not.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};
use turnwright_builtin::{Logging, RUN_TARGET};
use turnwright_testkit::Reply;

use crate::support::{agent, ask, same};

/// Lines of what was logged below one target.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == RUN_TARGET
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &Event<'_>) {
        let mut line = String::new();
        event.record(&mut Line(&mut line));
        self.0.lock().unwrap().push(line);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

async fn logged(hook: Logging) -> Vec<String> {
    let lines = Lines::default();
    let _guard = tracing::subscriber::set_default(lines.clone());
    let secret = format!(r#"{{"key":"secret  {}"}}"#, "x".repeat(5000));
    let script = [
        Reply::new().text("let me\n look").call("c", "look", &secret).finish(),
        Reply::new().text("ok").finish(),
    ];
    let session = agent(script).tool(same("look")).hook(hook).build().unwrap().new_session();
    ask(&session).await;
    lines.0.lock().unwrap().clone()
}

#[tokio::test(start_paused = true)]
async fn names_and_sizes_are_logged_and_content_is_not() {
    let lines = logged(Logging::default()).await;
    assert_eq!(lines.len(), 4, "{lines:#?}");
    for part in [
        "the model answered",
        "tools=\"look\"",
        "chars=12",
        "session=",
        "iteration=1",
        "finish_reason=Some(ToolCalls)",
    ] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
    assert!(
        lines[1].contains("a tool is called")
            && lines[1].contains("decision=\"allowed\"")
            && lines[1].contains("bytes=50")
    );
    assert!(
        lines[2].contains("a tool has answered")
            && lines[2].contains("bytes=4")
            && lines[2].contains("elapsed_ms=0")
    );
    assert!(
        lines
            .iter()
            .all(|line| !line.contains("secret") && !line.contains("let me") && !line.contains("same"))
    );
}

#[tokio::test(start_paused = true)]
async fn content_is_logged_where_it_is_asked_for_on_one_line_and_cut() {
    let lines = logged(Logging::default().with_content()).await;
    assert!(lines[0].contains("content=\"let me look\""), "{}", lines[0]);
    assert!(
        lines[1].contains("secret xxx") && lines[1].contains("characters in all)") && lines[1].len() < 4600
    );
    assert!(lines[2].contains("content=\"same\""));
}
