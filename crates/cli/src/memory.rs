//! What the configuration adds beside hooks by name: memory, code cells, long results in files.

use std::{fs::OpenOptions, path::Path, sync::Arc};

use turnwright::{
    AgentBuilder, ModelHandle,
    builtin::{
        OverflowFiles, TodoStore,
        memory::{
            CleanUp, CleanupMetrics, Consolidation, ContextAssembly, CoreMemory, TodoReorientation,
            instruction_files,
        },
    },
    hook::{MemoryHook, MemoryRunner},
    interceptor,
    interceptor::builtin::{ContextRetry, ErrorBudget},
};

use crate::{Refusal, config::Config};

const CONSOLIDATE: &str = "memory.consolidate_tokens";
const CORE: &str = "memory.core_file";
const INSTRUCTIONS: &str = "memory.instruction_files";
const METRICS: &str = "memory.metrics_file";
const WINDOW: &str = "memory.window_tokens";

/// What is wrong with the keys of memory, by key.
pub(crate) fn mistakes(config: &Config) -> Vec<(&'static str, String)> {
    let is_set = |key| config.get(key).is_some();
    let mut wrong = Vec::new();
    if is_set(CONSOLIDATE) && !is_set(CORE) {
        wrong.push((CONSOLIDATE, format!("there is nothing to write anew without {CORE}")));
    }
    if is_set(METRICS) && !is_set(WINDOW) && !is_set(CONSOLIDATE) {
        wrong.push((METRICS, format!("nothing is measured without {WINDOW} or {CONSOLIDATE}")));
    }
    wrong
}

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

/// Who is told of clean-ups and the rest.
pub(crate) fn runner(config: &Config, todos: &Arc<dyn TodoStore>) -> Result<MemoryRunner, Refusal> {
    let mut told: Vec<Arc<dyn MemoryHook>> = vec![Arc::new(TodoReorientation::new(todos.clone()))];
    if let Some(file) = config.text(METRICS) {
        let opened = OpenOptions::new().create(true).append(true).open(file);
        let opened = opened.map_err(|e| config.refuse(METRICS, &format!("{file} cannot be written: {e}")))?;
        told.push(Arc::new(CleanupMetrics::to(opened)));
    }
    Ok(MemoryRunner::new(told))
}

/// Adds what the configuration names.
pub(crate) fn with(
    mut agent: AgentBuilder,
    config: &Config,
    model: &ModelHandle,
    runner: &MemoryRunner,
) -> AgentBuilder {
    if let Some(window) = config.count(WINDOW) {
        let window = u64::from(window);
        agent = agent.hook(CleanUp::for_window(window).by(model.clone()).tell(runner.clone()));
        agent = agent.interceptor(interceptor!(ContextRetry::default().window(window)).name("context_retry"));
    }
    if let Some(file) = config.text(CORE) {
        let memory = CoreMemory::telling(file, runner.clone());
        agent = agent.tool(memory.tool());
        if let Some(tokens) = config.count(CONSOLIDATE) {
            let shorter = Consolidation::new(memory.clone(), model.clone()).above(tokens.into());
            agent = agent.hook(shorter.tell(runner.clone()));
        }
        agent = agent.hook(ContextAssembly::default().source(0, memory).tell(runner.clone()));
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
