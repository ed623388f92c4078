//! Which fields of a request reach the server.

use std::sync::Arc;

use serde_json::{Value, json};
use turnwright_core::{Concurrency, ImageRef, Message, Part, Role, ToolDefinition};
use turnwright_llm_stream::{CacheHint, LlmClient, LlmRequest, OutputSchema, OutputWay, ToolChoice};

use super::hear::{context, hear, request};
use crate::provider::{ProviderServer, Reply, WireFormat};

/// A field that is tried: its name in the table, how it is set, and what of it the body must have.
struct Field {
    name: &'static str,
    set: fn(&mut LlmRequest),
    /// Words that the body must have; none: it must differ from the body without.
    words: &'static str,
}

const FIELDS: [Field; 17] = [
    Field { name: "system prompt", set: |r| r.system = Some("be-brief".into()), words: "be-brief" },
    Field { name: "temperature", set: |r| r.temperature = Some(0.25), words: "0.25" },
    Field { name: "nucleus sampling", set: |r| r.top_p = Some(0.125), words: "0.125" },
    Field { name: "output limit", set: |r| r.max_output_tokens = Some(4321), words: "4321" },
    Field { name: "stop texts", set: |r| r.stop = vec!["halt-here".into()], words: "halt-here" },
    Field { name: "tools", set: tools, words: "tell-weather" },
    Field { name: "tool choice: none", set: |r| choose(r, ToolChoice::None), words: "" },
    Field { name: "tool choice: required", set: |r| choose(r, ToolChoice::Required), words: "" },
    Field {
        name: "tool choice: by name",
        set: |r| choose(r, ToolChoice::Tool("tell-weather".into())),
        words: "",
    },
    Field {
        name: "image, inline",
        set: |r| image(r, "data:image/png;base64,iVBORw0KGgo="),
        words: "iVBORw0KGgo=",
    },
    Field {
        name: "image, by address",
        set: |r| image(r, "https://a.example/cat.png"),
        words: "https://a.example/cat.png",
    },
    Field { name: "one call at most", set: |r| r.parallel_tool_calls = Some(false), words: "" },
    Field { name: "cache for minutes", set: |r| cache(r, CacheHint::Minutes), words: "" },
    Field { name: "cache for an hour", set: |r| cache(r, CacheHint::Hour), words: "" },
    Field { name: "system message later", set: system_later, words: "said-later" },
    Field { name: "two user messages", set: two_messages, words: "once-more" },
    Field { name: "further fields", set: further, words: "shoe-size" },
];

/// What becomes of each field.
pub(super) async fn probe<C: LlmClient>(
    format: WireFormat,
    client: &impl Fn(&str) -> C,
) -> Result<Vec<(&'static str, String)>, String> {
    let server = ProviderServer::start_repeating_as(format, Reply::new().text("a")).await;
    let server = server.map_err(|e| e.to_string())?;
    let client = client(&server.base_url());
    let mut rows = Vec::new();
    for field in FIELDS {
        let mut base = request();
        if field.words.is_empty() {
            tools(&mut base);
            base.system = Some("be-brief".into());
        }
        let mut with = base.clone();
        (field.set)(&mut with);
        let cell = match body(&server, &client, &with).await? {
            Err(kind) => format!("refused (`{kind}`)"),
            Ok(sent) if field.words.is_empty() => {
                said(Ok(sent) != body(&server, &client, &base).await?).to_owned()
            }
            Ok(sent) if has(&sent, field.words) => "yes".to_owned(),
            Ok(sent) if sent.to_string().contains(field.words) => "in words".to_owned(),
            Ok(_) => "no".to_owned(),
        };
        rows.push((field.name, cell));
    }
    rows.extend(forms(&client));
    Ok(rows)
}

/// The body a request becomes, or the kind of the error it is refused with before it is sent.
async fn body<C: LlmClient>(
    server: &ProviderServer,
    client: &C,
    request: &LlmRequest,
) -> Result<Result<Value, String>, String> {
    let before = server.request_count();
    let heard = hear(client, request).await?;
    Ok(match (server.requests().get(before), heard.response.error) {
        (Some(sent), _) => Ok(sent.json()),
        (None, error) => Err(error.map(|e| e.kind.name()).unwrap_or_default()),
    })
}

/// Whether this stands in a body by itself: as a text, at the end of a data URI, as a number, or as a name.
fn has(body: &Value, words: &str) -> bool {
    match body {
        // Some formats want a schema as text.
        Value::String(text) if text.starts_with('{') => {
            serde_json::from_str::<Value>(text).is_ok_and(|value| has(&value, words))
        }
        Value::String(text) => text == words || text.starts_with("data:") && text.ends_with(words),
        Value::Number(number) => number.to_string() == words,
        Value::Array(items) => items.iter().any(|item| has(item, words)),
        Value::Object(fields) => fields.iter().any(|(name, value)| name == words || has(value, words)),
        Value::Null | Value::Bool(_) => false,
    }
}

fn said(yes: bool) -> &'static str {
    if yes { "yes" } else { "no" }
}

fn tools(request: &mut LlmRequest) {
    let tool = ToolDefinition {
        name: "tell-weather".into(),
        description: "The weather".into(),
        parameters: json!({ "type": "object", "properties": {} }),
        source: "local".into(),
        concurrency: Concurrency::default(),
        idempotent: false,
        timeout: None,
        idle_timeout: None,
        recovery: None,
    };
    request.tools = [Arc::new(tool)].into();
}

fn choose(request: &mut LlmRequest, choice: ToolChoice) {
    request.tool_choice = choice;
}

fn push(request: &mut LlmRequest, role: Role, parts: Vec<Part>) {
    if let Ok(ctx) = context() {
        request.messages.push(Arc::new(Message::new(ctx.sources().id(), role, parts)));
    }
}

fn picture(uri: &str) -> Part {
    Part::Image(ImageRef { uri: uri.into(), media_type: Some("image/png".into()) })
}

fn image(request: &mut LlmRequest, uri: &str) {
    push(request, Role::User, vec![Part::text("what is this?"), picture(uri)]);
}

fn system_later(request: &mut LlmRequest) {
    push(request, Role::System, vec![Part::text("said-later")]);
}

fn two_messages(request: &mut LlmRequest) {
    push(request, Role::User, vec![Part::text("once-more")]);
}

/// How an answer gets a form, without tools and beside them.
fn forms<C: LlmClient>(client: &C) -> [(&'static str, String); 2] {
    let way = |with_tools: bool| {
        let mut request = request();
        let schema = json!({ "type": "object", "properties": { "city": { "type": "string" } } });
        request.output = Some(Arc::new(OutputSchema::closed("form", schema)));
        if with_tools {
            tools(&mut request);
        }
        match client.output_way(&request) {
            OutputWay::Native => "native",
            OutputWay::DemandedTool => "a tool it must call",
            OutputWay::OfferedTool => "a tool it may call",
            _ => "another way",
        }
    };
    [
        ("form of the answer", way(false).to_owned()),
        ("form of the answer, beside tools", way(true).to_owned()),
    ]
}

fn cache(request: &mut LlmRequest, hint: CacheHint) {
    request.system = Some("be-brief".into());
    request.cache = hint;
}

fn further(request: &mut LlmRequest) {
    request.extra.insert("shoe-size".into(), 43.into());
}
