//! The document: what ATIF knows, and no more. Its readers refuse fields they do not know; what is ours stands in `extra`.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use turnwright_core::TokenUsage;

/// The version of the format that is written. Readers of later ones read it.
const VERSION: &str = "ATIF-v1.7";

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Document {
    pub(super) schema_version: String,
    pub(super) session_id: String,
    pub(super) trajectory_id: String,
    pub(super) agent: Actor,
    pub(super) steps: Vec<Step>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) notes: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) final_metrics: Option<FinalMetrics>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) extra: Map<String, Value>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Actor {
    pub(super) name: String,
    pub(super) version: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model_name: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_definitions: Vec<Value>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Source {
    System,
    #[default]
    User,
    Agent,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    pub(super) step_id: usize,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) timestamp: Option<String>,
    pub(super) source: Source,
    pub(super) message: Content,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) model_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) reasoning_content: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) tool_calls: Vec<Call>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) observation: Option<Observation>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) metrics: Option<Metrics>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) is_copied_context: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) llm_call_count: Option<u32>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) extra: Map<String, Value>,
}

/// A text, or texts with images between them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Parts(Vec<ContentPart>),
}

impl Default for Content {
    fn default() -> Self {
        Self::Text(String::new())
    }
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case", deny_unknown_fields)]
pub(super) enum ContentPart {
    Text { text: String },
    Image { source: ImageSource },
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ImageSource {
    pub(super) media_type: String,
    pub(super) path: String,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) tool_call_id: String,
    pub(super) function_name: String,
    pub(super) arguments: Map<String, Value>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) extra: Map<String, Value>,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Observation {
    pub(super) results: Vec<Observed>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Observed {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) source_call_id: Option<String>,
    pub(super) content: Content,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) subagent_trajectory_ref: Vec<Subagent>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) extra: Map<String, Value>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Subagent {
    pub(super) trajectory_path: String,
    pub(super) session_id: String,
}

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Metrics {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) prompt_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) completion_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) cached_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) extra: Map<String, Value>,
}

impl From<TokenUsage> for Metrics {
    fn from(usage: TokenUsage) -> Self {
        let more = [
            ("cache_creation_tokens", usage.cache_creation_input_tokens),
            ("reasoning_tokens", usage.reasoning_tokens),
        ];
        let mut extra: Map<_, _> =
            more.into_iter().filter_map(|(name, n)| Some((name.to_owned(), n?.into()))).collect();
        if usage.partial {
            extra.insert("partial".into(), true.into());
        }
        Self {
            prompt_tokens: usage.input_tokens,
            completion_tokens: usage.output_tokens,
            cached_tokens: usage.cache_read_input_tokens,
            extra,
        }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FinalMetrics {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    total_prompt_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    total_completion_tokens: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    total_cached_tokens: Option<u64>,
    total_steps: usize,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(super) extra: Map<String, Value>,
}

impl Document {
    pub(super) fn new(session: &str, version: &str) -> Self {
        Self {
            schema_version: VERSION.into(),
            session_id: session.into(),
            trajectory_id: session.into(),
            agent: Actor { version: version.into(), ..Actor::default() },
            steps: Vec::new(),
            notes: None,
            final_metrics: None,
            extra: Map::new(),
        }
    }

    /// As it is written: steps are numbered, and totals are the sums of what the steps say.
    pub(super) fn written(&mut self) -> serde_json::Result<String> {
        for (at, step) in self.steps.iter_mut().enumerate() {
            step.step_id = at + 1;
        }
        let sum = |of: fn(&Metrics) -> Option<u64>| {
            let known = self.steps.iter().filter_map(|step| of(step.metrics.as_ref()?));
            known.reduce(u64::saturating_add)
        };
        let beside = self.final_metrics.take().map(|before| before.extra).unwrap_or_default();
        self.final_metrics = Some(FinalMetrics {
            total_prompt_tokens: sum(|metrics| metrics.prompt_tokens),
            total_completion_tokens: sum(|metrics| metrics.completion_tokens),
            total_cached_tokens: sum(|metrics| metrics.cached_tokens),
            total_steps: self.steps.len(),
            extra: beside,
        });
        Ok(serde_json::to_string_pretty(self)? + "\n")
    }
}
