//! Reasoning: its text under three names, and the details that must come back unchanged.

use serde::Deserialize;
use serde_json::{Map, Value, value::RawValue};
use turnwright_core::{ErrorInfo, Message, Part, Reasoning};

use super::chunk::Delta;
use crate::{
    LlmEvent, ReasoningDelta, StreamItem,
    wire::{
        count::Count,
        list::items_of,
        text::{nonempty, text_of},
    },
};

/// Under which key opaque details travel in [`ReasoningDelta::opaque`], and back in a request.
pub(super) const DETAILS: &str = "reasoning_details";

/// Under which key it is marked, with the model that was asked, that reasoning came as `reasoning_content`.
pub(super) const CONTENT: &str = "reasoning_content";

#[derive(Debug, Deserialize)]
struct Detail<'a> {
    #[serde(borrow, default, rename = "type")]
    kind: Option<&'a RawValue>,
    #[serde(default)]
    index: Count,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
    #[serde(borrow, default)]
    signature: Option<&'a RawValue>,
    #[serde(borrow, default)]
    data: Option<&'a RawValue>,
}

impl Detail<'_> {
    fn words(&self) -> Option<String> {
        nonempty(self.text).or_else(|| nonempty(self.summary)).map(Into::into)
    }
}

/// Puts reasoning deltas together to blocks, each with its details.
#[derive(Debug, Default)]
pub(super) struct Blocks {
    open: Option<OpenBlock>,
    /// Text came as `reasoning_content`, and nothing after it.
    content: bool,
    /// The model that was asked.
    asked: String,
}

/// A block of text whose signature may still come.
#[derive(Debug)]
struct OpenBlock {
    index: Count,
    kind: String,
    /// The detail as it came, but for its text: that is in the deltas.
    fields: Map<String, Value>,
}

impl Blocks {
    /// No blocks yet, of an answer that this model was asked for.
    pub(super) fn new(asked: &str) -> Self {
        Self { asked: asked.into(), ..Self::default() }
    }

    /// Emits the reasoning in a delta. The same words often stand under two names at once; one of them is taken.
    /// Returns how many details there are.
    pub(super) fn delta(&mut self, delta: &Delta<'_>, out: &mut Vec<StreamItem>) -> Result<usize, ErrorInfo> {
        let details = match delta.reasoning_details {
            Some(raw) => items_of(raw)?,
            None => Vec::new(),
        };
        let count = details.len();
        let details: Vec<(Detail<'_>, &RawValue)> = details
            .into_iter()
            .filter_map(|raw| Some((serde_json::from_str(raw.get()).ok()?, raw)))
            .collect();
        if details.iter().all(|(detail, _)| detail.words().is_none()) {
            let content = nonempty(delta.reasoning_content);
            self.content |= content.is_some();
            if let Some(text) = content.or_else(|| nonempty(delta.reasoning)) {
                out.push(LlmEvent::reasoning(text).into());
            }
        }
        for (detail, raw) in &details {
            self.detail(detail, raw, out);
        }
        Ok(count)
    }

    /// Whether a block is open whose details are not emitted yet.
    pub(super) fn is_open(&self) -> bool {
        self.open.is_some() || self.content
    }

    /// Ends the open block, since no signature comes for it any more: its id and format go back all the same.
    pub(super) fn seal(&mut self) -> Option<StreamItem> {
        if let Some(entry) = self.close() {
            return Some(sealed(String::new(), [entry]));
        }
        std::mem::take(&mut self.content).then(|| {
            let opaque = Map::from_iter([(CONTENT.to_owned(), self.asked.as_str().into())]);
            LlmEvent::ReasoningDelta(ReasoningDelta { text: String::new(), opaque: Some(Box::new(opaque)) })
                .into()
        })
    }

    fn detail(&mut self, detail: &Detail<'_>, raw: &RawValue, out: &mut Vec<StreamItem>) {
        let kind = detail.kind.and_then(text_of).unwrap_or_default();
        let is_text = nonempty(detail.data).is_none()
            && (matches!(&*kind, "reasoning.text" | "reasoning.summary")
                || detail.text.is_some()
                || detail.summary.is_some());
        if !is_text {
            // Nothing to read in it: kept whole, with the text before it, which it may vouch for.
            let entries = self.close().into_iter().chain([object(raw)]);
            out.push(sealed(String::new(), entries));
            return;
        }
        let differs = |open: &OpenBlock| open.index != detail.index || open.kind != kind;
        if self.open.as_ref().is_some_and(differs) {
            let entry = self.close();
            out.push(sealed(String::new(), entry));
        }
        let is_signed = nonempty(detail.signature).is_some();
        if self.open.is_none() || is_signed {
            let mut fields = object(raw);
            fields.remove("text");
            fields.remove("summary");
            match &mut self.open {
                Some(open) => open.fields.extend(fields),
                None => self.open = Some(OpenBlock { index: detail.index, kind: kind.into_owned(), fields }),
            }
        }
        let text = detail.words();
        if is_signed {
            let entry = self.close();
            out.push(sealed(text.unwrap_or_default(), entry));
        } else if let Some(text) = text {
            out.push(LlmEvent::reasoning(text).into());
        }
    }

    fn close(&mut self) -> Option<Map<String, Value>> {
        let open = self.open.take()?;
        // The details say it all.
        self.content = false;
        Some(open.fields)
    }
}

fn object(raw: &RawValue) -> Map<String, Value> {
    serde_json::from_str(raw.get()).unwrap_or_default()
}

/// The delta that ends a block and carries its details.
fn sealed(text: String, entries: impl IntoIterator<Item = Map<String, Value>>) -> StreamItem {
    let entries = entries.into_iter().map(Value::Object).collect();
    let opaque = Map::from_iter([(DETAILS.to_owned(), Value::Array(entries))]);
    LlmEvent::ReasoningDelta(ReasoningDelta { text, opaque: Some(Box::new(opaque)) }).into()
}

/// The reasoning of an answer as it goes back to a server that gave it as `reasoning_content`: to the model that was asked
/// for it, and no other, since many servers refuse the field.
pub(super) fn content_of(message: &Message, model: &str) -> Option<String> {
    let blocks = || {
        message.parts.iter().filter_map(|part| match part {
            Part::Reasoning(block) => Some(block),
            _ => None,
        })
    };
    let is_its = |block: &Reasoning| block.opaque.get(CONTENT).is_some_and(|asked| asked == model);
    blocks().any(is_its).then(|| blocks().map(|block| block.text.as_str()).collect())
}

/// The details of a block as they go back: the entry that lost its text gets it again.
pub(super) fn details_of(text: &str, opaque: &Map<String, Value>) -> Vec<Value> {
    let Some(Value::Array(entries)) = opaque.get(DETAILS) else { return Vec::new() };
    let mut entries = entries.clone();
    for entry in &mut entries {
        let Value::Object(fields) = entry else { continue };
        let field = match fields.get("type").and_then(Value::as_str) {
            Some("reasoning.text") => "text",
            Some("reasoning.summary") => "summary",
            _ => continue,
        };
        fields.entry(field).or_insert_with(|| text.into());
        break;
    }
    entries
}
