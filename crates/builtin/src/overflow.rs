//! Results that are too long for the model, in files.

use std::{
    fs,
    io::{self, Read, Seek, SeekFrom, Write},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use turnwright_core::{BoxFuture, CallId, SessionId, Timestamp, ToolResult, TurnContext};
use turnwright_interceptor::builtin::Overflow;
use turnwright_react_runtime::tool::{Tool, ToolContext, ToolError, tool};

use crate::files::io_blocking;

/// The name of the tool that reads what was kept.
pub const READ_OVERFLOW: &str = "read_overflow";

/// Results a session keeps; the oldest go first.
const OF_SESSION: usize = 500;
/// The longest content that is kept.
const LONGEST: usize = 64 << 20;
/// What a reading gives at most: less than what results are cut to.
const PAGE: u64 = 40_000;

/// Keeps the whole content of results that are cut, a folder a call: `SESSION/CALL/full.txt`, and `meta.json` beside it, which is
/// written last. A folder without it is one whose writing was cut off; it counts for nothing.
///
/// For [`AgentBuilder::tool_result_overflow`](turnwright_react_runtime::AgentBuilder::tool_result_overflow), with
/// [`reader`](OverflowFiles::reader) among the agent's tools. Names are made of ids with all but letters, digits, `.`, `_` and `-`
/// replaced, and a digest behind them, so that no id leads out of the folder or meets another's. A session keeps 500, of 64 MiB at
/// most; [`forget`](OverflowFiles::forget) and [`sweep`](OverflowFiles::sweep) remove what is not wanted any more.
///
/// Clones are the same folder. Files are for their user only. Nothing blocks the async runtime's threads.
#[derive(Debug, Clone)]
pub struct OverflowFiles(Arc<Path>);

/// What is known of a result that was kept.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OverflowEntry {
    /// The tool.
    pub tool: String,
    /// The call; ids of calls are unique within a session.
    pub call: CallId,
    /// The session.
    pub session: SessionId,
    /// When it was kept.
    pub created_at: Timestamp,
    /// Its length in characters.
    pub total_chars: usize,
}

impl OverflowFiles {
    /// Keeps them below this folder, which is made when it is needed.
    pub fn below(folder: impl Into<PathBuf>) -> Self {
        Self(folder.into().into())
    }

    fn session(&self, session: &SessionId) -> PathBuf {
        self.0.join(name_of(session.as_str()))
    }

    /// What a session keeps, oldest first.
    ///
    /// # Errors
    /// Why the folder cannot be read. One that is not there has nothing.
    ///
    /// # Cancel safety
    /// Safe: it changes nothing.
    pub async fn list(&self, session: &SessionId) -> io::Result<Vec<OverflowEntry>> {
        let folder = self.session(session);
        let listed = io_blocking(move || entries(&folder)).await?;
        Ok(listed.into_iter().map(|(_, entry)| entry).collect())
    }

    /// Removes all that a session keeps.
    ///
    /// # Errors
    /// Why it could not be removed; some of it may be gone.
    ///
    /// # Cancel safety
    /// Dropped, it is removed all the same.
    pub async fn forget(&self, session: &SessionId) -> io::Result<()> {
        let folder = self.session(session);
        io_blocking(move || or_absent(fs::remove_dir_all(folder))).await
    }

    /// Removes what is older than this, of all sessions, and what was cut off while it was written. Says how many.
    ///
    /// # Errors
    /// Why the folder cannot be read or something could not be removed.
    ///
    /// # Cancel safety
    /// Dropped, it is removed all the same.
    pub async fn sweep(&self, now: Timestamp, older_than: Duration) -> io::Result<usize> {
        let folder = self.0.clone();
        io_blocking(move || {
            let mut removed = 0;
            for session in folders(&folder)? {
                for call in folders(&session)? {
                    let is_old = match entry(&call) {
                        Some(entry) => entry.created_at.checked_add(older_than).is_ok_and(|end| end <= now),
                        // It may be under way.
                        None => {
                            age(&call).is_some_and(|age| age >= older_than.max(Duration::from_secs(3600)))
                        }
                    };
                    if is_old {
                        fs::remove_dir_all(&call)?;
                        removed += 1;
                    }
                }
                // Only an empty one goes.
                let _ = fs::remove_dir(&session);
            }
            Ok(removed)
        })
        .await
    }

    /// The tool `read_overflow`, by which the model reads what was kept of this session, 40,000 bytes at a time. Where an
    /// agent's results are cut shorter than that the model must ask for less; it is told so.
    pub fn reader(&self) -> impl Tool + use<> {
        let files = self.clone();
        let describe = "Reads the whole of a result that was cut, a part at a time: `call` is the id in the note where it was cut, \
            `offset` the byte to begin at, `length` how many bytes to read: fewer, where the answer is cut. It says where to go on.";
        tool(READ_OVERFLOW, describe, move |ctx: ToolContext, Part { call, offset, length }: Part| {
            let path = files.session(ctx.turn().session()).join(name_of(&call));
            async move {
                let read = io_blocking(move || page(&path, offset, length)).await;
                let (text, next, total) = read.map_err(|e| {
                    ToolError::model(format!("nothing is kept of call {call:?} in this session: {e}"))
                })?;
                Ok(match next < total {
                    true => {
                        format!("{text}\n\n[bytes {offset} to {next} of {total}; go on with offset {next}]")
                    }
                    false => format!("{text}\n\n[bytes {offset} to {total}, the end]"),
                })
            }
        })
        .idempotent()
        .parallel()
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Part {
    /// The id in the note where the result was cut.
    call: String,
    /// The byte to begin at; 0 is the first.
    #[serde(default)]
    offset: u64,
    /// How many bytes to read; 40000 at most, and unless it is set.
    length: Option<u64>,
}

impl Overflow for OverflowFiles {
    fn keep<'a>(
        &'a self,
        ctx: &'a TurnContext,
        result: &'a ToolResult,
    ) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move {
            if result.content.len() > LONGEST {
                return Err(format!("it has {} bytes, {LONGEST} are the most", result.content.len()));
            }
            let entry = OverflowEntry {
                tool: result.tool().to_owned(),
                call: result.call_id().clone(),
                session: ctx.session().clone(),
                created_at: ctx.sources().clock.now(),
                total_chars: result.content.chars().count(),
            };
            let (session, content) = (self.session(ctx.session()), result.content.clone());
            io_blocking(move || write(&session, &entry, &content)).await.map_err(|e| e.to_string())?;
            Ok(how_to_read(result.call_id()))
        })
    }

    fn is_reader(&self, tool: &str) -> bool {
        tool == READ_OVERFLOW
    }
}

/// What the model is told where a result was cut: another text for each call.
pub(crate) fn how_to_read(call: &CallId) -> String {
    format!("{READ_OVERFLOW} with call {:?} reads it", call.as_str())
}

/// A name for a folder that no other id has, and that leads nowhere else.
pub(crate) fn name_of(id: &str) -> String {
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-') { c } else { '_' };
    let mut name: String = id.chars().map(safe).take(80).collect();
    let digest = Sha256::digest(id.as_bytes());
    name.push('-');
    name.extend(digest.iter().take(8).map(|byte| format!("{byte:02x}")));
    // Not `.` or `..`, nor hidden.
    if name.starts_with('.') {
        name.replace_range(..1, "_");
    }
    name
}

fn write(session: &Path, entry: &OverflowEntry, content: &str) -> io::Result<()> {
    private(session)?;
    // Room first: what was just written is not what goes.
    let kept = entries(session)?;
    for (old, _) in kept.iter().take((kept.len() + 1).saturating_sub(OF_SESSION)) {
        or_absent(fs::remove_dir_all(old))?;
    }
    let folder = session.join(name_of(entry.call.as_str()));
    // A part of it is of use to nobody, and takes the room that may be what is missing.
    fill(&folder, entry, content).inspect_err(|_| drop(fs::remove_dir_all(&folder)))
}

/// Content first and on the disk, then the mark that it is whole.
fn fill(folder: &Path, entry: &OverflowEntry, content: &str) -> io::Result<()> {
    // A call that runs again replaces what it left.
    or_absent(fs::remove_dir_all(folder))?;
    private(folder)?;
    synced(&folder.join("full.txt"), content.as_bytes())?;
    let meta = serde_json::to_vec(entry)?;
    synced(&folder.join("meta.tmp"), &meta)?;
    fs::rename(folder.join("meta.tmp"), folder.join("meta.json"))
}

fn synced(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn private(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Those that are whole, oldest first.
fn entries(session: &Path) -> io::Result<Vec<(PathBuf, OverflowEntry)>> {
    let mut found: Vec<_> =
        folders(session)?.into_iter().filter_map(|call| Some((entry(&call)?, call))).collect();
    found.sort_by(|(a, _), (b, _)| (a.created_at, &a.call).cmp(&(b.created_at, &b.call)));
    Ok(found.into_iter().map(|(entry, call)| (call, entry)).collect())
}

fn entry(call: &Path) -> Option<OverflowEntry> {
    serde_json::from_slice(&fs::read(call.join("meta.json")).ok()?).ok()
}

fn folders(of: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(of) {
        Ok(all) => {
            let all = all.filter_map(|one| one.ok().filter(|one| one.file_type().is_ok_and(|t| t.is_dir())));
            Ok(all.map(|one| one.path()).collect())
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(e) => Err(e),
    }
}

fn age(call: &Path) -> Option<Duration> {
    fs::metadata(call).ok()?.modified().ok()?.elapsed().ok()
}

fn or_absent(done: io::Result<()>) -> io::Result<()> {
    match done {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        done => done,
    }
}

/// A part of what was kept, where the next one begins, and how much there is.
fn page(call: &Path, offset: u64, length: Option<u64>) -> io::Result<(String, u64, u64)> {
    if entry(call).is_none() {
        return Err(io::Error::new(io::ErrorKind::NotFound, "there is no such result"));
    }
    let mut file = fs::File::open(call.join("full.txt"))?;
    let total = file.metadata()?.len();
    if offset >= total && total > 0 {
        let why = format!("it has {total} bytes, and offset is {offset}");
        return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
    }
    file.seek(SeekFrom::Start(offset))?;
    let mut bytes = Vec::new();
    // At least one character.
    file.take(length.map_or(PAGE, |length| length.clamp(4, PAGE))).read_to_end(&mut bytes)?;
    // No character in halves: one that has begun is the next page's.
    let whole = match std::str::from_utf8(&bytes) {
        Err(e) if e.error_len().is_none() && e.valid_up_to() > 0 => e.valid_up_to(),
        _ => bytes.len(),
    };
    let text = String::from_utf8_lossy(&bytes[..whole]).into_owned();
    Ok((text, offset + whole as u64, total))
}
