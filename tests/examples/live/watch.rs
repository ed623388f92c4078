//! Reads a turn to its end, with the times at which things were seen.

use std::time::Duration;

use futures::StreamExt;
use tokio::time::timeout;
use turnwright::{
    AgentResult, CancelCause, Session, TurnEvent, TurnEventKind, TurnHandle,
    core::{Clock, clock::SystemClock},
    testkit::check,
};

use crate::Promises;

/// No turn of these takes so long, on whatever machine.
const TURN_LIMIT: Duration = Duration::from_secs(180);

/// So many characters of a turn are printed.
const LINE: usize = 90;

/// Who cancels in these turns.
pub(crate) const ACTOR: &str = "ann";

/// When to cancel.
#[derive(Clone, Copy)]
pub(crate) enum Cut {
    Never,
    /// At this text delta.
    AtDelta(usize),
    /// This long after the model was asked, whether it has said something or not.
    After(Duration),
}

/// What a turn showed.
pub(crate) struct Seen {
    pub(crate) events: Vec<TurnEvent>,
    pub(crate) result: AgentResult,
    /// From the start to the first piece of text or arguments.
    pub(crate) first: Option<Duration>,
    /// The same to the last one.
    pub(crate) last: Option<Duration>,
    /// The same to the last event.
    pub(crate) ended: Duration,
    /// From the cancel to the last event.
    pub(crate) stopped: Option<Duration>,
}

impl Seen {
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &TurnEventKind> {
        self.events.iter().map(|event| &event.kind)
    }

    /// The pieces of text, in order.
    pub(crate) fn texts(&self) -> impl Iterator<Item = &str> {
        self.kinds().filter_map(|kind| match kind {
            TurnEventKind::TextDelta { text } => Some(text.as_str()),
            _ => None,
        })
    }

    /// From the first piece to the last one.
    pub(crate) fn spread(&self) -> Duration {
        self.first.zip(self.last).map(|(first, last)| last - first).unwrap_or_default()
    }

    /// What a person would have seen, in one line.
    pub(crate) fn line(&self) -> String {
        let mut line = String::new();
        for kind in self.kinds() {
            match kind {
                TurnEventKind::TextDelta { text } => line += text,
                TurnEventKind::ToolCall(call) => {
                    line += &format!(" [{} {}]", call.name, call.arguments);
                }
                TurnEventKind::ToolResult(result) => line += &format!(" [{}] ", result.content),
                _ => {}
            }
        }
        let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
        let end = line.char_indices().nth(LINE).map_or(line.len(), |(at, _)| at);
        let more = if end < line.len() { "…" } else { "" };
        format!("{:?}: {}{more}", self.result.outcome(), &line[..end])
    }

    /// Pieces of text and of arguments.
    pub(crate) fn deltas(&self) -> usize {
        self.kinds().filter(|kind| is_delta(kind)).count()
    }
}

fn is_delta(kind: &TurnEventKind) -> bool {
    match kind {
        TurnEventKind::TextDelta { .. } => true,
        TurnEventKind::ToolArgsDelta { fragment, .. } => !fragment.is_empty(),
        _ => false,
    }
}

/// Runs a turn and holds it to what every turn promises.
pub(crate) async fn turn(
    session: &Session,
    words: &str,
    cut: Cut,
    promises: &mut Promises,
) -> Result<Seen, String> {
    let seen = watch(session, words, cut).await?;
    let verdict = check::turn_events(&seen.events);
    promises.check("events are numbered, in order, and end in exactly one last event", verdict);
    let verdict = check::visible_is_kept(&seen.events, &session.messages());
    promises.check("what was shown is in the history", verdict);
    promises.check("the history is legal after every turn", check::history(&session.messages()));
    Ok(seen)
}

/// The same without a word about promises, for turns beside each other.
pub(crate) async fn watch(session: &Session, words: &str, cut: Cut) -> Result<Seen, String> {
    let reading = async {
        let start = SystemClock.instant();
        let handle = session.start(words).map_err(|e| format!("the turn did not start: {e}"))?;
        read(handle, start, cut).await
    };
    let late = |_| format!("the turn did not end within {} s", TURN_LIMIT.as_secs());
    timeout(TURN_LIMIT, reading).await.map_err(late)?
}

async fn read(
    mut handle: TurnHandle,
    start: turnwright::core::clock::Instant,
    cut: Cut,
) -> Result<Seen, String> {
    let (mut events, mut first, mut last, mut cancelled) = (Vec::new(), None, None, None);
    let (mut texts, mut asked) = (0, None);
    loop {
        // Far away where nobody waits for it.
        let due = match (cut, asked, cancelled) {
            (Cut::After(wait), Some(asked), None) => asked + wait,
            _ => start + TURN_LIMIT,
        };
        let event = tokio::select! {
            biased;
            event = handle.next() => event,
            () = tokio::time::sleep_until(due) => {
                cancelled = Some(SystemClock.instant());
                handle.cancel(CancelCause::requested(ACTOR));
                continue;
            }
        };
        let Some(event) = event else { break };
        let now = SystemClock.instant();
        if is_delta(&event.kind) {
            first = first.or(Some(now - start));
            last = Some(now - start);
        }
        match (&event.kind, cut) {
            (TurnEventKind::TextDelta { .. }, Cut::AtDelta(at)) => {
                texts += 1;
                if texts == at {
                    cancelled = Some(now);
                    handle.cancel(CancelCause::requested(ACTOR));
                }
            }
            (TurnEventKind::IterationStarted { .. }, _) => asked = Some(now),
            _ => {}
        }
        events.push(event);
    }
    let end = SystemClock.instant();
    let result = handle.result().await.ok_or("the turn has no result")?;
    Ok(Seen { events, result, first, last, ended: end - start, stopped: cancelled.map(|at| end - at) })
}
