//! The names that are written, pinned to one version of the conventions. `docs/traces.md` has the same as a table, and a test
//! compares the two.
//!
//! What the conventions have no name for stands under `turnwright.`; no `gen_ai.` name is invented.

/// The version of the GenAI conventions whose names these are. Its publishers name no schema URL for it yet, so none is
/// written.
pub const VERSION: &str = "semantic-conventions-genai v0.1.0";

macro_rules! names {
    ($($(#[$doc:meta])* $name:ident = $text:literal;)*) => {
        $($(#[$doc])* pub const $name: &str = $text;)*

        /// Every attribute that may be written.
        pub const ATTRIBUTES: &[&str] = &[$($text),*];
    };
}

names! {
    /// What the span is of: `invoke_agent`, `chat` or `execute_tool`.
    OPERATION = "gen_ai.operation.name";
    /// Whose format the model is asked in.
    PROVIDER = "gen_ai.provider.name";
    /// The agent.
    AGENT = "gen_ai.agent.name";
    /// The session.
    CONVERSATION = "gen_ai.conversation.id";
    /// The model that was asked.
    REQUEST_MODEL = "gen_ai.request.model";
    /// Always true: answers are streamed.
    REQUEST_STREAM = "gen_ai.request.stream";
    /// The most tokens the answer may have.
    REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens";
    /// Sampling temperature.
    REQUEST_TEMPERATURE = "gen_ai.request.temperature";
    /// Nucleus sampling.
    REQUEST_TOP_P = "gen_ai.request.top_p";
    /// Texts that end the answer.
    REQUEST_STOP = "gen_ai.request.stop_sequences";
    /// `json`, where the answer must have a form.
    OUTPUT_TYPE = "gen_ai.output.type";
    /// The provider's id of the answer.
    RESPONSE_ID = "gen_ai.response.id";
    /// The model that answered.
    RESPONSE_MODEL = "gen_ai.response.model";
    /// Why it stopped; `error` where it broke off.
    FINISH_REASONS = "gen_ai.response.finish_reasons";
    /// Seconds from the call to the first piece of the answer.
    TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk";
    /// Tokens of the prompt, cached ones included.
    INPUT_TOKENS = "gen_ai.usage.input_tokens";
    /// Tokens of the answer, reasoning included.
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens";
    /// The part of the input that was read from a cache.
    CACHE_READ = "gen_ai.usage.cache_read.input_tokens";
    /// The part of the input that was written to a cache.
    CACHE_WRITE = "gen_ai.usage.cache_write.input_tokens";
    /// The older name of the same, for readers that lag.
    CACHE_CREATION = "gen_ai.usage.cache_creation.input_tokens";
    /// The part of the output that is reasoning.
    REASONING_TOKENS = "gen_ai.usage.reasoning.output_tokens";
    /// The tool.
    TOOL = "gen_ai.tool.name";
    /// Always `function`.
    TOOL_TYPE = "gen_ai.tool.type";
    /// The model's id of the call.
    TOOL_CALL = "gen_ai.tool.call.id";
    /// Content: the arguments.
    TOOL_ARGUMENTS = "gen_ai.tool.call.arguments";
    /// Content: the result.
    TOOL_RESULT = "gen_ai.tool.call.result";
    /// Content: the system prompt.
    SYSTEM_INSTRUCTIONS = "gen_ai.system_instructions";
    /// Content: the messages that were sent.
    INPUT_MESSAGES = "gen_ai.input.messages";
    /// Content: the answer.
    OUTPUT_MESSAGES = "gen_ai.output.messages";
    /// Content: the tools that were sent.
    TOOL_DEFINITIONS = "gen_ai.tool.definitions";
    /// Hash of what would be content: the system prompt.
    INSTRUCTIONS_HASH = "turnwright.content.instructions.hash";
    /// Its length in bytes.
    INSTRUCTIONS_LENGTH = "turnwright.content.instructions.length";
    /// Hash of the messages that were sent.
    INPUT_HASH = "turnwright.content.input.hash";
    /// Their length in bytes.
    INPUT_LENGTH = "turnwright.content.input.length";
    /// Hash of the answer.
    OUTPUT_HASH = "turnwright.content.output.hash";
    /// Its length in bytes.
    OUTPUT_LENGTH = "turnwright.content.output.length";
    /// Hash of the tools that were sent.
    TOOLS_HASH = "turnwright.content.tools.hash";
    /// Their length in bytes.
    TOOLS_LENGTH = "turnwright.content.tools.length";
    /// Hash of the arguments.
    ARGUMENTS_HASH = "turnwright.content.arguments.hash";
    /// Their length in bytes.
    ARGUMENTS_LENGTH = "turnwright.content.arguments.length";
    /// Hash of the result.
    RESULTS_HASH = "turnwright.content.result.hash";
    /// Its length in bytes.
    RESULTS_LENGTH = "turnwright.content.result.length";
    /// What went wrong, in one of the words of `ErrorKind`.
    ERROR_TYPE = "error.type";
    /// The session again, for readers of sessions.
    SESSION = "session.id";
    /// The user, where the embedder says who.
    USER = "user.id";
    /// The agent run.
    RUN = "turnwright.run.id";
    /// How the leg ended.
    OUTCOME = "turnwright.run.outcome";
    /// True on a leg that goes on with a turn.
    RESUMED = "turnwright.run.resumed";
    /// The turn.
    TURN = "turnwright.turn.id";
    /// Which leg of it, from 1.
    LEG = "turnwright.leg";
    /// The iteration, from 1.
    ITERATION = "turnwright.iteration";
    /// The attempt at one logical model call, from 1.
    ATTEMPT = "turnwright.attempt";
    /// True where a layer answered in the place of a model or a tool.
    SHORT_CIRCUITED = "turnwright.short_circuited";
    /// The figures are what was known when the call was cut.
    USAGE_PARTIAL = "turnwright.usage.partial";
    /// Why a run was cancelled: `requested`, `deadline`, …
    CANCEL_KIND = "turnwright.cancel.kind";
    /// Who cancelled it.
    CANCEL_ACTOR = "turnwright.cancel.actor";
    /// The words for it, redacted.
    CANCEL_REASON = "turnwright.cancel.reason";
    /// The agent whose call started this one.
    PARENT_AGENT = "turnwright.parent_agent";
    /// The agents that a call started.
    TRANSFER_TARGET = "turnwright.transfer.target";
    /// `return_to_caller` or `pass_control`.
    TRANSFER_MODE = "turnwright.transfer.mode";
    /// `pending`, `approved` or `denied`.
    APPROVAL_STATE = "turnwright.tool.approval.state";
    /// True where a tool stopped with its turn and is entered again later.
    TOOL_STOPPED = "turnwright.tool.stopped";
    /// The approval.
    APPROVAL = "turnwright.approval.id";
    /// `allowed`, `edited`, `denied` or `answered`.
    APPROVAL_DECISION = "turnwright.approval.decision";
    /// Who decided.
    APPROVAL_ACTOR = "turnwright.approval.actor";
    /// Why a span is linked: `resume`, `started_by`.
    LINK_REASON = "turnwright.link.reason";
    /// The calls that wait when a leg is suspended.
    PENDING_CALLS = "turnwright.run.pending_calls";
    /// How many messages the agent started with.
    HISTORY_LENGTH = "turnwright.history.length";
}

/// An event of the root span: the leg was suspended.
pub const EVENT_SUSPENDED: &str = "turnwright.run.suspended";
/// An event of the root span: the agent starts.
pub const EVENT_AGENT_START: &str = "turnwright.agent.start";

pub(crate) const OP_AGENT: &str = "invoke_agent";
pub(crate) const OP_CHAT: &str = "chat";
pub(crate) const OP_TOOL: &str = "execute_tool";
/// For what has no name of few values.
pub(crate) const OTHER: &str = "_OTHER";
