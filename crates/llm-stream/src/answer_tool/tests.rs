//! When it is made, what a model is asked then, and what comes of the call.

use futures::{Stream, stream};
use serde_json::json;
use turnwright_core::{ToolCall, TurnContext};

use super::*;
use crate::{LlmClient, StreamItem};

struct Client(OutputWay);

impl LlmClient for Client {
    fn provider(&self) -> &str {
        "p"
    }

    fn output_way(&self, _request: &LlmRequest) -> OutputWay {
        self.0
    }

    fn stream(&self, _: &TurnContext, _: &LlmRequest) -> impl Stream<Item = StreamItem> + Send + 'static {
        stream::empty()
    }
}

fn asks(tools: &[&str], tool_choice: ToolChoice) -> LlmRequest {
    let output = OutputSchema::new("o", json!({ "type": "object" }));
    let tools = tools.iter().map(|name| Arc::new(definition((*name).to_owned(), &output))).collect();
    LlmRequest { tools, tool_choice, output: Some(output.into()), ..LlmRequest::default() }
}

/// The names of the tools, and the choice, once it was taken.
fn taken(way: OutputWay, mut request: LlmRequest) -> Option<(Vec<String>, ToolChoice)> {
    AnswerTool::take(&mut request, &Client(way))?;
    assert_eq!(request.output, None);
    Some((request.tools.iter().map(|tool| tool.name.clone()).collect(), request.tool_choice))
}

#[test]
fn the_tool_joins_the_others_and_is_demanded_where_that_can_be() {
    use OutputWay::{DemandedTool, Native, OfferedTool};
    use ToolChoice::{Auto, None as No, Required, Tool};
    let only = || Tool("final_answer".into());
    let t = |name: &str| Tool(name.into());
    for (way, tools, choice, expected) in [
        (DemandedTool, vec![], Auto, (vec!["final_answer"], only())),
        (OfferedTool, vec![], Auto, (vec!["final_answer"], Auto)),
        (DemandedTool, vec!["t"], Auto, (vec!["t", "final_answer"], Required)),
        (OfferedTool, vec!["t"], Auto, (vec!["t", "final_answer"], Auto)),
        (DemandedTool, vec!["t"], t("t"), (vec!["t", "final_answer"], t("t"))),
        (OfferedTool, vec!["t"], Required, (vec!["t", "final_answer"], Required)),
        (DemandedTool, vec!["t"], No, (vec!["final_answer"], only())),
        (OfferedTool, vec!["t"], No, (vec!["final_answer"], Auto)),
        (DemandedTool, vec!["final_answer"], Auto, (vec!["final_answer", "final_answer_2"], Required)),
    ] {
        let (names, tool_choice) = taken(way, asks(&tools, choice.clone())).unwrap();
        assert_eq!(
            (names.iter().map(String::as_str).collect(), tool_choice),
            expected,
            "{way:?} {tools:?} {choice:?}"
        );
    }
    assert_eq!(taken(Native, asks(&[], Auto)), None);
    let by_tool = OutputSchema { by_tool: true, ..OutputSchema::new("o", json!({})) };
    let asked = LlmRequest { output: Some(by_tool.into()), ..LlmRequest::default() };
    assert_eq!(
        taken(Native, asked),
        Some((vec!["final_answer".into()], Auto)),
        "it may not know how to demand"
    );
    assert_eq!(taken(DemandedTool, LlmRequest::default()), None, "nothing was asked for");
}

fn call(name: &str) -> LlmEvent {
    LlmEvent::ToolCallComplete(Box::new(ToolCall::new("c", name, "{\"a\":1}")))
}

fn said(events: Vec<LlmEvent>) -> Vec<LlmEvent> {
    let mut tool =
        AnswerTool::take(&mut asks(&[], ToolChoice::Auto), &Client(OutputWay::DemandedTool)).unwrap();
    events.into_iter().map(|event| tool.event(event)).collect()
}

#[test]
fn the_call_comes_out_as_the_text_of_an_answer() {
    use FinishReason::{Length, Stop, ToolCalls};
    let finish = LlmEvent::finish;
    let answer = || LlmEvent::text("{\"a\":1}");
    assert_eq!(said(vec![call("final_answer"), finish(ToolCalls)]), [answer(), finish(Stop)]);
    assert_eq!(said(vec![call("final_answer"), finish(Length)]), [answer(), finish(Length)], "cut stays cut");
    let line = || LlmEvent::text("\n{\"a\":1}");
    let words = || LlmEvent::text("so:");
    assert_eq!(said(vec![words(), call("final_answer"), finish(Stop)]), [words(), line(), finish(Stop)]);
    let both = said(vec![call("t"), call("final_answer"), finish(ToolCalls)]);
    assert_eq!(both, [call("t"), answer(), finish(ToolCalls)], "other calls run");
}

#[test]
fn nobody_sees_it_arrive() {
    let mut tool =
        AnswerTool::take(&mut asks(&[], ToolChoice::Auto), &Client(OutputWay::OfferedTool)).unwrap();
    let started = |id: &str, name: &str| ToolProgress::Started { id: id.into(), name: name.into() };
    let arguments = |id: &str| ToolProgress::Arguments { id: id.into(), fragment: "{".into() };
    let seen = [started("a", "t"), started("b", "final_answer"), arguments("b"), arguments("a")]
        .map(|progress| tool.is_of_other(&progress));
    assert_eq!(seen, [true, false, false, true]);
}
