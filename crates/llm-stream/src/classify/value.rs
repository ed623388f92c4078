//! Reads the JSON of an error without building more of it than an error can need.

use std::{cell::Cell, fmt};

use serde::{
    Deserializer,
    de::{DeserializeSeed, IgnoredAny, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Value};

/// So many values are built; further items of lists and objects are skipped. A body of megabytes of empty lists would
/// cost ten times its size otherwise.
const MAX_VALUES: usize = 10_000;

/// The value of a whole JSON text.
pub(super) fn read(bytes: &[u8]) -> serde_json::Result<Value> {
    let budget = Cell::new(MAX_VALUES);
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = Seed(&budget).deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(value)
}

struct Seed<'b>(&'b Cell<usize>);

impl Seed<'_> {
    /// Whether one more value may be built.
    fn spend(&self) -> bool {
        let left = self.0.get();
        self.0.set(left.saturating_sub(1));
        left > 0
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Value;
    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Value;
    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }
    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }
    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while self.spend() {
            match seq.next_element_seed(Seed(self.0))? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Value::Array(items))
    }
    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while self.spend() {
            match map.next_key::<String>()? {
                Some(key) => {
                    let value = map.next_value_seed(Seed(self.0))?;
                    fields.insert(key, value);
                }
                None => return Ok(Value::Object(fields)),
            }
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_whole_unless_it_is_huge() {
        for json in ["null", "true", "-7", "7", "1.5", r#""é""#, r#"{"a":[1,{"b":[]}],"c":{}}"#] {
            assert_eq!(read(json.as_bytes()).unwrap(), serde_json::from_str::<Value>(json).unwrap());
        }
        for wrong in ["", "{", "{} x", "[1", "[\"\u{0}\"]"] {
            assert!(read(wrong.as_bytes()).is_err(), "{wrong}");
        }
        let huge = format!(r#"{{"error":{{"message":"M"}},"x":[{}[]]}}"#, "[],".repeat(100_000));
        let value = read(huge.as_bytes()).unwrap();
        assert_eq!(value["error"]["message"], "M");
        assert!(value["x"].as_array().unwrap().len() < MAX_VALUES);
    }
}
