//! The head of an exchange: everything but the body.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{Read, Write},
    path::Path,
};

use serde::{Deserialize, Serialize, Serializer, ser::Error as _};
use serde_json::{Value, value::RawValue};
use tempfile::NamedTempFile;
use turnwright_core::{ErrorInfo, ErrorKind, Timestamp};

use crate::{limits::Limit, transport::root_cause};

/// The form of the files. A reader refuses what is newer.
pub(crate) const VERSION: u32 = 1;

/// A longer head is not read: 64 MiB.
const MAX_HEAD_BYTES: u64 = 64 * 1024 * 1024;

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Head {
    #[serde(rename = "turnwright_recording")]
    pub(crate) version: u32,
    pub(crate) format: String,
    pub(crate) provider: String,
    pub(crate) model: String,
    /// When the request went out.
    pub(crate) at: Timestamp,
    /// The body of the request, without secrets.
    pub(crate) request: Value,
    /// None where no answer began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) answer: Option<Answer>,
    pub(crate) ending: Ending,
    /// Milliseconds from the request to the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ended_ms: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    /// Those that say what the body is or when to ask again.
    pub(crate) headers: BTreeMap<String, String>,
    /// Milliseconds from the request to the head of the answer.
    pub(crate) after_ms: u64,
    /// How many bytes the body has.
    pub(crate) bytes: u64,
    /// How many secrets in the body were written over.
    pub(crate) masked: u64,
    /// How the body came: milliseconds from the request, and bytes.
    #[serde(serialize_with = "on_one_line")]
    pub(crate) pieces: Vec<(u64, u64)>,
}

/// How an exchange ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
pub(crate) enum Ending {
    /// It did not come to an end that could be written: it goes on, the process was killed, or writing failed.
    Unfinished,
    /// The body ended.
    End,
    /// The answer was over, or enough of a refusal was read, before the body ended.
    Enough,
    /// Only the end mark was missing, and it did not come in time.
    Drained,
    /// The connection broke in the body.
    Broken { cause: String },
    /// The caller stopped reading.
    Dropped,
    /// A time limit was reached.
    Limit { kind: ErrorKind, seconds: f64 },
    /// There was no answer, or none of a model.
    NoAnswer { error: ErrorInfo },
}

impl Ending {
    pub(crate) fn broken(error: &reqwest::Error) -> Self {
        Self::Broken { cause: root_cause(error) }
    }
}

impl From<Limit> for Ending {
    fn from(limit: Limit) -> Self {
        match limit {
            Limit::Failure(kind, after) => Self::Limit { kind, seconds: after.as_secs_f64() },
            Limit::Drained => Self::Drained,
        }
    }
}

impl Head {
    /// As it is written: for people to read.
    pub(crate) fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        let mut bytes = serde_json::to_vec_pretty(self)?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Writes it beside its place, for the caller to move there.
    pub(crate) fn write_beside(&self, directory: &Path) -> std::io::Result<NamedTempFile> {
        let mut file =
            tempfile::Builder::new().prefix(".turnwright-").suffix(".tmp").tempfile_in(directory)?;
        file.write_all(&self.to_bytes()?)?;
        Ok(file)
    }

    /// Reads one; none where the file is something else.
    pub(crate) fn read(path: &Path) -> Result<Option<Self>, ErrorInfo> {
        let unreadable = |why: &dyn std::fmt::Display| {
            let message = format!("the recording {} cannot be read: {why}", path.display());
            ErrorInfo::new(ErrorKind::Corrupt, message)
        };
        let mut bytes = Vec::new();
        let file = File::open(path).map_err(|e| unreadable(&e))?;
        file.take(MAX_HEAD_BYTES + 1).read_to_end(&mut bytes).map_err(|e| unreadable(&e))?;
        if bytes.len() as u64 > MAX_HEAD_BYTES {
            return Err(unreadable(&"its head is longer than 64 MiB"));
        }
        #[derive(Deserialize)]
        struct Mark {
            turnwright_recording: u32,
        }
        let Ok(mark) = serde_json::from_slice::<Mark>(&bytes) else { return Ok(None) };
        if mark.turnwright_recording > VERSION {
            let message = format!(
                "the recording {} is of version {}, and this program reads up to {VERSION}",
                path.display(),
                mark.turnwright_recording
            );
            return Err(ErrorInfo::new(ErrorKind::UnsupportedVersion, message));
        }
        serde_json::from_slice(&bytes).map(Some).map_err(|e| unreadable(&e))
    }
}

fn on_one_line<S: Serializer>(pieces: &[(u64, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    let line = serde_json::to_string(pieces).and_then(RawValue::from_string);
    line.map_err(S::Error::custom)?.serialize(serializer)
}
