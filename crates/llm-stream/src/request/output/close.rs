//! Schemas in the form that every provider can hold a model to.

use serde_json::{Map, Value, json};

/// Of a schema that is one for objects. None when it has no such form.
pub(super) fn close(schema: &Value) -> Option<Value> {
    let closed = closed(schema)?;
    // No provider takes alternatives at the root.
    let is_object = closed.get("type").is_some_and(|kind| kind == "object") && closed.get("anyOf").is_none();
    is_object.then_some(closed)
}

fn closed(schema: &Value) -> Option<Value> {
    // `true` is a value of any type.
    let Value::Object(from) = schema else { return None };
    let mut to = Map::new();
    let mut notes = Vec::new();
    for (word, value) in from {
        match (word.as_str(), value) {
            ("type" | "enum" | "description" | "title", value) => {
                to.insert(word.clone(), value.clone());
            }
            ("const", value) => {
                to.insert("enum".into(), json!([value]));
            }
            ("oneOf" | "anyOf", Value::Array(of)) => {
                let of: Option<Vec<_>> = of.iter().map(closed).collect();
                // Of two lists of alternatives both must hold, which one list cannot say.
                if to.insert("anyOf".into(), of?.into()).is_some() {
                    return None;
                }
            }
            ("items", items) => {
                to.insert(word.clone(), closed(items)?);
            }
            ("properties", Value::Object(of)) => {
                let of: Option<Map<_, _>> =
                    of.iter().map(|(name, value)| Some((name.clone(), closed(value)?))).collect();
                to.insert(word.clone(), of?.into());
            }
            // All are required, and there are no others.
            (
                "required" | "$schema" | "default" | "examples" | "deprecated" | "readOnly" | "writeOnly",
                _,
            )
            | ("additionalProperties", Value::Bool(false)) => {}
            // Of the number types of Rust; they tell the model nothing.
            ("format", Value::String(format)) if is_of_rust(format) => {}
            (
                "format" | "pattern" | "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum"
                | "multipleOf" | "minLength" | "maxLength" | "minItems" | "maxItems" | "uniqueItems",
                value,
            ) => notes.push(format!("{word}: {value}")),
            // Maps, tuples, references, `allOf` and whatever else has no closed form.
            _ => return None,
        }
    }
    let is_of = |kind: &str| match from.get("type") {
        Some(Value::String(of)) => of == kind,
        Some(Value::Array(of)) => of.iter().any(|of| of == kind),
        _ => false,
    };
    if is_of("object") {
        // Alternatives that share properties with the object: closed, each of them would forbid what the other demands.
        if to.contains_key("anyOf") {
            return None;
        }
        let properties = to.get("properties").and_then(Value::as_object);
        let names: Vec<Value> =
            properties.into_iter().flat_map(Map::keys).cloned().map(Value::from).collect();
        // An object without properties of its own is one of any property, unless it says no.
        if names.is_empty() && from.get("additionalProperties") != Some(&Value::Bool(false)) {
            return None;
        }
        to.entry("properties").or_insert_with(|| json!({}));
        to.insert("required".into(), names.into());
        to.insert("additionalProperties".into(), false.into());
    }
    if is_of("array") && !to.contains_key("items") {
        return None;
    }
    let says_what = ["type", "enum", "anyOf"].iter().any(|word| to.contains_key(*word));
    if !says_what {
        return None;
    }
    if !notes.is_empty() {
        let said = to.get("description").and_then(Value::as_str).map(|said| format!("{said} "));
        let noted = format!("{}({})", said.unwrap_or_default(), notes.join(", "));
        to.insert("description".into(), noted.into());
    }
    Some(to.into())
}

fn is_of_rust(format: &str) -> bool {
    let number = format.trim_start_matches("uint").trim_start_matches("int");
    matches!(format, "float" | "double" | "uint" | "int")
        || (number.len() < format.len() && number.bytes().all(|b| b.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
