//! The form of a type: its schema, and how its values are read out of a text.

use std::ops::Range;

use schemars::{JsonSchema, generate::SchemaSettings};
use serde::de::{DeserializeOwned, IgnoredAny};
use serde_json::{Map, Value, json, value::RawValue};
use turnwright_llm_stream::OutputSchema;

/// What holds a value whose type is no object: providers take objects only.
const WRAPPER: &str = "answer";
/// The same, for a type that has that word itself: it must be clear which of the two a model left out.
const OTHER_WRAPPER: &str = "final_value";
/// The longest complaint of the parser that is repeated: it may quote the answer.
const MAX_FAULT_CHARS: usize = 500;

/// How values of a type look.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) output: OutputSchema,
    wrapper: Option<&'static str>,
}

impl Form {
    pub(super) fn of<T: JsonSchema>() -> Self {
        let settings = SchemaSettings::draft2020_12().with(|s| {
            s.inline_subschemas = true;
            s.meta_schema = None;
        });
        let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
        let is_object = schema.get("type").is_some_and(|kind| kind == "object")
            && schema.get("oneOf").is_none()
            && schema.get("anyOf").is_none();
        let is_taken = !is_object && schema.to_string().contains(&format!("\"{WRAPPER}\""));
        let wrapper = (!is_object).then_some(if is_taken { OTHER_WRAPPER } else { WRAPPER });
        if let Some(wrapper) = wrapper {
            schema = wrapped(schema, wrapper);
        }
        Self { output: OutputSchema::closed(&T::schema_name(), schema), wrapper }
    }

    /// Reads a value out of an answer: JSON, alone, in a fence, or with words round it. Of several the last that fits.
    pub(super) fn read<T: DeserializeOwned>(&self, text: &str) -> Result<T, String> {
        let mut fault = None;
        for candidate in candidates(text) {
            match self.read_json(candidate) {
                Ok(value) => return Ok(value),
                // What is wrong with the likeliest one is told.
                Err(e) => _ = fault.get_or_insert(e),
            }
        }
        let fault = fault.map_or_else(|| "it holds no JSON".into(), |e| e.to_string());
        Err(fault.chars().take(MAX_FAULT_CHARS).collect())
    }

    fn read_json<T: DeserializeOwned>(&self, json: &str) -> Result<T, serde_json::Error> {
        if let Some(wrapper) = self.wrapper
            && let Ok(object) = serde_json::from_str::<Map<String, Value>>(json)
            && object.contains_key(wrapper)
        {
            // Read again and not out of the map, for its numbers and for the place of a fault.
            let inner: std::collections::BTreeMap<String, Box<RawValue>> = serde_json::from_str(json)?;
            return serde_json::from_str(inner.get(wrapper).map_or("null", |value| value.get()));
        }
        serde_json::from_str(json)
    }
}

fn wrapped(mut schema: Value, wrapper: &str) -> Value {
    let definitions = schema.as_object_mut().and_then(|schema| schema.remove("$defs"));
    let mut object = json!({ "type": "object", "properties": {}, "required": [wrapper] });
    redirect(&mut schema, wrapper);
    object["properties"][wrapper] = schema;
    if let Some(definitions) = definitions {
        object["$defs"] = definitions;
    }
    object
}

/// The root of a schema that refers to itself is no longer the root.
fn redirect(schema: &mut Value, wrapper: &str) {
    match schema {
        Value::Object(words) => {
            for (word, value) in words {
                if word == "$ref" && value == "#" {
                    *value = format!("#/properties/{wrapper}").into();
                } else {
                    redirect(value, wrapper);
                }
            }
        }
        Value::Array(of) => of.iter_mut().for_each(|value| redirect(value, wrapper)),
        _ => {}
    }
}

/// What of a text may be the answer, the likeliest first.
fn candidates(text: &str) -> Vec<&str> {
    let text = text.trim();
    let values = values(text);
    // What is JSON, or means to be, is the answer, good or bad: a part of it would be another one.
    let is_broken = begins_as_json(text) && values.first().is_none_or(|first| first.start > 0);
    if is_broken || serde_json::from_str::<IgnoredAny>(text).is_ok() {
        return vec![text];
    }
    let last_line = text.rfind('\n').map(|at| &text[at + 1..]).filter(|line| line.starts_with('"'));
    let among_words = values.into_iter().rev().map(|at| &text[at]);
    [fenced(text), last_line].into_iter().flatten().chain(among_words).chain([text]).collect()
}

/// Whether a text begins as an object or an array does, and not with words in brackets.
fn begins_as_json(text: &str) -> bool {
    let mut chars = text.chars().filter(|c| !c.is_whitespace());
    match (chars.next(), chars.next()) {
        (Some('{'), next) => matches!(next, None | Some('"' | '\'' | '}')),
        (Some('['), next) => matches!(next, None | Some('{' | '[' | '"' | '\'' | ']' | '-' | '0'..='9')),
        _ => false,
    }
}

/// Where the objects and arrays of a text are that stand in no other one. Linear: what was read is not read again.
fn values(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(skipped) = text.as_bytes()[at..].iter().position(|byte| matches!(byte, b'{' | b'[')) {
        let start = at + skipped;
        let rest = &text[start..];
        let mut json = serde_json::Deserializer::from_str(rest).into_iter::<IgnoredAny>();
        match json.next() {
            Some(Ok(_)) => {
                at = start + json.byte_offset();
                found.push(start..at);
            }
            // It goes on to the end of the text: so nothing stands behind it.
            Some(Err(e)) if e.is_eof() => break,
            // Words in brackets, or a broken value: what was read of it holds no other one.
            Some(Err(e)) => at = start + place(rest, &e).max(1),
            None => break,
        }
    }
    found
}

/// Where in the text a fault is, or shortly before.
fn place(text: &str, fault: &serde_json::Error) -> usize {
    let newlines = text.match_indices('\n').map(|(at, _)| at + 1);
    let line = std::iter::once(0).chain(newlines).nth(fault.line().saturating_sub(1)).unwrap_or(0);
    (line + fault.column().saturating_sub(1)).min(text.len())
}

/// The inside of the last fence.
fn fenced(text: &str) -> Option<&str> {
    let end = text.rfind("```")?;
    let start = text[..end].rfind("```")? + 3;
    let inside = &text[start..end];
    // The language stands on the line of the fence.
    let (first, rest) = inside.split_once('\n').unwrap_or(("", inside));
    let is_language = first.trim().chars().all(|c| c.is_ascii_alphanumeric());
    Some(if is_language { rest } else { inside }.trim())
}

#[cfg(test)]
mod tests;
