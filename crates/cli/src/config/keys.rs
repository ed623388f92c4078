//! Every key, in one table: what it is called, what it may be, what it means.

use std::ops::RangeInclusive;

/// What a value may be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Text,
    Texts,
    /// A whole number, at least 1.
    Count,
    /// A number of seconds, a millisecond at least.
    Seconds,
    Dollars,
    /// One of these words.
    OneOf(&'static [&'static str]),
}

impl Kind {
    /// As a mistake says it.
    pub(crate) fn wanted(self) -> String {
        match self {
            Self::Text => "a text in quotes".into(),
            Self::Texts => "a list of texts".into(),
            Self::Count => "a whole number, at least 1".into(),
            Self::Seconds => "a number of seconds, at least 0.001".into(),
            Self::Dollars => "an amount in dollars, more than 0".into(),
            Self::OneOf(words) => format!("one of {}", words.map_quoted()),
        }
    }

    /// The least and the most of a number.
    pub(crate) fn range(self) -> RangeInclusive<f64> {
        match self {
            // Clocks can add that to now.
            Self::Seconds => 0.001..=366.0 * 86_400.0,
            Self::Dollars => 1e-6..=1e9,
            _ => 1.0..=f64::from(u32::MAX),
        }
    }
}

trait Quoted {
    fn map_quoted(&self) -> String;
}

impl Quoted for [&str] {
    fn map_quoted(&self) -> String {
        self.iter().map(|word| format!("{word:?}")).collect::<Vec<_>>().join(", ")
    }
}

/// A key.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Key {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The option of the command line that says the same.
    pub(crate) option: Option<&'static str>,
    pub(crate) default: &'static str,
    pub(crate) meaning: &'static str,
}

const fn key(name: &'static str, kind: Kind, default: &'static str, meaning: &'static str) -> Key {
    Key { name, kind, option: None, default, meaning }
}

const fn option(
    name: &'static str,
    option: &'static str,
    kind: Kind,
    default: &'static str,
    meaning: &'static str,
) -> Key {
    Key { name, kind, option: Some(option), default, meaning }
}

pub(super) const PROVIDERS: &[&str] =
    &["openai", "openai-responses", "anthropic", "gemini", "ollama", "bedrock"];

/// All of them, by name.
pub(crate) const KEYS: &[Key] = &[
    option("agent.base_url", "base_url", Kind::Text, "the provider's own", "the server that is asked"),
    key(
        "agent.fallback",
        Kind::Texts,
        "none",
        "models to ask, in this order, when one fails before it showed anything: `MODEL`, or `PROVIDER/MODEL`",
    ),
    key("agent.instructions", Kind::Text, "those of the program", "what the model is told about its task"),
    option("agent.model", "model", Kind::Text, "none", "the model, by the provider's name for it"),
    option("agent.provider", "provider", Kind::OneOf(PROVIDERS), "openai", "the API that is spoken"),
    key(
        "approvals.allowed_paths",
        Kind::Texts,
        "none",
        "directories below which `write_file` and `edit_file` run without asking; relative ones lie below the tool root",
    ),
    key(
        "approvals.ask",
        Kind::Texts,
        "none",
        "tools that are asked about, beside those that always are; `--allow` wins over it",
    ),
    key(
        "approvals.batch",
        Kind::OneOf(&["independent", "atomic"]),
        "independent",
        "whether calls of one answer wait and fall together",
    ),
    key(
        "approvals.expires_seconds",
        Kind::Seconds,
        "never",
        "after this an unanswered question counts as denied",
    ),
    key("approvals.never", Kind::Texts, "none", "tools that never run, without asking"),
    key(
        "approvals.on_denial",
        Kind::OneOf(&["tell_model", "cancel_turn"]),
        "tell_model",
        "what a denial means to the turn",
    ),
    key(
        "hooks.current_time.zone",
        Kind::Text,
        "the machine's",
        "the time zone of `current_time`, by its IANA name",
    ),
    key(
        "hooks.enable",
        Kind::Texts,
        "none",
        "built-in hooks, in the order they run: `current_time`, `env_injection`, `length_guard`, `loop_detection`, `task_delegation_nudge`, `todo_continuation`, `todo_planning_nudge`",
    ),
    key(
        "hooks.env_injection.variables",
        Kind::Texts,
        "none",
        "what child processes are told beside the ids of their turn: `NAME=value` becomes `TURNWRIGHT_CTX_NAME`",
    ),
    key(
        "hooks.length_guard.nudges",
        Kind::Count,
        "10",
        "how often in a row an answer that was cut or is empty is asked for again; attempts and renewals bound it too",
    ),
    key(
        "hooks.loop_detection.observation",
        Kind::Count,
        "2",
        "rounds after the reminder for which the loop must go on before the turn ends",
    ),
    key(
        "hooks.loop_detection.window",
        Kind::Count,
        "10",
        "rounds of a loop before the model is reminded, at least 2; an attempt must have more iterations",
    ),
    key(
        "interceptors.cache.entries",
        Kind::Count,
        "no cache",
        "answers that are kept in memory, and given again to equal requests",
    ),
    key(
        "interceptors.circuit_breaker.failures",
        Kind::Count,
        "no breaker",
        "failures in a row after which a model is not asked for a while",
    ),
    key("interceptors.circuit_breaker.open_seconds", Kind::Seconds, "30", "how long it is not asked"),
    key(
        "interceptors.error_budget.failures",
        Kind::Count,
        "no limit",
        "failed tool calls in a row after which the turn ends",
    ),
    key("interceptors.rate_limit.concurrent", Kind::Count, "no limit", "model calls at once"),
    key("interceptors.rate_limit.requests_per_minute", Kind::Count, "no limit", "model calls a minute"),
    key(
        "interceptors.retry.attempts",
        Kind::Count,
        "1",
        "how often a model call that failed in passing is made in all",
    ),
    key(
        "interceptors.retry.backoff_seconds",
        Kind::Seconds,
        "0.5",
        "the wait before the second attempt; it doubles",
    ),
    key("limits.attempts", Kind::Count, "3", "attempts of a turn"),
    option("limits.cost_usd", "budget_cost", Kind::Dollars, "none", "what a turn may cost"),
    option("limits.deadline_seconds", "deadline", Kind::Seconds, "3600", "how long a leg of a turn may take"),
    option("limits.iterations", "max_iterations", Kind::Count, "10", "model calls of an attempt"),
    key("limits.renewals", Kind::Count, "10", "how often hooks may raise the limit of attempts by one"),
    key(
        "limits.time_seconds",
        Kind::Seconds,
        "none",
        "how long a turn may run over all its legs; waiting for a person does not count",
    ),
    option("limits.tokens", "budget_tokens", Kind::Count, "none", "tokens a turn may use, in and out"),
    option("limits.tool_calls", "budget_tool_calls", Kind::Count, "none", "tool calls of a turn"),
    key(
        "memory.consolidate_tokens",
        Kind::Count,
        "never",
        "a core memory above this is written anew by the model, shorter, after a turn; it has 4000 tokens at most",
    ),
    key(
        "memory.context_tokens",
        Kind::Count,
        "4000",
        "what the model is told of core memory and experiences, at most; the experiences are cut first",
    ),
    key(
        "memory.core_file",
        Kind::Text,
        "none",
        "a file of facts that the model is told in every conversation, and edits with the tool `core_memory`",
    ),
    key(
        "memory.experiences",
        Kind::Text,
        "none",
        "a directory of experiences: the model is told which there are, and has `read_experience` and `write_experience`",
    ),
    key(
        "memory.instruction_files",
        Kind::Texts,
        "none",
        "names of files, for example `AGENTS.md`, that are read from the tool root and the folders above it",
    ),
    key(
        "memory.metrics_file",
        Kind::Text,
        "none",
        "a file that gets a line of JSON for each clean-up and each consolidation: counts and tokens, no content",
    ),
    key(
        "memory.review_from_messages",
        Kind::Count,
        "no review",
        "in `chat`, the model looks in the background at what can be learned of a conversation with so many messages, and keeps it \
         as an experience; it ends with the program",
    ),
    key(
        "memory.window_tokens",
        Kind::Count,
        "no clean-up",
        "the model's window, 1000 at least: what takes more than 70 % of it is summarised by the model, and a request that was refused as \
         too large is made once more without its oldest part",
    ),
    key(
        "safety.turn.tool_timeout_seconds",
        Kind::Seconds,
        "540",
        "how long a tool call may take; of the tool's own limit and this one the least counts, at each call; `shell` has one of 500",
    ),
    key("store.busy_seconds", Kind::Seconds, "5", "how long to wait for another process that writes"),
    key("store.events_per_session", Kind::Count, "10000", "recorded events that a sweep leaves of a session"),
    key(
        "store.idle_days",
        Kind::Count,
        "for ever",
        "days after which a sweep forgets a session without an open turn",
    ),
    key("store.lease_seconds", Kind::Seconds, "30", "how long a session stays taken when its process hangs"),
    option(
        "store.path",
        "store",
        Kind::Text,
        "below the state directory",
        "the file sessions are kept in; `none` keeps them in memory",
    ),
    key(
        "store.synchronous",
        Kind::OneOf(&["normal", "full"]),
        "normal",
        "whether each commit waits for the disk",
    ),
    key(
        "subagents.outputs",
        Kind::Text,
        "no subagents",
        "where a subagent's texts are written, relative to the tool root; with it the agent may have `explorer` look into things",
    ),
    option("timeouts.connect_seconds", "timeout_connect", Kind::Seconds, "10", "to connect to the provider"),
    option(
        "timeouts.first_byte_seconds",
        "timeout_first_byte",
        Kind::Seconds,
        "120",
        "to the first byte of an answer",
    ),
    option("timeouts.idle_seconds", "timeout_idle", Kind::Seconds, "60", "between two bytes of an answer"),
    option("timeouts.total_seconds", "timeout_total", Kind::Seconds, "600", "for a whole model call"),
    option(
        "tools.allow",
        "allow",
        Kind::Texts,
        "none",
        "tools that run without asking: `write_file`, `edit_file`, `shell`",
    ),
    key(
        "tools.overflow",
        Kind::Text,
        "none",
        "a directory in which results that are too long for the model are kept whole; `read_overflow` reads them. `sessions delete` removes a session's, `store sweep` what is older than `store.idle_days`",
    ),
    key(
        "tools.python",
        Kind::Text,
        "none",
        "a Python interpreter: the model may run code cells with the tool `code`, each of which is asked about. It is no sandbox",
    ),
    option("tools.root", "tool_root", Kind::Text, ".", "the directory whose files the tools see"),
    key(
        "trace.content",
        Kind::OneOf(&["off", "hash", "summary", "full"]),
        "as `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says, else off",
        "how much of what was said is in the traces",
    ),
    option(
        "trace.otlp",
        "otlp",
        Kind::Text,
        "no traces",
        "the server that traces are sent to, by OTLP over HTTP",
    ),
    option(
        "trace.tier",
        "trace_tier",
        Kind::OneOf(&["minimal", "standard", "full"]),
        "standard",
        "how much is traced",
    ),
];

/// Tables that later versions have: a file that says something there is told so, and not ignored.
pub(crate) const LATER: &[(&str, &str)] = &[("server", "the server")];

/// The key of this name.
pub(crate) fn find(name: &str) -> Option<&'static Key> {
    KEYS.iter().find(|key| key.name == name)
}

/// The name that was meant, perhaps.
pub(crate) fn nearest(name: &str) -> Option<&'static str> {
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let distance = |key: &Key| {
        strsim::damerau_levenshtein(name, key.name)
            .min(2 + strsim::damerau_levenshtein(&last(name), &last(key.name)))
    };
    let best = KEYS.iter().min_by_key(|key| distance(key))?;
    (distance(best) <= 4).then_some(best.name)
}
