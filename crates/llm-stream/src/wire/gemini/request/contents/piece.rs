//! The shapes that contents are made of.

use std::borrow::Cow;

use serde::{Serialize, Serializer, ser::SerializeMap};
use serde_json::{Map, Value, value::RawValue};
use turnwright_core::ToolCall;

use crate::wire::history::arguments_of;

/// What one side said.
#[derive(Serialize)]
pub(in super::super) struct Content<'a> {
    pub(super) role: &'static str,
    pub(super) parts: Vec<Piece<'a>>,
}

/// One part.
pub(super) enum Piece<'a> {
    Text { text: Cow<'a, str>, is_thought: bool, signature: Option<&'a str> },
    Call { call: &'a ToolCall, id: Option<&'a str>, signature: Option<&'a str> },
    Response { id: Option<&'a str>, name: &'a str, response: Value },
    Data { media_type: &'a str, data: &'a str },
    Link { media_type: Option<&'a str>, uri: &'a str },
    Whole(&'a Map<String, Value>),
}

impl<'a> Piece<'a> {
    /// Words, if there are any: servers refuse empty parts.
    pub(super) fn text(text: Cow<'a, str>) -> Option<Self> {
        (!text.is_empty()).then(|| Self::words(text))
    }

    pub(super) fn words(text: Cow<'a, str>) -> Self {
        Self::Text { text, is_thought: false, signature: None }
    }
}

#[derive(Serialize)]
struct Call<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    args: &'a RawValue,
}

#[derive(Serialize)]
struct Response<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    name: &'a str,
    response: &'a Value,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    mime_type: &'a str,
    data: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Link<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    mime_type: Option<&'a str>,
    file_uri: &'a str,
}

impl Serialize for Piece<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if let Self::Whole(part) = self {
            return part.serialize(serializer);
        }
        let mut map = serializer.serialize_map(None)?;
        let signature = match *self {
            Self::Text { ref text, is_thought, signature } => {
                map.serialize_entry("text", text)?;
                if is_thought {
                    map.serialize_entry("thought", &true)?;
                }
                signature
            }
            Self::Call { call, id, signature } => {
                let arguments = arguments_of(call);
                let args = serde_json::from_str(&arguments).map_err(serde::ser::Error::custom)?;
                map.serialize_entry("functionCall", &Call { id, name: &call.name, args })?;
                signature
            }
            Self::Response { id, name, ref response } => {
                map.serialize_entry("functionResponse", &Response { id, name, response })?;
                None
            }
            Self::Data { media_type, data } => {
                map.serialize_entry("inlineData", &Data { mime_type: media_type, data })?;
                None
            }
            Self::Link { media_type, uri } => {
                map.serialize_entry("fileData", &Link { mime_type: media_type, file_uri: uri })?;
                None
            }
            Self::Whole(_) => None,
        };
        if let Some(signature) = signature {
            map.serialize_entry("thoughtSignature", signature)?;
        }
        map.end()
    }
}
