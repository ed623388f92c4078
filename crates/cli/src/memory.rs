//! What the configuration adds beside hooks by name: memory, code cells, long results in files.

use std::{
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use turnwright::{
    Agent, AgentBuilder,
    builtin::{
        ExperienceFiles, ExperienceReview, OverflowFiles, TodoStore,
        memory::{
            CleanUp, CleanupMetrics, Consolidation, ContextAssembly, CoreMemory, TodoReorientation,
            instruction_files,
        },
    },
    hook::{MemoryHook, MemoryRunner},
    interceptor,
    interceptor::builtin::{ContextRetry, ErrorBudget},
};

use crate::{
    Refusal,
    agent::{self, Models, Purpose},
    config::Config,
};

const CONSOLIDATE: &str = "memory.consolidate_tokens";
const CONTEXT: &str = "memory.context_tokens";
const CORE: &str = "memory.core_file";
const EXPERIENCES: &str = "memory.experiences";
const INSTRUCTIONS: &str = "memory.instruction_files";
const METRICS: &str = "memory.metrics_file";
const REVIEW: &str = "memory.review_from_messages";
const WINDOW: &str = "memory.window_tokens";

/// The least window of which the shares mean anything.
const LEAST_WINDOW: u32 = 1000;
/// What a core memory has at most.
const MOST_CORE: u32 = 4000;

/// Keys that do nothing without one of these.
const NEED: [(&str, &[&str]); 4] = [
    (CONSOLIDATE, &[CORE]),
    (CONTEXT, &[CORE, EXPERIENCES]),
    (METRICS, &[WINDOW, CONSOLIDATE]),
    (REVIEW, &[EXPERIENCES]),
];

/// What is wrong with the keys of memory, by key.
pub(crate) fn mistakes(config: &Config) -> Vec<(&'static str, String)> {
    let mut wrong = Vec::new();
    for (key, others) in NEED {
        if config.get(key).is_some() && others.iter().all(|other| config.get(other).is_none()) {
            wrong.push((key, format!("it does nothing without {}", others.join(" or "))));
        }
    }
    if config.count(WINDOW).is_some_and(|tokens| tokens < LEAST_WINDOW) {
        wrong.push((WINDOW, format!("no conversation fits: {LEAST_WINDOW} are the least")));
    }
    if config.count(CONSOLIDATE).is_some_and(|tokens| tokens >= MOST_CORE) {
        wrong.push((
            CONSOLIDATE,
            format!("a core memory has {MOST_CORE} tokens at most, so that it never is above"),
        ));
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

/// Adds what the configuration names.
pub(crate) fn with(
    agent: AgentBuilder,
    config: &Config,
    models: &Models,
    (todos, purpose): (&Arc<dyn TodoStore>, Purpose),
) -> Result<AgentBuilder, Refusal> {
    let mut agent = remembers(agent, config, models, (todos, purpose))?;
    if let Some(failures) = config.count("interceptors.error_budget.failures") {
        agent = agent.interceptor(interceptor!(ErrorBudget::new(failures)).name("error_budget"));
    }
    if let Some(files) = overflow(config) {
        agent = agent.tool(files.reader()).tool_result_overflow(Arc::new(files));
    }
    #[cfg(unix)]
    if let Some(python) = config.text("tools.python") {
        use turnwright::code::{Python, code};
        agent = agent.tool(code(Python::default().interpreter(python)));
    }
    Ok(agent)
}

/// Where long results are kept, if they are.
pub(crate) fn overflow(config: &Config) -> Option<OverflowFiles> {
    config.text("tools.overflow").map(OverflowFiles::below)
}

fn remembers(
    mut agent: AgentBuilder,
    config: &Config,
    models: &Models,
    (todos, purpose): (&Arc<dyn TodoStore>, Purpose),
) -> Result<AgentBuilder, Refusal> {
    let metrics = metrics(config, purpose)?;
    let core = config.text(CORE).map(CoreMemory::in_file);
    let experiences = config.text(EXPERIENCES).map(ExperienceFiles::below);
    let mut assembly = ContextAssembly::default();
    if let Some(tokens) = config.count(CONTEXT) {
        assembly = assembly.budget(tokens.into());
    }
    if let Some(core) = &core {
        assembly = assembly.source(1, core.clone());
        agent = agent.tool(core.tool());
    }
    if let Some(experiences) = &experiences {
        assembly = assembly.source(0, experiences.clone());
        let (write, read) = experiences.tools();
        agent = agent.tool(write).tool(read);
    }
    let is_told = core.is_some() || experiences.is_some();
    if is_told {
        agent = agent.hook(assembly.clone());
    }
    if let (Some(core), Some(tokens)) = (core, config.count(CONSOLIDATE)) {
        let writer = aside("consolidation", config, models)?;
        let hook = Consolidation::by_agent(core, writer).above(tokens.into());
        agent = agent.hook(hook.tell(MemoryRunner::new(metrics.clone())));
    }
    if let (Some(experiences), Some(messages)) = (experiences, config.count(REVIEW))
        && purpose != Purpose::Turn
    {
        let reviewer =
            agent::with_fallbacks(Agent::builder("experience_review", models.0.clone()), models.1.clone());
        let review = ExperienceReview::by_agent(experiences, agent::layers(reviewer, config));
        let review = review.map_err(|e| config.refuse(REVIEW, &e.to_string()))?;
        agent = agent.hook(review.min_messages(messages as usize));
    }
    if let Some(window) = config.count(WINDOW).map(u64::from) {
        // What the model no longer sees it is told again: first what it was about, then what it always knows.
        let about: Arc<dyn MemoryHook> = Arc::new(TodoReorientation::new(todos.clone()));
        let again = is_told.then(|| Arc::new(assembly) as Arc<dyn MemoryHook>);
        let runner = MemoryRunner::new(metrics.into_iter().chain([about]).chain(again));
        agent =
            agent.hook(CleanUp::for_window(window).by_agent(aside("clean_up", config, models)?).tell(runner));
        agent = agent.interceptor(interceptor!(ContextRetry::default().window(window)).name("context_retry"));
    }
    Ok(agent)
}

/// An agent that writes for memory, with the layers of the one that talks.
fn aside(name: &str, config: &Config, (model, fallbacks): &Models) -> Result<Agent, Refusal> {
    let agent = agent::with_fallbacks(Agent::builder(name, model.clone()), fallbacks.clone());
    agent::finish(agent::layers(agent, config))
}

fn metrics(config: &Config, purpose: Purpose) -> Result<Option<Arc<dyn MemoryHook>>, Refusal> {
    let Some(path) = config.text(METRICS) else { return Ok(None) };
    let lines = Lines(path.into());
    if purpose != Purpose::Plan {
        // What is wrong with it is told now, and not when there is something to write.
        lines.open().map_err(|e| config.refuse(METRICS, &format!("{path} cannot be written: {e}")))?;
    }
    Ok(Some(Arc::new(CleanupMetrics::to(lines))))
}

/// A file that grows by lines, opened for each: they are few, and the file may be moved away meanwhile.
struct Lines(PathBuf);

impl Lines {
    fn open(&self) -> io::Result<fs::File> {
        fs::File::options().create(true).append(true).open(&self.0)
    }
}

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.open()?.write_all(bytes).map(|()| bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
