//! The first test of the page, to the letter.

// src/main.rs
use turnwright::testkit::{Reply, ScriptedModel};
use turnwright::{Agent, AgentBuilder, ModelHandle, Outcome, tool};

/// What your program does, with a real model.
fn agent(model: ModelHandle) -> AgentBuilder {
    let weather = tool("weather", "The weather here", async |_ctx, ()| Ok("sunny"));
    Agent::builder("assistant", model).instructions("You help people to dress.").tool(weather)
}

#[tokio::test]
async fn the_weather_reaches_the_model() {
    let model = ScriptedModel::new([
        Reply::new().call("a", "weather", "{}").finish(),
        Reply::new().text("A shirt.").finish(),
    ]);
    let agent = agent(model.handle()).build().unwrap();
    let result = agent.run("What should I wear?").unwrap().result().await.unwrap();
    assert_eq!((result.outcome(), result.content.as_str()), (Outcome::Completed, "A shirt."));

    let asked = model.requests();
    assert_eq!(asked.len(), 2);
    let last = asked[1].messages.last().unwrap();
    assert_eq!(last.tool_results().next().unwrap().content, "sunny");
}
