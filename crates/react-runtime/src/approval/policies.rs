//! The gate that is made of policies.

use std::{collections::HashMap, sync::Arc, time::Duration};

use turnwright_core::{
    ApprovalRequest, Decision, Remember, SessionId, ToolCall, ToolDefinition, TurnContext,
};
use turnwright_interceptor::Exit;

use super::{ArgumentMatcher, Classification, Classifier, Paths, Rule, Rules, Tier};
use crate::gate::{Gate, GateDecision};

type Rate = Arc<dyn Fn(&ToolCall, &ToolDefinition) -> Classification + Send + Sync>;

/// A gate made of policies, one a tool. A tool that has none is normal, unless [`Policies::otherwise`] says something else.
#[derive(Clone)]
pub struct Policies {
    tools: HashMap<String, Rate>,
    otherwise: Rate,
    guards: Vec<Rate>,
    rules: Rules,
    expires_after: Option<Duration>,
}

impl Default for Policies {
    fn default() -> Self {
        Self::new()
    }
}

impl Policies {
    /// Everything runs.
    pub fn new() -> Self {
        Self {
            tools: HashMap::new(),
            otherwise: Arc::new(|_, _| Classification::normal()),
            guards: Vec::new(),
            rules: Rules::default(),
            expires_after: None,
        }
    }

    fn rate(mut self, tool: impl Into<String>, rate: Rate) -> Self {
        self.tools.insert(tool.into(), rate);
        self
    }

    /// Calls of this tool run.
    #[must_use]
    pub fn always(self, tool: impl Into<String>) -> Self {
        self.rate(tool, Arc::new(|_, _| Classification::normal()))
    }

    /// Calls of this tool never run, and nobody is asked; the model is told why.
    #[must_use]
    pub fn never(self, tool: impl Into<String>, why: impl Into<String>) -> Self {
        let no = Classification::of(Tier::Hardline, why);
        self.rate(tool, Arc::new(move |_, _| no.clone()))
    }

    /// A person decides about each call of this tool.
    #[must_use]
    pub fn ask(self, tool: impl Into<String>) -> Self {
        self.rate(tool, Arc::new(|call, _| Classification::of(Tier::Sensitive, needs(call))))
    }

    /// Calls of this tool run where all their paths lie inside, and a person decides about any other: about those too whose
    /// paths are not known.
    #[must_use]
    pub fn inside(self, tool: impl Into<String>, matcher: ArgumentMatcher) -> Self {
        let rate = move |call: &ToolCall, _: &ToolDefinition| {
            let danger = |why: String| Classification::of(Tier::Dangerous, why);
            let Ok(arguments) = call.arguments_value() else {
                return danger("its arguments cannot be read".into());
            };
            match matcher.paths(&arguments) {
                Paths::Inside => Classification::normal(),
                Paths::Outside(path) => danger(format!("{path:?} lies outside of what is allowed")),
                Paths::Unknown => danger("it is not known which paths it touches".into()),
            }
        };
        self.rate(tool, Arc::new(rate))
    }

    /// A person decides about the calls of this tool for which this is true. It is asked once a call, and about a call with
    /// blank arguments it is not asked: a person is.
    #[must_use]
    pub fn ask_if(
        self,
        tool: impl Into<String>,
        is_feared: impl Fn(&ToolCall, &ToolDefinition) -> bool + Send + Sync + 'static,
    ) -> Self {
        let rate = move |call: &ToolCall, tool: &ToolDefinition| match call.arguments.trim().is_empty() {
            true => Classification::of(Tier::Dangerous, "its arguments are empty"),
            false if is_feared(call, tool) => Classification::of(Tier::Sensitive, needs(call)),
            false => Classification::normal(),
        };
        self.rate(tool, Arc::new(rate))
    }

    /// Calls of this tool are what this classifier says.
    #[must_use]
    pub fn classified(self, tool: impl Into<String>, classifier: impl Classifier) -> Self {
        self.rate(tool, Arc::new(move |call, tool| classifier.classify(call, tool)))
    }

    /// Calls of all other tools are what this classifier says.
    #[must_use]
    pub fn otherwise(mut self, classifier: impl Classifier) -> Self {
        self.otherwise = Arc::new(move |call, tool| classifier.classify(call, tool));
        self
    }

    /// Looks at every call after its policy. It may make a call's tier higher; a lower one counts for nothing: a guard denies
    /// or escalates, and never approves.
    #[must_use]
    pub fn guard(mut self, guard: impl Classifier) -> Self {
        self.guards.push(Arc::new(move |call, tool| guard.classify(call, tool)));
        self
    }

    /// Keeps the rules for all sessions that people make here. By default in memory, for as long as this gate lives.
    #[must_use]
    pub fn rules(mut self, rules: Rules) -> Self {
        self.rules = rules;
        self
    }

    /// A question that nobody answers for so long counts as denied. Never, by default.
    #[must_use]
    pub fn expires_after(mut self, time: Duration) -> Self {
        self.expires_after = Some(time);
        self
    }

    /// What a call is: one value, from which everything else is made.
    pub fn classify(&self, call: &ToolCall, tool: &ToolDefinition) -> Classification {
        let rate = self.tools.get(&call.name).unwrap_or(&self.otherwise);
        let rated = rate(call, tool);
        self.guards.iter().fold(rated, |rated, guard| {
            let guarded = guard(call, tool);
            if guarded.tier > rated.tier { guarded } else { rated }
        })
    }
}

fn needs(call: &ToolCall) -> String {
    format!("{:?} needs approval", call.name)
}

impl Gate for Policies {
    async fn decide(
        &self,
        ctx: &TurnContext,
        call: &ToolCall,
        tool: &ToolDefinition,
    ) -> Result<GateDecision, Exit> {
        let Classification { tier, reason } = self.classify(call, tool);
        Ok(match tier {
            Tier::Normal => GateDecision::Allow,
            Tier::Hardline => GateDecision::Deny { reason },
            Tier::Sensitive | Tier::Dangerous if self.rules.allow(tool) => GateDecision::Allow,
            Tier::Sensitive | Tier::Dangerous => {
                let now = ctx.sources().clock.now();
                // A time beyond the end of time is never.
                let expires_at = self.expires_after.and_then(|time| now.checked_add(time).ok());
                GateDecision::Ask { reason, expires_at }
            }
        })
    }

    fn granted(&self, _: &SessionId, request: &ApprovalRequest, decision: &Decision) {
        if decision.remember == Some(Remember::Always) {
            self.rules.add(Rule::of(request, decision));
        }
    }
}

impl std::fmt::Debug for Policies {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut tools: Vec<_> = self.tools.keys().collect();
        tools.sort();
        f.debug_struct("Policies")
            .field("tools", &tools)
            .field("guards", &self.guards.len())
            .finish_non_exhaustive()
    }
}
