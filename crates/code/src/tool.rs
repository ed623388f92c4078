//! The tool `code`.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use turnwright_core::{CodeCell, CodeResult, Concurrency, ErrorInfo, ErrorKind, ToolDefinition, TurnContext};
use turnwright_interceptor::{CallState, Core, Exit, scope};
use turnwright_react_runtime::tool::{IntoToolOutput, Tool, ToolContext, ToolError, ToolOutput};

use crate::{CodeExecutor, DynCodeExecutor};

/// Its name.
const NAME: &str = "code";
/// The longest cell, in bytes.
const LONGEST: usize = 100_000;

/// The tool `code`, which runs cells by this executor. It runs alone, and nothing of a cell is repeated after a crash: a call
/// in doubt is reported. No cell runs inside of another call.
///
/// Whether a person is asked is the gate's to say; nothing else stands between the model and the code.
pub fn code(executor: impl CodeExecutor) -> CodeTool {
    CodeTool { executor: Arc::new(executor) }
}

/// A tool that runs the model's code; see [`code`].
#[derive(Clone)]
pub struct CodeTool {
    executor: Arc<dyn DynCodeExecutor>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Args {
    code: String,
}

impl Tool for CodeTool {
    fn definition(&self) -> ToolDefinition {
        ToolDefinition {
            name: NAME.into(),
            description: self.executor.dyn_describe(),
            parameters: json!({
                "type": "object",
                "properties": { "code": { "type": "string", "description": "The cell." } },
                "required": ["code"],
                "additionalProperties": false,
            }),
            source: "local".into(),
            concurrency: Concurrency::Exclusive,
            idempotent: false,
            timeout: None,
            idle_timeout: None,
            recovery: None,
        }
    }

    async fn call(&self, ctx: ToolContext, arguments: String) -> Result<ToolOutput, ToolError> {
        let args: Args = serde_json::from_str(&arguments).map_err(|e| {
            let message = format!("the arguments do not fit the schema of {NAME:?}: {e}");
            ToolError::info(ErrorInfo::new(ErrorKind::InvalidArguments, message))
        })?;
        let code = unfenced(&args.code);
        if code.trim().is_empty() {
            return Err(ToolError::model("the cell is empty"));
        }
        if code.len() > LONGEST {
            let message = format!("the cell has {} bytes, {LONGEST} are the most; write a file", code.len());
            return Err(ToolError::model(message));
        }
        if ctx.is_inner() {
            return Err(ToolError::model("a cell cannot run inside of another call"));
        }
        let language = self.executor.dyn_language().to_owned();
        let cell = CodeCell { language, code: code.to_owned(), params: Default::default() };
        let core = Execute { executor: &*self.executor, ctx: &ctx };
        let result = ctx.interceptors().execute_code.call(ctx.turn(), cell, &core, None).await;
        match result {
            Ok(result) => said(result),
            Err(Exit::Failed(error)) => Err(ToolError::info(error)),
            Err(Exit::Control(control)) => Err(control.into()),
        }
    }
}

/// What the chain of cells wraps.
struct Execute<'a> {
    executor: &'a dyn DynCodeExecutor,
    ctx: &'a ToolContext,
}

impl Core<scope::ExecuteCode> for Execute<'_> {
    async fn call(
        &self,
        _: &TurnContext,
        cell: CodeCell,
        _: &CallState<scope::ExecuteCode>,
    ) -> Result<CodeResult, Exit> {
        // A layer may have made it a cell of another language.
        if cell.language != self.executor.dyn_language() {
            let message = format!("cells here are {}, not {}", self.executor.dyn_language(), cell.language);
            return Err(Exit::failed(ErrorKind::InvalidArguments, message));
        }
        let work = async { Ok(self.executor.dyn_execute(self.ctx, cell.clone()).await?) };
        self.ctx.watch_code(&cell, work).await
    }
}

/// Without the fence that models like to put around code.
fn unfenced(code: &str) -> &str {
    let inside = |code: &'_ str| -> Option<usize> {
        let rest = code.trim().strip_prefix("```")?.strip_suffix("```")?;
        rest.find('\n')
    };
    match inside(code) {
        Some(first) => {
            let rest = &code.trim()["```".len()..];
            &rest[first + 1..rest.len() - "```".len()]
        }
        None => code,
    }
}

/// What the model reads.
fn said(result: CodeResult) -> Result<ToolOutput, ToolError> {
    let mut parts = Vec::new();
    if result.fresh {
        parts.push("[a new interpreter: nothing of earlier cells is there]".to_owned());
    }
    if !result.output.is_empty() {
        parts.push(result.output.trim_end_matches('\n').to_owned());
    }
    match result.value {
        None => {}
        Some(Value::String(text)) => parts.push(format!("[value] {text}")),
        Some(value) => parts.push(format!("[value] {value}")),
    }
    match result.error {
        Some(mut error) => {
            parts.push(error.message);
            error.message = parts.join("\n");
            Err(ToolError::info(error))
        }
        None if parts.is_empty() => "[nothing printed, no value]".into_output(),
        None => parts.join("\n").into_output(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fence_around_a_cell_is_taken_off_and_nothing_else() {
        assert_eq!(unfenced("```python\nprint(1)\n```"), "print(1)\n");
        assert_eq!(unfenced("\n```\nx\ny\n```\n"), "x\ny\n");
        for whole in ["print(1)", "x = '''```'''", "```", "``````", "```x```", "a\n```\nb\n```"] {
            assert_eq!(unfenced(whole), whole);
        }
    }

    #[test]
    fn a_result_is_said_whole_and_an_empty_one_is_said_to_be_empty() {
        let text = |result| match said(result) {
            Ok(output) => output.content,
            Err(error) => format!("{error:?}"),
        };
        assert_eq!(text(CodeResult::default()), "[nothing printed, no value]");
        let whole =
            CodeResult { output: "a\n".into(), value: Some(json!({"b": 1})), error: None, fresh: true };
        assert_eq!(
            text(whole),
            "[a new interpreter: nothing of earlier cells is there]\na\n[value] {\"b\":1}"
        );
        let failed = CodeResult {
            output: "a".into(),
            error: Some(ErrorInfo::new(ErrorKind::ToolFailed, "NameError: b")),
            ..CodeResult::default()
        };
        assert!(text(failed).contains("a\\nNameError: b"), "what was printed is kept");
    }
}
