//! Writing exchanges down.

use std::{
    ffi::OsStr,
    fmt, fs,
    io::{self, ErrorKind as IoError},
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use turnwright_core::{Clock, ErrorInfo, ErrorKind};
use turnwright_llm_stream::classify::Secrets;

use super::{
    Asked,
    head::{Ending, Head, VERSION},
    request,
    tape::Tape,
};

/// Writes every exchange of the clients it is given to into a directory, for [`crate::Replayer`], for `turnwright
/// decode` and for people. Cheap to clone; clones write into the same directory.
///
/// Nothing is overwritten: where there are recordings already, numbers go on. Keys and secret headers are in no file;
/// where a request or an answer repeats one, asterisks stand in its place, as many as it has bytes. A key that a model
/// spells out in pieces is not known as one. A body is kept up to 256 MiB.
///
/// Files are written while the stream is polled. What cannot be written breaks no turn: it is logged, and
/// [`Recorder::failure`] has it.
///
/// Use it in a test by hand, once, against a real provider, and keep the directory beside the test.
#[derive(Clone)]
pub struct Recorder(Arc<Shared>);

struct Shared {
    directory: PathBuf,
    state: Mutex<State>,
}

struct State {
    next: u64,
    failure: Option<ErrorInfo>,
}

impl Recorder {
    /// Records into this directory, which is made if it is not there.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when nothing can be written there.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, ErrorInfo> {
        let directory = directory.into();
        let next = prepare(&directory).map_err(|e| {
            let message = format!("{} cannot be recorded into: {e}", directory.display());
            ErrorInfo::new(ErrorKind::Configuration, message)
        })?;
        Ok(Self(Arc::new(Shared { directory, state: Mutex::new(State { next, failure: None }) })))
    }

    /// Where it records.
    pub fn directory(&self) -> &Path {
        &self.0.directory
    }

    /// The first failure to write, if there was one: an exchange is missing or not whole.
    pub fn failure(&self) -> Option<ErrorInfo> {
        self.0.state.lock().failure.clone()
    }

    /// Begins an exchange: from now on its head is there.
    pub(crate) fn begin(
        &self,
        asked: &Asked,
        provider: &str,
        secrets: &Secrets,
        body: &[u8],
        clock: &Arc<dyn Clock>,
    ) -> Tape {
        let head = Head {
            version: VERSION,
            format: asked.format.into(),
            provider: provider.into(),
            model: asked.model.clone(),
            at: clock.now(),
            request: request::kept(body, secrets),
            answer: None,
            ending: Ending::Unfinished,
            ended_ms: None,
        };
        match self.reserve(&head) {
            Ok(number) => Tape::new(self.clone(), number, head, secrets.clone(), clock.clone()),
            Err(e) => {
                self.failed(&format!("an exchange is not recorded in {}: {e}", self.directory().display()));
                Tape::default()
            }
        }
    }

    /// Puts a head under the next free number.
    fn reserve(&self, head: &Head) -> io::Result<u64> {
        let mut file = head.write_beside(self.directory())?;
        let mut state = self.0.state.lock();
        loop {
            let number = state.next;
            state.next += 1;
            match file.persist_noclobber(head_path(self.directory(), number)) {
                Ok(_) => return Ok(number),
                // Somebody else records into the same directory.
                Err(e) if e.error.kind() == IoError::AlreadyExists => file = e.file,
                Err(e) => return Err(e.error),
            }
        }
    }

    /// Takes a failure down.
    pub(crate) fn failed(&self, message: &str) {
        tracing::warn!("{message}");
        let error = || ErrorInfo::new(ErrorKind::Store, message);
        self.0.state.lock().failure.get_or_insert_with(error);
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("directory", &self.0.directory).finish_non_exhaustive()
    }
}

/// Makes the directory, tries to write there, and finds the first free number.
fn prepare(directory: &Path) -> io::Result<u64> {
    fs::create_dir_all(directory)?;
    tempfile::Builder::new().prefix(".turnwright-").suffix(".tmp").tempfile_in(directory)?;
    let mut last = 0;
    for entry in fs::read_dir(directory)? {
        last = last.max(number_of(&entry?.path()).unwrap_or(0));
    }
    Ok(last + 1)
}

/// The number a file of an exchange has.
pub(crate) fn number_of(path: &Path) -> Option<u64> {
    path.extension().filter(|ext| *ext == "json" || *ext == "body")?;
    let stem = path.file_stem().and_then(OsStr::to_str)?;
    let number: u64 = stem.parse().ok()?;
    // There is room for those that come next.
    (number < u64::MAX / 2 && stem == format!("{number:04}")).then_some(number)
}

pub(crate) fn head_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:04}.json"))
}

pub(crate) fn body_path(directory: &Path, number: u64) -> PathBuf {
    directory.join(format!("{number:04}.body"))
}
