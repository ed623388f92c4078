//! The lists that layering holds the workspace to. Crates are named by their folder.

/// A crate and what it uses or may use.
pub(crate) type Row = (&'static str, &'static [&'static str]);

/// Who uses whom today, without dev-dependencies: exactly what the manifests declare.
///
/// A new edge is a decision: add it here in the change that declares it, or ask why it is needed.
/// `cargo xtask layering --print` prints the rows that match the manifests.
pub(crate) const ALLOWED: &[Row] = &[
    ("builtin", &["control", "core", "hook", "interceptor", "llm-stream", "react-runtime"]),
    ("cli", &["turnwright"]),
    ("code", &["core", "interceptor", "react-runtime"]),
    ("control", &["core"]),
    ("core", &[]),
    ("hook", &["control", "core", "llm-stream"]),
    ("interceptor", &["control", "core", "llm-stream"]),
    ("llm-stream", &["core"]),
    ("providers", &["core", "llm-stream"]),
    ("react-runtime", &["control", "core", "hook", "interceptor", "llm-stream"]),
    ("store", &["control", "core", "react-runtime"]),
    ("testkit", &["control", "core", "hook", "interceptor", "llm-stream", "react-runtime"]),
    ("trace-spans", &["control", "core", "hook", "interceptor", "llm-stream"]),
    (
        "turnwright",
        &[
            "builtin",
            "code",
            "control",
            "core",
            "hook",
            "interceptor",
            "llm-stream",
            "providers",
            "react-runtime",
            "store",
            "testkit",
            "trace-spans",
        ],
    ),
];

/// Who may use whom at all: the design's table, with crates that are still to come.
///
/// Only a change of the design changes it.
pub(crate) const TABLE: &[Row] = &[
    ("core", &[]),
    ("control", &["core"]),
    ("llm-stream", &["core"]),
    ("hook", &["core", "control", "llm-stream"]),
    ("interceptor", &["core", "control", "llm-stream"]),
    ("react-runtime", &["core", "control", "llm-stream", "hook", "interceptor"]),
    ("graph", &["core", "control"]),
    ("builtin", &["core", "control", "llm-stream", "hook", "interceptor", "react-runtime", "graph"]),
    ("code", &["core", "control", "interceptor", "react-runtime"]),
    ("trace-spans", &["core", "control", "llm-stream", "hook", "interceptor"]),
    ("providers", &["core", "llm-stream"]),
    ("store", &["core", "control", "react-runtime", "builtin", "graph"]),
    ("testkit", &["core", "control", "llm-stream", "hook", "interceptor", "react-runtime", "trace-spans"]),
    (
        "server",
        &[
            "core",
            "control",
            "llm-stream",
            "hook",
            "interceptor",
            "react-runtime",
            "graph",
            "builtin",
            "code",
            "trace-spans",
            "providers",
            "store",
        ],
    ),
    (
        "cli",
        &[
            "core",
            "control",
            "llm-stream",
            "hook",
            "interceptor",
            "react-runtime",
            "graph",
            "builtin",
            "code",
            "trace-spans",
            "providers",
            "store",
            "testkit",
            "server",
            "turnwright",
        ],
    ),
    (
        "turnwright",
        &[
            "core",
            "control",
            "llm-stream",
            "hook",
            "interceptor",
            "react-runtime",
            "graph",
            "builtin",
            "code",
            "trace-spans",
            "providers",
            "store",
            "testkit",
            "server",
        ],
    ),
];

/// Edges that must be optional, because a feature stands for the crate.
pub(crate) const OPTIONAL: &[Row] = &[("turnwright", &["providers", "testkit", "trace-spans"])];

/// The crate that every other one may use in tests, whatever [`TABLE`] says.
pub(crate) const TESTKIT: &str = "testkit";

/// Crates that know no vendor and bring no HTTP client.
pub(crate) const NEUTRAL: &[&str] =
    &["core", "control", "llm-stream", "hook", "interceptor", "react-runtime"];

/// What neutral crates must not reach, with whatever features: HTTP, TLS and server crates.
pub(crate) const FORBIDDEN: &[&str] = &[
    "actix-web",
    "attohttpc",
    "aws-lc-rs",
    "axum",
    "curl",
    "eventsource-stream",
    "h2",
    "hyper",
    "hyper-util",
    "isahc",
    "minreq",
    "native-tls",
    "openssl",
    "reqwest",
    "rustls",
    "surf",
    "tonic",
    "tungstenite",
    "ureq",
    "warp",
];

/// Names of vendors, in lower case, which neutral crates must not know outside `wire/` and tests.
pub(crate) const VENDORS: &[&str] = &[
    "anthropic",
    "azure",
    "bedrock",
    "claude",
    "deepseek",
    "gemini",
    "gpt-",
    "groq",
    "mistral",
    "ollama",
    "openai",
    "openrouter",
];

/// Where a vendor's name may stand all the same: file, name, reason. An entry without a use fails.
pub(crate) const VENDOR_ALLOWED: &[(&str, &str, &str)] =
    &[("crates/llm-stream/src/client.rs", "openai", "an example of the provider's name as traces show it")];
