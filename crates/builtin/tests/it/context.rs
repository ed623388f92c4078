//! What tools and child processes are told of their turn.

use serde_json::Value;
use turnwright_builtin::{EnvInjection, RecordContext, runtime_context};
use turnwright_core::child_env;
use turnwright_react_runtime::tool::{ToolContext, ToolError, tool};
use turnwright_testkit::Reply;

use crate::support::{agent, ask, calls};

#[tokio::test(start_paused = true)]
async fn calls_and_what_they_came_to_are_known_to_later_tools_of_the_turn_and_not_of_the_next() {
    let ask_tool = tool("ask", "", async |ctx: ToolContext, _: Value| {
        let known = runtime_context(ctx.turn())?;
        let calls: Vec<_> =
            known.calls.iter().map(|c| format!("{}({}) = {}", c.tool, c.arguments, c.result)).collect();
        Ok::<_, ToolError>(format!("{} | {}", calls.join(", "), known.pending.len()))
    });
    let fails = tool("fails", "", async |_: ToolContext, _: Value| Err::<(), _>(ToolError::model("no")));
    let long = tool("long", "", async |_: ToolContext, _: Value| Ok("x".repeat(10_000)));
    let script = [
        Reply::new().call("a", "fails", r#"{"n":1}"#).call("b", "long", "{}").finish(),
        calls("ask", "{}"),
        Reply::new().text("one").finish(),
        calls("ask", "{}"),
        Reply::new().text("two").finish(),
    ];
    let builder = agent(script).tool(ask_tool).tool(fails).tool(long).hook(RecordContext);
    let session = builder.build().unwrap().new_session();
    ask(&session).await;
    ask(&session).await;
    let messages = session.messages();
    let said: Vec<_> = messages.iter().flat_map(|m| m.tool_results()).map(|r| r.content.clone()).collect();
    assert!(said[2].starts_with(r#"fails({"n":1}) = error: no, long({}) = xxx"#), "{}", &said[2][..60]);
    assert!(said[2].ends_with("… | 1") && said[2].len() < 2200, "cut, and the call itself is under way");
    assert_eq!(said[3], " | 1", "a fresh turn begins with none");
}

#[tokio::test(start_paused = true)]
async fn child_processes_are_told_their_turn_and_the_process_itself_is_not() {
    let env = tool("env", "", async |ctx: ToolContext, _: Value| {
        let env = child_env(ctx.turn())?;
        let is = env["TURNWRIGHT_CTX_TURN"] == ctx.turn().turn().to_string()
            && env["TURNWRIGHT_CTX_SESSION"] == ctx.turn().session().to_string();
        Ok::<_, ToolError>(format!("{is} {:?}", env.keys().collect::<Vec<_>>()))
    });
    let hook = EnvInjection::default().with("TENANT", "acme").unwrap();
    let session = agent([calls("env", "{}"), Reply::new().text("ok").finish()]).tool(env).hook(hook);
    let session = session.build().unwrap().new_session();
    ask(&session).await;
    let said = session.messages()[2].tool_results().next().unwrap().content.clone();
    assert!(
        said.starts_with("true ") && said.contains("TURNWRIGHT_CTX_TENANT") && said.contains("_LEG"),
        "{said}"
    );
    assert!(std::env::vars().all(|(name, _)| !name.starts_with("TURNWRIGHT_CTX_")));
    for (name, value) in
        [("", "a"), ("lower", "a"), ("A=B", "a"), ("A", "a\0b"), ("TURN", "another"), ("PARENT", "another")]
    {
        assert!(EnvInjection::default().with(name, value).is_err(), "{name:?}");
    }
}
