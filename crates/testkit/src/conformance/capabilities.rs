//! What a client can do, found out by asking it.

use futures::{StreamExt, stream};
use turnwright_core::{ErrorKind, TokenUsage};
use turnwright_llm_stream::{FinishReason, LlmClient, LlmResponse, StreamItem, ToolProgress};

use super::{
    AT_ONCE, KEY,
    contract::answered,
    fields,
    hear::{hear, request},
    play,
};
use crate::{
    provider::{ProviderServer, Reply, WireFormat, render::SIGNATURE},
    scenario::Scenario,
};

/// What a client can do with a format: rows of a table, the same ones for every format.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Capabilities {
    /// The format.
    pub format: WireFormat,
    /// What, and whether or how.
    pub rows: Vec<(&'static str, String)>,
}

impl Capabilities {
    /// A Markdown table, a column a format.
    pub fn table(columns: &[Self]) -> String {
        let head: Vec<_> = columns.iter().map(|column| column.format.name()).collect();
        let mut table = format!("| | {} |\n|---|{}\n", head.join(" | "), "---|".repeat(columns.len()));
        let names = columns.first().map(|column| column.rows.as_slice()).unwrap_or_default();
        for (at, (name, _)) in names.iter().enumerate() {
            let cell = |column: &Self| column.rows.get(at).map(|(_, cell)| cell.clone()).unwrap_or_default();
            let cells: Vec<_> = columns.iter().map(cell).collect();
            table.push_str(&format!("| {name} | {} |\n", cells.join(" | ")));
        }
        table
    }
}

/// Finds out what a client can do. `client` is as for [`super::run`].
///
/// # Errors
/// What keeps it from being found out: no server could be started, or the client broke its contract.
///
/// # Cancel safety
/// Dropped, it stops; its servers end.
pub async fn capabilities<C: LlmClient>(
    format: WireFormat,
    client: impl Fn(&str) -> C,
) -> Result<Capabilities, String> {
    let client = &client;
    let mut rows = answers(format, client).await?;
    rows.extend(usage(format, client).await?);
    rows.push(("finish reasons", reasons(format, client).await?));
    rows.extend(fields::probe(format, client).await?);
    rows.extend(errors(format, client).await);
    Ok(Capabilities { format, rows })
}

type Rows = Vec<(&'static str, String)>;

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

async fn ask<C: LlmClient>(
    format: WireFormat,
    client: &impl Fn(&str) -> C,
    reply: Reply,
) -> Result<(LlmResponse, Vec<StreamItem>), String> {
    let server = ProviderServer::start_as(format, [reply]).await.map_err(|e| e.to_string())?;
    let heard = hear(&client(&server.base_url()), &request()).await?;
    Ok((heard.response, heard.items))
}

/// What of an answer is understood, and what of it goes back.
async fn answers<C: LlmClient>(format: WireFormat, client: &impl Fn(&str) -> C) -> Result<Rows, String> {
    let city = r#"{"city":"Rome"}"#;
    let reply = Reply::new().reasoning("I ponder.").text("Hello");
    let reply = reply.tool_call_in_fragments("a", "weather", city, 4).tool_call("b", "weather", city);
    let script = [reply, Reply::new().text("sunny")];
    let server = ProviderServer::start_as(format, script).await.map_err(|e| e.to_string())?;
    let asked = client(&server.base_url());
    let first = hear(&asked, &request()).await?;
    hear(&asked, &answered(&first.response)?).await?;
    let requests = server.requests();
    let sent = requests.get(1).map(|request| request.json().to_string()).unwrap_or_default();
    let replay = match (sent.contains(SIGNATURE), sent.contains("I ponder.")) {
        (true, true) => "text and signature",
        (true, false) => "signature",
        (false, true) => "text",
        (false, false) => "no",
    };
    let fragment = |item: &&StreamItem| matches!(item, StreamItem::Progress(ToolProgress::Arguments { .. }));
    let fragments = first.items.iter().filter(fragment).count();
    let address = requests.first().map(|request| format!("`POST {}`", request.path)).unwrap_or_default();
    let keyed = |(_, value): &&(String, String)| value.contains(KEY);
    let key = requests.first().and_then(|request| request.headers.iter().find(keyed));
    let key = key.map(|(name, value)| match value.strip_suffix(KEY).map(str::trim).filter(|s| !s.is_empty()) {
        Some(scheme) => format!("`{name}: {scheme}`"),
        None => format!("`{name}`"),
    });
    let response = first.response;
    Ok(vec![
        ("address", address),
        ("key", key.unwrap_or_else(|| "none".into())),
        ("text", yes(response.text() == "Hello")),
        ("reasoning", yes(response.reasoning() == "I ponder.")),
        ("reasoning goes back", replay.into()),
        ("calls", yes(response.tool_calls().next().is_some())),
        ("several calls in an answer", yes(response.tool_calls().count() == 2)),
        ("arguments while they arrive", if fragments > 2 { "in fragments" } else { "whole" }.into()),
        ("model that answered", yes(response.model.is_some())),
        ("id of the answer", yes(response.response_id.is_some())),
    ])
}

/// Which token counts are understood.
async fn usage<C: LlmClient>(format: WireFormat, client: &impl Fn(&str) -> C) -> Result<Rows, String> {
    let full = TokenUsage {
        input_tokens: Some(100),
        output_tokens: Some(50),
        cache_read_input_tokens: Some(40),
        cache_creation_input_tokens: Some(20),
        reasoning_tokens: Some(30),
        partial: false,
    };
    let got = ask(format, client, Reply::new().text("a").token_usage(full)).await?.0.usage;
    Ok(vec![
        ("input and output tokens", yes((got.input_tokens, got.output_tokens) == (Some(100), Some(50)))),
        ("tokens read from a cache", yes(got.cache_read_input_tokens == Some(40))),
        ("tokens written to a cache", yes(got.cache_creation_input_tokens == Some(20))),
        ("reasoning tokens", yes(got.reasoning_tokens == Some(30))),
    ])
}

/// Which finish reasons are told apart.
async fn reasons<C: LlmClient>(format: WireFormat, client: &impl Fn(&str) -> C) -> Result<String, String> {
    let named = [
        ("stop", FinishReason::Stop),
        ("calls", FinishReason::ToolCalls),
        ("length", FinishReason::Length),
        ("filter", FinishReason::ContentFilter),
        ("refusal", FinishReason::Refusal),
    ];
    let mut told = Vec::new();
    for (name, reason) in named {
        let reply = Reply::new().text("a").finish_with(reason);
        let reply = if reason == FinishReason::ToolCalls { reply.tool_call("c", "f", "{}") } else { reply };
        if ask(format, client, reply).await?.0.finish_reason == Some(reason) {
            told.push(name);
        }
    }
    // In some formats it is not the finish reason that says that the model declines.
    let refusal = Scenario::named("refusal-deltas").filter(|s| s.formats().contains(&format));
    if let Some(scenario) = refusal
        && play(format, scenario, client).await.is_ok()
    {
        told.push("refusal");
    }
    Ok(told.join(", "))
}

/// Which errors are told apart, by the scenarios that show them.
async fn errors<C: LlmClient>(format: WireFormat, client: &impl Fn(&str) -> C) -> Rows {
    let named = [
        ("too many requests, and how long to wait", "429-seconds", ErrorKind::RateLimited),
        ("overloaded", "overloaded", ErrorKind::Overloaded),
        ("wrong key", "wrong-key", ErrorKind::Authentication),
        ("not allowed", "forbidden", ErrorKind::PermissionDenied),
        ("not found", "not-found", ErrorKind::NotFound),
        ("context too small", "context-overflow", ErrorKind::ContextOverflow),
        ("quota used up", "quota", ErrorKind::QuotaExceeded),
        ("error in the stream", "error-in-the-midst", ErrorKind::Server),
        ("stream cut short", "end-in-the-midst", ErrorKind::Truncated),
        ("whole answer, not streamed", "not-streamed", ErrorKind::Internal),
    ];
    let rows = stream::iter(named).map(|(name, scenario, kind)| async move {
        let cell = match Scenario::named(scenario).filter(|s| s.formats().contains(&format)) {
            None => "not known".to_owned(),
            Some(scenario) if play(format, scenario, client).await.is_err() => "no".to_owned(),
            Some(_) if kind == ErrorKind::Internal => "yes".to_owned(),
            Some(_) => format!("`{kind}`"),
        };
        (name, cell)
    });
    rows.buffered(AT_ONCE).collect().await
}
