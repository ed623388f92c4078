//! Lists with a cap: an event of millions of tiny items must not cost a hundred times its size.

use std::{fmt, marker::PhantomData};

use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use turnwright_core::{ErrorInfo, ErrorKind};

/// The most items that the lists of one kind may have in one event. No server comes near it.
pub(in crate::wire) const MAX_LIST_ITEMS: usize = 4096;

/// How the error of a list that is too long begins, by which it is told from others.
const TOO_LONG: &str = "a list has too many items";

/// A list that is not read further once it has too many items.
#[derive(Debug)]
pub(in crate::wire) struct List<T>(pub(in crate::wire) Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visit<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Visit<T> {
            type Value = List<T>;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
                let mut items = Vec::new();
                while let Some(item) = seq.next_element()? {
                    check_items(items.len() + 1)?;
                    items.push(item);
                }
                Ok(List(items))
            }
        }
        deserializer.deserialize_seq(Visit(PhantomData))
    }
}

/// Refuses so many items.
pub(in crate::wire) fn check_items<E: Error>(count: usize) -> Result<(), E> {
    if count <= MAX_LIST_ITEMS { Ok(()) } else { Err(E::custom(TOO_LONG)) }
}

/// Whether the error is that of a list that is too long; then, the error to report.
pub(in crate::wire) fn too_long(error: &serde_json::Error) -> Option<ErrorInfo> {
    (error.is_data() && error.to_string().starts_with(TOO_LONG)).then(too_many)
}

pub(in crate::wire) fn too_many() -> ErrorInfo {
    let message = format!("a list in an event of the stream has more than {MAX_LIST_ITEMS} items");
    ErrorInfo::new(ErrorKind::TooLarge, message)
}

/// The items of a value, each for itself, so that an odd one spoils no other; none when it is no list.
pub(in crate::wire) fn items_of(raw: &RawValue) -> Result<Vec<&RawValue>, ErrorInfo> {
    match serde_json::from_str::<List<&RawValue>>(raw.get()) {
        Ok(list) => Ok(list.0),
        Err(error) => too_long(&error).map_or_else(|| Ok(Vec::new()), Err),
    }
}
