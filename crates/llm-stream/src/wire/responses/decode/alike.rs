//! Deltas that are like an earlier one are not parsed again; see [`crate::wire::template`].

use turnwright_core::ErrorInfo;

use super::{
    super::{
        event::Event,
        items::{Kind, Labels},
    },
    State,
};
use crate::{
    StreamItem,
    wire::template::{Template, inside},
};

/// What a delta is of.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Delta {
    #[default]
    Text,
    Refusal,
    Thought,
    Arguments(Kind),
}

impl Delta {
    /// By the kind of its event.
    pub(super) fn of(kind: &str) -> Option<Self> {
        Some(match kind {
            "response.output_text.delta" => Self::Text,
            "response.refusal.delta" => Self::Refusal,
            "response.reasoning_text.delta"
            | "response.reasoning_summary_text.delta"
            | "response.reasoning.delta"
            | "response.reasoning_summary.delta" => Self::Thought,
            "response.function_call_arguments.delta" => Self::Arguments(Kind::Function),
            "response.custom_tool_call_input.delta" => Self::Arguments(Kind::Custom),
            _ => return None,
        })
    }
}

/// How the last delta looked, and of what it was.
#[derive(Debug, Default)]
pub(super) struct Alike {
    template: Template,
    delta: Delta,
    id: String,
    index: Option<u64>,
    part: Option<u64>,
}

impl Alike {
    /// Learns from an event whose own JSON says that it holds this delta.
    pub(super) fn learn(&mut self, json: &str, event: &Event<'_>, delta: Delta, labels: Labels<'_>) {
        if let (Some(_), Some(text)) = (event.kind, event.delta.and_then(inside)) {
            self.template.learn(json, text);
            self.delta = delta;
            self.id.clear();
            self.id.push_str(labels.id);
            (self.index, self.part) = (labels.index, event.content_index.0);
        }
    }
}

impl State {
    /// Takes an event that is like the last one but for its string, if it is.
    pub(super) fn like_before(
        &mut self,
        json: &str,
        out: &mut Vec<StreamItem>,
    ) -> Option<Result<(), ErrorInfo>> {
        let text = self.alike.template.string(json)?;
        let id = std::mem::take(&mut self.alike.id);
        let labels = Labels { id: &id, index: self.alike.index };
        let result = self.delta(self.alike.delta, labels, self.alike.part, text, out);
        self.alike.id = id;
        Some(result)
    }
}
