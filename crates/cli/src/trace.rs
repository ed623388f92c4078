//! Where turns are traced to, if anywhere.

use std::time::Duration;

use turnwright::{
    AgentBuilder,
    trace_spans::{Capture, Content, Export, Otlp, Tier, Traces},
};

use crate::{
    Refusal,
    args::{AgentArgs, ColorWhen},
    config::Config,
    output,
};

/// How long the end of the program may wait for the backend.
const LAST_EXPORT: Duration = Duration::from_secs(3);

/// The traces of this program, or none.
pub(crate) struct Trace(Option<(Export, Traces)>);

impl Trace {
    pub(crate) fn open(args: &AgentArgs, config: &Config) -> Result<Self, Refusal> {
        let Some(url) = &args.otlp else { return Ok(Self(None)) };
        let is_http = url.starts_with("http://") || url.starts_with("https://");
        if !is_http {
            let refusal = Refusal::new("--otlp needs a URL that begins with http:// or https://");
            return Err(refusal.hint("OTLP over HTTP is usually at http://localhost:4318"));
        }
        if Otlp::is_disabled() {
            return Ok(Self(None));
        }
        let export = Otlp::new().endpoint(url).service("turnwright").start();
        let export = export.map_err(|e| Refusal::new(e.to_string()))?;
        // The file says it for this program; the variable for every one that listens to it.
        let content = match config.text("trace.content").and_then(|how| how.parse::<Capture>().ok()) {
            Some(how) => Content::all(how),
            None => Content::from_env(),
        };
        let traces = Traces::builder().tier(args.trace_tier).content(content).build(export.provider());
        Ok(Self(Some((export, traces))))
    }

    pub(crate) fn none() -> Self {
        Self(None)
    }

    /// The agent with it.
    pub(crate) fn put(&self, agent: AgentBuilder) -> AgentBuilder {
        match &self.0 {
            Some((_, traces)) => self.put_into_child(agent).instrument(traces.instrument()),
            None => agent,
        }
    }

    /// An agent that another one starts, whose instrumentation it has.
    pub(crate) fn put_into_child(&self, agent: AgentBuilder) -> AgentBuilder {
        match &self.0 {
            Some((_, traces)) => agent.hooks(traces.hooks()),
            None => agent,
        }
    }

    /// Sends what waits. What could not be sent is told, and changes nothing else.
    pub(crate) fn end(&self, color: ColorWhen) {
        let Some((export, _)) = &self.0 else { return };
        let ended = export.shutdown(LAST_EXPORT);
        let stats = export.stats();
        let lost = stats.failed + stats.dropped;
        if lost > 0 || ended.is_err() {
            let message =
                format!("traces are not whole: {} spans were sent, {lost} were not", stats.exported);
            output::refuse(
                &Refusal::new(message).hint("is there an OTLP receiver at the URL of --otlp?"),
                color,
            );
        }
    }
}

/// The tier of this name.
pub(crate) fn tier(name: &str) -> Result<Tier, String> {
    name.parse().map_err(|e: turnwright::trace_spans::UnknownTier| e.to_string())
}
