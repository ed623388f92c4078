//! A real tool call, and its result on the way back.

use std::sync::Arc;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use turnwright::{
    LlmRequest, Message, Outcome, Part, Role, TurnContext, TurnEventKind,
    llm_stream::{FinishReason, ToolChoice},
    tool,
};

use crate::{
    Live, Row,
    watch::{Cut, Seen, turn},
};

#[derive(Deserialize, JsonSchema)]
struct Place {
    /// Its name.
    #[schemars(length(max = 20))]
    city: String,
}

/// The model begins its calls so.
const CALL: &str = "<tool_call>\n";

/// A model of this size does not choose tools. The first call of a turn is forced: a tool is required, and the answer
/// is begun for it. What follows (id, name, arguments token by token) is the server's own. The second call is free to
/// answer.
fn force(ctx: &TurnContext, request: &mut LlmRequest) {
    if request.messages.last().is_some_and(|m| m.role == Role::Tool) {
        request.tool_choice = ToolChoice::None;
        return;
    }
    request.tool_choice = ToolChoice::Required;
    // The second is for Responses, which knows no such field; this server does.
    request.stop = vec!["</tool_call>".to_owned()];
    request.extra.insert("stop".into(), json!(request.stop));
    let begun = Message::new(ctx.sources().id(), Role::Assistant, vec![Part::text(CALL)]);
    request.messages.push(Arc::new(begun));
}

/// Two turns of one session, a call each.
pub(crate) async fn play(live: &mut Live) -> Result<Row, String> {
    let wire = live.model.wire;
    let (builder, log) = live.model.agent(force);
    let asked: Arc<Mutex<Vec<String>>> = Arc::default();
    let heard = asked.clone();
    let weather = tool("weather", "The weather in a city", move |_ctx, place: Place| {
        let answer = format!("In {} it is sunny, with {} degrees.", place.city, 21 + heard.lock().len());
        heard.lock().push(place.city);
        async move { Ok(answer) }
    });
    let agent = builder.max_output_tokens(80).tool(weather).build().map_err(|e| e.to_string())?;
    let session = agent.new_session();
    live.sessions.push(session.clone());
    let mut row = Row::new(wire, "a tool call and its result");
    for (n, question) in ["What is the weather in Rome?", "And in Oslo?"].iter().enumerate() {
        let seen = turn(&session, question, Cut::Never, &mut live.promises).await?;
        row.add(&seen);

        let promises = &mut live.promises;
        let calls = log.take(session.id());
        let [first, second] = &calls[..] else {
            return Err(format!("{} model calls, wanted one with a tool call and one after it", calls.len()));
        };
        let finish = first.finish == Some(FinishReason::ToolCalls);
        promises.hold("the finish reason of a call is known", finish, || format!("{:?}", first.finish));
        let (fragments, pieces) = arguments(&seen);
        let Some(call) = seen.kinds().find_map(|kind| match kind {
            TurnEventKind::ToolCall(call) => Some(call),
            _ => None,
        }) else {
            return Err("the model made no call".to_owned());
        };
        promises.hold("arguments arrive in fragments", pieces > 2, || format!("{pieces}: {fragments:?}"));
        promises.hold("the fragments are the arguments", fragments == call.arguments, || {
            format!("{fragments:?}, not {:?}", call.arguments)
        });
        let ran = asked.lock().clone();
        let city = call.arguments_value().ok().and_then(|a| a["city"].as_str().map(str::to_owned));
        promises.hold(
            "the tool ran once, with these arguments",
            ran.len() == n + 1 && ran.last() == city.as_ref(),
            || format!("{ran:?} after {:?}", call.arguments),
        );
        let Some(result) = seen.kinds().find_map(|kind| match kind {
            TurnEventKind::ToolResult(result) => Some(result),
            _ => None,
        }) else {
            return Err("the tool has no result".to_owned());
        };
        promises.hold(
            "the tool succeeded",
            result.error.is_none() && result.content.contains("sunny"),
            || format!("{result:?}"),
        );
        let goes_back = wire.ends_with_result(&second.body, call.id.as_str(), &result.content);
        promises.hold("the result is in the next request", goes_back, || second.body.to_string());
        let ended = seen.result.outcome();
        promises.hold(
            "the second answer ends the turn",
            ended == Outcome::Completed && seen.result.iterations == 2,
            || format!("{ended:?} after {} model calls: {:?}", seen.result.iterations, seen.result.error),
        );
        let sum = first.usage.plus(second.usage);
        promises.hold("usage is the sum of both calls", seen.result.usage == sum && !sum.partial, || {
            format!("{:?}, not {sum:?}", seen.result.usage)
        });
        // What the layer began is part of one request, not of the conversation.
        let leaked = session.messages().iter().any(|m| m.text().contains(CALL));
        promises
            .hold("what a layer adds to a request stays out of the history", !leaked, || "a prefill".into());
    }
    Ok(row)
}

/// What the progress lane showed of the arguments, and in how many pieces.
fn arguments(seen: &Seen) -> (String, usize) {
    let fragments = seen.kinds().filter_map(|kind| match kind {
        TurnEventKind::ToolArgsDelta { fragment, .. } if !fragment.is_empty() => Some(fragment.as_str()),
        _ => None,
    });
    let fragments: Vec<&str> = fragments.collect();
    (fragments.concat(), fragments.len())
}
