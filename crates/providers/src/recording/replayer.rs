//! Answering from recordings.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use reqwest::Response;
use serde_json::Value;
use turnwright_core::{Clock, ErrorInfo, ErrorKind};
use turnwright_llm_stream::classify::Secrets;

use super::{
    Asked, Cut,
    differ::difference,
    head::Head,
    play::play,
    recorder::{body_path, head_path, number_of},
    request::{self, Digest, canonical},
};

/// So many recordings of one directory are used; more is refused.
const MAX_RECORDINGS: usize = 100_000;

/// Among so many recordings the nearest one is looked for when none fits.
const MAX_COMPARED: usize = 100;

/// Answers from what a [`crate::Recorder`] wrote: no network, no key. Cheap to clone; clones use up the same recordings.
///
/// A request is answered by the recording of an equal one: same format, model and body. Of several equal ones each is
/// used once, in their order; so calls that ran at once may come in any order. Where none is left the call fails, with
/// words that say where the nearest one differs. Answers come as fast as they are read unless
/// [`Replayer::recorded_timing`] says otherwise. A call that failed fails in the same way; one whose caller stopped
/// reading ends there, as truncated.
///
/// What a run sends must not depend on its time: a tool that tells the time gives another answer on another day, and
/// then the next request is another one.
#[derive(Clone)]
pub struct Replayer {
    shared: Arc<Shared>,
    is_timed: bool,
}

struct Shared {
    directory: PathBuf,
    entries: Vec<Entry>,
    used: Mutex<Vec<bool>>,
}

struct Entry {
    number: u64,
    format: String,
    digest: Digest,
}

impl Replayer {
    /// Reads the heads of all recordings in this directory.
    ///
    /// # Errors
    /// [`ErrorKind::Configuration`] when it cannot be read or has no recording; [`ErrorKind::Corrupt`] and
    /// [`ErrorKind::UnsupportedVersion`] when one of them cannot be read.
    pub fn open(directory: impl Into<PathBuf>) -> Result<Self, ErrorInfo> {
        let directory = directory.into();
        let entries = entries(&directory)?;
        let used = Mutex::new(vec![false; entries.len()]);
        Ok(Self { shared: Arc::new(Shared { directory, entries, used }), is_timed: false })
    }

    /// Answers as slowly as they were recorded, by the clock of the turn's runtime: under a paused clock nothing waits.
    #[must_use]
    pub fn recorded_timing(mut self) -> Self {
        self.is_timed = true;
        self
    }

    /// Where it reads.
    pub fn directory(&self) -> &Path {
        &self.shared.directory
    }

    /// The heads of the recordings that answered nothing so far. A test that ends with some asked less than it once did.
    pub fn unused(&self) -> Vec<PathBuf> {
        let used = self.shared.used.lock();
        let unused = self.shared.entries.iter().zip(&*used).filter(|(_, used)| !**used);
        unused.map(|(entry, _)| head_path(self.directory(), entry.number)).collect()
    }

    pub(crate) fn check_format(&self, format: &str) -> Result<(), ErrorInfo> {
        let entries = &self.shared.entries;
        if entries.iter().any(|entry| entry.format == format) {
            return Ok(());
        }
        let mut formats: Vec<&str> = entries.iter().map(|entry| &*entry.format).collect();
        formats.sort_unstable();
        formats.dedup();
        let (directory, formats) = (self.directory().display(), formats.join(", "));
        let message = format!("{directory} was recorded in another format: {formats}, and this is {format}");
        Err(ErrorInfo::new(ErrorKind::Configuration, message))
    }

    /// The recorded answer to this request.
    pub(crate) async fn answer(
        &self,
        asked: &Asked,
        secrets: &Secrets,
        body: &[u8],
        clock: &dyn Clock,
    ) -> Result<Response, Cut> {
        let begun = self.is_timed.then(|| clock.instant());
        let head = self.take(asked, &request::kept(body, secrets));
        let (number, head) = head.map_err(Cut::Failure)?;
        play(head, &body_path(self.directory(), number), begun).await
    }

    fn take(&self, asked: &Asked, body: &Value) -> Result<(u64, Head), ErrorInfo> {
        let digest = request::digest(asked.format, &asked.model, body);
        let fits = |entry: &Entry| entry.digest == digest;
        let number = {
            let mut used = self.shared.used.lock();
            let entry =
                self.shared.entries.iter().zip(&mut *used).find(|(entry, used)| !**used && fits(entry));
            entry.map(|(entry, used)| {
                *used = true;
                entry.number
            })
        };
        match number {
            Some(number) => Ok((number, self.read(number)?)),
            None => Err(self.nothing(asked, body, self.shared.entries.iter().filter(|e| fits(e)).count())),
        }
    }

    fn read(&self, number: u64) -> Result<Head, ErrorInfo> {
        let path = head_path(self.directory(), number);
        Head::read(&path)?.ok_or_else(|| {
            ErrorInfo::new(ErrorKind::Corrupt, format!("{} is no recording any more", path.display()))
        })
    }

    /// Nothing that is left answers this request: why.
    fn nothing(&self, asked: &Asked, body: &Value, equal: usize) -> ErrorInfo {
        let directory = self.directory().display();
        let why = if equal > 0 {
            format!("an equal request was recorded {equal} times, and all were used")
        } else {
            match self.nearest(asked, body) {
                Some((number, head)) if head.format != asked.format => {
                    format!(
                        "what is left was recorded in another format, {number:04}.json in {}",
                        head.format
                    )
                }
                Some((number, head)) if head.model != asked.model => {
                    format!(
                        "what is left asked another model, {number:04}.json {}, not {}",
                        head.model, asked.model
                    )
                }
                Some((number, head)) => {
                    let difference = difference(&head.request, body);
                    let difference = difference.unwrap_or_else(|| "in nothing that can be named".into());
                    format!("the nearest one, {number:04}.json, differs at {difference}")
                }
                None => "all of them were used".into(),
            }
        };
        ErrorInfo::new(
            ErrorKind::Configuration,
            format!("no recording in {directory} answers this request: {why}"),
        )
    }

    /// The recording that is not used and has most in common with this request.
    fn nearest(&self, asked: &Asked, body: &Value) -> Option<(u64, Head)> {
        let unused: Vec<u64> = {
            let used = self.shared.used.lock();
            let unused = self.shared.entries.iter().zip(&*used).filter(|(_, used)| !**used);
            unused.map(|(entry, _)| entry.number).take(MAX_COMPARED).collect()
        };
        let mut ours = String::new();
        canonical(body, &mut ours);
        let heads = unused.into_iter().filter_map(|number| Some((number, self.read(number).ok()?)));
        let scored = heads.map(|(number, head)| {
            let mut theirs = String::new();
            canonical(&head.request, &mut theirs);
            let common = theirs.bytes().zip(ours.bytes()).take_while(|(a, b)| a == b).count();
            let score = (head.format == asked.format, head.model == asked.model, common);
            (score, number, head)
        });
        // Of equally near ones the first.
        let best = scored.reduce(|best, next| if next.0 > best.0 { next } else { best });
        best.map(|(_, number, head)| (number, head))
    }
}

impl fmt::Debug for Replayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replayer").field("directory", &self.shared.directory).finish_non_exhaustive()
    }
}

/// The heads in a directory, in their order.
fn entries(directory: &Path) -> Result<Vec<Entry>, ErrorInfo> {
    let configuration = |what: &dyn fmt::Display| {
        let message = format!("{} cannot be replayed: {what}", directory.display());
        ErrorInfo::new(ErrorKind::Configuration, message)
    };
    let mut numbers = Vec::new();
    for file in fs::read_dir(directory).map_err(|e| configuration(&e))? {
        let path = file.map_err(|e| configuration(&e))?.path();
        let number = number_of(&path).filter(|_| path.extension().is_some_and(|ext| ext == "json"));
        numbers.extend(number.map(|number| (number, path)));
    }
    numbers.sort();
    if numbers.len() > MAX_RECORDINGS {
        return Err(configuration(&format_args!("it has more than {MAX_RECORDINGS} recordings")));
    }
    let mut entries = Vec::new();
    for (number, path) in numbers {
        if let Some(Head { format, model, request, .. }) = Head::read(&path)? {
            entries.push(Entry { number, digest: request::digest(&format, &model, &request), format });
        }
    }
    match entries.is_empty() {
        true => Err(configuration(&"it has no recording")),
        false => Ok(entries),
    }
}
