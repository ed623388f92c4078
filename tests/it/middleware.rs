//! Layers in real turns: the rows of the middleware checklist that no other test carries. `docs/checklists.md` has all rows.

use std::sync::Arc;

use parking_lot::Mutex;
use turnwright::code::{Python, code};
use turnwright_core::{
    CodeCell, CodeResult, IterationEnd, LegOutcome, Part, ToolCall, ToolResult, TurnContext,
};
use turnwright_interceptor::{Around, Exit, Next, Scope, interceptor, scope};
use turnwright_llm_stream::{LlmRequest, LlmResponse, OutputSchema};
use turnwright_react_runtime::tool::{ToolContext, ToolError, tool};
use turnwright_testkit::{Reply, ScriptedModel};

use crate::support::{agent_of, run};

/// Writes down when each scope is entered and left.
#[derive(Clone, Default)]
struct Brackets(Arc<Mutex<Vec<String>>>);

impl Brackets {
    async fn pass<S: Scope>(&self, name: &str, input: S::In, next: Next<'_, S>) -> Result<S::Out, Exit> {
        self.0.lock().push(format!("{name} {{"));
        let out = next.run(input).await;
        self.0.lock().push(format!("}} {name}"));
        out
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock())
    }
}

macro_rules! brackets {
    ($($scope:ident: $input:ty => $output:ty;)*) => {
        $(impl Around<scope::$scope> for Brackets {
            async fn around(&self, _: &TurnContext, input: $input, next: Next<'_, scope::$scope>) -> Result<$output, Exit> {
                self.pass(stringify!($scope), input, next).await
            }
        })*
    };
}
brackets! {
    AgentRun: Vec<Part> => LegOutcome;
    Turn: () => LegOutcome;
    Iteration: u32 => IterationEnd;
    LlmCall: LlmRequest => LlmResponse;
    ToolCall: ToolCall => ToolResult;
    ExecuteCode: CodeCell => CodeResult;
}

fn echo() -> impl turnwright_react_runtime::tool::Tool {
    tool("echo", "", |_: ToolContext, (): ()| async { Ok::<_, ToolError>("echoed".to_owned()) })
}

/// A model that runs one cell, which calls a tool, and then says that it is done.
fn one_cell() -> ScriptedModel {
    let cell = Reply::new().call("c", "code", r#"{"code":"tools.echo()"}"#).finish();
    ScriptedModel::new([cell, Reply::new().text("done").finish()])
}

#[tokio::test]
async fn an_agent_run_wraps_model_calls_tools_and_cells_and_a_tool_that_a_cell_calls_fires_the_tool_layer_inside_it()
 {
    let brackets = Brackets::default();
    let agent = agent_of(&one_cell()).tool(code(Python::default())).tool(echo());
    run(&agent.interceptor(interceptor!(brackets.clone())).build().unwrap(), "go").await;
    assert_eq!(
        brackets.take().join(" "),
        "AgentRun { Turn { \
         Iteration { LlmCall { } LlmCall ToolCall { ExecuteCode { ToolCall { } ToolCall } ExecuteCode } ToolCall } Iteration \
         Iteration { LlmCall { } LlmCall } Iteration \
         } Turn } AgentRun"
    );
}

#[tokio::test]
async fn a_removed_layer_is_not_asked_and_a_layer_of_one_scope_changes_no_other() {
    let model = ScriptedModel::new((0..2).flat_map(|_| {
        let cell = Reply::new().call("c", "code", r#"{"code":"1"}"#).finish();
        [cell, Reply::new().text("done").finish()]
    }));
    let agent = agent_of(&model).tool(code(Python::default())).build().unwrap();
    let brackets = Brackets::default();
    let cells = agent.interceptors().execute_code.register(brackets.clone());
    run(&agent, "go").await;
    assert_eq!(brackets.take(), ["ExecuteCode {", "} ExecuteCode"], "once a cell, and at no other scope");
    cells.remove();
    run(&agent, "go").await;
    assert_eq!(brackets.take(), [""; 0]);
}

/// Changes a request, having seen the form of the answer and what its sender put beside.
struct Form;

impl Around<scope::LlmCall> for Form {
    async fn around(
        &self,
        _: &TurnContext,
        mut request: LlmRequest,
        next: Next<'_, scope::LlmCall>,
    ) -> Result<LlmResponse, Exit> {
        let form = request.output.as_ref().map(|output| output.name.clone()).unwrap_or_default();
        request.extra.insert("form".into(), form.into());
        request.temperature = Some(0.5);
        next.run(request).await
    }
}

#[tokio::test]
async fn a_layer_of_a_model_call_sees_the_form_of_the_answer_and_what_it_adds_is_sent_and_no_more_is_changed()
{
    let model = ScriptedModel::new([
        Reply::new().text(r#"{"n":1}"#).finish(),
        Reply::new().text(r#"{"n":1}"#).finish(),
    ]);
    let schema = OutputSchema::new("answer", serde_json::json!({ "type": "object" }));
    let plain = agent_of(&model).output(schema.clone()).build().unwrap();
    run(&plain, "hi").await;
    run(&agent_of(&model).output(schema).interceptor(interceptor!(Form)).build().unwrap(), "hi").await;
    let [without, mut with] = <[LlmRequest; 2]>::try_from(model.requests()).unwrap();
    assert_eq!(with.extra.remove("form"), Some("answer".into()));
    assert_eq!(with.temperature.take(), Some(0.5));
    let shown = |request: &LlmRequest| {
        let texts: Vec<_> = request.messages.iter().map(|message| message.text()).collect();
        format!(
            "{texts:?} {:?} {:?} {:?} {:?}",
            request.system, request.extra, request.output, request.temperature
        )
    };
    assert_eq!(shown(&with), shown(&without));
}
