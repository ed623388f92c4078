//! Marks of what the server shall remember: all up to and with the thing that is marked.

use serde::Serialize;

use super::block::Block;
use crate::CacheHint;

#[derive(Debug, Clone, Copy, Serialize)]
#[serde(tag = "type", rename = "ephemeral")]
pub(super) struct CacheMark {
    /// The format's default is five minutes.
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<&'static str>,
}

impl CacheMark {
    pub(super) fn of(hint: CacheHint) -> Option<Self> {
        match hint {
            CacheHint::Off => None,
            CacheHint::Minutes => Some(Self { ttl: None }),
            CacheHint::Hour => Some(Self { ttl: Some("1h") }),
        }
    }
}

/// A block, and its mark if it has one.
#[derive(Serialize)]
pub(super) struct Marked<'a> {
    #[serde(flatten)]
    pub(super) block: &'a Block<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cache_control: Option<CacheMark>,
}
