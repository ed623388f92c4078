//! Listening to a client.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::StreamExt;
use tokio::time::timeout;
use turnwright_core::{CallId, Message, SessionId, TurnContext};
use turnwright_llm_stream::{
    Assembler, LlmClient, LlmEvent, LlmRequest, LlmResponse, StreamItem, ToolProgress,
};

use crate::{check::Verdict, provider::ProviderServer};

/// The longest a scenario may take.
pub(super) const LONGEST: Duration = Duration::from_secs(12);

/// The model that is asked for where it does not matter.
pub(super) const MODEL: &str = "m";

/// How soon a connection must be closed.
const SOON: Duration = Duration::from_secs(5);

/// What a client said.
pub(super) struct Heard {
    pub(super) items: Vec<StreamItem>,
    pub(super) response: LlmResponse,
}

/// Asks a client and listens to the end, and a little longer.
pub(super) async fn hear<C: LlmClient>(client: &C, request: &LlmRequest) -> Result<Heard, String> {
    let mut stream = Box::pin(client.stream(&context()?, request));
    let mut items = Vec::new();
    let listen = async {
        while let Some(item) = stream.next().await {
            items.push(item);
        }
    };
    timeout(LONGEST, listen).await.map_err(|_| format!("it does not end within {LONGEST:?}"))?;
    let is_terminal = |item: &StreamItem| matches!(item, StreamItem::Event(event) if event.is_terminal());
    let terminals = items.iter().filter(|item| is_terminal(item)).count();
    if terminals != 1 || !items.last().is_some_and(is_terminal) {
        return Err(format!("{terminals} terminal events, the last item is {:?}", items.last()));
    }
    lane(&items)?;
    let mut assembler = Assembler::new();
    for item in &items {
        if let StreamItem::Event(event) = item {
            assembler.feed(event.clone());
        }
    }
    Ok(Heard { items, response: assembler.finish() })
}

/// Of a call the progress lane tells of, it tells name and arguments as the complete call has them.
fn lane(items: &[StreamItem]) -> Verdict {
    let mut arriving: HashMap<&CallId, (&str, String)> = HashMap::new();
    for item in items {
        match item {
            StreamItem::Progress(ToolProgress::Started { id, name }) => {
                arriving.insert(id, (name, String::new()));
            }
            StreamItem::Progress(ToolProgress::Arguments { id, fragment }) => match arriving.get_mut(id) {
                Some((_, arguments)) => arguments.push_str(fragment),
                None => return Err(format!("a fragment of {id}, which was not said to begin")),
            },
            StreamItem::Event(LlmEvent::ToolCallComplete(call)) => match arriving.get(&call.id) {
                None => {}
                Some((name, arguments)) if *name == call.name && *arguments == call.arguments => {}
                seen => return Err(format!("{call:?} is complete, of which was seen: {seen:?}")),
            },
            _ => {}
        }
    }
    Ok(())
}

/// Waits until the client closed the body it was sent for this model.
pub(super) async fn closed(server: &ProviderServer, model: &str) -> Verdict {
    let closed = timeout(SOON, server.wait_for_close_of(model)).await;
    closed.map_err(|_| format!("the connection is still open {SOON:?} later"))
}

pub(super) fn context() -> Result<TurnContext, String> {
    let session = SessionId::new("conformance").map_err(|e| e.to_string())?;
    Ok(TurnContext::builder(session).build())
}

/// A request that says hello.
pub(super) fn request() -> LlmRequest {
    let messages = context().map(|ctx| Arc::new(Message::user(ctx.sources().id(), "hello")));
    LlmRequest {
        model: MODEL.into(),
        messages: messages.into_iter().collect(),
        attempt: 1,
        ..LlmRequest::default()
    }
}
