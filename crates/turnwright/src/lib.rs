//! turnwright runs the turns of an LLM agent inside your program: one user message, worked through to an answer by model
//! calls and tool calls. What sets it apart is what you can do to a turn while it runs: watch it, wrap its calls, steer
//! it, stop it, suspend it for a person's decision and resume it. Whatever ends a turn, the history is legal, what was
//! shown is in it, and there is exactly one last event that says how it ended.
//!
//! This is a tour. The guide goes step by step, with whole programs; it is in the repository under `docs/guide/`.
//!
//! # The smallest useful program
//!
//! One tool, one question, any server that speaks OpenAI's chat completions:
//!
//! ```no_run
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use turnwright::{Agent, ChatClient, ModelHandle, tool};
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct City {
//!     /// Its name, in English.
//!     name: String,
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // OPENAI_API_KEY, or OPENAI_BASE_URL for a server of your own.
//!     let model = ModelHandle::new(ChatClient::from_env()?, "gpt-4o-mini");
//!     let weather = tool("weather", "The weather in a city", async |_ctx, city: City| {
//!         Ok(format!("sunny in {}", city.name))
//!     });
//!     let agent = Agent::builder("assistant", model).tool(weather).build()?;
//!
//!     let mut turn = agent.run("What should I wear in Rome today?")?;
//!     if let Some(result) = turn.result().await {
//!         println!("{}", result.content);
//!     }
//!     Ok(())
//! }
//! ```
//!
//! [`Agent::run`] returns a [`TurnHandle`]: a stream of [`TurnEvent`]s, the result, and control. Reading the events is
//! optional; the turn never waits for its reader. Dropping the handle interrupts the turn, so keep it, or
//! [`detach`](TurnHandle::detach) it. A conversation of several turns is a [`Session`]; one [`Agent`] serves any number
//! of them at once. (`first-agent.md`)
//!
//! The same with a model that follows a script, so that it runs here and in your tests (feature `testkit`):
//!
//! ```
//! use futures::StreamExt;
//! use turnwright::{Agent, Outcome, TurnEventKind, tool};
//! use turnwright::testkit::{Reply, ScriptedModel};
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let model = ScriptedModel::new([
//!     Reply::new().call("call-1", "weather", "{}").finish(),
//!     Reply::new().text("It is sunny: ").text("a shirt will do.").finish(),
//! ]);
//! let weather = tool("weather", "The weather here", async |_ctx, ()| Ok("sunny"));
//! let agent = Agent::builder("assistant", model.handle()).tool(weather).build()?;
//!
//! let mut turn = agent.run("What should I wear?")?;
//! let mut shown = String::new();
//! while let Some(event) = turn.next().await {
//!     match event.kind {
//!         TurnEventKind::TextDelta { text } => shown.push_str(&text),
//!         TurnEventKind::ToolResult(result) => assert_eq!(result.content, "sunny"),
//!         TurnEventKind::TurnFinished(end) => assert_eq!(end.outcome, Outcome::Completed),
//!         _ => {}
//!     }
//! }
//! assert_eq!(shown, "It is sunny: a shirt will do.");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Which power for what
//!
//! Enforce or transform → interceptor; react → hook; act from outside → control; ask a person → the gate.
//!
//! | power | what it may do | when it fails |
//! |---|---|---|
//! | [hook](#hooks-watch-a-turn) | observe a lifecycle point, append a reminder, ask for a continuation; leave by raising a [`ControlError`]; no veto | its policy: ignore, log or abort |
//! | [interceptor](#interceptors-wrap-a-call) | wrap a call: change what goes in or out, answer in its place, repeat it, block it | is a failure of the wrapped call |
//! | [control](#control-act-from-outside) | cancel, drain, steer, add a message, from outside the turn | each command has one fate: applied, expired, stale, rejected, returned |
//! | [gate](#the-gate-ask-a-person) | allow a tool call, deny it, or suspend the turn until somebody decides | the call does not run |
//!
//! [`Agent::plan`] prints what is registered, in the order in which it acts. From the least effort to the most
//! (`ladder.md`): a closure ([`tool`](tool()), [`hook::on`], [`layer_fn`]), a hook type, an interceptor type, a raw trait
//! ([`Tool`], [`LlmClient`], [`Gate`], [`SessionStore`](runtime::store::SessionStore), [`ControlChannel`]).
//!
//! # Tools: what the model may call
//!
//! [`tool`](tool()) makes one of an async function; its argument type gives the schema. A tool is exclusive unless it is
//! [`parallel`](runtime::tool::FunctionTool::parallel). Its error goes back to the model; [`OrAbort`] makes one that ends
//! the turn. Code that blocks runs through [`ToolContext::blocking`]. (`tools.md`)
//!
//! # Typed answers
//!
//! [`Agent::run_typed`] and [`Session::start_typed`] give an answer as a value of your type, from any model: natively
//! where its format knows schemas, else by a tool. What does not fit is told to the model, twice at most. [`generate`]
//! is one question without an agent. (`first-agent.md`)
//!
//! # Hooks: watch a turn
//!
//! A hook implements one or more of the fifteen traits in [`hook::point`]; [`hook!`] finds out at compile time which
//! ones, so that no list can go stale. Hooks run inline and in order, ten seconds each at most.
//!
//! ```
//! use turnwright::{HookError, TurnContext, hook, hook::{DecidedCall, point::BeforeToolExecution}};
//!
//! struct Log;
//! impl BeforeToolExecution for Log {
//!     async fn before_tool_execution(
//!         &self,
//!         ctx: &TurnContext,
//!         calls: &[DecidedCall],
//!     ) -> Result<(), HookError> {
//!         println!("turn {}: {} calls", ctx.turn(), calls.len());
//!         Ok(())
//!     }
//! }
//!
//! let spec = hook!(Log).priority(-10);
//! assert_eq!(spec.points().len(), 1);
//! ```
//!
//! Hand the spec to [`AgentBuilder::hook`]. For one point a closure will do, see [`hook::on`]. In generic code `hook!`
//! sees only the bounds in scope: write [`hook_points!`] once beside the impls and bound on [`AnyHook`] there.
//! (`hooks.md`)
//!
//! # Interceptors: wrap a call
//!
//! A layer is given the call and the rest of the chain, [`Next`], which it runs once or not at all. The first one
//! registered is outermost. An error of a tool layer becomes the tool's result and goes back to the model.
//!
//! ```
//! use turnwright::{Around, ErrorKind, Exit, Next, ToolCall, ToolResult, TurnContext, interceptor, scope};
//!
//! /// No tool may be asked about passwords.
//! struct NoPasswords;
//! impl Around<scope::ToolCall> for NoPasswords {
//!     async fn around(
//!         &self,
//!         _ctx: &TurnContext,
//!         call: ToolCall,
//!         next: Next<'_, scope::ToolCall>,
//!     ) -> Result<ToolResult, Exit> {
//!         if call.arguments.contains("password") {
//!             return Err(Exit::failed(ErrorKind::Denied, "not allowed: ask for something else"));
//!         }
//!         next.run(call).await
//!     }
//! }
//!
//! let layer = interceptor!(NoPasswords);
//! assert_eq!(layer.scopes(), [turnwright::interceptor::ScopeName::ToolCall]);
//! ```
//!
//! For one scope a closure will do, see [`layer_fn`]. Layers of the event stream implement [`AroundStream`]. A layer that
//! repeats a call trades its `Next` for a [`Replay`](interceptor::Replay), where that is safe. (`interceptors.md`)
//!
//! # Control: act from outside
//!
//! Whoever holds the [`TurnHandle`] can [`cancel`](TurnHandle::cancel), [`interrupt`](TurnHandle::interrupt) and
//! [`drain`](TurnHandle::drain) the turn. Everybody else sends a [`ControlCommand`] on a [`ControlChannel`] that the
//! agent was built with; the receipt tells what became of it.
//!
//! ```
//! use std::sync::Arc;
//! use turnwright::{CommandBody, ControlChannel, ControlCommand, ControlScope, InMemoryControlChannel, Part};
//! use turnwright::{Agent, SessionId, Sources};
//! # use turnwright::testkit::ScriptedModel;
//! # let model = ScriptedModel::new([]).handle();
//!
//! # tokio::runtime::Runtime::new()?.block_on(async {
//! let sources = Sources::default();
//! let channel = Arc::new(InMemoryControlChannel::new(&sources));
//! let agent = Agent::builder("assistant", model).channel(channel.clone()).build()?;
//!
//! let whom = ControlScope::session(SessionId::new("chat-7")?);
//! let body = CommandBody::InjectSteer { parts: vec![Part::text("Answer in one sentence.")] };
//! let receipt = channel.send(ControlCommand::new(&sources, whom, "ann", body)).await?;
//! assert!(receipt.try_fate().is_none(), "nobody took it yet");
//! # drop(agent);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! # })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The gate: ask a person
//!
//! A [`Gate`] is asked about every tool call before any interceptor sees it; no layer can approve a call. When it
//! answers [`GateDecision::Ask`] the leg ends as suspended, [`Session::decide`] records the decision, and
//! [`Session::resume`] goes on, in another process too if the agent has a
//! [store](runtime::store::SessionStore). The decision covers exactly the tool and the arguments that were shown.
//! (`control.md`)
//!
//! # Testing
//!
//! The feature `testkit` brings `testkit`: a model that follows a script, a clock that jumps, a provider server that
//! misbehaves in fifteen ways, hooks that write themselves down, and the promises as functions to call at the end of a
//! test. (`testing.md`)
//!
//! # What it does not do
//!
//! - It needs a tokio runtime with time enabled, and unwinding: with `panic = "abort"` a panic in a tool ends the
//!   process.
//! - A blocking tool body cannot be stopped. It runs on its own bounded threads
//!   ([`ToolContext::blocking`]), and its late result is refused, but its thread lives on until it returns.
//! - Hooks and layers run inside the turn: one that computes for a second without an await delays its own turn by a
//!   second, timeouts or not.
//! - Provider clients never retry. Repeating a model call is a layer's matter.
//! - Argument types of tools need `serde` and `schemars` in your own manifest.
//! - Sessions live in memory unless you give the agent a store.
//!
//! # Features
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `providers` | yes | `providers`: HTTP clients, with TLS and all it brings |
//! | `sigv4` | no | with `providers`: requests to Bedrock signed with credentials of AWS, beside those with a key |
//! | `code` | no | `code`: a tool that runs a model's code, and Python in a child process |
//! | `store` | no | `store`: sessions, journals, commands and leases in SQLite, which is built from C |
//! | `traces` | no | `trace_spans`: OpenTelemetry spans of turns, by the conventions for generative AI |
//! | `otlp` | no | `traces`, and their export by OTLP over HTTP |
//! | `testkit` | no | `testkit`: scripted models, a hostile provider server, checkers; for tests |
//!
//! # The crates
//!
//! Each module is one crate, whole. A narrow need (only the stream decoders, only the interceptor chain) can depend on
//! that crate alone.

#[doc(inline)]
pub use turnwright_builtin as builtin;
#[cfg(feature = "code")]
#[doc(inline)]
pub use turnwright_code as code;
#[doc(inline)]
pub use turnwright_control as control;
#[doc(inline)]
pub use turnwright_core as core;
#[doc(inline)]
pub use turnwright_hook as hook;
#[doc(inline)]
pub use turnwright_interceptor as interceptor;
#[doc(inline)]
pub use turnwright_llm_stream as llm_stream;
#[cfg(feature = "providers")]
#[doc(inline)]
pub use turnwright_providers as providers;
#[doc(inline)]
pub use turnwright_react_runtime as runtime;
#[cfg(feature = "store")]
#[doc(inline)]
pub use turnwright_store as store;
#[cfg(feature = "testkit")]
#[doc(inline)]
pub use turnwright_testkit as testkit;
#[cfg(feature = "traces")]
#[doc(inline)]
pub use turnwright_trace_spans as trace_spans;

#[doc(inline)]
pub use turnwright_control::{
    CommandBody, CommandType, ControlChannel, ControlCommand, ControlError, ControlScope, Fate,
    InMemoryControlChannel, Receipt,
};
#[doc(inline)]
pub use turnwright_core::{
    AgentResult, CallId, CancelCause, CancelKind, CancelToken, Decision, ErrorInfo, ErrorKind, LegOutcome,
    Message, Outcome, Part, RetryAdvice, Role, SessionId, Sources, StopReason, TokenUsage, ToolCall,
    ToolDefinition, ToolResult, TurnContext, TurnId, Verdict,
};
#[doc(inline)]
pub use turnwright_hook::{AnyHook, HookError, HookPoint, HookSpec, TurnAnswer, hook, hook_points};
#[doc(inline)]
pub use turnwright_hook::{instrument, observe};
#[doc(inline)]
pub use turnwright_interceptor::{
    Around, AroundStream, Exit, Interceptors, LayerSpec, Next, interceptor, layer_fn, scope,
};
#[doc(inline)]
pub use turnwright_llm_stream::{
    CacheHint, LlmClient, LlmEvent, LlmRequest, LlmResponse, ModelHandle, OutputSchema, ToolChoice,
};
#[cfg(feature = "providers")]
#[doc(inline)]
pub use turnwright_providers::{
    ChatClient, ConverseClient, GeminiClient, MessagesClient, OllamaClient, ResponsesClient, Timeouts,
};
#[doc(inline)]
pub use turnwright_react_runtime::{
    Agent, AgentBuilder, BuildError, Input, Plan, Record, RecordKind, RecordName, Session, StartError,
    TurnEvent, TurnEventKind, TurnFinished, TurnHandle, Typed, TypedError, TypedOptions, TypedTurn,
    gate::{Gate, GateDecision},
    generate,
    machine::Limits,
    tool::{Json, OnToolFailure, OrAbort, Tool, ToolContext, ToolError, tool},
};

/// The names almost every program with an agent uses: `use turnwright::prelude::*;`.
pub mod prelude {
    #[doc(no_inline)]
    pub use crate::{
        Agent, Around, ControlError, Exit, HookError, ModelHandle, Next, Outcome, Session, ToolCall,
        ToolContext, ToolError, ToolResult, TurnContext, TurnEvent, TurnEventKind, TurnHandle, hook,
        hook_points, interceptor, scope, tool,
    };
}

// What embedders hold across awaits and threads.
const _: fn() = || {
    fn send_sync<T: Send + Sync + 'static>() {}
    fn send<T: Send + 'static>() {}
    send_sync::<Agent>();
    send_sync::<Session>();
    send_sync::<ModelHandle>();
    send_sync::<ToolContext>();
    send_sync::<TurnContext>();
    send_sync::<TurnEvent>();
    send_sync::<HookSpec>();
    send_sync::<LayerSpec>();
    send_sync::<Interceptors>();
    send_sync::<InMemoryControlChannel>();
    send_sync::<ControlError>();
    #[cfg(feature = "providers")]
    send_sync::<ChatClient>();
    send::<TurnHandle>();
    send::<AgentBuilder>();
    send::<TypedTurn<String>>();
    send_sync::<TypedError>();
};

// The programs in the documents compile, and run where they need no network.
macro_rules! pages {
    ($($page:literal $name:ident),* $(,)?) => {
        $(
            #[cfg(doctest)]
            #[doc = include_str!(concat!("../../../", $page))]
            struct $name;
        )*
    };
}
pages! {
    "README.md" ReadmePage,
    "docs/guide/first-agent.md" GuideFirstAgent,
    "docs/guide/models.md" GuideModels,
    "docs/guide/tools.md" GuideTools,
    "docs/guide/hooks.md" GuideHooks,
    "docs/guide/interceptors.md" GuideInterceptors,
    "docs/guide/control.md" GuideControl,
    "docs/guide/durability.md" GuideDurability,
    "docs/guide/products.md" GuideProducts,
    "docs/guide/subagents.md" GuideSubagents,
    "docs/guide/recipes.md" GuideRecipes,
    "docs/guide/observing.md" GuideObserving,
    "docs/traces.md" TracesPage,
    "docs/guide/memory.md" GuideMemory,
    "docs/guide/testing.md" GuideTesting,
    "docs/guide/ladder.md" GuideLadder,
}
