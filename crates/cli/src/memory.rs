//! What the configuration adds beside hooks by name: memory, code cells, long results in files.

use std::{path::Path, sync::Arc};

use turnwright::{
    AgentBuilder, ModelHandle,
    builtin::{
        OverflowFiles,
        memory::{CleanUp, ContextAssembly, CoreMemory, instruction_files},
    },
    interceptor,
    interceptor::builtin::{ContextRetry, ErrorBudget},
};

use crate::{Refusal, config::Config};

const INSTRUCTIONS: &str = "memory.instruction_files";

/// Instructions with the files of the tool root and the folders above it.
pub(crate) fn instructions(config: &Config, root: &Path, usual: &str) -> Result<String, Refusal> {
    let names: Vec<&str> = config.texts(INSTRUCTIONS).iter().map(String::as_str).collect();
    if names.is_empty() {
        return Ok(usual.to_owned());
    }
    let root = root.canonicalize().unwrap_or_else(|_| root.to_owned());
    let files = instruction_files(&root, &names).map_err(|e| config.refuse(INSTRUCTIONS, &e.to_string()))?;
    Ok(if files.is_empty() { usual.to_owned() } else { format!("{usual}\n\n{files}") })
}

/// Adds what the configuration names.
pub(crate) fn with(mut agent: AgentBuilder, config: &Config, model: &ModelHandle) -> AgentBuilder {
    if let Some(window) = config.count("memory.window_tokens") {
        let window = u64::from(window);
        agent = agent.hook(CleanUp::for_window(window).by(model.clone()));
        agent = agent.interceptor(interceptor!(ContextRetry::default().window(window)).name("context_retry"));
    }
    if let Some(file) = config.text("memory.core_file") {
        let memory = CoreMemory::in_file(file);
        agent = agent.tool(memory.tool()).hook(ContextAssembly::default().source(0, memory));
    }
    if let Some(failures) = config.count("interceptors.error_budget.failures") {
        agent = agent.interceptor(interceptor!(ErrorBudget::new(failures)).name("error_budget"));
    }
    if let Some(folder) = config.text("tools.overflow") {
        let files = OverflowFiles::below(folder);
        agent = agent.tool(files.reader()).tool_result_overflow(Arc::new(files));
    }
    #[cfg(unix)]
    if let Some(python) = config.text("tools.python") {
        use turnwright::code::{Python, code};
        agent = agent.tool(code(Python::default().interpreter(python)));
    }
    agent
}
