//! What a client can do, found out by asking it.

use turnwright_core::{ErrorKind, TokenUsage};
use turnwright_llm_stream::{FinishReason, LlmClient, LlmResponse, StreamItem, ToolProgress};

use super::{
    KEY,
    contract::answered,
    fields,
    hear::{Heard, hear, request},
    play,
};
use crate::{
    provider::{ProviderServer, RecordedRequest, Reply, WireFormat, draft::Draft, render::SIGNATURE},
    scenario::{Scenario, sign_reasoning},
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
    let whole = passes(format, client, &["not-streamed"]).await.first().copied().flatten();
    rows.push(("whole answer in place of a stream", whole.map_or_else(|| ABSENT.to_owned(), yes)));
    Ok(Capabilities { format, rows })
}

/// What a format has nothing for.
const ABSENT: &str = "–";

type Rows = Vec<(&'static str, String)>;

fn yes(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

/// What a client makes of each of these replies.
async fn ask<C: LlmClient>(
    format: WireFormat,
    client: &impl Fn(&str) -> C,
    replies: Vec<Reply>,
) -> Result<Vec<LlmResponse>, String> {
    let count = replies.len();
    let server = ProviderServer::start_as(format, replies).await.map_err(|e| e.to_string())?;
    let client = client(&server.base_url());
    let mut answers = Vec::new();
    for _ in 0..count {
        answers.push(hear(&client, &request()).await?.response);
    }
    Ok(answers)
}

/// What of an answer is understood, and what of it goes back.
async fn answers<C: LlmClient>(format: WireFormat, client: &impl Fn(&str) -> C) -> Result<Rows, String> {
    let city = r#"{"city":"Rome"}"#;
    let reply = Reply::new().reasoning(THOUGHT).text("Hello");
    let reply = reply.tool_call_in_fragments("a", "weather", city, 4).tool_call("b", "weather", city);
    let mut draft = Draft::of(format, &reply);
    let (first, requests) = there_and_back(client, draft.clone()).await?;
    let mut replay = replay(&requests).to_owned();
    if format == WireFormat::Chat {
        sign_reasoning(&mut draft);
        let (_, requests) = there_and_back(client, draft).await?;
        replay.push_str("; details: ");
        replay.push_str(self::replay(&requests));
    }
    let fragment = |item: &&StreamItem| matches!(item, StreamItem::Progress(ToolProgress::Arguments { .. }));
    let fragments = first.items.iter().filter(fragment).count();
    let address = requests.first().map(|request| format!("`POST {}`", request.path)).unwrap_or_default();
    let keyed = |(_, value): &&(String, String)| value.contains(KEY);
    let key = requests.first().and_then(|request| request.headers.iter().find(keyed));
    let key =
        key.map(|(name, value)| match value.strip_suffix(KEY).map(str::trim).filter(|s| !s.is_empty()) {
            Some(scheme) => format!("`{name}: {scheme}`"),
            None => format!("`{name}`"),
        });
    let response = first.response;
    Ok(vec![
        ("address", address),
        ("key", key.unwrap_or_else(|| "none".into())),
        ("text", yes(response.text() == "Hello")),
        ("reasoning", yes(response.reasoning() == THOUGHT)),
        ("reasoning goes back", replay),
        ("calls", yes(response.tool_calls().next().is_some())),
        ("several calls in an answer", yes(response.tool_calls().count() == 2)),
        ("arguments while they arrive", if fragments > 2 { "in fragments" } else { "whole" }.into()),
        ("model that answered", yes(response.model.is_some())),
        ("id of the answer", yes(response.response_id.is_some())),
    ])
}

const THOUGHT: &str = "I ponder.";

/// Hears an answer and sends it back with the results of its calls. Gives the answer and both requests.
async fn there_and_back<C: LlmClient>(
    client: &impl Fn(&str) -> C,
    draft: Draft,
) -> Result<(Heard, Vec<RecordedRequest>), String> {
    let second = Draft::of(draft.format, &Reply::new().text("sunny"));
    let server =
        ProviderServer::start_drafts(draft.format, [draft, second]).await.map_err(|e| e.to_string())?;
    let client = client(&server.base_url());
    let first = hear(&client, &request()).await?;
    hear(&client, &answered(&first.response)?).await?;
    Ok((first, server.requests()))
}

/// What of the thoughts is in the second request.
fn replay(requests: &[RecordedRequest]) -> &'static str {
    let sent = requests.get(1).map(|request| request.json().to_string()).unwrap_or_default();
    match (sent.contains(SIGNATURE), sent.contains(THOUGHT)) {
        (true, true) => "text and signature",
        (true, false) => "signature",
        (false, true) => "text",
        (false, false) => "no",
    }
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
    let answers = ask(format, client, vec![Reply::new().text("a").token_usage(full)]).await?;
    let got = answers.first().map(|answer| answer.usage).unwrap_or_default();
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
    let replies = named.map(|(_, reason)| {
        let reply = Reply::new().text("a").finish_with(reason);
        if reason == FinishReason::ToolCalls { reply.tool_call("c", "f", "{}") } else { reply }
    });
    let answers = ask(format, client, replies.into()).await?;
    let told =
        named.iter().zip(answers).filter(|((_, reason), answer)| answer.finish_reason == Some(*reason));
    let mut told: Vec<_> = told.map(|((name, _), _)| *name).collect();
    // In some formats it is not the finish reason that says that the model declines.
    if passes(format, client, &["refusal-deltas"]).await == [Some(true)] {
        told.push("refusal");
    }
    Ok(told.join(", "))
}

/// Whether a client passes these scenarios; none where the format does not have one.
async fn passes<C: LlmClient>(
    format: WireFormat,
    client: &impl Fn(&str) -> C,
    names: &[&str],
) -> Vec<Option<bool>> {
    let outcomes = play(format, names.iter().filter_map(|name| Scenario::named(name)), client).await;
    let passed = |name: &&str| outcomes.iter().find(|o| o.name == *name).map(|o| o.verdict.is_ok());
    names.iter().map(passed).collect()
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
    ];
    let passed = passes(format, client, &named.map(|(_, scenario, _)| scenario)).await;
    let cell = |kind: ErrorKind, passed| match passed {
        None => ABSENT.to_owned(),
        Some(false) => "no".to_owned(),
        Some(true) => format!("`{kind}`"),
    };
    named.iter().zip(passed).map(|((name, _, kind), passed)| (*name, cell(*kind, passed))).collect()
}
