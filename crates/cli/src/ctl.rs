//! `ctl`: telling the process that runs a session, and deciding about its calls.

use std::process::ExitCode;

use serde_json::json;
use turnwright::{
    CallId, CommandBody, ControlChannel, ControlCommand, ControlScope, Decision, Fate, Part, SessionId,
    Sources, Verdict,
    core::ApprovalRequest,
    runtime::store::{SessionStatus, SessionStore, StoredSession, ops},
    store::SqliteStore,
};

use crate::{
    Global, Refusal,
    args::{CtlCommand, WaitArgs},
    config::Config,
    exit, kept, output,
    view::printable,
};

pub(crate) async fn run(global: &Global, config: &Config, command: CtlCommand) -> Result<ExitCode, Refusal> {
    let store = kept::existing(global, config)?;
    match command {
        CtlCommand::Stop { session, reason, wait } => {
            send(global, &store, session, CommandBody::CancelTurn { reason }, wait).await
        }
        CtlCommand::Pause { session, wait } => {
            send(global, &store, session, CommandBody::DrainTurn, wait).await
        }
        CtlCommand::Steer { session, text, wait } => {
            send(global, &store, session, CommandBody::InjectSteer { parts: vec![Part::text(text)] }, wait)
                .await
        }
        CtlCommand::Say { session, text, wait } => {
            let body = CommandBody::InjectUserMessage { parts: vec![Part::text(text)] };
            send(global, &store, session, body, wait).await
        }
        CtlCommand::Approve { session, calls, actor } => {
            decide(global, &store, &session, calls, Verdict::Allow { edit: None }, actor).await
        }
        CtlCommand::Deny { session, calls, reason, actor } => {
            decide(global, &store, &session, calls, Verdict::Deny { reason }, actor).await
        }
    }
}

async fn load(store: &SqliteStore, id: &SessionId) -> Result<StoredSession, Refusal> {
    store.load(id).await.map_err(|e| kept::failed(&e))?.ok_or_else(|| kept::unknown(id))
}

async fn send(
    global: &Global,
    store: &SqliteStore,
    id: SessionId,
    body: CommandBody,
    WaitArgs { actor, wait }: WaitArgs,
) -> Result<ExitCode, Refusal> {
    let status = load(store, &id).await?.status();
    let is_message = body.message().is_some();
    if status != SessionStatus::Running && !is_message {
        let refusal = Refusal::new(format!("no process runs a turn of session {id}"));
        return Err(refusal.hint(match status {
            SessionStatus::Suspended => format!(
                "a turn waits: `turnwright ctl approve {id}` or `deny` decides, `turnwright resume {id} --cancel` ends it"
            ),
            SessionStatus::Drained | SessionStatus::Interrupted => format!(
                "a turn is not over: `turnwright resume {id}` goes on with it, with --cancel it ends"
            ),
            _ => "there is nothing to stop".into(),
        }));
    }
    let command = ControlCommand::new(&Sources::default(), ControlScope::session(id.clone()), actor, body);
    // It tells receipts as long as it lives.
    let channel = store.channel();
    let receipt = channel.send(command).await.map_err(|e| Refusal::new(e.to_string()))?;
    // What waits for the next turn has no fate yet, and is not waited for.
    let fate = match status {
        SessionStatus::Running => tokio::time::timeout(wait, receipt.fate()).await.ok(),
        _ => None,
    };
    let (text, code) = match &fate {
        Some(Fate::Applied) => ("applied".to_owned(), 0),
        Some(Fate::Expired) => ("expired: nobody took it in time".into(), exit::FAILED),
        Some(Fate::Stale) => ("stale: the turn was over".into(), exit::FAILED),
        Some(Fate::Rejected { reason }) => (format!("rejected: {reason}"), exit::FAILED),
        Some(Fate::Returned { reason }) => (format!("returned: {reason}"), exit::FAILED),
        None if is_message && status == SessionStatus::Running => {
            ("accepted: it waits for the turn, or the next one".into(), 0)
        }
        None if is_message && status == SessionStatus::Idle => {
            (format!("accepted: no process runs session {id} now; its next turn reads it"), 0)
        }
        None if is_message => {
            (format!("accepted: no process runs session {id} now; its turn reads it once it is resumed"), 0)
        }
        None => ("accepted, but nobody has taken it yet".into(), exit::FAILED),
    };
    show(global, &json!({ "session": id, "command": receipt.id(), "fate": fate }), &text, code)
}

fn show(global: &Global, json: &serde_json::Value, text: &str, code: u8) -> Result<ExitCode, Refusal> {
    let text = match global.json {
        true => format!("{json}\n"),
        false => format!("{}\n", printable(text)),
    };
    let printed = output::print(&text, global.color);
    Ok(if printed == ExitCode::SUCCESS { code.into() } else { printed })
}

async fn decide(
    global: &Global,
    store: &SqliteStore,
    id: &SessionId,
    calls: Vec<String>,
    verdict: Verdict,
    actor: String,
) -> Result<ExitCode, Refusal> {
    let stored = load(store, id).await?;
    let transaction = stored.snapshot.as_ref().and_then(|snapshot| snapshot.transaction.as_ref());
    let pending: Vec<ApprovalRequest> = transaction.iter().flat_map(|t| t.pending().cloned()).collect();
    if pending.is_empty() {
        return Err(Refusal::new(format!("no call of session {id} waits for a decision")));
    }
    let calls = match calls.is_empty() || calls == ["all"] {
        true => pending.iter().map(|request| request.call.id.clone()).collect(),
        false => calls.into_iter().map(|call| CallId::from(call.as_str())).collect(),
    };
    let sources = Sources::default();
    let decision = Decision { calls, verdict, actor, at: sources.clock.now(), remember: None };
    let left = ops::decide(store, &sources, id, &decision).await.map_err(|e| {
        let ids: Vec<String> = pending.iter().map(|request| request.call.id.to_string()).collect();
        Refusal::new(e.to_string()).hint(format!("these wait: {}", ids.join(", ")))
    })?;
    let waits: Vec<_> = left.iter().map(|request| &request.call.id).collect();
    let text = match left.len() {
        0 => format!("decided; a chat that asks goes on by itself, else `turnwright resume {id}` does"),
        n => format!("decided; {n} still wait"),
    };
    show(global, &json!({ "session": id, "decided": decision.calls, "pending": waits }), &text, 0)
}
