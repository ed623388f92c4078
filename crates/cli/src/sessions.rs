//! `sessions`: what is stored.

use std::{fs, io::Read, path::PathBuf, process::ExitCode};

use serde_json::json;
use turnwright::{
    SessionId, Sources,
    runtime::store::{SessionQuery, SessionStore, SessionSummary, StoredSession, ops},
    store::SqliteStore,
};

use crate::{
    Global, Refusal,
    args::SessionsCommand,
    chat,
    config::Config,
    kept, memory, output,
    view::{one_line, printable},
};

/// The longest document that is imported, in bytes.
const LONGEST: u64 = 1 << 30;
/// Events that are read at once.
const PAGE: usize = 1_000;
/// Commands of one session that are shown, the oldest first.
const MOST_COMMANDS: usize = 10_000;
const NO_SESSIONS: &str = "no sessions\n";

pub(crate) async fn run(
    global: &Global,
    config: &Config,
    command: SessionsCommand,
) -> Result<ExitCode, Refusal> {
    let store = match &command {
        // The only one that may make the file.
        SessionsCommand::Import { .. } => kept::needed(global, config)?,
        SessionsCommand::List { .. } if kept::is_unused(global) => {
            let text = if global.json { "" } else { NO_SESSIONS };
            return Ok(output::print(text, global.color));
        }
        _ => kept::existing(global, config)?,
    };
    let sources = Sources::default();
    let text = match command {
        SessionsCommand::List { limit, after, status } => {
            let status = status.map(Into::into);
            list(global, &store, SessionQuery { after, limit: limit as usize, status }).await?
        }
        SessionsCommand::Show { session, events: true, .. } => events(&store, &session).await?,
        SessionsCommand::Show { session, commands: true, .. } => commands(&store, &session).await?,
        SessionsCommand::Show { session, approvals: true, .. } => approvals(&store, &session).await?,
        SessionsCommand::Show { session, .. } => show(global, &store, &session).await?,
        SessionsCommand::Fork { session, at, to } => {
            let at = match at {
                Some(at) => Some(at.parse().map_err(|e| Refusal::new(format!("--at: {e}")))?),
                None => None,
            };
            let to = to.unwrap_or_else(|| sources.session_id());
            ops::fork(&store, &sources, &session, at, to.clone()).await.map_err(|e| refused(&e))?;
            id(global, &to)?
        }
        SessionsCommand::Export { session } => {
            ops::export(&store, &session).await.map_err(|e| refused(&e))? + "\n"
        }
        SessionsCommand::Import { file, to } => {
            let document = read(file)?;
            let imported = ops::import(&store, &sources, &document, to).await;
            id(global, &imported.map_err(|e| refused(&e))?)?
        }
        SessionsCommand::Delete { session } => {
            if !kept::is_stored(&store, &session).await? {
                return Err(kept::unknown(&session));
            }
            store.delete(&session).await.map_err(|e| kept::failed(&e))?;
            if let Some(files) = memory::overflow(config) {
                let why = |e| Refusal::new(format!("the long results of {session} were not deleted: {e}"));
                files.forget(&session).await.map_err(why)?;
            }
            id(global, &session)?
        }
    };
    Ok(output::print(&text, global.color))
}

fn refused(e: &ops::SessionOpError) -> Refusal {
    use ops::SessionOpError::*;
    let refusal = Refusal::new(e.to_string());
    match e {
        Unknown(_) => refusal.hint("`turnwright sessions list` shows which there are"),
        Exists(_) => refusal.hint("name another id with --to"),
        Running(_) => {
            refusal.hint("`turnwright ctl pause` stops a running turn; `turnwright resume` goes on")
        }
        NoMessage(..) | Splits(..) => {
            refusal.hint("`turnwright sessions show --json` shows the messages with their ids")
        }
        _ => refusal,
    }
}

fn id(global: &Global, id: &SessionId) -> Result<String, Refusal> {
    match global.json {
        true => line(&json!({ "session": id })),
        false => Ok(format!("{id}\n")),
    }
}

fn line(value: &impl serde::Serialize) -> Result<String, Refusal> {
    serde_json::to_string(value)
        .map(|line| line + "\n")
        .map_err(|e| Refusal::new(format!("it cannot be written as JSON: {e}")))
}

fn status(summary: &SessionSummary) -> String {
    let status = serde_json::to_value(summary.status).unwrap_or_default();
    let status = status.as_str().unwrap_or_default().to_owned();
    match summary.pending {
        0 => status,
        n => format!("{status} ({n})"),
    }
}

async fn list(global: &Global, store: &SqliteStore, query: SessionQuery) -> Result<String, Refusal> {
    let limit = query.limit;
    let sessions = store.list(query).await.map_err(|e| kept::failed(&e))?;
    if global.json {
        return sessions.iter().map(line).collect();
    }
    if sessions.is_empty() {
        return Ok(NO_SESSIONS.into());
    }
    let widest = sessions.iter().map(|s| s.session.as_str().chars().count()).max().unwrap_or_default();
    let mut text = format!("{:widest$}  {:<14}  {:>8}  CHANGED\n", "SESSION", "STATUS", "MESSAGES");
    for session in &sessions {
        let at = session.updated_at.strftime("%Y-%m-%d %H:%M:%S");
        let (id, status) = (session.session.as_str(), status(session));
        text.push_str(&format!("{id:widest$}  {status:<14}  {:>8}  {at}\n", session.messages));
    }
    if sessions.len() == limit
        && let Some(last) = sessions.last()
    {
        text.push_str(&format!("there may be more: --after {}\n", last.session));
    }
    Ok(printable(&text).into_owned())
}

async fn load(store: &SqliteStore, id: &SessionId) -> Result<StoredSession, Refusal> {
    store.load(id).await.map_err(|e| kept::failed(&e))?.ok_or_else(|| kept::unknown(id))
}

async fn show(global: &Global, store: &SqliteStore, id: &SessionId) -> Result<String, Refusal> {
    let stored = load(store, id).await?;
    let transaction = stored.snapshot.as_ref().and_then(|snapshot| snapshot.transaction.as_ref());
    let pending: Vec<_> = transaction.iter().flat_map(|t| t.pending()).collect();
    if global.json {
        return line(&json!({
            "session": id,
            "status": stored.status(),
            "revision": stored.revision,
            "holder": stored.lease.as_ref().map(|lease| &lease.holder),
            "pending": pending,
            "rules": stored.rules,
            "messages": stored.messages,
        }));
    }
    let status = serde_json::to_value(stored.status()).unwrap_or_default();
    let mut text =
        format!("{id}: {}, {} messages\n", status.as_str().unwrap_or_default(), stored.messages.len());
    if let Some(lease) = &stored.lease {
        text.push_str(&format!("runs in {} until {}, unless that goes on\n", lease.holder, lease.until));
    }
    for rule in &stored.rules {
        text.push_str(&format!("{} runs without asking: {} said so\n", rule.tool, rule.actor));
    }
    for request in pending {
        let call = &request.call;
        let arguments = one_line(&call.arguments, 200);
        text.push_str(&format!("waits: {} (call {}) {arguments}: {}\n", call.name, call.id, request.reason));
    }
    text.push_str(&chat::in_short(&stored.messages));
    Ok(printable(&text).into_owned())
}

async fn events(store: &SqliteStore, id: &SessionId) -> Result<String, Refusal> {
    load(store, id).await?;
    let (mut text, mut after) = (String::new(), 0);
    loop {
        let events = store.events(id, after, PAGE).await.map_err(|e| kept::failed(&e))?;
        for event in &events {
            text.push_str(&line(event)?);
        }
        match events.last() {
            Some(last) => after = last.number,
            None => return Ok(text),
        }
    }
}

async fn approvals(store: &SqliteStore, id: &SessionId) -> Result<String, Refusal> {
    load(store, id).await?;
    store.approvals(id).await.map_err(|e| kept::failed(&e))?.iter().map(line).collect()
}

async fn commands(store: &SqliteStore, id: &SessionId) -> Result<String, Refusal> {
    let rows = store.channel().audit(id, MOST_COMMANDS).await.map_err(|e| kept::failed(&e))?;
    let one = |row: &turnwright::store::AuditRow| {
        let (fate, at) = row.settled.clone().unzip();
        line(
            &json!({ "command": row.command, "accepted_at": row.accepted_at, "fate": fate, "settled_at": at }),
        )
    };
    rows.iter().map(one).collect()
}

fn read(file: Option<PathBuf>) -> Result<String, Refusal> {
    let mut document = String::new();
    let (name, read) = match file.filter(|file| file.as_os_str() != "-") {
        Some(file) => {
            let opened = fs::File::open(&file);
            let read = opened.and_then(|file| file.take(LONGEST + 1).read_to_string(&mut document));
            (file.display().to_string(), read)
        }
        None => {
            let stdin = std::io::stdin().lock();
            ("standard input".into(), stdin.take(LONGEST + 1).read_to_string(&mut document))
        }
    };
    match read {
        Ok(length) if length as u64 > LONGEST => {
            Err(Refusal::new(format!("{name} is longer than {} MiB", LONGEST >> 20)))
        }
        Ok(_) => Ok(document),
        Err(e) => Err(Refusal::new(format!("{name} cannot be read: {e}"))),
    }
}
