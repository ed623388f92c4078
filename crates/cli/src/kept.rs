//! The file sessions are kept in.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use turnwright::{
    AgentBuilder, ErrorInfo, Session, SessionId, Sources,
    runtime::store::{SessionStore, StoreError},
    store::{CheckReport, Fault, OpenError, Retention, SqliteOptions, SqliteStore, Synchronous},
};

use crate::{
    Global, Refusal,
    args::{ColorWhen, StoreCommand},
    config::Config,
    exit, memory, output,
};

/// What says that sessions are not kept.
const NONE: &str = "none";

/// Where sessions are kept; none where they end with the program.
pub(crate) fn path(global: &Global) -> Option<PathBuf> {
    match &global.store {
        Some(path) if path.as_os_str() == NONE || path.as_os_str().is_empty() => None,
        Some(path) => Some(path.clone()),
        None => default_path(),
    }
}

fn default_path() -> Option<PathBuf> {
    let absolute = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state =
        absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local").join("state")))?;
    Some(state.join("turnwright").join("turnwright.db"))
}

/// Opens the file, if sessions are kept.
pub(crate) fn open(global: &Global, config: &Config) -> Result<Option<SqliteStore>, Refusal> {
    let Some(path) = path(global) else { return Ok(None) };
    if global.store.is_none()
        && let Some(directory) = path.parent()
    {
        private_directory(directory)
            .map_err(|e| unusable(&format!("the directory {} cannot be made: {e}", directory.display())))?;
    }
    let store = SqliteStore::open_with(&path, options(config), Sources::default());
    let store = store.map_err(|e| unusable(&e.to_string()))?;
    only_mine(&path);
    Ok(Some(store))
}

fn options(config: &Config) -> SqliteOptions {
    let usual = SqliteOptions::default();
    let retention = Retention {
        events_per_session: config
            .count("store.events_per_session")
            .unwrap_or(usual.retention.events_per_session),
        idle_sessions: idle(config),
        ..usual.retention
    };
    let synchronous = match config.text("store.synchronous") {
        Some("full") => Synchronous::Full,
        _ => usual.synchronous,
    };
    let busy_timeout = config.seconds("store.busy_seconds").unwrap_or(usual.busy_timeout);
    SqliteOptions { synchronous, busy_timeout, retention, ..usual }
}

/// The age from which on a sweep forgets.
fn idle(config: &Config) -> Option<Duration> {
    config.count("store.idle_days").map(|days| Duration::from_secs(u64::from(days) * 86_400))
}

fn unusable(why: &str) -> Refusal {
    Refusal::new(why)
        .hint("point --store at a file that can be written; `--store none` keeps sessions in memory only")
}

/// Conversations are nobody else's: a directory of our own is closed to others.
fn private_directory(directory: &Path) -> std::io::Result<()> {
    let mut make = fs::DirBuilder::new();
    make.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut make, 0o700);
    make.create(directory)
}

#[cfg(unix)]
fn only_mine(path: &Path) {
    use std::os::unix::fs::PermissionsExt;
    for end in ["", "-wal", "-shm"] {
        let mut file = path.as_os_str().to_owned();
        file.push(end);
        // One that is somebody else's stays as they made it.
        let _ = fs::set_permissions(file, fs::Permissions::from_mode(0o600));
    }
}

#[cfg(not(unix))]
fn only_mine(_: &Path) {}

/// The file, for commands that mean nothing without one.
pub(crate) fn needed(global: &Global, config: &Config) -> Result<SqliteStore, Refusal> {
    open(global, config)?.ok_or_else(|| {
        Refusal::new("sessions are not kept, so there is nothing to look at")
            .hint("name the file with --store PATH or TURNWRIGHT_STORE")
    })
}

/// Whether nothing was ever kept where sessions are kept by default.
pub(crate) fn is_unused(global: &Global) -> bool {
    global.store.is_none() && path(global).is_some_and(|path| !path.exists())
}

/// The file, for commands about a session that must be there: none is made.
pub(crate) fn existing(global: &Global, config: &Config) -> Result<SqliteStore, Refusal> {
    if let Some(path) = path(global).filter(|path| !path.exists()) {
        let refusal =
            Refusal::new(format!("no session is kept in {}: there is no such file", path.display()));
        return Err(refusal.hint("name the file with --store PATH or TURNWRIGHT_STORE"));
    }
    needed(global, config)
}

/// An agent that keeps its sessions there, and takes commands from there.
pub(crate) fn keep(agent: AgentBuilder, store: Option<&SqliteStore>) -> AgentBuilder {
    match store {
        Some(store) => agent.store(std::sync::Arc::new(store.clone())).channel(store.channel()),
        None => agent,
    }
}

/// The session of an id that somebody named.
pub(crate) async fn session(agent: &turnwright::Agent, id: SessionId) -> Result<Session, Refusal> {
    agent.open_session(id).await.map_err(|e| failed(&e))
}

/// An error of the store, with what to do.
pub(crate) fn failed(e: &StoreError) -> Refusal {
    let refusal = Refusal::new(e.to_string());
    match e {
        StoreError::Corrupt { .. } => {
            refusal.hint("`turnwright store check` names everything that cannot be read")
        }
        StoreError::Held { .. } => refusal.hint(
            "`turnwright ctl stop` or `pause` ends the turn there; a process that died gives it back at once",
        ),
        _ => refusal,
    }
}

/// There is no session of this id.
pub(crate) fn unknown(id: &SessionId) -> Refusal {
    Refusal::new(format!("there is no session {id}")).hint("`turnwright sessions list` shows which there are")
}

/// Whether a session is stored.
pub(crate) async fn is_stored(store: &SqliteStore, id: &SessionId) -> Result<bool, Refusal> {
    Ok(store.load(id).await.map_err(|e| failed(&e))?.is_some())
}

/// Waits until everything is written.
pub(crate) async fn settle(store: Option<&SqliteStore>, color: ColorWhen) {
    if let Some(store) = store
        && let Err(e) = store.flush().await
    {
        let info = ErrorInfo::from(e);
        output::refuse(&Refusal::new(info.message), color);
    }
}

/// `store check`.
pub(crate) async fn run(
    global: &Global,
    config: &Config,
    command: &StoreCommand,
) -> Result<ExitCode, Refusal> {
    let path = path(global).filter(|path| path.exists());
    let Some(path) = path else {
        return Err(Refusal::new("there is no store to check").hint("name its file with --store PATH"));
    };
    let opened = SqliteStore::open_with(&path, options(config), Sources::default());
    if let (Ok(store), StoreCommand::Sweep) = (&opened, command) {
        let swept = store.sweep().await.map_err(|e| failed(&e))?;
        if let (Some(files), Some(age)) = (memory::overflow(config), idle(config)) {
            let why = |e| Refusal::new(format!("long results were not swept: {e}"));
            files.sweep(Sources::default().clock.now(), age).await.map_err(why)?;
        }
        let text = match global.json {
            true => format!(
                "{}\n",
                serde_json::json!({ "sessions": swept.sessions, "events": swept.events, "commands": swept.commands })
            ),
            false => format!(
                "forgotten: {} sessions, {} events, {} commands\n",
                swept.sessions, swept.events, swept.commands
            ),
        };
        return Ok(output::print(&text, global.color));
    }
    let checked = match opened {
        Ok(store) => store.check().await,
        Err(OpenError { why, .. }) => Err(why),
    };
    let report = match (checked, command) {
        (Ok(report), _) => report,
        // The file itself is the fault.
        (Err(StoreError::Corrupt { what, why }), StoreCommand::Check) => {
            CheckReport { faults: vec![Fault { what, why }], ..CheckReport::default() }
        }
        (Err(e), _) => return Err(Refusal::new(format!("the store {} cannot be read: {e}", path.display()))),
    };
    let text = match global.json {
        true => serde_json::to_string(&report).map_err(|e| Refusal::new(e.to_string()))? + "\n",
        false => {
            let mut text = format!(
                "{}: {} sessions, {} rows read, {} faults\n",
                path.display(),
                report.sessions,
                report.rows,
                report.faults.len()
            );
            for fault in &report.faults {
                text.push_str(&format!("  {}: {}\n", fault.what, fault.why));
            }
            crate::view::printable(&text).into_owned()
        }
    };
    let printed = output::print(&text, global.color);
    Ok(if printed == ExitCode::SUCCESS && !report.faults.is_empty() { exit::FAILED.into() } else { printed })
}
