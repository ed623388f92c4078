//! Cancels: while text arrives, and while the model is silent.

use std::time::Duration;

use turnwright::{Agent, LlmRequest, Outcome, Role, TurnContext};

use crate::{
    Live, Row, model,
    watch::{ACTOR, Cut, Seen, turn},
};

/// A turn that was cancelled is over after the grace of 50 ms at most. The rest is for a machine whose cores the model
/// keeps busy.
const STOP_LIMIT: Duration = Duration::from_millis(500);
/// A server whose client is gone stops at its next token; the whole answer would take it much longer.
const FREE_LIMIT: Duration = Duration::from_secs(1);
/// As many as its context holds.
const MOST_TOKENS: u64 = 1500;
const ROUNDS: usize = 5;

/// Endless words, but a short answer to what follows a cancel.
fn endless(ctx: &TurnContext, request: &mut LlmRequest) {
    if model::question(request).starts_with("Short") {
        request.max_output_tokens = Some(8);
    } else {
        model::repeat("word", ctx, request);
    }
}

/// Cancels at the eighth delta, and asks something short in the same session.
pub(crate) async fn in_mid_stream(live: &mut Live) -> Result<Row, String> {
    let agent = agent(live)?;
    let mut row = Row::new(live.model.wire, "a cancel in mid-stream");
    for _ in 0..ROUNDS {
        let session = agent.new_session();
        live.sessions.push(session.clone());
        let seen = turn(&session, "Say it again and again.", Cut::AtDelta(8), &mut live.promises).await?;
        row.add(&seen);
        let freed = live.server.free().await?;
        row.freed(freed);

        stopped(live, &seen);
        let shown: String = seen.texts().collect();
        let messages = session.messages();
        let kept = messages.last().filter(|m| m.role == Role::Assistant);
        let promises = &mut live.promises;
        promises.hold(
            "the server is told at once that nobody reads on",
            freed.is_some_and(|f| f < FREE_LIMIT),
            || format!("free after {freed:?}"),
        );
        promises.hold(
            "the text shown before a cancel is kept",
            kept.is_some_and(|m| m.text() == shown),
            || format!("shown {shown:?}, kept {kept:?}"),
        );
        let mark = kept.and_then(|m| m.interrupted.as_ref()).map(|mark| mark.reason.as_str());
        promises
            .hold("a cut answer is marked as interrupted", mark == Some("user_stop"), || format!("{mark:?}"));
        promises.hold("the result of a cut turn is the text shown", seen.result.content == shown, || {
            format!("shown {shown:?}, result {:?}", seen.result.content)
        });

        let next = turn(&session, "Short: are you there?", Cut::Never, &mut live.promises).await?;
        let answered = next.texts().next().is_some() && next.result.cancelled_by.is_none();
        live.promises.hold("the next turn of the session is answered", answered, || {
            format!("{:?} {:?}", next.result.outcome(), next.result.error)
        });
    }
    Ok(row)
}

/// Cancels while the server still reads a long question.
pub(crate) async fn before_the_first_token(live: &mut Live) -> Result<Row, String> {
    let agent = agent(live)?;
    let mut row = Row::new(live.model.wire, "a cancel before the first token");
    for _ in 0..ROUNDS {
        let session = agent.new_session();
        live.sessions.push(session.clone());
        // Nothing of it is in the server's cache: it begins differently each time.
        let question =
            format!("{}: {}", session.id(), "Read this with care before you answer it. ".repeat(40));
        let cut = Cut::After(Duration::from_millis(50));
        let seen = turn(&session, &question, cut, &mut live.promises).await?;
        row.add(&seen);
        let freed = live.server.free().await?;
        row.freed(freed);
        live.promises.hold("the server is told that nobody waits for an answer", freed.is_some(), || {
            "it was at work for 30 s more".into()
        });
        stopped(live, &seen);
    }
    Ok(row)
}

fn agent(live: &Live) -> Result<Agent, String> {
    live.model.agent(endless).0.max_output_tokens(MOST_TOKENS).build().map_err(|e| e.to_string())
}

fn stopped(live: &mut Live, seen: &Seen) {
    let promises = &mut live.promises;
    let by = seen.result.cancelled_by.as_ref().map(|cause| cause.actor.as_str());
    let outcome = seen.result.outcome();
    promises.hold(
        "a cancel ends the turn as cancelled, by who asked",
        outcome == Outcome::Cancelled && by == Some(ACTOR),
        || format!("{outcome:?} by {by:?}: {:?}", seen.result.error),
    );
    let soon = seen.stopped.is_some_and(|after| after < STOP_LIMIT);
    promises.hold("a cancelled turn is over at once", soon, || format!("after {:?}", seen.stopped));
}
