//! The contract of a client beside what it makes of scenarios.

use std::{pin::Pin, sync::Arc, time::Duration};

use futures::{StreamExt, future::join_all, join};
use tokio::time::timeout;
use turnwright_core::{Message, Role, ToolResult};
use turnwright_llm_stream::{LlmClient, LlmEvent, LlmRequest, LlmResponse, StreamItem, ToolProgress};

use super::{
    hear::{LONGEST, MODEL, closed, context, hear, request},
    report::Outcome,
};
use crate::{
    check::Verdict,
    provider::{
        ProviderServer, Reply, WireFormat,
        draft::{Draft, Ending},
        event::Mark,
    },
    scenario::usual,
};

type Check<'a> = Pin<Box<dyn Future<Output = Verdict> + 'a>>;

/// Checks what of it is picked.
pub(super) async fn check<C: LlmClient>(
    format: WireFormat,
    client: &impl Fn(&str) -> C,
    pick: &impl Fn(&str) -> bool,
) -> Vec<Outcome> {
    let all: [(&'static str, Check<'_>); 7] = [
        ("nothing-is-asked-before-it-is-polled", Box::pin(asks_when_polled(format, client))),
        ("the-same-items-however-bytes-are-split", Box::pin(splits_alike(format, client))),
        ("a-dropped-stream-closes-its-connection", Box::pin(drop_closes(format, client, true))),
        ("a-stream-dropped-early-closes-its-connection", Box::pin(drop_closes(format, client, false))),
        ("calls-are-seen-while-they-arrive", Box::pin(calls_are_seen_arriving(format, client))),
        ("two-calls-at-once-are-kept-apart", Box::pin(two_at_once(format, client))),
        ("an-answer-goes-back-with-its-results", Box::pin(goes_on(format, client))),
    ];
    let picked = all.into_iter().filter(|(name, _)| pick(name));
    join_all(picked.map(|(name, check)| async move { Outcome { name, verdict: check.await } })).await
}

async fn serve(draft: Draft) -> Result<ProviderServer, String> {
    ProviderServer::start_drafts(draft.format, [draft]).await.map_err(|e| e.to_string())
}

async fn script(format: WireFormat, replies: &[Reply]) -> Result<ProviderServer, String> {
    ProviderServer::start_as(format, replies.iter().cloned()).await.map_err(|e| e.to_string())
}

async fn asks_when_polled<C: LlmClient>(format: WireFormat, client: &impl Fn(&str) -> C) -> Verdict {
    let server = script(format, &[usual()]).await?;
    let client = client(&server.base_url());
    let stream = client.stream(&context()?, &request());
    tokio::time::sleep(Duration::from_millis(50)).await;
    let asked = server.request_count();
    drop(stream);
    if asked == 0 { Ok(()) } else { Err("a request was made for a stream that was never polled".into()) }
}

async fn splits_alike<C: LlmClient>(format: WireFormat, client: &impl Fn(&str) -> C) -> Verdict {
    let mut first = None;
    for size in [usize::MAX, 1, 7, 64] {
        let server = serve(Draft { split: Some(size), ..Draft::of(format, &usual()) }).await?;
        let items = hear(&client(&server.base_url()), &request()).await?.items;
        match &first {
            None => first = Some(items),
            Some(first) if *first == items => {}
            Some(first) => return Err(format!("{items:?} at pieces of {size} bytes, else {first:?}")),
        }
    }
    Ok(())
}

async fn drop_closes<C: LlmClient>(format: WireFormat, client: &impl Fn(&str) -> C, began: bool) -> Verdict {
    let mut draft = Draft::of(format, &usual());
    draft.events.truncate(draft.find(Mark::Text) + 1);
    (draft.ending, draft.mute) = (Ending::Stall, !began);
    let server = serve(draft).await?;
    let client = client(&server.base_url());
    let mut stream = Box::pin(client.stream(&context()?, &request()));
    let seen = timeout(LONGEST, async {
        if !began {
            // Polled until the server has the request, and the answer is waited for.
            tokio::select! {
                () = server.wait_for_requests(1) => return true,
                _ = stream.next() => return false,
            }
        }
        while let Some(item) = stream.next().await {
            if matches!(item, StreamItem::Event(LlmEvent::TextDelta { .. })) {
                return true;
            }
        }
        false
    });
    if !seen.await.unwrap_or_default() {
        return Err("it ended, or stayed silent, where it should wait".into());
    }
    drop(stream);
    closed(&server, MODEL).await
}

async fn calls_are_seen_arriving<C: LlmClient>(format: WireFormat, client: &impl Fn(&str) -> C) -> Verdict {
    // These send calls whole.
    if matches!(format, WireFormat::Gemini | WireFormat::Ollama) {
        return Ok(());
    }
    let mut draft = Draft::of(format, &usual());
    draft.events.truncate(draft.find(Mark::Call) + 3);
    draft.ending = Ending::Stall;
    let server = serve(draft).await?;
    let heard = hear(&client(&server.base_url()), &request()).await?;
    let is_fragment =
        |item: &StreamItem| matches!(item, StreamItem::Progress(ToolProgress::Arguments { .. }));
    let is_call = |item: &StreamItem| matches!(item, StreamItem::Event(LlmEvent::ToolCallComplete(_)));
    if heard.items.iter().any(is_call) {
        return Err("a call that was cut is complete".into());
    }
    if heard.items.iter().any(is_fragment) { Ok(()) } else { Err("fragments are held back".into()) }
}

async fn two_at_once<C: LlmClient>(format: WireFormat, client: &impl Fn(&str) -> C) -> Verdict {
    let reply = |text: &str| Reply::new().text(text).text(text).delay(Duration::from_millis(5));
    let server = script(format, &[reply("a"), reply("b")]).await?;
    let client = client(&server.base_url());
    let request = request();
    let (one, two) = join!(hear(&client, &request), hear(&client, &request));
    let mut texts = [one?.response.text(), two?.response.text()];
    texts.sort();
    if texts == ["aa", "bb"] { Ok(()) } else { Err(format!("two calls at once got {texts:?}")) }
}

async fn goes_on<C: LlmClient>(format: WireFormat, client: &impl Fn(&str) -> C) -> Verdict {
    let server = script(format, &[usual(), Reply::new().text("sunny")]).await?;
    let client = client(&server.base_url());
    let first = hear(&client, &request()).await?.response;
    let second = hear(&client, &answered(&first)?).await?.response;
    if let Some(error) = second.error {
        return Err(format!("the answer cannot be sent back: {error}"));
    }
    let body = server.requests().get(1).map(|request| request.json().to_string()).unwrap_or_default();
    for word in ["Hello €", "weather", "Rome", "it rains"] {
        if !body.contains(word) {
            return Err(format!("{word:?} is not in the second request: {body}"));
        }
    }
    if second.text() == "sunny" { Ok(()) } else { Err(format!("the second answer is {:?}", second.text())) }
}

/// The conversation after an answer, with a result for each of its calls.
pub(super) fn answered(answer: &LlmResponse) -> Result<LlmRequest, String> {
    let ids = context()?;
    let id = || ids.sources().id();
    let mut request = request();
    let results = answer.tool_calls().map(|call| ToolResult::ok(call, "it rains"));
    let results = results.map(|result| Arc::new(Message::tool(id(), result)));
    request.messages.push(Arc::new(Message::new(id(), Role::Assistant, answer.parts.clone())));
    request.messages.extend(results);
    Ok(request)
}
