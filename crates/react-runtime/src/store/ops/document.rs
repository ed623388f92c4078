//! A session as a document.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};
use turnwright_core::{Message, SessionId, Sources};

use super::{SessionOpError, at_rest, check, create, moved};
use crate::{snapshot::TurnSnapshot, store::SessionStore};

/// The version that [`export`] writes. A field more, at whatever depth, is another version: an older program would lose it.
const VERSION: u32 = 1;

#[derive(Serialize)]
struct Export {
    turnwright_session: u32,
    session: SessionId,
    messages: Vec<Arc<Message>>,
    /// In its own form, with version and checksum.
    turn: Option<String>,
    checksum: String,
}

#[derive(Deserialize)]
struct Head {
    turnwright_session: u32,
}

/// The fields, not read yet: each is named when it cannot be.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    turnwright_session: u32,
    #[serde(borrow)]
    session: &'a RawValue,
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
    #[serde(borrow)]
    turn: &'a RawValue,
    checksum: String,
}

impl Export {
    fn read(document: &str) -> Result<Self, SessionOpError> {
        let Head { turnwright_session: version } = read("the document", document)?;
        match version {
            0 => return Err(malformed("turnwright_session", "there never was a version 0")),
            VERSION => {}
            found => return Err(SessionOpError::Newer { found, known: VERSION }),
        }
        let fields: Fields<'_> = read("the document", document)?;
        let message = |(number, message): (usize, &&RawValue)| {
            read::<Message>(&format!("messages[{number}]"), message.get()).map(Arc::new)
        };
        let export = Self {
            turnwright_session: fields.turnwright_session,
            session: read("session", fields.session.get())?,
            messages: fields.messages.iter().enumerate().map(message).collect::<Result<_, _>>()?,
            turn: read("turn", fields.turn.get())?,
            checksum: fields.checksum,
        };
        match export.sum()? == export.checksum {
            true => Ok(export),
            false => Err(SessionOpError::Checksum),
        }
    }

    /// Of everything but itself, in a spelling of our own: how the document is laid out does not matter.
    fn sum(&self) -> Result<String, SessionOpError> {
        let all = serde_json::to_vec(&(&self.turnwright_session, &self.session, &self.messages, &self.turn))
            .map_err(|e| malformed("the document", e))?;
        Ok(Sha256::digest(all).iter().map(|byte| format!("{byte:02x}")).collect())
    }

    /// The open turn; it belongs to this session and its messages.
    fn turn(&self) -> Result<Option<TurnSnapshot>, SessionOpError> {
        let turn = self.turn.as_deref().map(TurnSnapshot::decode).transpose()?;
        if let Some(turn) = &turn {
            if turn.session != self.session {
                return Err(malformed(
                    "turn.session",
                    format!("it is {}, not {}", turn.session, self.session),
                ));
            }
            if turn.turn_start > self.messages.len() {
                return Err(malformed("turn.turn_start", "it lies behind the last message"));
            }
            if turn.running {
                return Err(malformed("turn.running", "a leg runs, or was cut off"));
            }
        }
        Ok(turn)
    }
}

fn malformed(field: &str, why: impl std::fmt::Display) -> SessionOpError {
    SessionOpError::Malformed { field: field.into(), why: why.to_string() }
}

fn read<'a, T: Deserialize<'a>>(field: &str, text: &'a str) -> Result<T, SessionOpError> {
    serde_json::from_str(text).map_err(|e| malformed(field, e))
}

/// A session at rest as one JSON document, with version and checksum: messages and open turn. Events and commands are not
/// in it.
///
/// # Errors
/// [`SessionOpError`].
///
/// # Cancel safety
/// Safe: it changes nothing.
pub async fn export(store: &dyn SessionStore, session: &SessionId) -> Result<String, SessionOpError> {
    let stored = at_rest(store, session).await?;
    let mut export = Export {
        turnwright_session: VERSION,
        session: session.clone(),
        messages: stored.messages,
        turn: stored.snapshot.map(|snapshot| snapshot.encode()).transpose()?,
        checksum: String::new(),
    };
    export.checksum = export.sum()?;
    serde_json::to_string(&export).map_err(|e| malformed("the document", e))
}

/// Stores what [`export`] wrote, under its own id or another one, and gives that id. Under another one it is a fork, see
/// [`super::fork`]. How the document is laid out does not matter; a field that is not known does.
///
/// # Errors
/// [`SessionOpError`]; nothing was stored. A session that is there already is not touched.
///
/// # Cancel safety
/// Dropped before it is ready, the session is there wholly or not at all.
pub async fn import(
    store: &dyn SessionStore,
    sources: &Sources,
    document: &str,
    to: Option<SessionId>,
) -> Result<SessionId, SessionOpError> {
    let export = Export::read(document)?;
    let turn = export.turn()?;
    check(&export.messages, turn.as_ref())?;
    let session = to.unwrap_or_else(|| export.session.clone());
    let turn = match session == export.session {
        true => turn,
        false => turn.map(|turn| moved(turn, &session, sources)),
    };
    create(store, sources, session.clone(), export.messages, turn).await?;
    Ok(session)
}
