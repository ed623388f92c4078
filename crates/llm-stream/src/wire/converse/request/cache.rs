//! Marks of what the server shall remember: all that stands before them.

use serde::Serialize;

use crate::CacheHint;

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "type", rename = "default")]
pub(super) struct CachePoint {
    /// The format's default is five minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl CachePoint {
    pub(super) fn of(hint: CacheHint) -> Option<Self> {
        match hint {
            CacheHint::Off => None,
            CacheHint::Minutes => Some(Self { ttl: None }),
            CacheHint::Hour => Some(Self { ttl: Some("1h") }),
        }
    }
}
