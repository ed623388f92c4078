//! Trajectories: what stands in the files, and that readers of the format take them.

use std::{collections::BTreeSet, fs, path::Path, sync::Arc};

use futures::StreamExt;
use serde_json::{Value, json};
use tempfile::TempDir;
use turnwright_builtin::{Recording, Trajectories};
use turnwright_core::{ErrorInfo, ErrorKind, ImageRef, Part, SessionId};
use turnwright_interceptor::{builtin::Retry, interceptor};
use turnwright_react_runtime::{Agent, AgentBuilder, Input, Session, store::MemoryStore};
use turnwright_testkit::{Reply, ScriptedModel, virtual_sources};

use crate::{
    subagents::World,
    support::{agent, same},
};

/// A folder with trajectories, and whoever writes them.
struct Written {
    folder: TempDir,
    trajectories: Trajectories,
    recordings: Vec<Recording>,
}

impl Written {
    fn begin() -> Self {
        let folder = TempDir::new().unwrap();
        let trajectories = writer(folder.path());
        Self { folder, trajectories, recordings: Vec::new() }
    }

    fn attach(&mut self, agent: &Agent) {
        self.recordings.push(self.trajectories.attach(agent));
    }

    fn build(&mut self, agent: AgentBuilder) -> Agent {
        let agent = agent.build().unwrap();
        self.attach(&agent);
        agent
    }

    /// The only trajectory there is.
    async fn only(&self) -> Value {
        let mut all = self.all().await;
        assert_eq!(all.len(), 1);
        all.remove(0)
    }

    /// All of them, checked.
    async fn all(&self) -> Vec<Value> {
        self.trajectories.flush().await.unwrap();
        let mut names: Vec<_> =
            fs::read_dir(self.folder.path()).unwrap().map(|entry| entry.unwrap().path()).collect();
        names.retain(|path| path.is_file());
        names.sort();
        let read = |path: &std::path::PathBuf| serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let all: Vec<Value> = names.iter().map(read).collect();
        all.iter().for_each(|one| check(one, self.folder.path()));
        all
    }
}

fn writer(folder: &Path) -> Trajectories {
    let (trajectories, worker) = Trajectories::below(folder, "1.0");
    tokio::spawn(worker);
    trajectories
}

fn list<'a>(value: &'a Value, of: &str) -> &'a [Value] {
    value[of].as_array().map_or(&[], Vec::as_slice)
}

/// The rules of the format that a schema does not say (middleware-hooks §9.3).
fn check(trajectory: &Value, folder: &Path) {
    let steps = list(trajectory, "steps");
    assert!(!steps.is_empty());
    let mut totals = [0_u64; 2];
    for (at, step) in steps.iter().enumerate() {
        assert_eq!(step["step_id"], at + 1, "N1");
        let calls: BTreeSet<_> =
            list(step, "tool_calls").iter().map(|call| &call["tool_call_id"]).map(Value::to_string).collect();
        for result in list(&step["observation"], "results") {
            let id = &result["source_call_id"];
            assert!(id.is_null() || calls.contains(&id.to_string()), "N2: {step}");
            for child in list(result, "subagent_trajectory_ref") {
                assert!(folder.join(child["trajectory_path"].as_str().unwrap()).exists(), "N9: {child}");
            }
        }
        if step["extra"]["context_management"]["boundary"] == "replace" {
            assert!(steps[..at].iter().all(|before| before["is_copied_context"] == true), "N4");
        }
        if step["llm_call_count"] == 0 {
            assert!(step["metrics"].is_null() && step["reasoning_content"].is_null(), "N5: {step}");
        }
        if step["source"] != "agent" {
            for field in ["model_name", "reasoning_content", "tool_calls", "metrics"] {
                assert!(step[field].is_null(), "{field} is an agent's: {step}");
            }
        }
        assert!(step["timestamp"].as_str().unwrap().parse::<jiff::Timestamp>().is_ok(), "N6");
        assert!(step["message"].is_string() || step["message"].is_array(), "N7");
        for (total, of) in totals.iter_mut().zip(["prompt_tokens", "completion_tokens"]) {
            *total += step["metrics"][of].as_u64().unwrap_or_default();
        }
    }
    let sums = &trajectory["final_metrics"];
    for (total, of) in totals.into_iter().zip(["total_prompt_tokens", "total_completion_tokens"]) {
        assert_eq!(sums[of].as_u64().unwrap_or_default(), total, "N8");
    }
    assert_eq!(sums["total_steps"], steps.len());
}

/// Source and message of each step.
fn told(trajectory: &Value) -> Vec<String> {
    let one =
        |step: &Value| format!("{}: {}", step["source"].as_str().unwrap(), step["message"].as_str().unwrap());
    list(trajectory, "steps").iter().map(one).collect()
}

async fn say(session: &Session, words: &str) {
    session.start(words).unwrap().result().await.unwrap();
}

fn with_tool() -> Vec<Reply> {
    vec![
        Reply::new()
            .reasoning("Hm.")
            .text("Let me look.")
            .call("c", "look", r#"{"at":"sky"}"#)
            .usage(10, 4)
            .finish(),
        Reply::new().text("Blue.").usage(20, 2).finish(),
    ]
}

#[tokio::test(start_paused = true)]
async fn one_turn_with_a_tool_is_five_fields_a_step_and_no_more() {
    let mut written = Written::begin();
    let agent = written.build(agent(with_tool()).instructions("Be brief.").tool(same("look")));
    say(&agent.new_session(), "What colour?").await;
    let trajectory = written.only().await;
    assert_eq!(
        told(&trajectory),
        ["system: Be brief.", "user: What colour?", "agent: Let me look.", "agent: Blue."]
    );
    let step = &trajectory["steps"][2];
    assert_eq!(
        *step,
        json!({
            "step_id": 3,
            "timestamp": step["timestamp"],
            "source": "agent",
            "message": "Let me look.",
            "reasoning_content": "Hm.",
            "tool_calls": [{ "tool_call_id": "c", "function_name": "look", "arguments": { "at": "sky" } }],
            "observation": { "results": [{
                "source_call_id": "c", "content": "same",
                "extra": { "elapsed_ms": step["observation"]["results"][0]["extra"]["elapsed_ms"] },
            }] },
            "metrics": { "prompt_tokens": 10, "completion_tokens": 4 },
            "llm_call_count": 1,
        })
    );
    let about = &trajectory["agent"];
    assert_eq!(
        (&about["name"], &about["version"], &about["model_name"]),
        (&json!("agent"), &json!("1.0"), &json!("scripted/scripted"))
    );
    assert_eq!(about["tool_definitions"][0]["function"]["name"], "look");
    assert_eq!(trajectory["schema_version"], "ATIF-v1.7");
    assert_eq!(trajectory["final_metrics"]["total_prompt_tokens"], 30);
    assert_eq!(trajectory["extra"], json!({ "outcome": "completed" }));
}

#[tokio::test(start_paused = true)]
async fn a_session_goes_on_in_its_file_also_by_another_process_and_the_same_prompt_is_not_repeated() {
    let mut written = Written::begin();
    let store = Arc::new(MemoryStore::new());
    let process = |seed, prompt: &str, words: &str| {
        let model = ScriptedModel::new([Reply::new().text(words).finish()]);
        Agent::builder("agent", model.handle())
            .sources(virtual_sources(seed))
            .instructions(prompt)
            .store(store.clone())
    };
    let id = SessionId::new("talk").unwrap();
    for (seed, prompt, words) in [(1, "Be brief.", "1"), (2, "Be brief.", "2"), (3, "Be long.", "3")] {
        written.trajectories = writer(written.folder.path());
        let agent = written.build(process(seed, prompt, words));
        say(&agent.open_session(id.clone()).await.unwrap(), "hi").await;
        written.trajectories.flush().await.unwrap();
    }
    let trajectory = written.only().await;
    assert_eq!(
        told(&trajectory),
        [
            "system: Be brief.",
            "user: hi",
            "agent: 1",
            "user: hi",
            "agent: 2",
            "user: hi",
            "system: Be long.",
            "agent: 3"
        ]
    );
    assert_eq!(trajectory["steps"][7]["extra"], json!({ "system_prompt_changed": true }));
    assert_eq!(trajectory["session_id"], "talk");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_failed_and_a_turn_that_was_cut_say_so() {
    let mut written = Written::begin();
    let replies = [
        Reply::new().fail(ErrorInfo::new(ErrorKind::Authentication, "wrong key")),
        Reply::new().text("I think").silence(),
    ];
    let agent = written.build(agent(replies));
    let session = agent.new_session();
    say(&session, "1").await;
    let mut cut = session.start("2").unwrap();
    while !matches!(cut.next().await.unwrap().kind, turnwright_react_runtime::TurnEventKind::TextDelta { .. })
    {
    }
    cut.cancel(turnwright_core::CancelCause::requested("ann").reason("enough"));
    cut.result().await.unwrap();
    let trajectory = written.only().await;
    assert_eq!(
        told(&trajectory),
        [
            "user: 1",
            "agent: ",
            "system: The turn ended: failed.",
            "user: 2",
            "agent: I think",
            "system: The turn ended: cancelled."
        ]
    );
    let steps = list(&trajectory, "steps");
    assert_eq!(steps[1]["extra"]["error"]["kind"], "authentication");
    assert_eq!(
        steps[4]["extra"]["interrupted"]["reason"].as_str().map(str::is_empty),
        Some(false),
        "{}",
        steps[4]
    );
    assert_eq!(steps[5]["extra"]["cancelled_by"]["actor"], "ann");
    assert_eq!(trajectory["extra"]["outcome"], "cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_repeated_call_is_one_step_and_a_call_that_nobody_was_asked_has_no_metrics() {
    struct Answers;
    impl turnwright_interceptor::Around<turnwright_interceptor::scope::LlmCall> for Answers {
        async fn around(
            &self,
            _: &turnwright_core::TurnContext,
            request: turnwright_llm_stream::LlmRequest,
            next: turnwright_interceptor::Next<'_, turnwright_interceptor::scope::LlmCall>,
        ) -> Result<turnwright_llm_stream::LlmResponse, turnwright_interceptor::Exit> {
            if request.messages.len() > 1 {
                return Ok(turnwright_llm_stream::LlmResponse::text_only("from memory"));
            }
            next.run(request).await
        }
    }
    let mut written = Written::begin();
    let replies = [
        Reply::new().usage(5, 1).fail(ErrorInfo::new(ErrorKind::Server, "down")),
        Reply::new().text("up").usage(5, 2).finish(),
    ];
    let layers =
        agent(replies).interceptor(interceptor!(Answers)).interceptor(interceptor!(Retry::default()));
    let session = written.build(layers).new_session();
    say(&session, "1").await;
    say(&session, "2").await;
    let trajectory = written.only().await;
    assert_eq!(told(&trajectory), ["user: 1", "agent: up", "user: 2", "agent: from memory"]);
    let counts: Vec<_> = [1, 3].map(|at| trajectory["steps"][at]["llm_call_count"].clone()).into();
    assert_eq!(counts, [2, 0]);
    assert_eq!(trajectory["steps"][1]["metrics"]["prompt_tokens"], 10);
}

/// A boss whose reader says no, after one turn.
async fn boss_and_reader(written: &mut Written, with_reader: bool) -> Vec<Value> {
    let world = World::new();
    let reader = ScriptedModel::new([Reply::new().text("It says no.").finish()]);
    let reader = Agent::builder("reader", reader.handle()).sources(virtual_sources(7));
    let task = r#"{"agent":"reader","prompt":"Read it"}"#;
    let replies = [Reply::new().call("t", "task", task).finish(), Reply::new().text("No.").finish()];
    let (boss, crew) = world.pair(replies, reader);
    written.attach(&boss);
    if with_reader {
        written.attach(crew.agent("reader").unwrap());
    }
    say(&boss.open_session(SessionId::new("boss").unwrap()).await.unwrap(), "What does it say?").await;
    written.all().await
}

#[tokio::test(start_paused = true)]
async fn a_subagents_session_has_a_file_of_its_own_that_its_call_points_to() {
    let mut written = Written::begin();
    let all = boss_and_reader(&mut written, true).await;
    assert_eq!(all.len(), 2, "{all:?}");
    let [boss, reader] =
        ["boss", "reader"].map(|name| all.iter().find(|one| one["agent"]["name"] == name).unwrap());
    let result = &boss["steps"][1]["observation"]["results"][0];
    assert_eq!(result["subagent_trajectory_ref"][0]["session_id"], reader["session_id"]);
    assert!(told(reader).contains(&"agent: It says no.".to_owned()), "{reader}");
    // The instrumentation that it inherited and its own are one call.
    assert!(list(reader, "steps").iter().all(|step| step["llm_call_count"].as_u64().is_none_or(|n| n == 1)));
}

#[tokio::test(start_paused = true)]
async fn a_subagent_that_is_not_attached_has_no_file_and_nothing_points_to_one() {
    let mut written = Written::begin();
    let all = boss_and_reader(&mut written, false).await;
    assert_eq!(all.len(), 1, "{all:?}");
    let result = &all[0]["steps"][1]["observation"]["results"][0];
    assert!(result["content"].as_str().unwrap().contains("It says no."), "{result}");
    assert!(result["subagent_trajectory_ref"].is_null(), "{result}");
}

#[tokio::test(start_paused = true)]
async fn a_summary_is_a_boundary_and_what_came_before_it_is_marked_as_copied() {
    let mut written = Written::begin();
    let reply = |text: &str| Reply::new().text(text).usage(100, 1).finish();
    let main = written.build(agent([reply("a"), reply("b")]));
    let by = Agent::builder("by", ScriptedModel::new([reply("in short")]).handle()).build().unwrap();
    let _summarizing = turnwright_builtin::Summarizer::new(by).budget(100).keep(0).attach(&main);
    let session = main.new_session();
    say(&session, "1").await;
    // The summary is written meanwhile.
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    say(&session, "2").await;
    let trajectory = written.only().await;
    let summary =
        list(&trajectory, "steps").iter().find(|step| !step["extra"]["context_management"].is_null());
    assert!(summary.unwrap()["message"].as_str().unwrap().contains("in short"), "{trajectory}");
    let beside = &trajectory["final_metrics"]["extra"]["summary"];
    assert_eq!(beside["input_tokens"], 100, "{trajectory}");
    assert_eq!(
        trajectory["final_metrics"]["total_prompt_tokens"], 200,
        "it is in no step, and so in no total"
    );
}

#[tokio::test(start_paused = true)]
async fn images_of_data_urls_stand_beside_and_others_are_referred_to() {
    let mut written = Written::begin();
    let agent = written.build(agent([Reply::new().text("A dot.").finish()]));
    let image = |uri: &str, media: Option<&str>| {
        Part::Image(ImageRef { uri: uri.into(), media_type: media.map(Into::into) })
    };
    let parts = vec![
        Part::text("What?"),
        image("data:image/png;base64,iVBORw0KGgo=", None),
        image("https://example.com/a.jpg", Some("image/jpeg")),
        image("https://example.com/a.tiff", Some("image/tiff")),
    ];
    agent.new_session().start(Input::from(parts)).unwrap().result().await.unwrap();
    let trajectory = written.only().await;
    let parts = &trajectory["steps"][0]["message"];
    let path = parts[1]["source"]["path"].as_str().unwrap();
    assert_eq!(fs::read(written.folder.path().join(path)).unwrap(), b"\x89PNG\r\n\x1a\n");
    assert_eq!(
        parts[2]["source"],
        json!({ "media_type": "image/jpeg", "path": "https://example.com/a.jpg" })
    );
    assert_eq!(parts[3], json!({ "type": "text", "text": "[an image, image/tiff]" }));
}

#[tokio::test(start_paused = true)]
async fn a_file_that_is_not_ours_is_left_alone_and_counted_and_others_are_written() {
    let mut written = Written::begin();
    let replies = ["a", "b", "c"].map(|text| Reply::new().text(text).finish());
    let agent = written.build(agent(replies));
    let session = agent.new_session();
    say(&session, "1").await;
    written.trajectories.flush().await.unwrap();
    let path = fs::read_dir(written.folder.path()).unwrap().next().unwrap().unwrap().path();
    fs::write(&path, "my notes").unwrap();
    say(&session, "2").await;
    say(&agent.new_session(), "3").await;
    written.trajectories.flush().await.unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), "my notes");
    assert_eq!(written.trajectories.stats().failed, 1);
    assert_eq!(fs::read_dir(written.folder.path()).unwrap().count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_turn_does_not_wait_for_the_worker_and_what_was_dropped_is_said() {
    let mut written = Written::begin();
    let (trajectories, worker) = Trajectories::below(written.folder.path(), "1.0");
    written.trajectories = trajectories;
    let turns = 2_000;
    let agent = written.build(agent((0..=turns).map(|_| Reply::new().text("a").finish())));
    for _ in 0..turns {
        say(&agent.new_session(), "hi").await;
    }
    let stats = written.trajectories.stats();
    assert_eq!((stats.queued, stats.handled), (10_000, 0));
    assert!(stats.dropped > 0);
    let worker = tokio::spawn(worker);
    written.trajectories.flush().await.unwrap();
    let session = agent.new_session();
    say(&session, "last").await;
    drop(std::mem::take(&mut written.recordings));
    let notes = written.all().await.into_iter().filter(|one| one["notes"].is_string()).count();
    assert!(notes > 0);
    let (folder, trajectories) = (written.folder, written.trajectories);
    drop(trajectories);
    worker.await.unwrap();
    drop(folder);
}
