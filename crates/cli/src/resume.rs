//! `resume`: the next leg of a turn that waits, was drained, or whose process died.

use std::process::ExitCode;

use turnwright::{
    Agent, CallId, Decision, Outcome, Session, Sources, StartError, Verdict, store::SqliteStore,
};

use crate::{
    Global, Refusal,
    approval::{self, First},
    args::ResumeArgs,
    exit, kept,
    output::{Look, To, error_lines, style},
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
    for decision in decisions(args, &session)? {
        session.decide(&decision).await.map_err(|e| refused(&session, &e.to_string()))?;
    }
    let mut console = Console::new(errors)?;
    let mut desk = RunDesk::open(errors.terminal && !global.json)?;
    let manner = Manner { asks: desk.can_ask(), price: price_of(&agent), ..Manner::default() };
    let mut view: Box<dyn View> = match global.json {
        true => Box::new(Json::new(errors)),
        false => Box::new(Human::new(Look::of(To::Stdout, global.color), errors, manner)),
    };
    let first = match !session.is_interrupted() && !session.pending().is_empty() && desk.can_ask() {
        true => First::Questions,
        false => match session.resume() {
            Ok(turn) => First::Leg(turn),
            Err(StartError::Undecided(_)) => return Ok(waits(&mut console, &session).await),
            Err(e) => return Err(Refusal::new(e.to_string())),
        },
    };
    let (leg, _) = approval::to_the_end(&mut console, &session, first, &mut *view, &mut desk).await;
    if matches!(&leg, Leg::Over(Some(finished)) if finished.outcome == Outcome::Suspended) {
        let hint = errors.paint(style::HINT, "hint:");
        console.tell(&format!("{hint} {}\n", approval::nobody_to_ask(&session, true))).await;
    }
    kept::settle(Some(store)).await;
    Ok(console.code(&leg).into())
}

/// Shows what waits where nobody can be asked.
async fn waits(console: &mut Console, session: &Session) -> ExitCode {
    let look = console.errors;
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
    exit::code(Outcome::Suspended).into()
}

fn refused(session: &Session, why: &str) -> Refusal {
    let ids: Vec<String> = session.pending().iter().map(|request| request.call.id.to_string()).collect();
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
    let rest: Vec<CallId> =
        session.pending().into_iter().map(|request| request.call.id).filter(|id| !is_named(id)).collect();
    if let Some(mut decision) = all.pop()
        && !rest.is_empty()
    {
        decision.calls = rest;
        named.push(decision);
    }
    Ok(named)
}
