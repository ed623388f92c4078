//! The form of an answer.

mod close;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The form that the text of an answer must have: JSON of this schema. Formats differ in how far they hold a model to
/// it, and an answer that was refused or cut has another form, so read it with care; typed answers of the runtime do.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// What it is called: 1 to 64 characters of `a-z A-Z 0-9 _ -`. Some providers show it to the model.
    pub name: String,
    /// A JSON schema of type `object`.
    pub schema: Value,
    /// Whether the provider holds the model to the schema, where the format has a word for it. Such a schema must be
    /// closed, see [`OutputSchema::closed`]; providers refuse another.
    pub strict: bool,
    /// Has the runtime ask for it by a tool, see [`crate::AnswerTool`], whatever the client's format can do: for servers
    /// that copy a format and not this part of it, and for such as refuse it beside tools. Serializers do not read
    /// it; the `…_output_way` of a format does.
    pub by_tool: bool,
}

impl OutputSchema {
    /// This schema, as it is, and not strict. Other characters than the allowed ones become `_` in the name.
    pub fn new(name: &str, schema: Value) -> Self {
        Self { name: legal_name(name), schema, strict: false, by_tool: false }
    }

    /// The schema in the form that every provider can hold a model to, and strict: objects allow no other property than
    /// their own and demand each of them, `oneOf` becomes `anyOf`, `const` an `enum` of one, and bounds and formats that
    /// some providers refuse become words in the description. What follows from such a schema fits the schema given,
    /// but for those bounds.
    ///
    /// Not every schema has such a form: objects of any property (maps), values of any type, tuples, objects with
    /// alternatives beside their own properties (a flattened enum) and what holds itself have none. Those give
    /// [`OutputSchema::new`].
    pub fn closed(name: &str, schema: Value) -> Self {
        match close::close(&schema) {
            Some(closed) => Self { strict: true, ..Self::new(name, closed) },
            None => Self::new(name, schema),
        }
    }
}

fn legal_name(name: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    let name: String = name.chars().take(64).map(legal).collect();
    if name.is_empty() { "answer".into() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_legal() {
        let of = |name| OutputSchema::new(name, Value::Null).name;
        assert_eq!(of("Vec<app::Ä 1-b>"), "Vec_app____1-b_");
        assert_eq!((of(""), of(&"é".repeat(99))), ("answer".into(), "_".repeat(64)));
    }
}
