//! Arguments that come in pieces, each with the path of the place it belongs to.

use serde_json::{Map, Value};
use turnwright_core::{ErrorInfo, ErrorKind};

use super::chunk::PartialArg;
use crate::wire::text::{nonempty, text_of};

/// How deep arguments may be nested. The JSON library reads no deeper than 128.
const MAX_DEPTH: usize = 100;

/// What a value costs beside its text.
const VALUE_BYTES: usize = 64;

/// The arguments so far.
#[derive(Debug)]
pub(super) struct Arguments(Value);

impl Arguments {
    /// Arguments that start with these.
    pub(super) fn new(start: Map<String, Value>) -> Self {
        Self(Value::Object(start))
    }

    /// Takes a piece. Returns about how many bytes it costs.
    pub(super) fn take(&mut self, piece: &PartialArg<'_>) -> Result<usize, ErrorInfo> {
        let path = nonempty(piece.json_path).ok_or_else(wrong_path)?;
        let mut cost = 0;
        let slot = slot(&mut self.0, &path, &mut cost).ok_or_else(wrong_path)?;
        match (piece.string_value.and_then(text_of), slot) {
            (Some(text), Value::String(known)) => {
                known.push_str(&text);
                cost += text.len();
            }
            (Some(text), slot) => {
                cost += text.len();
                *slot = text.into_owned().into();
            }
            (None, slot) => {
                if let Some(raw) = piece.number_value.or(piece.bool_value) {
                    *slot = serde_json::from_str(raw.get()).map_err(|_| wrong_path())?;
                    cost += raw.get().len();
                } else if piece.null_value.is_some() {
                    *slot = Value::Null;
                }
            }
        }
        Ok(cost)
    }

    /// As JSON.
    pub(super) fn into_json(self) -> String {
        self.0.to_string()
    }
}

/// The place at a path such as `$.list[0].name` or `$['a.b']`, made where it is missing; nothing when the path is wrong
/// or does not fit what is there.
fn slot<'v>(root: &'v mut Value, path: &str, cost: &mut usize) -> Option<&'v mut Value> {
    let mut rest = path.strip_prefix('$')?;
    let mut at = root;
    for _ in 0..MAX_DEPTH {
        if rest.is_empty() {
            return Some(at);
        }
        let (step, after) = step(rest)?;
        rest = after;
        at = match step {
            Step::Key(key) => {
                if at.is_null() {
                    *at = Value::Object(Map::new());
                }
                let object = at.as_object_mut()?;
                if !object.contains_key(&key) {
                    *cost += VALUE_BYTES + key.len();
                }
                object.entry(key).or_insert(Value::Null)
            }
            Step::Index(index) => {
                if at.is_null() {
                    *at = Value::Array(Vec::new());
                }
                let list = at.as_array_mut()?;
                // Lists grow by one: else a short path could ask for all memory there is.
                if index == list.len() {
                    *cost += VALUE_BYTES;
                    list.push(Value::Null);
                }
                list.get_mut(index)?
            }
        };
    }
    None
}

enum Step {
    Key(String),
    Index(usize),
}

/// The first step of a path, and what follows it.
fn step(path: &str) -> Option<(Step, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let (key, rest) = rest.split_at(rest.find(['.', '[']).unwrap_or(rest.len()));
        return (!key.is_empty()).then(|| (Step::Key(key.to_owned()), rest));
    }
    let rest = path.strip_prefix('[')?;
    let Some(quote) = rest.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
        let (index, rest) = rest.split_once(']')?;
        return Some((Step::Index(index.parse().ok()?), rest));
    };
    let (key, rest) = quoted(&rest[1..], quote)?;
    Some((Step::Key(key), rest.strip_prefix(']')?))
}

/// A key up to its closing quote, and what follows that.
fn quoted(text: &str, quote: char) -> Option<(String, &str)> {
    let (mut key, mut escaped) = (String::new(), false);
    for (at, c) in text.char_indices() {
        match c {
            _ if std::mem::take(&mut escaped) => key.push(c),
            '\\' => escaped = true,
            c if c == quote => return Some((key, &text[at + 1..])),
            c => key.push(c),
        }
    }
    None
}

fn wrong_path() -> ErrorInfo {
    let message = "a piece of a tool call's arguments belongs to no place in them";
    ErrorInfo::new(ErrorKind::Protocol, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn take(pieces: &[Value]) -> Result<Value, ErrorKind> {
        let mut arguments = Arguments::new(Map::new());
        for piece in pieces {
            let json = piece.to_string();
            arguments.take(&serde_json::from_str(&json).unwrap()).map_err(|e| e.kind)?;
        }
        Ok(serde_json::from_str(&arguments.into_json()).unwrap())
    }

    fn piece(path: &str, field: &str, value: &Value) -> Value {
        json!({ "jsonPath": path, field: value })
    }

    #[test]
    fn values_land_at_their_paths_and_strings_grow() {
        let arguments = take(&[
            piece("$.a", "stringValue", &json!("B\u{e9}")),
            piece("$.list[0].n", "numberValue", &json!(1.5)),
            piece("$.list[1]['x.y']", "boolValue", &json!(true)),
            piece("$.list[1][\"it\\\"s\"]", "nullValue", &json!("NULL_VALUE")),
            piece("$.a", "stringValue", &json!("c")),
            piece("$.a", "stringValue", &json!("")),
            piece("$.list[0].m[0][0]", "numberValue", &json!(2)),
        ]);
        let list = json!([{ "n": 1.5, "m": [[2]] }, { "x.y": true, "it\"s": null }]);
        assert_eq!(arguments, Ok(json!({ "a": "B\u{e9}c", "list": list })));
    }

    #[test]
    fn paths_that_lead_nowhere_are_errors_and_cost_no_memory() {
        for path in
            ["", "a", "$a", "$.", "$[", "$[x]", "$['a", "$['a'", "$.l[1]", "$.l[999999999999]", "$[0]"]
        {
            let wrong = piece(path, "stringValue", &json!("x"));
            assert_eq!(take(&[wrong]), Err(ErrorKind::Protocol), "{path}");
        }
        let deep = piece(&format!("$.a{}", "[0]".repeat(100)), "numberValue", &json!(1));
        assert_eq!(take(&[deep]), Err(ErrorKind::Protocol));
        let clash = ["$.a", "$.a.b"].map(|path| piece(path, "stringValue", &json!("x")));
        assert_eq!(take(&clash), Err(ErrorKind::Protocol));
    }
}
