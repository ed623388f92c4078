//! Two sessions at once.

use turnwright::{LlmRequest, Outcome, TurnContext, testkit::check};

use crate::{
    Live, Row, model,
    watch::{Cut, watch},
};

const WORDS: [&str; 2] = ["red", "blue"];

/// Each session may say one word only, so that a word of the other one is found.
fn own_word(ctx: &TurnContext, request: &mut LlmRequest) {
    let question = model::question(request);
    if let Some(word) = WORDS.iter().find(|word| question.contains(**word)) {
        model::repeat(word, ctx, request);
    }
}

/// One agent, two sessions, a turn each.
pub(crate) async fn play(live: &mut Live) -> Result<Row, String> {
    let (builder, log) = live.model.agent(own_word);
    let agent = builder.max_output_tokens(60).build().map_err(|e| e.to_string())?;
    let sessions = [agent.new_session(), agent.new_session()];
    live.sessions.extend(sessions.iter().cloned());
    let ask = |n: usize| {
        let session = sessions[n].clone();
        async move { watch(&session, &format!("Say {} again and again.", WORDS[n]), Cut::Never).await }
    };
    let (red, blue) = tokio::join!(ask(0), ask(1));
    let both = [red?, blue?];
    let mut row = Row::new(live.model.wire, "two sessions at once");
    let promises = &mut live.promises;
    let mut ids = Vec::new();
    for ((seen, session), word) in both.iter().zip(&sessions).zip(WORDS) {
        row.add(seen);
        promises.check("events of two turns at once are in order, each", check::turn_events(&seen.events));
        promises.check(
            "what two turns showed is kept, each",
            check::visible_is_kept(&seen.events, &session.messages()),
        );
        let text: String = seen.texts().collect();
        let own = !text.is_empty() && text.split_whitespace().all(|said| word.starts_with(said));
        promises.hold("texts of two sessions do not mix", own, || format!("{text:?} of {word:?}"));
        let ended = seen.result.outcome();
        promises.hold("both turns go on to their limit", ended == Outcome::LimitReached, || {
            format!("{ended:?}: {:?}", seen.result.error)
        });
        ids.extend(log.take(session.id()).into_iter().map(|call| call.response_id));
    }
    promises.hold(
        "each session has an answer of its own",
        ids.len() == 2 && ids[0].is_some() && ids[0] != ids[1],
        || format!("{ids:?}"),
    );
    // Each was asked at the same moment, so the times can be compared.
    let overlap = both[0].first < Some(both[1].ended) && both[1].first < Some(both[0].ended);
    promises.hold("neither waits for the other to end", overlap, || {
        let times = |n: usize| (both[n].first, both[n].ended);
        format!("{:?} and {:?}", times(0), times(1))
    });
    Ok(row)
}
