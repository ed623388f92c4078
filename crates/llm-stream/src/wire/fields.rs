//! The top level of a request body.

use serde::{Serialize, ser::SerializeMap};
use serde_json::{Map, Value};

use crate::LlmRequest;

/// Writes the serializer's own fields, but for those that the request replaces.
pub(in crate::wire) struct Fields<'a, M> {
    map: M,
    request: &'a LlmRequest,
    /// The fields that were written together with the request's own of that name.
    merged: Vec<&'static str>,
}

impl<'a, M: SerializeMap> Fields<'a, M> {
    pub(in crate::wire) fn new(map: M, request: &'a LlmRequest) -> Self {
        Self { map, request, merged: Vec::new() }
    }

    pub(in crate::wire) fn put<T: Serialize + ?Sized>(
        &mut self,
        name: &'static str,
        value: &T,
    ) -> Result<(), M::Error> {
        if self.request.extra.contains_key(name) { Ok(()) } else { self.map.serialize_entry(name, value) }
    }

    pub(in crate::wire) fn put_some<T: Serialize>(
        &mut self,
        name: &'static str,
        value: Option<&T>,
    ) -> Result<(), M::Error> {
        value.map_or(Ok(()), |value| self.put(name, value))
    }

    /// Writes an object of the serializer's own fields, and over them those of an object of that name in the request.
    /// Nothing when it is empty.
    pub(in crate::wire) fn put_merged(
        &mut self,
        name: &'static str,
        own: impl IntoIterator<Item = (&'static str, Option<Value>)>,
    ) -> Result<(), M::Error> {
        let own = own.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        let mut fields = Map::from_iter(own);
        match self.request.extra.get(name) {
            Some(Value::Object(extra)) => {
                self.merged.push(name);
                fields.extend(extra.clone());
            }
            Some(_) => return Ok(()),
            None => {}
        }
        if fields.is_empty() { Ok(()) } else { self.map.serialize_entry(name, &fields) }
    }

    /// Ends the body with the fields of the request.
    pub(in crate::wire) fn end(mut self) -> Result<M::Ok, M::Error> {
        let is_left = |name: &String| !self.merged.contains(&name.as_str());
        for (name, value) in self.request.extra.iter().filter(|(name, _)| is_left(name)) {
            self.map.serialize_entry(name, value)?;
        }
        self.map.end()
    }
}
