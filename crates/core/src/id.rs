//! Ids: UUID v7 for what the runtime names, strings for what its users and models name.

use std::{cmp::Ordering, fmt, hash, marker::PhantomData, str::FromStr, sync::Arc};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use uuid::Uuid;

/// What an [`Id`] names. The marker types live in [`kind`].
pub trait Kind: 'static {
    /// The word used in error messages, for example `turn`.
    const NAME: &'static str;
}

/// Markers that keep ids of different things apart.
pub mod kind {
    use super::Kind;

    /// A turn: one user message worked through to an answer.
    #[derive(Debug)]
    pub enum Turn {}
    /// An agent run: one call of an agent by a caller.
    #[derive(Debug)]
    pub enum Run {}
    /// A message in history.
    #[derive(Debug)]
    pub enum Message {}
    /// A control command.
    #[derive(Debug)]
    pub enum Command {}
    /// An approval transaction.
    #[derive(Debug)]
    pub enum Approval {}

    impl Kind for Turn {
        const NAME: &'static str = "turn";
    }
    impl Kind for Run {
        const NAME: &'static str = "run";
    }
    impl Kind for Message {
        const NAME: &'static str = "message";
    }
    impl Kind for Command {
        const NAME: &'static str = "command";
    }
    impl Kind for Approval {
        const NAME: &'static str = "approval";
    }
}

/// A UUID (v7 when made by [`crate::Sources::id`]) that names one kind of thing.
pub struct Id<K> {
    uuid: Uuid,
    kind: PhantomData<fn() -> K>,
}

/// Names a turn.
pub type TurnId = Id<kind::Turn>;
/// Names an agent run.
pub type RunId = Id<kind::Run>;
/// Names a message; given once, before the message is first stored.
pub type MessageId = Id<kind::Message>;
/// Names a control command.
pub type CommandId = Id<kind::Command>;
/// Names an approval transaction.
pub type ApprovalId = Id<kind::Approval>;

impl<K> Id<K> {
    /// Wraps a UUID. Prefer [`crate::Sources::id`], which draws from the injected sources.
    pub const fn from_uuid(uuid: Uuid) -> Self {
        Self { uuid, kind: PhantomData }
    }

    /// The UUID behind the id.
    pub const fn uuid(&self) -> Uuid {
        self.uuid
    }
}

impl<K> Clone for Id<K> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<K> Copy for Id<K> {}
impl<K> PartialEq for Id<K> {
    fn eq(&self, other: &Self) -> bool {
        self.uuid == other.uuid
    }
}
impl<K> Eq for Id<K> {}
impl<K> PartialOrd for Id<K> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl<K> Ord for Id<K> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.uuid.cmp(&other.uuid)
    }
}
impl<K> hash::Hash for Id<K> {
    fn hash<H: hash::Hasher>(&self, state: &mut H) {
        self.uuid.hash(state);
    }
}
impl<K> fmt::Display for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uuid.fmt(f)
    }
}
impl<K> fmt::Debug for Id<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uuid.fmt(f)
    }
}
impl<K: Kind> FromStr for Id<K> {
    type Err = InvalidId;
    fn from_str(s: &str) -> Result<Self, InvalidId> {
        Uuid::parse_str(s).map(Self::from_uuid).map_err(|e| InvalidId {
            what: K::NAME,
            given: shorten(s),
            why: e.to_string(),
        })
    }
}
impl<K> Serialize for Id<K> {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        self.uuid.serialize(s)
    }
}
impl<'de, K> Deserialize<'de> for Id<K> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        Uuid::deserialize(d).map(Self::from_uuid)
    }
}

/// An id that could not be read: what it should have named, what was given, and why it is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} id {given:?}: {why}")]
pub struct InvalidId {
    /// The kind of thing the id should name.
    pub what: &'static str,
    /// The text that was given, shortened to 64 characters.
    pub given: String,
    /// Why it is refused.
    pub why: String,
}

fn shorten(s: &str) -> String {
    s.chars().take(64).collect()
}

/// Names a session. Chosen by the embedder or drawn from the id source; one canonical spelling:
/// 1 to 128 characters out of `A–Z a–z 0–9 . _ : @ -`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct SessionId(Arc<str>);

impl SessionId {
    /// The longest session id, in bytes.
    pub const MAX_LEN: usize = 128;

    /// Reads a session id.
    ///
    /// # Errors
    /// [`InvalidId`] when the text is empty, longer than [`Self::MAX_LEN`], or holds a character
    /// outside the allowed set.
    pub fn new(id: impl AsRef<str>) -> Result<Self, InvalidId> {
        let id = id.as_ref();
        let refuse = |why: String| Err(InvalidId { what: "session", given: shorten(id), why });
        if id.is_empty() {
            return refuse("it is empty".into());
        }
        if id.len() > Self::MAX_LEN {
            return refuse(format!("it is longer than {} bytes", Self::MAX_LEN));
        }
        match id.chars().find(|c| !(c.is_ascii_alphanumeric() || "._:@-".contains(*c))) {
            Some(c) => refuse(format!("the character {c:?} is not allowed")),
            None => Ok(Self(id.into())),
        }
    }

    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<Uuid> for SessionId {
    fn from(uuid: Uuid) -> Self {
        Self(uuid.to_string().into())
    }
}
impl FromStr for SessionId {
    type Err = InvalidId;
    fn from_str(s: &str) -> Result<Self, InvalidId> {
        Self::new(s)
    }
}
impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl<'de> Deserialize<'de> for SessionId {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let s = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        Self::new(&s).map_err(de::Error::custom)
    }
}

/// Names a tool call. Given by the provider (made unique within a turn by the decoder) or minted.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CallId(Arc<str>);

impl CallId {
    /// The id as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl From<&str> for CallId {
    fn from(s: &str) -> Self {
        Self(s.into())
    }
}
impl From<String> for CallId {
    fn from(s: String) -> Self {
        Self(s.into())
    }
}
impl fmt::Display for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
impl fmt::Debug for CallId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_has_one_canonical_spelling() {
        assert_eq!(SessionId::new("user-1@web:eu").unwrap().as_str(), "user-1@web:eu");
        for bad in ["", " a", "a/b", "ü", &"x".repeat(129)] {
            let e = SessionId::new(bad).unwrap_err();
            assert_eq!(e.what, "session", "{bad:?}");
        }
        assert!(serde_json::from_str::<SessionId>(r#""a b""#).is_err());
    }

    #[test]
    fn an_unreadable_id_says_what_it_should_name() {
        let e = "nope".parse::<TurnId>().unwrap_err();
        assert!(e.to_string().starts_with("invalid turn id \"nope\": "), "{e}");
    }
}
