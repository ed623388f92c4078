//! Counts that servers write in many ways.

use std::fmt;

use serde::{
    Deserialize, Deserializer,
    de::{IgnoredAny, MapAccess, SeqAccess, Visitor},
};

/// A count, from whatever stands in its place, also as text: anything but a number that is not negative is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::wire) struct Count(pub(in crate::wire) Option<u64>);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit;
        impl<'de> Visitor<'de> for Visit {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a count")
            }
            fn visit_u64<E>(self, n: u64) -> Result<Count, E> {
                Ok(Count(Some(n)))
            }
            fn visit_i64<E>(self, n: i64) -> Result<Count, E> {
                Ok(Count(u64::try_from(n).ok()))
            }
            fn visit_f64<E>(self, n: f64) -> Result<Count, E> {
                // Counts are far below the 2^53 up to which this is exact.
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked before")]
                let count = (0.0..9.0e15).contains(&n).then_some(n as u64);
                Ok(Count(count))
            }
            fn visit_bool<E>(self, _: bool) -> Result<Count, E> {
                Ok(Count(None))
            }
            fn visit_str<E>(self, text: &str) -> Result<Count, E> {
                Ok(Count(text.parse().ok()))
            }
            fn visit_unit<E>(self) -> Result<Count, E> {
                Ok(Count(None))
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Count, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Count(None))
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Count, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Count(None))
            }
        }
        deserializer.deserialize_any(Visit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_read_from_a_number_in_any_spelling_and_from_nothing_else() {
        for (json, count) in [
            ("7", Some(7)),
            ("7.0", Some(7)),
            ("\"7\"", Some(7)),
            ("18446744073709551615", Some(u64::MAX)),
            ("-7", None),
            ("\"-7\"", None),
            ("\"x\"", None),
            ("\"\"", None),
            ("1e30", None),
            ("null", None),
            ("true", None),
            ("[7]", None),
            ("{\"a\":7}", None),
        ] {
            assert_eq!(serde_json::from_str::<Count>(json).unwrap(), Count(count), "{json}");
        }
    }
}
