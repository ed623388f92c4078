//! One part of an answer, as it stands in a chunk.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{MapAccess, Visitor},
};
use serde_json::{Map, Value, value::RawValue};

/// A part. Values stay raw until needed.
#[derive(Debug, Default)]
pub(super) struct PartChunk<'a> {
    pub(super) text: Option<&'a RawValue>,
    pub(super) thought: Option<&'a RawValue>,
    pub(super) thought_signature: Option<&'a RawValue>,
    pub(super) function_call: Option<&'a RawValue>,
    pub(super) inline_data: Option<&'a RawValue>,
    pub(super) file_data: Option<&'a RawValue>,
    /// Fields that are not known. Empty in practice, and then no allocation.
    others: Vec<(Cow<'a, str>, &'a RawValue)>,
}

impl PartChunk<'_> {
    /// A part of a kind that is not known, as it came, with its signature; nothing when the part has nothing else.
    pub(super) fn unknown(&self) -> Option<Map<String, Value>> {
        let others = self.others.iter().map(|(name, raw)| (&**name, *raw));
        let mut whole: Map<String, Value> = others.filter_map(field).collect();
        whole.extend(self.thought.and_then(|raw| field(("thought", raw))));
        if whole.values().all(Value::is_null) {
            return None;
        }
        whole.extend(self.thought_signature.and_then(|raw| field(("thoughtSignature", raw))));
        Some(whole)
    }
}

fn field((name, raw): (&str, &RawValue)) -> Option<(String, Value)> {
    Some((name.to_owned(), serde_json::from_str(raw.get()).ok()?))
}

impl<'de: 'a, 'a> Deserialize<'de> for PartChunk<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = PartChunk<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a part")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut part = PartChunk::default();
                while let Some(Name(name)) = map.next_key()? {
                    let slot = match &*name {
                        "text" => &mut part.text,
                        "thought" => &mut part.thought,
                        "thoughtSignature" => &mut part.thought_signature,
                        "functionCall" => &mut part.function_call,
                        "inlineData" => &mut part.inline_data,
                        "fileData" => &mut part.file_data,
                        _ => {
                            part.others.push((name, map.next_value()?));
                            continue;
                        }
                    };
                    *slot = map.next_value()?;
                }
                Ok(part)
            }
        }
        deserializer.deserialize_map(Visit)
    }
}

/// The name of a field, borrowed where it has no escapes.
struct Name<'a>(Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Name<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Name<'de>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }
            fn visit_borrowed_str<E>(self, name: &'de str) -> Result<Self::Value, E> {
                Ok(Name(name.into()))
            }
            fn visit_str<E>(self, name: &str) -> Result<Self::Value, E> {
                Ok(Name(name.to_owned().into()))
            }
        }
        deserializer.deserialize_str(Visit)
    }
}
