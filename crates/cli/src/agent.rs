//! From options and environment to an agent.

use std::env;

use turnwright::{
    Agent, AgentBuilder, ChatClient, ErrorInfo, Limits, ModelHandle, ResponsesClient, Timeouts,
    providers::{Format, HttpClientBuilder},
    runtime::gate::AskFor,
};

use crate::{
    approval,
    args::{AgentArgs, ProviderName, TimeoutArgs},
    refusal::Refusal,
    tape::Tape,
    tools::{self, Workspace},
};

pub(crate) const KEY: &str = "OPENAI_API_KEY";
const BASE_URL: &str = "OPENAI_BASE_URL";

const INSTRUCTIONS: &str = "You help a person at a terminal. With your tools you can list, search, read, write and edit \
    the files below one directory, the tool root, run commands there if you have the tool shell, and tell the time. \
    What may change something runs only if the person approves of that very call: change only what you were asked to \
    change. Look before you answer what the files can tell. Paths are relative to the tool root. Answer in plain text, briefly.";

/// Whether a model could be asked, were a command given.
pub(crate) fn is_provider_configured() -> bool {
    [KEY, BASE_URL, "TURNWRIGHT_BASE_URL"].into_iter().any(|name| var(name).is_some())
}

/// The agent these options describe.
pub(crate) fn build(args: &AgentArgs, tape: &Tape) -> Result<Agent, Refusal> {
    finish(builder(args, model(args, tape)?)?)
}

/// An agent with this model, and everything else as these options say.
pub(crate) fn builder(args: &AgentArgs, model: ModelHandle) -> Result<AgentBuilder, Refusal> {
    let asks = approval::asked_about(&args.allow)?;
    let workspace = workspace(args)?;
    let limits = Limits { iterations: args.max_iterations, ..Limits::default() };
    let agent = Agent::builder("turnwright", model).instructions(INSTRUCTIONS).limits(limits);
    let agent = match args.deadline {
        Some(deadline) => agent.deadline(deadline),
        None => agent,
    };
    Ok(with_gated_tools(with_tools(agent, &workspace), &workspace).gate(AskFor::tools(asks)))
}

/// Adds the read-only tools.
pub(crate) fn with_tools(agent: AgentBuilder, workspace: &Workspace) -> AgentBuilder {
    agent
        .tool(tools::read_file(workspace))
        .tool(tools::list_dir(workspace))
        .tool(tools::search(workspace))
        .tool(tools::current_time())
}

/// Adds the tools that change something.
fn with_gated_tools(agent: AgentBuilder, workspace: &Workspace) -> AgentBuilder {
    let agent = agent.tool(tools::write_file(workspace)).tool(tools::edit_file(workspace));
    #[cfg(unix)]
    let agent = agent.tool(tools::shell(workspace));
    agent
}

pub(crate) fn finish(agent: AgentBuilder) -> Result<Agent, Refusal> {
    agent.build().map_err(|e| Refusal::new(e.to_string()))
}

/// The base URL that was given, if one was.
pub(crate) fn base_url(args: &AgentArgs) -> Option<String> {
    let given = args.base_url.as_ref().filter(|url| !url.trim().is_empty()).cloned();
    given.or_else(|| var(BASE_URL))
}

/// The model that was named, if one was.
pub(crate) fn model_name(args: &AgentArgs) -> Option<&str> {
    args.model.as_deref().map(str::trim).filter(|model| !model.is_empty())
}

/// Whether there is a provider to ask, with these options.
pub(crate) fn has_provider(args: &AgentArgs) -> bool {
    var(KEY).is_some() || base_url(args).is_some()
}

pub(crate) fn model(args: &AgentArgs, tape: &Tape) -> Result<ModelHandle, Refusal> {
    let (key, base_url) = (var(KEY), base_url(args));
    if key.is_none() && base_url.is_none() && !tape.is_replay() {
        return Err(Refusal::new("no provider is configured").hint(format!(
            "set {KEY}, or for a server without keys {BASE_URL} or --base-url; `turnwright` alone demonstrates \
             itself without a provider"
        )));
    }
    let Some(model) = model_name(args) else {
        let refusal = Refusal::new("no model is named");
        return Err(refusal.hint("add --model NAME or set TURNWRIGHT_MODEL; the provider says which it has"));
    };
    let timeouts = timeouts(&args.timeouts);
    match args.provider {
        ProviderName::Openai => client(tape.put(ChatClient::builder()), key, base_url, timeouts, model),
        ProviderName::OpenaiResponses => {
            client(tape.put(ResponsesClient::builder()), key, base_url, timeouts, model)
        }
    }
}

fn client<F: Format>(
    mut client: HttpClientBuilder<F>,
    key: Option<String>,
    base_url: Option<String>,
    timeouts: Timeouts,
    model: &str,
) -> Result<ModelHandle, Refusal> {
    client = client.timeouts(timeouts);
    if let Some(key) = key {
        client = client.api_key(key);
    }
    if let Some(base_url) = base_url {
        client = client.base_url(base_url);
    }
    let client = client.build().map_err(|ErrorInfo { message, .. }| {
        Refusal::new(message).hint("check --provider, --base-url, OPENAI_BASE_URL and OPENAI_API_KEY")
    })?;
    Ok(ModelHandle::new(client, model))
}

fn timeouts(args: &TimeoutArgs) -> Timeouts {
    let usual = Timeouts::default();
    Timeouts {
        connect: args.timeout_connect.unwrap_or(usual.connect),
        first_byte: args.timeout_first_byte.unwrap_or(usual.first_byte),
        idle: args.timeout_idle.unwrap_or(usual.idle),
        total: args.timeout_total.unwrap_or(usual.total),
        ..usual
    }
}

pub(crate) fn workspace(args: &AgentArgs) -> Result<Workspace, Refusal> {
    Workspace::open(&args.tool_root).map_err(|why| {
        let root = args.tool_root.display();
        Refusal::new(format!("the tool root {root} cannot be used: {why}"))
            .hint("point --tool-root at a directory that exists")
    })
}

/// A variable that says something: blank ones are as good as unset.
pub(crate) fn var(name: &str) -> Option<String> {
    env::var(name).ok().filter(|value| !value.trim().is_empty())
}
