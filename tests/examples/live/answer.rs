//! A streamed answer.

use std::time::Duration;

use turnwright::{Outcome, TurnEventKind, llm_stream::FinishReason};

use crate::{
    Live, Row, model,
    watch::{Cut, turn},
};

/// No model makes a piece of text faster. An answer that was kept back and shown in one go takes less for all of it.
const PACE: Duration = Duration::from_millis(1);
const QUESTIONS: [&str; 3] = ["Say hello.", "What is bread made of?", "Name three colours."];

/// Three questions, each in a session of its own.
pub(crate) async fn play(live: &mut Live) -> Result<Row, String> {
    let (builder, log) = live.model.agent(model::plain);
    let agent = builder.max_output_tokens(120).build().map_err(|e| e.to_string())?;
    let mut row = Row::new(live.model.wire, "a streamed answer");
    for question in QUESTIONS {
        let session = agent.new_session();
        live.sessions.push(session.clone());
        let seen = turn(&session, question, Cut::Never, &mut live.promises).await?;
        row.add(&seen);

        let promises = &mut live.promises;
        let calls = log.take(session.id());
        let [call] = &calls[..] else { return Err(format!("{} model calls for one answer", calls.len())) };
        let text: String = seen.texts().collect();
        promises.hold("an answer comes in several pieces", seen.texts().count() > 2, || format!("{text:?}"));
        promises.hold("the result is the text that was streamed", seen.result.content == text, || {
            format!("{:?}, streamed {text:?}", seen.result.content)
        });
        let whole = matches!(call.finish, Some(FinishReason::Stop | FinishReason::Length));
        promises.hold("the finish reason is known", whole, || format!("{:?}", call.finish));
        let ended = seen.result.outcome();
        let expected = match call.finish {
            Some(FinishReason::Length) => Outcome::LimitReached,
            _ => Outcome::Completed,
        };
        promises.hold("a whole answer completes the turn", ended == expected, || {
            format!("{ended:?} after {:?}: {:?}", call.finish, seen.result.error)
        });
        let usage = seen.result.usage;
        let known = usage.input_tokens > Some(0)
            && usage.output_tokens > Some(0)
            && !usage.partial
            && usage == call.usage;
        promises.hold("usage is known", known, || format!("{usage:?}"));
        let order: Vec<_> = seen.kinds().map(stage).collect();
        let in_order = order.is_sorted() && order.first() == Some(&0) && order.last() == Some(&4);
        promises.hold("started, text, finished come in this order", in_order, || format!("{order:?}"));
        promises.hold("text is shown as it is made", seen.spread() > PACE * seen.deltas() as u32, || {
            format!("{} pieces within {:?}", seen.deltas(), seen.spread())
        });
    }
    Ok(row)
}

/// Where in a turn of one answer an event stands.
fn stage(kind: &TurnEventKind) -> u8 {
    match kind {
        TurnEventKind::TurnStarted { .. } => 0,
        TurnEventKind::IterationStarted { .. } => 1,
        TurnEventKind::TextDelta { .. } | TurnEventKind::Usage { .. } => 2,
        TurnEventKind::IterationFinished { .. } => 3,
        _ => 4,
    }
}
