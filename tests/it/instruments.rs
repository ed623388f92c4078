//! What instrumentation sees of a turn.

use std::{collections::HashMap, sync::Arc, time::Duration};

use parking_lot::Mutex;
use turnwright_core::{
    CancelCause, CodeCell, CodeResult, ErrorInfo, ErrorKind, LegOutcome, Part, ToolCall, ToolResult,
    TurnContext, clock::Instant,
};
use turnwright_hook::instrument::{Call, CallScope, Ended, Instrumentation, follow};
use turnwright_interceptor::{Around, Exit, Next, builtin::Retry, interceptor, scope};
use turnwright_llm_stream::{LlmRequest, LlmResponse, OutputSchema};
use turnwright_react_runtime::{
    Agent, AgentBuilder, Spawner, StartError,
    gate::AskFor,
    tool::{Tool, ToolContext, ToolError, tool},
};
use turnwright_testkit::{Reply, virtual_sources};

use crate::support::{agent, run};

/// Writes down every callback: its call, what it is a part of, and how it ended.
#[derive(Default, Clone)]
struct Diary {
    lines: Arc<Mutex<Vec<String>>>,
    names: Arc<Mutex<HashMap<CallScope, String>>>,
}

impl Diary {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.lines.lock())
    }

    fn before(&self, call: &Call<'_>, name: String) -> Option<String> {
        let mut names = self.names.lock();
        let parent = names.iter().find(|(scope, _)| Some(scope.id) == call.scope.parent);
        let parent = parent.map_or("nothing", |(_, name)| name);
        self.lines.lock().push(format!("{name} in {parent}"));
        names.insert(call.scope, name.clone());
        Some(name)
    }

    fn after<T>(&self, ended: &Ended<'_, T>, name: Option<String>) {
        self.lines.lock().push(format!("{} {}", name.unwrap_or_default(), ended.word()));
    }
}

impl Instrumentation for Diary {
    type Context = String;
    fn before_agent_run(&self, call: &Call<'_>, input: &[Part]) -> Option<String> {
        let text: String = input.iter().filter_map(Part::as_text).collect();
        self.before(call, format!("{}({text})", call.ctx.agent()))
    }
    fn after_agent_run(&self, _: &Call<'_>, ended: Ended<'_, LegOutcome>, name: Option<String>) {
        self.after(&ended, name);
    }
    fn before_model_call(&self, call: &Call<'_>, request: &LlmRequest) -> Option<String> {
        let target = request.target.as_ref().map_or("nobody", |target| target.provider());
        self.before(call, format!("{target}#{}", request.attempt))
    }
    fn on_request(&self, call: &Call<'_>, request: &LlmRequest) {
        let name = self.names.lock().get(&call.scope).cloned().unwrap_or_default();
        let system = request.system.as_deref().unwrap_or_default();
        self.lines.lock().push(format!("{name} is sent {system:?}, {} tools", request.tools.len()));
    }
    fn after_model_call(
        &self,
        _: &Call<'_>,
        _: &LlmRequest,
        ended: Ended<'_, LlmResponse>,
        name: Option<String>,
    ) {
        self.after(&ended, name);
    }
    fn before_code(&self, call: &Call<'_>, cell: &CodeCell) -> Option<String> {
        self.before(call, format!("cell {}", cell.code))
    }
    fn after_code(&self, _: &Call<'_>, _: &CodeCell, ended: Ended<'_, CodeResult>, name: Option<String>) {
        self.after(&ended, name);
    }
    fn before_tool_call(&self, call: &Call<'_>, tool: &ToolCall) -> Option<String> {
        self.before(call, format!("{} {}{}", tool.id, tool.name, tool.arguments))
    }
    fn after_tool_call(
        &self,
        _: &Call<'_>,
        _: &ToolCall,
        ended: Ended<'_, ToolResult>,
        name: Option<String>,
    ) {
        self.after(&ended, name);
    }
}

fn calling(calls: &[(&str, &str)]) -> [Reply; 2] {
    let reply = calls.iter().fold(Reply::new(), |reply, (id, name)| reply.call(id, name, "{}"));
    [reply.finish(), Reply::new().text("done").finish()]
}

fn watched(calls: &[(&str, &str)]) -> (AgentBuilder, Diary) {
    let diary = Diary::default();
    (agent(calling(calls)).instrument(diary.clone()), diary)
}

fn echo(name: &str) -> impl Tool {
    tool(name, "", |_: ToolContext, (): ()| async { Ok::<_, ToolError>("echoed".to_owned()) })
}

/// Rewrites what passes.
#[derive(Clone, Copy)]
struct Rewrites;
impl Around<scope::ToolCall> for Rewrites {
    async fn around(
        &self,
        _: &TurnContext,
        mut call: ToolCall,
        next: Next<'_, scope::ToolCall>,
    ) -> Result<ToolResult, Exit> {
        call.arguments = r#"{"a":1}"#.into();
        next.run(call).await
    }
}
impl Around<scope::LlmCall> for Rewrites {
    async fn around(
        &self,
        _: &TurnContext,
        mut request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        request.system = Some("rewritten".into());
        next.run(request).await
    }
}
impl Around<scope::AgentRun> for Rewrites {
    async fn around(
        &self,
        _: &TurnContext,
        _: Vec<Part>,
        next: Next<'_, scope::AgentRun>,
    ) -> Result<LegOutcome, Exit> {
        next.run(vec![Part::text("rewritten")]).await
    }
}

/// middleware-hooks §7.4 row 2: run, model and tool.
#[tokio::test]
async fn callbacks_stand_in_the_innermost_core_and_see_what_the_layers_made() {
    let (agent, diary) = watched(&[("c", "echo")]);
    let agent = agent.tool(tool("echo", "", |_: ToolContext, _: serde_json::Value| async {
        Ok::<_, ToolError>("echoed".to_owned())
    }));
    run(&agent.interceptor(interceptor!(Rewrites)).build().unwrap(), "hi").await;
    let expected = [
        "test(rewritten) in nothing",
        "scripted#1 in test(rewritten)",
        "scripted#1 is sent \"rewritten\", 1 tools",
        "scripted#1 done",
        "c echo{\"a\":1} in test(rewritten)",
        "c echo{\"a\":1} done",
        "scripted#1 in test(rewritten)",
        "scripted#1 is sent \"rewritten\", 1 tools",
        "scripted#1 done",
        "test(rewritten) done",
    ];
    assert_eq!(diary.take(), expected);
}

#[tokio::test]
async fn the_request_that_is_sent_has_the_tool_by_which_an_answer_of_a_form_is_asked_for() {
    let diary = Diary::default();
    let answer = Reply::new().call("c", "answer", r#"{"n":1}"#).finish();
    let schema = OutputSchema::new("answer", serde_json::json!({ "type": "object" }));
    let agent = agent([answer]).instrument(diary.clone()).output(schema).build().unwrap();
    run(&agent, "hi").await;
    assert!(diary.take().contains(&"scripted#1 is sent \"\", 1 tools".into()));
}

#[tokio::test(start_paused = true)]
async fn an_attempt_has_a_pair_and_one_that_failed_says_so() {
    let (fails, diary) = (Reply::new().fail(ErrorInfo::new(ErrorKind::Server, "down")), Diary::default());
    let agent = agent([fails, Reply::new().text("ok").finish()]).instrument(diary.clone());
    run(&agent.interceptor(interceptor!(Retry::default())).build().unwrap(), "hi").await;
    let lines = diary.take();
    let pairs: Vec<_> = lines.iter().filter(|line| !line.contains(" is sent ")).map(String::as_str).collect();
    assert_eq!(
        pairs,
        [
            "test(hi) in nothing",
            "scripted#1 in test(hi)",
            "scripted#1 failed",
            "scripted#2 in test(hi)",
            "scripted#2 done",
            "test(hi) done"
        ]
    );
}

/// Answers in the place of the model.
struct Cached;
impl Around<scope::LlmCall> for Cached {
    async fn around(
        &self,
        _: &TurnContext,
        _: LlmRequest,
        _: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        Ok(LlmResponse { parts: vec![Part::text("cached")], ..LlmResponse::default() })
    }
}

/// middleware-hooks §7.4 row 4.
#[tokio::test]
async fn calls_that_a_layer_answers_or_the_gate_asks_about_have_no_pair() {
    let diary = Diary::default();
    let cached = agent([]).instrument(diary.clone()).interceptor(interceptor!(Cached)).build().unwrap();
    run(&cached, "hi").await;
    assert_eq!(diary.take(), ["test(hi) in nothing", "test(hi) done"]);
    let (asked, diary) = watched(&[("c", "echo")]);
    run(&asked.tool(echo("echo")).gate(AskFor::tools(["echo"])).build().unwrap(), "hi").await;
    assert!(!diary.take().iter().any(|line| line.contains("echo")));
}

#[tokio::test(start_paused = true)]
async fn each_end_of_a_tool_is_told_as_what_it_is() {
    let (agent, diary) = watched(&[("a", "fails"), ("b", "panics"), ("c", "hangs")]);
    let fails =
        tool("fails", "", |_: ToolContext, (): ()| async { Err::<String, _>(ToolError::model("no")) });
    let panics = tool("panics", "", |_: ToolContext, (): ()| async {
        if true {
            panic!("boom");
        }
        Ok::<_, ToolError>(String::new())
    });
    let hangs = tool("hangs", "", |_: ToolContext, (): ()| async {
        std::future::pending::<()>().await;
        Ok::<_, ToolError>(String::new())
    });
    let agent = agent.tool(fails).tool(panics).tool(hangs).tool_timeout(Duration::from_secs(1));
    run(&agent.build().unwrap(), "hi").await;
    let lines = diary.take();
    let ends: Vec<_> = lines.iter().filter(|l| l.contains("{}") && !l.contains(" in ")).collect();
    assert_eq!(ends, ["a fails{} done", "b panics{} panicked", "c hangs{} cancelled"]);
}

#[tokio::test(start_paused = true)]
async fn fault_h6_h7_r4_66_a_turn_that_is_cancelled_or_interrupted_is_told_as_cancelled_at_every_level() {
    for interrupts in [true, false] {
        let (agent, diary) = watched(&[("c", "hangs")]);
        let hangs = tool("hangs", "", |_: ToolContext, (): ()| async {
            std::future::pending::<()>().await;
            Ok::<_, ToolError>(String::new())
        });
        let agent = agent.tool(hangs).build().unwrap();
        let mut turn = agent.run("hi").unwrap();
        tokio::time::sleep(Duration::from_secs(1)).await;
        let cause = CancelCause::requested("ann");
        match interrupts {
            true => turn.interrupt(cause),
            false => turn.cancel(cause),
        };
        turn.outcome().await;
        let lines = diary.take();
        assert_eq!(lines[lines.len() - 2..], ["c hangs{} cancelled", "test(hi) cancelled"]);
    }
}

/// middleware-hooks §7.4 row 7.
#[tokio::test]
async fn parallel_calls_have_the_run_as_parent_and_inner_calls_blocking_code_and_spawned_work_their_call() {
    let (agent, diary) = watched(&[("a", "outer"), ("b", "outer")]);
    let outer = tool("outer", "", |ctx: ToolContext, (): ()| async move {
        let own = CallScope::current();
        assert!(own.is_some());
        assert_eq!(ctx.blocking(|_| Ok::<_, ToolError>(CallScope::current())).await?, own);
        assert_eq!(tokio::spawn(follow(async { CallScope::current() })).await?, own);
        Ok::<_, ToolError>(ctx.call_tool("echo", "{}").await?.content)
    });
    let inner = tool("echo", "", |_: ToolContext, (): ()| async { Ok::<_, ToolError>("echoed".to_owned()) });
    let inner = inner.parallel();
    let agent = agent.tool(outer.parallel()).tool(inner).build().unwrap();
    run(&agent, "hi").await;
    let lines = diary.take();
    let tools: Vec<_> = lines.iter().filter(|line| line.contains("{} in ")).map(String::as_str).collect();
    let mut expected = [
        "a outer{} in test(hi)",
        "b outer{} in test(hi)",
        "a/1 echo{} in a outer{}",
        "b/1 echo{} in b outer{}",
    ];
    let mut told = tools.clone();
    told.sort_unstable();
    expected.sort_unstable();
    assert_eq!(told, expected, "{lines:#?}");
}

/// middleware-hooks §7.4 rows 2 and 7: cells.
#[cfg(unix)]
#[tokio::test]
async fn a_cell_is_a_part_of_its_call_and_the_tools_it_calls_are_parts_of_the_cell() {
    use turnwright::code::{Python, code};

    let diary = Diary::default();
    let calls = Reply::new().call("c", "code", r#"{"code":"tools.echo()"}"#).finish();
    let agent = agent([calls, Reply::new().text("done").finish()]).instrument(diary.clone());
    run(&agent.tool(code(Python::default())).tool(echo("echo")).build().unwrap(), "hi").await;
    let lines = diary.take();
    let cell = [
        "c code{\"code\":\"tools.echo()\"} in test(hi)",
        "cell tools.echo() in c code{\"code\":\"tools.echo()\"}",
        "c/1 echo{} in cell tools.echo()",
        "c/1 echo{} done",
        "cell tools.echo() done",
        "c code{\"code\":\"tools.echo()\"} done",
    ];
    assert!(lines.windows(cell.len()).any(|lines| lines == cell), "{lines:#?}");
}

/// middleware-hooks §7.4 row 7: agents.
#[tokio::test]
async fn fault_m5_g5_an_agent_that_a_call_starts_is_a_part_of_it_with_its_parents_instrumentation() {
    let (parent, diary) = watched(&[("c", "ask")]);
    let template = Agent::builder("template", turnwright_testkit::ScriptedModel::new([]).handle());
    let template = template.instrument(diary.clone()).build().unwrap();
    // Ids of its own: scopes are told apart by them.
    let child = agent([Reply::new().text("child's").finish()]).sources(virtual_sources(2));
    let child = child.inherit(&template).build().unwrap();
    let ask = tool("ask", "", move |ctx: ToolContext, (): ()| {
        let child = child.clone();
        async move {
            let mut turn = child.run_under(ctx.as_parent(), "what?")?;
            Ok::<_, ToolError>(turn.result().await.map(|result| result.content).unwrap_or_default())
        }
    });
    run(&parent.tool(ask).build().unwrap(), "hi").await;
    let lines = diary.take();
    assert!(lines.contains(&"test(what?) in c ask{}".into()), "{lines:#?}");
    assert!(lines.contains(&"scripted#1 in test(what?)".into()), "{lines:#?}");
}

/// middleware-hooks §7.4 row 8.
#[tokio::test]
async fn fault_h11_sessions_beside_each_other_do_not_mix_their_calls() {
    let (agent, diary) = watched(&[("c", "echo")]);
    let agent = agent.tool(echo("echo")).build().unwrap();
    let inputs: Vec<_> = (0..8).map(|n| n.to_string()).collect();
    futures::future::join_all(inputs.iter().map(|input| run(&agent, input))).await;
    let lines = diary.take();
    for input in inputs {
        let of_it = lines.iter().filter(|line| line.ends_with(&format!(" in test({input})"))).count();
        assert_eq!(of_it, 3, "two model calls and a tool call of {input}");
    }
}

/// Writes down the callbacks around legs, and first chunks.
#[derive(Default, Clone)]
struct Legs(Arc<Mutex<Vec<String>>>);
impl Instrumentation for Legs {
    type Context = ();
    fn leg_begins(&self, ctx: &TurnContext) {
        let scope = if CallScope::current().is_some() { "a call" } else { "no call" };
        self.0.lock().push(format!("leg {} begins in {scope}", ctx.leg()));
    }
    fn leg_over(&self, _: &TurnContext, outcome: Option<&LegOutcome>) {
        self.0.lock().push(format!("over {:?}", outcome.map(LegOutcome::outcome)));
    }
    fn on_first_chunk(&self, _: &Call<'_>) {
        self.0.lock().push("first chunk".into());
    }
}

#[tokio::test(start_paused = true)]
async fn a_leg_is_over_once_whatever_ended_it_and_before_anybody_is_told() {
    let legs = Legs::default();
    let take = || std::mem::take(&mut *legs.0.lock());
    let answers =
        agent([Reply::new().text("a").text("b").finish()]).instrument(legs.clone()).build().unwrap();
    let mut turn = answers.run("hi").unwrap();
    assert_eq!(take(), ["leg 1 begins in no call"], "before the leg is polled");
    turn.result().await;
    assert_eq!(take(), ["first chunk", "over Some(Completed)"]);
    let silent = || agent([Reply::new().silence()]).instrument(legs.clone()).build().unwrap();
    let mut turn = silent().run("hi").unwrap();
    turn.interrupt(CancelCause::requested("ann"));
    turn.outcome().await;
    assert_eq!(take(), ["leg 1 begins in no call", "over Some(Cancelled)"]);
    let refused =
        agent([]).instrument(legs.clone()).spawner(Spawner::new(|_| Err(StartError::Spawn("full".into()))));
    refused.build().unwrap().run("hi").unwrap_err();
    assert_eq!(take(), ["leg 1 begins in no call", "over None"]);
}

#[test]
fn a_leg_whose_async_runtime_goes_away_is_over_too() {
    let legs = Legs::default();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let turn = runtime.block_on(async {
        let silent = agent([Reply::new().silence()]).instrument(legs.clone()).build().unwrap();
        let turn = silent.run("hi").unwrap();
        tokio::task::yield_now().await;
        turn
    });
    assert_eq!(legs.0.lock().len(), 1);
    drop(runtime);
    assert_eq!(legs.0.lock()[1..], ["over Some(Failed)"]);
    drop(turn);
}

/// Panics in every callback.
struct Panics;
impl Instrumentation for Panics {
    type Context = Instant;
    fn before_agent_run(&self, _: &Call<'_>, _: &[Part]) -> Option<Instant> {
        panic!("boom")
    }
    fn after_agent_run(&self, _: &Call<'_>, _: Ended<'_, LegOutcome>, _: Option<Instant>) {
        panic!("boom")
    }
    fn on_request(&self, _: &Call<'_>, _: &LlmRequest) {
        panic!("boom")
    }
    fn after_tool_call(&self, _: &Call<'_>, _: &ToolCall, _: Ended<'_, ToolResult>, _: Option<Instant>) {
        panic!("boom")
    }
}

/// middleware-hooks §7.4 row 5.
#[tokio::test]
async fn fault_g16_instrumentation_that_panics_never_breaks_a_turn_and_the_others_see_everything() {
    let (agent, diary) = watched(&[("c", "echo")]);
    let agent = agent.instrument(Panics).tool(echo("echo")).build().unwrap();
    let ran = run(&agent, "hi").await;
    assert_eq!(ran.result().content, "done");
    assert_eq!(diary.take().len(), 10);
    let overhead = agent.instruments().overhead();
    assert_eq!((overhead.panics, overhead.calls), (5, 28));
}
