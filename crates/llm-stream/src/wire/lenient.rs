//! Objects and lists read where they stand. To keep such a value raw and read it afterwards costs a second look at each
//! of its bytes, and an allocation where it is nested.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor, value::MapAccessDeserializer},
};

use super::list::check_items;

/// An object; nothing where a value of another kind stands.
#[derive(Debug, Clone, Copy)]
pub(in crate::wire) struct Object<T>(pub(in crate::wire) Option<T>);

/// The items of a list, which has a cap; none where a value of another kind stands.
#[derive(Debug)]
pub(in crate::wire) struct Items<T>(pub(in crate::wire) Vec<T>);

impl<T> Default for Object<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T> Default for Items<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ObjectVisitor(PhantomData))
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Items<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ItemsVisitor(PhantomData))
    }
}

struct ObjectVisitor<T>(PhantomData<T>);
struct ItemsVisitor<T>(PhantomData<T>);

/// Values that are neither.
macro_rules! scalars {
    ($nothing:expr) => {
        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok($nothing)
        }
        fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
            Ok($nothing)
        }
        fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
            Ok($nothing)
        }
        fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
            Ok($nothing)
        }
        fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
            Ok($nothing)
        }
        fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
            Ok($nothing)
        }
    };
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(|value| Object(Some(value)))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Object(None))
    }

    scalars!(Object(None));
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for ItemsVisitor<T> {
    type Value = Items<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Items(Vec::new()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element()? {
            check_items(items.len() + 1)?;
            items.push(item);
        }
        Ok(Items(items))
    }

    scalars!(Items(Vec::new()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Inner {
        #[serde(default)]
        a: Option<u8>,
    }

    #[derive(Debug, Deserialize)]
    struct Outer {
        #[serde(default)]
        object: Object<Inner>,
        #[serde(default)]
        items: Items<Object<Inner>>,
    }

    #[test]
    fn what_is_of_another_kind_is_nothing_and_spoils_nothing() {
        let read = |json: &str| {
            let outer: Outer = serde_json::from_str(json).unwrap();
            let items = outer.items.0.iter().map(|item| item.0.as_ref().and_then(|inner| inner.a));
            (outer.object.0.and_then(|inner| inner.a), items.collect::<Vec<_>>())
        };
        assert_eq!(
            read(r#"{"object":{"a":1,"b":[{}]},"items":[{"a":2},{}]}"#),
            (Some(1), vec![Some(2), None])
        );
        assert_eq!(read("{}"), (None, vec![]));
        for other in ["null", "true", "1", "-1", "1.5", "\"x\\n\"", "[[{}]]", "[{\"a\":1}]"] {
            let json = format!(r#"{{"object":{other},"items":[{other},{{"a":3}}]}}"#);
            assert_eq!(read(&json), (None, vec![None, Some(3)]), "{other}");
        }
        for other in ["null", "true", "1", "\"x\"", "{\"a\":[1]}"] {
            assert_eq!(
                read(&format!(r#"{{"items":{other},"object":{{"a":1}}}}"#)),
                (Some(1), vec![]),
                "{other}"
            );
        }
    }
}
