//! `resume`: the next leg of a turn that waits, was drained, or whose process died.

use std::{collections::HashSet, process::ExitCode};

use turnwright::{
    Agent, CallId, CancelCause, Decision, Outcome, Session, Sources, StartError, TurnEvent, TurnEventKind,
    TurnFinished, Verdict, store::SqliteStore,
};

use crate::{
    Global, Refusal,
    approval::{self, First},
    args::ResumeArgs,
    exit, kept,
    output::{self, Look, To, error_lines, style},
    run::RunDesk,
    view::{Human, Json, Manner, View, price_of},
    watch::{Console, Leg},
};

pub(crate) async fn run(
    global: &Global,
    agent: Agent,
    store: &SqliteStore,
    args: &ResumeArgs,
) -> Result<ExitCode, Refusal> {
    if !kept::is_stored(store, &args.session).await? {
        return Err(kept::unknown(&args.session));
    }
    let session = kept::session(&agent, args.session.clone()).await?;
    if !session.is_parked() {
        let hint = format!("`turnwright run --session {} PROMPT` begins its next one", args.session);
        return Err(
            Refusal::new(format!("no turn of session {} waits to be resumed", args.session)).hint(hint)
        );
    }
    let errors = Look::of(To::Stderr, global.color);
    let decisions = decisions(args, &session)?;
    // All of them are looked at before the first one is stored.
    check(&decisions, &session)?;
    for decision in decisions {
        session.decide(&decision).await.map_err(|e| refused(&session, &e.to_string()))?;
    }
    let mut console = Console::new(errors, true)?;
    let mut desk = RunDesk::open(errors.terminal && !global.json)?;
    let manner = Manner { asks: desk.can_ask(), price: price_of(&agent), ..Manner::default() };
    let mut view: Box<dyn View> = match global.json {
        true => Box::new(Json::new(errors)),
        false => Box::new(Human::new(Look::of(To::Stdout, global.color), errors, manner)),
    };
    let cancelled = || {
        let reason = args.reason.as_deref().unwrap_or("resume --cancel");
        session.cancel_parked(CancelCause::requested("user").reason(reason)).map(First::Leg)
    };
    let first = match !args.cancel
        && !session.is_interrupted()
        && !approval::open(&session).is_empty()
        && desk.can_ask()
    {
        true => First::Questions,
        false => match if args.cancel { cancelled() } else { session.resume().map(First::Leg) } {
            Ok(first) => first,
            Err(StartError::Undecided(_)) => return waits(global, &mut console, &session).await,
            Err(e @ (StartError::ToolsChanged | StartError::Unreadable(_))) => {
                let hint = "`resume --cancel` ends the turn; its messages stay";
                return Err(Refusal::new(e.to_string()).hint(hint));
            }
            Err(e) => return Err(Refusal::new(e.to_string())),
        },
    };
    let (leg, _) = approval::to_the_end(&mut console, &session, first, &mut *view, &mut desk).await;
    if !desk.can_ask() && matches!(&leg, Leg::Over(Some(finished)) if finished.outcome == Outcome::Suspended)
    {
        let hint = errors.paint(style::HINT, "hint:");
        console.tell(&format!("{hint} {}\n", approval::nobody_to_ask(&session, true))).await;
    }
    kept::settle(Some(store), global.color).await;
    Ok(console.code(&leg).into())
}

/// Shows what waits where nobody can be asked; as JSON in the words of a leg that ended so.
async fn waits(global: &Global, console: &mut Console, session: &Session) -> Result<ExitCode, Refusal> {
    let look = console.errors;
    if let Some(snapshot) = session.snapshot().filter(|_| global.json) {
        let event = TurnEvent {
            seq: 1,
            session: session.id().clone(),
            turn: snapshot.turn,
            at: Sources::default().clock.now(),
            kind: TurnEventKind::TurnFinished(Box::new(TurnFinished::suspended(session.pending()))),
        };
        let line = serde_json::to_string(&event);
        let line = line.map_err(|e| Refusal::new(format!("it cannot be written as JSON: {e}")))? + "\n";
        let printed = output::print(&line, global.color);
        if printed != ExitCode::SUCCESS {
            return Ok(printed);
        }
    }
    let mut text = String::new();
    for request in session.pending() {
        text.push_str(&approval::question(&request, look));
    }
    text.push_str(&error_lines(
        look,
        "the turn waits for decisions, and none was made",
        Some(&approval::nobody_to_ask(session, true)),
    ));
    console.tell(&text).await;
    Ok(exit::code(Outcome::Suspended).into())
}

/// Whether each decision is about a call that waits, and about no other's call.
fn check(decisions: &[Decision], session: &Session) -> Result<(), Refusal> {
    let pending = session.pending();
    let mut decided = HashSet::new();
    for decision in decisions {
        for id in &decision.calls {
            if !pending.iter().any(|request| request.call.id == *id) {
                return Err(refused(session, &format!("no approval was asked for call {id}")));
            }
            if !decided.insert(id) {
                return Err(refused(session, &format!("call {id} is decided twice")));
            }
        }
        if let Verdict::Allow { edit: Some(edit) } = &decision.verdict
            && let Err(e) = serde_json::from_str::<serde_json::Value>(edit)
        {
            return Err(Refusal::new(format!("--edit: the arguments are not valid JSON: {e}")));
        }
    }
    Ok(())
}

fn refused(session: &Session, why: &str) -> Refusal {
    let ids: Vec<String> =
        approval::open(session).iter().map(|request| request.call.id.to_string()).collect();
    let refusal = Refusal::new(why);
    match ids.is_empty() {
        true => refusal.hint("no call waits; without decisions `resume` goes on"),
        false => refusal.hint(format!("these wait: {}", ids.join(", "))),
    }
}

/// The decisions of the command line; `all` means those that no other one names.
fn decisions(args: &ResumeArgs, session: &Session) -> Result<Vec<Decision>, Refusal> {
    let now = Sources::default().clock.now();
    let (mut named, mut all) = (Vec::new(), Vec::new());
    for edit in &args.edit {
        let Some((call, arguments)) = edit.split_once('=') else {
            return Err(Refusal::new(format!("--edit {edit:?} is not CALL=JSON")));
        };
        let verdict = Verdict::Allow { edit: Some(arguments.into()) };
        named.push(Decision {
            calls: vec![call.into()],
            verdict,
            actor: "user".into(),
            at: now,
            remember: None,
        });
    }
    let lists = [
        (&args.approve, Verdict::Allow { edit: None }),
        (&args.deny, Verdict::Deny { reason: args.reason.clone() }),
    ];
    for (calls, verdict) in lists {
        for call in calls {
            let decision = |calls| Decision {
                calls,
                verdict: verdict.clone(),
                actor: "user".into(),
                at: now,
                remember: None,
            };
            match call == "all" {
                true => all.push(decision(Vec::new())),
                false => named.push(decision(vec![CallId::from(call.as_str())])),
            }
        }
    }
    if all.len() > 1 {
        return Err(Refusal::new("all calls cannot be both approved and denied"));
    }
    let is_named = |id: &CallId| named.iter().any(|decision| decision.calls.contains(id));
    let rest: Vec<CallId> = approval::open(session)
        .into_iter()
        .map(|request| request.call.id)
        .filter(|id| !is_named(id))
        .collect();
    if let Some(mut decision) = all.pop()
        && !rest.is_empty()
    {
        decision.calls = rest;
        named.push(decision);
    }
    Ok(named)
}
