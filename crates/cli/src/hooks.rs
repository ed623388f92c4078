//! Built-in hooks that the configuration asks for.

use std::{collections::BTreeMap, sync::Arc};

use jiff::tz::TimeZone;
use parking_lot::Mutex;
use turnwright::{
    AgentBuilder, HookSpec, Limits, SessionId,
    builtin::{
        CurrentTime, EnvInjection, LengthGuard, LoopDetection, TaskDelegationNudge, Todo, TodoContinuation,
        TodoPlanningNudge, TodoStore, todo_tools, todos_of,
    },
    core::BoxFuture,
    runtime::store::SessionStore,
    store::SqliteStore,
};

use crate::{Refusal, args::AgentArgs, config::Config, subagents};

const ENABLE: &str = "hooks.enable";
const VARIABLES: &str = "hooks.env_injection.variables";
const NUDGES: &str = "hooks.length_guard.nudges";
const OBSERVATION: &str = "hooks.loop_detection.observation";
const WINDOW: &str = "hooks.loop_detection.window";
const ZONE: &str = "hooks.current_time.zone";

/// The one that is not for a subagent, which has nobody to delegate to.
const DELEGATION: &str = "task_delegation_nudge";

const NAMES: [&str; 7] = [
    "current_time",
    "env_injection",
    "length_guard",
    "loop_detection",
    DELEGATION,
    "todo_continuation",
    "todo_planning_nudge",
];

/// Those that would do nothing here, and why.
const IDLE: [(&str, &str); 3] = [
    ("checkpoint", "nothing here reads checkpoints; the store keeps sessions without it"),
    ("logging", "the program has no log; with --json it tells all that a turn does"),
    ("runtime_context", "no tool of the program asks for it"),
];

/// Keys of one hook: they do nothing without it.
const OPTIONS: [(&str, &str); 5] = [
    (VARIABLES, "env_injection"),
    (NUDGES, "length_guard"),
    (OBSERVATION, "loop_detection"),
    (WINDOW, "loop_detection"),
    (ZONE, "current_time"),
];

fn is_enabled(config: &Config, hook: &str) -> bool {
    config.texts(ENABLE).iter().any(|name| name == hook)
}

/// Whether some hook may ask for a further attempt.
fn goes_on(config: &Config) -> bool {
    ["length_guard", "todo_continuation"].into_iter().any(|hook| is_enabled(config, hook))
}

/// What is wrong with the keys of hooks, by key.
pub(crate) fn mistakes(config: &Config) -> Vec<(&'static str, String)> {
    let mut wrong = Vec::new();
    let names = config.texts(ENABLE);
    for (n, name) in names.iter().enumerate() {
        if names[..n].contains(name) {
            wrong.push((ENABLE, format!("{name:?} is named twice")));
        } else if let Some((_, why)) = IDLE.iter().find(|(idle, _)| idle == name) {
            wrong.push((ENABLE, format!("{name:?} would do nothing: {why}")));
        } else if !NAMES.contains(&name.as_str()) {
            wrong.push((ENABLE, format!("there is no hook {name:?}; the hooks are: {}", NAMES.join(", "))));
        }
    }
    if is_enabled(config, DELEGATION) && config.get("subagents.outputs").is_none() {
        let why = "the agent has nobody to delegate to without subagents.outputs";
        wrong.push((ENABLE, format!("{DELEGATION:?} would do nothing: {why}")));
    }
    for (key, hook) in OPTIONS {
        if config.get(key).is_some() && !is_enabled(config, hook) {
            wrong.push((key, format!("{ENABLE} does not name {hook:?}")));
        }
    }
    if config.get("limits.renewals").is_some() && !goes_on(config) {
        let why = format!("no hook asks for one: {ENABLE} names neither length_guard nor todo_continuation");
        wrong.push(("limits.renewals", why));
    }
    let usual = Limits::default();
    let attempts = config.count("limits.attempts").unwrap_or(usual.attempts);
    let further = (attempts - 1).saturating_add(config.count("limits.renewals").unwrap_or(usual.renewals));
    if config.count(NUDGES).is_some_and(|nudges| nudges > further) {
        let why = format!("limits.attempts and limits.renewals leave {further} further attempts");
        wrong.push((NUDGES, why));
    }
    if config.count(WINDOW) == Some(1) {
        wrong.push((WINDOW, "one round repeats nothing: 2 are the least".into()));
    }
    wrong.extend(zone(config).err().map(|why| (ZONE, why)));
    wrong.extend(variables(config).err().map(|why| (VARIABLES, why)));
    wrong
}

fn zone(config: &Config) -> Result<CurrentTime, String> {
    let Some(name) = config.text(ZONE) else { return Ok(CurrentTime::default()) };
    TimeZone::get(name).map(CurrentTime::in_zone).map_err(|e| e.to_string())
}

fn variables(config: &Config) -> Result<EnvInjection, String> {
    config.texts(VARIABLES).iter().try_fold(EnvInjection::default(), |hook, variable| {
        let (name, value) =
            variable.split_once('=').ok_or_else(|| format!("{variable:?} is not of the form NAME=value"))?;
        hook.with(name, value).map_err(|e| e.to_string())
    })
}

/// The todo lists of this process's sessions, which begin with what the store has of them.
pub(crate) fn todo_lists(store: Option<&SqliteStore>) -> Arc<dyn TodoStore> {
    Arc::new(Lists { known: Mutex::default(), store: store.cloned() })
}

/// The agent with the hooks of the configuration, and with the tools they are about. For a subagent too: it has the same ones,
/// but for the hint that there are subagents.
pub(crate) fn with(
    mut agent: AgentBuilder,
    (args, config): (&AgentArgs, &Config),
    todos: &Arc<dyn TodoStore>,
) -> Result<AgentBuilder, Refusal> {
    if ["todo_continuation", "todo_planning_nudge"].into_iter().any(|hook| is_enabled(config, hook)) {
        let (write, read) = todo_tools(todos);
        agent = agent.tool(write).tool(read);
    }
    for name in config.texts(ENABLE) {
        let hook: HookSpec = match name.as_str() {
            "current_time" => zone(config).map_err(|why| config.refuse(ZONE, &why))?.into(),
            "env_injection" => variables(config).map_err(|why| config.refuse(VARIABLES, &why))?.into(),
            "length_guard" => {
                let guard = LengthGuard::default();
                config.count(NUDGES).into_iter().fold(guard, LengthGuard::nudges).into()
            }
            "loop_detection" => loops(args, config)?.into(),
            DELEGATION if agent.name() == subagents::EXPLORER => continue,
            DELEGATION => TaskDelegationNudge.into(),
            "todo_continuation" => TodoContinuation::new(todos.clone()).into(),
            "todo_planning_nudge" => TodoPlanningNudge.into(),
            other => return Err(config.refuse(ENABLE, &format!("there is no hook {other:?}"))),
        };
        agent = agent.hook(hook);
    }
    Ok(agent)
}

fn loops(args: &AgentArgs, config: &Config) -> Result<LoopDetection, Refusal> {
    let window = config.count(WINDOW).map_or(LoopDetection::DEFAULT_WINDOW, |rounds| rounds as usize);
    // Rounds are counted over all attempts of a turn.
    if window >= args.max_iterations as usize && !goes_on(config) {
        let why = format!(
            "loop_detection speaks after {window} rounds, and a turn ends after {} iterations",
            args.max_iterations
        );
        return Err(config.refuse(ENABLE, &why).hint(format!("set limits.iterations above {WINDOW}")));
    }
    let hook = LoopDetection::default().window(window);
    Ok(config.count(OBSERVATION).into_iter().fold(hook, LoopDetection::observation))
}

/// Sessions whose lists are known at once. Beyond that all are forgotten, and found in the store again.
const MOST: usize = 1000;

/// The todo lists of this process's sessions. They begin with what a session's stored history says, so that a later process
/// goes on with the list of an earlier one.
struct Lists {
    known: Mutex<BTreeMap<SessionId, Vec<Todo>>>,
    store: Option<SqliteStore>,
}

impl Lists {
    fn known(&self, session: &SessionId) -> Option<Vec<Todo>> {
        self.known.lock().get(session).cloned()
    }

    fn room(known: &mut BTreeMap<SessionId, Vec<Todo>>) -> &mut BTreeMap<SessionId, Vec<Todo>> {
        if known.len() >= MOST {
            known.clear();
        }
        known
    }
}

impl TodoStore for Lists {
    fn load<'a>(&'a self, session: &'a SessionId) -> BoxFuture<'a, Result<Vec<Todo>, String>> {
        Box::pin(async move {
            if let Some(list) = self.known(session) {
                return Ok(list);
            }
            let stored = match &self.store {
                Some(store) => store.load(session).await.map_err(|e| e.to_string())?,
                None => None,
            };
            let list = stored.and_then(|stored| todos_of(stored.messages.iter().map(|message| &**message)));
            // What was written meanwhile wins.
            let mut known = self.known.lock();
            Ok(Self::room(&mut known).entry(session.clone()).or_insert(list.unwrap_or_default()).clone())
        })
    }

    fn save<'a>(&'a self, session: &'a SessionId, list: Vec<Todo>) -> BoxFuture<'a, Result<(), String>> {
        Self::room(&mut self.known.lock()).insert(session.clone(), list);
        Box::pin(std::future::ready(Ok(())))
    }
}
