//! The demonstration: one turn with a recorded model, with the three powers at work.

mod powers;
mod recording;
mod screen;

use std::{process::ExitCode, sync::Arc};

use tokio::sync::Notify;
use turnwright::{
    Agent, ChatClient, ControlScope, InMemoryControlChannel, ModelHandle, SessionId, Sources, hook,
    interceptor,
};

use self::{
    powers::{Notes, Steer, Timer, Watcher},
    screen::Screen,
};
use crate::{
    Global, Refusal, agent,
    output::{Look, To},
    tools::Workspace,
    view::{Json, View},
    watch::{Console, Silence},
};

const QUESTION: &str = "What lies in this directory, and what time is it?";

/// Runs it.
pub(crate) async fn run(global: &Global) -> Result<ExitCode, Refusal> {
    let errors = Look::of(To::Stderr, global.color);
    let mut console = Console::new(errors, false)?;
    let refused = |e: &dyn std::fmt::Display| Refusal::new(format!("the demonstration cannot be shown: {e}"));
    // Its socket and its tasks end with this value.
    let server = recording::serve().await.map_err(|e| refused(&e))?;
    let client = ChatClient::builder().base_url(server.base_url()).provider("recording").build();
    let model = ModelHandle::new(client.map_err(|e| refused(&e))?, "recorded");
    let workspace = Workspace::open(".".as_ref()).map_err(|e| refused(&e))?;

    let (sources, notes) = (Sources::default(), Notes::default());
    let channel = Arc::new(InMemoryControlChannel::new(&sources));
    let builder = Agent::builder("demo", model)
        .hook(hook!(Watcher(notes.clone())))
        .interceptor(interceptor!(Timer(notes.clone())))
        .channel(channel.clone())
        .sources(sources.clone());
    let agent = agent::finish(agent::with_tools(builder, &workspace))?;

    let session = SessionId::new("demo").map_err(|e| refused(&e))?;
    let text_shown = Arc::new(Notify::new());
    let steer = Steer { sources, channel, scope: ControlScope::session(session.clone()) };
    let steering = tokio::spawn(steer.once(text_shown.clone()));

    let session = agent.open_session(session).await.map_err(|e| refused(&e))?;
    let turn = session.start(QUESTION).map_err(|e| refused(&e))?;
    let view: Box<dyn View> = match global.json {
        true => Box::new(Json::new(errors)),
        false => Box::new(Screen::new(Look::of(To::Stdout, global.color), notes, &agent.plan())),
    };
    let (leg, _) = console.watch(turn, &mut Starts { view, text_shown }, &mut Silence).await;
    steering.abort();
    Ok(console.code(&leg).into())
}

/// Says when the first text is there, beside what it shows: that is when somebody would speak up.
struct Starts {
    view: Box<dyn View>,
    text_shown: Arc<Notify>,
}

impl View for Starts {
    fn event(&mut self, event: &turnwright::TurnEvent, page: &mut crate::output::Page) {
        if matches!(event.kind, turnwright::TurnEventKind::TextDelta { .. }) {
            self.text_shown.notify_one();
        }
        self.view.event(event, page);
    }
}
