//! How a snapshot is written down, and read by later programs.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use sha2::{Digest, Sha256};

use super::TurnSnapshot;
use crate::store::StoreError;

/// Why a snapshot cannot be read. There is no default for what is missing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// It was written by a newer program.
    #[error("the snapshot has version {found}, this program reads up to {known}")]
    Newer {
        /// Its version.
        found: u32,
        /// The newest one this program knows.
        known: u32,
    },
    /// It is not what was written.
    #[error("the checksum of the snapshot is {found}, not {expected} as was written")]
    Checksum {
        /// The checksum that was written beside it.
        expected: String,
        /// That of what is there.
        found: String,
    },
    /// It is no snapshot of its version; the words name the field.
    #[error("the snapshot of version {version} cannot be read: {why}")]
    Malformed {
        /// Its version; 0 when even that cannot be read.
        version: u32,
        /// Why.
        why: String,
    },
}

impl SnapshotError {
    /// The same as an error of a store that keeps it there.
    pub fn into_store_error(self, what: String) -> StoreError {
        match self {
            Self::Newer { found, known } => StoreError::Newer { what, found, known },
            other => StoreError::Corrupt { what, why: other.to_string() },
        }
    }
}

#[derive(Serialize, Deserialize)]
struct Form<'a> {
    schema: u32,
    checksum: String,
    #[serde(borrow)]
    snapshot: &'a RawValue,
}

#[derive(Deserialize)]
struct Head {
    schema: u32,
}

type Step = fn(&mut Value) -> Result<(), String>;

/// One step a version: the first makes version 2 of version 1.
const STEPS: [Step; 1] = [two_of_one];

impl TurnSnapshot {
    /// As JSON, with version and checksum.
    ///
    /// # Errors
    /// [`SnapshotError::Malformed`] for a snapshot of another version than [`TurnSnapshot::SCHEMA`], or one that JSON
    /// cannot hold.
    pub fn encode(&self) -> Result<String, SnapshotError> {
        let malformed = |why: String| SnapshotError::Malformed { version: self.schema, why };
        if self.schema != Self::SCHEMA {
            return Err(malformed(format!("this program writes version {} only", Self::SCHEMA)));
        }
        let text = serde_json::to_string(self).map_err(|e| malformed(e.to_string()))?;
        let snapshot = serde_json::from_str(&text).map_err(|e| malformed(e.to_string()))?;
        let form = Form { schema: self.schema, checksum: checksum(&text), snapshot };
        serde_json::to_string(&form).map_err(|e| malformed(e.to_string()))
    }

    /// Reads what [`TurnSnapshot::encode`] of this program or an older one wrote.
    ///
    /// # Errors
    /// [`SnapshotError`].
    pub fn decode(text: &str) -> Result<Self, SnapshotError> {
        let malformed = |version: u32| move |why: String| SnapshotError::Malformed { version, why };
        let Head { schema } = serde_json::from_str(text).map_err(|e| malformed(0)(e.to_string()))?;
        if schema > Self::SCHEMA {
            return Err(SnapshotError::Newer { found: schema, known: Self::SCHEMA });
        }
        // Version 1 had neither envelope nor checksum.
        let body = match schema {
            0 => return Err(malformed(0)("there never was a version 0".into())),
            1 => text,
            _ => {
                let form: Form<'_> =
                    serde_json::from_str(text).map_err(|e| malformed(schema)(e.to_string()))?;
                let (expected, found) = (form.checksum, checksum(form.snapshot.get()));
                if expected != found {
                    return Err(SnapshotError::Checksum { expected, found });
                }
                form.snapshot.get()
            }
        };
        // As it was written: state is raw JSON, and what is read into values and written again is not the same to the byte.
        if schema == Self::SCHEMA {
            return serde_json::from_str(body).map_err(|e| malformed(schema)(e.to_string()));
        }
        let mut value: Value = serde_json::from_str(body).map_err(|e| malformed(schema)(e.to_string()))?;
        for step in STEPS.iter().skip(schema as usize - 1) {
            step(&mut value).map_err(malformed(schema))?;
        }
        serde_json::from_value(value).map_err(|e| malformed(schema)(e.to_string()))
    }
}

fn checksum(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Calls may be in doubt from version 2 on; before, a leg that was cut off could not be resumed.
fn two_of_one(snapshot: &mut Value) -> Result<(), String> {
    let fields = snapshot.as_object_mut().ok_or("it is no object")?;
    fields.insert("schema".into(), 2.into());
    let calls = fields.get_mut("batch").and_then(|batch| batch.get_mut("calls"));
    for call in calls.and_then(Value::as_array_mut).into_iter().flatten() {
        let call = call.as_object_mut().ok_or("a call of the batch is no object")?;
        call.insert("in_doubt".into(), false.into());
    }
    Ok(())
}
