//! A turn to its end, with a person asked about every call that waits for a decision.

use std::{collections::HashSet, pin::pin};

use turnwright::{
    CallId, CancelCause, ErrorKind, Outcome, Session, Sources, TurnFinished, TurnHandle, Verdict,
    control::Wakeup,
    core::ApprovalRequest,
    core::DecisionError,
    runtime::{DecideError, approval::TextDecision},
};

use super::{
    answer::Answer,
    open,
    show::{choices, is_cut, prompt, questions, whole},
};
use crate::{
    keyboard::{Keyboard, Typed, Wanted},
    output::{error_lines, style},
    signals::Asked,
    view::{View, printable},
    watch::{Aside, Console, Heard, Leg},
};

/// What is said of a question that waited too long.
const EXPIRED: &str = "\nthe approval expired: it counts as denied\n";

/// What nobody's silence means.
const NOBODY: &str = "nobody answered";

/// Where somebody sits who makes remarks and can be asked.
pub(crate) trait Desk: Aside {
    /// Where answers come from; none when nobody can be asked.
    fn keyboard(&mut self) -> Option<&mut Keyboard>;

    /// Takes what was typed before a question was there: it is no answer.
    async fn clear(&mut self) -> Cleared;
}

/// What was typed before a question was there.
#[derive(Default)]
pub(crate) struct Cleared {
    /// What to say about it.
    pub(crate) notes: String,
    /// The turn is to be stopped, in this word.
    pub(crate) stop: Option<&'static str>,
}

/// What there is to begin with.
pub(crate) enum First {
    /// A leg that runs.
    Leg(TurnHandle),
    /// Questions that wait.
    Questions,
}

/// Watches a turn, and its further legs, until it ends or until nobody can be asked. Answers whether the program was
/// asked to end as well.
pub(crate) async fn to_the_end(
    console: &mut Console,
    session: &Session,
    first: First,
    view: &mut dyn View,
    desk: &mut impl Desk,
) -> (Leg, bool) {
    let mut leaves = false;
    let mut next = match first {
        First::Leg(turn) => Some(turn),
        First::Questions => None,
    };
    loop {
        let (leg, terminate) = match next.take() {
            Some(turn) => console.watch(turn, view, desk).await,
            None => (Leg::Over(Some(Box::new(waiting(session)))), false),
        };
        leaves |= terminate;
        if is_lost(&leg) {
            let hint = console.errors.paint(style::HINT, "hint:");
            console.tell(&format!("{hint} {}\n", elsewhere(session))).await;
        }
        if !is_suspended(&leg) || console.lost().is_some() || desk.keyboard().is_none() {
            return (leg, leaves);
        }
        let cleared = desk.clear().await;
        console.tell(&cleared.notes).await;
        let settled = match (cleared.stop, desk.keyboard()) {
            // The one who asked for SIGTERM asks no more. A question that is kept waits for another process.
            _ if leaves && console.is_kept => return (leg, leaves),
            _ if leaves => stopped(session, Asked::Terminate.reason()),
            (Some(word), _) => stopped(session, word),
            (None, Some(keyboard)) => settle(console, keyboard, session).await,
            (None, None) => return (leg, leaves),
        };
        leaves |= settled.leaves;
        next = match settled.turn {
            Ok(Some(turn)) => Some(turn),
            Ok(None) => return (leg, leaves),
            Err(message) => {
                console.tell(&error_lines(console.errors, &message, None)).await;
                return (leg, leaves);
            }
        };
    }
}

fn is_suspended(leg: &Leg) -> bool {
    let is = |finished: &TurnFinished| finished.outcome == Outcome::Suspended;
    matches!(leg, Leg::Over(Some(finished)) if is(finished))
}

/// Whether the session is another process's: that one was first, or took it over.
fn is_lost(leg: &Leg) -> bool {
    let lost = [ErrorKind::SessionHeld, ErrorKind::Conflict, ErrorKind::LeaseLost].map(ErrorKind::name);
    matches!(leg, Leg::Over(Some(finished)) if finished.error.as_ref().is_some_and(|error| lost.contains(&error.kind)))
}

fn elsewhere(session: &Session) -> String {
    let id = session.id();
    format!("another process goes on with the turn: `turnwright sessions show {id}` shows what comes of it")
}

/// What the questions came to.
struct Settled {
    /// The next leg, or why there is none; neither where the questions are left to another process.
    turn: Result<Option<TurnHandle>, String>,
    leaves: bool,
}

/// Ends the turn that waits.
fn stopped(session: &Session, reason: &str) -> Settled {
    let turn = session.cancel_parked(CancelCause::requested("user").reason(reason));
    Settled { turn: turn.map(Some).map_err(|e| e.to_string()), leaves: false }
}

/// The first of these calls of which only a part was shown: nobody approves of what they cannot have seen.
fn unseen<'r>(
    pending: &'r [ApprovalRequest],
    calls: &[CallId],
    seen: &HashSet<CallId>,
) -> Option<&'r CallId> {
    let mut asked = pending.iter().filter(|request| calls.contains(&request.call.id));
    asked.find(|request| is_cut(request) && !seen.contains(&request.call.id)).map(|request| &request.call.id)
}

/// A turn that waits, as its last leg would have told it.
fn waiting(session: &Session) -> TurnFinished {
    TurnFinished::suspended(session.pending())
}

async fn changed(watch: &mut Option<Wakeup>) {
    match watch {
        Some(watch) => watch.arrived().await,
        None => std::future::pending().await,
    }
}

/// Whether another process has taken the turn up, or ended it.
fn is_elsewhere(session: &Session) -> bool {
    session.is_interrupted() || !session.is_parked()
}

/// What ends the asking.
enum Answered {
    Here(Heard),
    Elsewhere,
    Expired,
}

/// Waits until the first of these questions has expired; for ever where none does.
async fn expiry(pending: &[ApprovalRequest]) {
    let Some(at) = pending.iter().filter_map(|request| request.expires_at).min() else {
        return std::future::pending().await;
    };
    let left = at.duration_since(Sources::default().clock.now());
    tokio::time::sleep(left.try_into().unwrap_or_default()).await;
}

/// Asks for a line until somebody answers here, or decides elsewhere, or a question has expired: then nothing is answered.
async fn ask(
    console: &mut Console,
    keyboard: &mut Keyboard,
    session: &Session,
    (prompt, pending): (&str, &[ApprovalRequest]),
    watch: &mut Option<Wakeup>,
) -> Answered {
    let mut asked = pin!(console.ask(keyboard, prompt, Wanted::Answer));
    let mut expired = pin!(expiry(pending));
    loop {
        tokio::select! {
            heard = &mut asked => return Answered::Here(heard),
            () = &mut expired => return Answered::Expired,
            // Other sessions of the same store wake it too: the question stays as it is.
            () = changed(watch) => {
                if session.refresh().await.is_ok() && (open(session) != pending || is_elsewhere(session)) {
                    return Answered::Elsewhere;
                }
            }
        }
    }
}

async fn settle(console: &mut Console, keyboard: &mut Keyboard, session: &Session) -> Settled {
    // Those that were shown whole although they are long.
    let mut seen: HashSet<CallId> = HashSet::new();
    let mut watch = session.watch();
    // What was decided before somebody watched. That it cannot be read is told when something is to be written.
    let _ = session.refresh().await;
    // Each is seen before any is decided: an answer may be for all of them.
    console.question(&questions(&open(session), console.errors)).await;
    'calls: loop {
        if is_elsewhere(session) {
            return Settled { turn: Err(elsewhere(session)), leaves: false };
        }
        let pending = open(session);
        let Some(request) = pending.first() else { break };
        let prompt = prompt(request);
        let answer = loop {
            let typed = match ask(console, keyboard, session, (prompt.as_str(), &pending), &mut watch).await {
                Answered::Elsewhere => {
                    console.question("\ndecided elsewhere\n").await;
                    continue 'calls;
                }
                Answered::Expired => {
                    console.question(EXPIRED).await;
                    continue 'calls;
                }
                Answered::Here(Heard::Typed(typed)) => typed,
                Answered::Here(Heard::Terminate) if console.is_kept => {
                    console.question("\n").await;
                    return Settled { turn: Ok(None), leaves: true };
                }
                Answered::Here(Heard::Terminate) => {
                    return Settled { leaves: true, ..stopped(session, Asked::Terminate.reason()) };
                }
            };
            let unclear = match typed {
                Typed::Line(line) => match Answer::parse(&line, &pending) {
                    Answer::Unclear(why) => why,
                    Answer::Show(calls) => {
                        for request in pending.iter().filter(|request| calls.contains(&request.call.id)) {
                            console.question(&whole(request, console.errors)).await;
                        }
                        seen.extend(calls);
                        continue;
                    }
                    Answer::Decide(decision) if matches!(decision.verdict, Verdict::Allow { .. }) => {
                        match unseen(&pending, &decision.calls, &seen) {
                            Some(id) => {
                                format!("a part of call {id} was not shown; /show {id} shows all of it")
                            }
                            None => break Answer::Decide(decision),
                        }
                    }
                    answer => break answer,
                },
                Typed::Refused(why) => why,
                Typed::Interrupt { .. } => return stopped(session, Asked::CtrlC.reason()),
                Typed::End | Typed::Failed(_) => {
                    let all = pending.iter().map(|request| request.call.id.clone()).collect();
                    console.question(&format!("{NOBODY}: denied\n")).await;
                    let verdict = Verdict::Deny { reason: Some(NOBODY.into()) };
                    break Answer::Decide(TextDecision { calls: all, verdict, remember: None });
                }
            };
            let warning = console.errors.paint(style::WARNING, "again:");
            console
                .question(&format!("{warning} {}; answer with {}\n", printable(&unclear), choices(request)))
                .await;
        };
        let now = Sources::default().clock.now();
        let decision = match answer {
            Answer::Decide(decision) => decision.by("user", now),
            Answer::Stop | Answer::Show(_) | Answer::Unclear(_) => return stopped(session, "/stop"),
        };
        let decided = session.decide(&decision).await;
        if let Err(DecideError::Decision(DecisionError::AlreadyDecided(_))) = &decided {
            console.question("decided elsewhere\n").await;
            continue;
        }
        if let Err(DecideError::Decision(DecisionError::Expired(_))) = &decided {
            console.question(EXPIRED).await;
            continue;
        }
        if let Err(DecideError::Decision(
            e @ (DecisionError::NoChoice { .. }
            | DecisionError::WrongKind(..)
            | DecisionError::InvalidEdit(..)),
        )) = &decided
        {
            console.question(&format!("{}\n", printable(&e.to_string()))).await;
            continue;
        }
        if let Err(e) = decided {
            // Said, and the turn ends, so that the session is free for the next one.
            console.tell(&error_lines(console.errors, &e.to_string(), None)).await;
            return stopped(session, "the decision could not be recorded");
        }
    }
    match session.resume() {
        Ok(turn) => Settled { turn: Ok(Some(turn)), leaves: false },
        Err(e) => {
            console.tell(&error_lines(console.errors, &e.to_string(), None)).await;
            stopped(session, "the turn could not go on")
        }
    }
}
