//! The top level of a request body.

use serde::{Serialize, ser::SerializeMap};

use crate::LlmRequest;

/// Writes the serializer's own fields, but for those that the request replaces.
pub(in crate::wire) struct Fields<'a, M> {
    map: M,
    request: &'a LlmRequest,
}

impl<'a, M: SerializeMap> Fields<'a, M> {
    pub(in crate::wire) fn new(map: M, request: &'a LlmRequest) -> Self {
        Self { map, request }
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

    /// Ends the body with the fields of the request.
    pub(in crate::wire) fn end(mut self) -> Result<M::Ok, M::Error> {
        for (name, value) in &self.request.extra {
            self.map.serialize_entry(name, value)?;
        }
        self.map.end()
    }
}
