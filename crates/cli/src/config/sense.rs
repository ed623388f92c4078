//! Mistakes of keys that are well formed, each by itself: names that nothing has, and keys that would do nothing.

use std::path::Path;

use turnwright::runtime::approval::ArgumentMatcher;

use super::Config;
use crate::tools::{GATED, NAMES, WRITES, Workspace};

/// What is wrong, by key.
pub(super) fn mistakes(config: &Config) -> Vec<(&'static str, String)> {
    let mut wrong = Vec::new();
    names(config, &mut wrong);
    twice(config, &mut wrong);
    idle(config, &mut wrong);
    fallback(config, &mut wrong);
    wrong.extend(crate::hooks::mistakes(config));
    wrong.extend(crate::memory::mistakes(config));
    wrong
}

/// What is wrong on this machine and from the current directory only, by key.
pub(super) fn here(config: &Config) -> Vec<(&'static str, String)> {
    let root = Path::new(config.text("tools.root").unwrap_or("."));
    if let Err(why) = Workspace::open(root) {
        return vec![("tools.root", format!("{}: {why}", root.display()))];
    }
    let below = |path: &String| ArgumentMatcher::below([root.join(path).to_string_lossy()]);
    let paths = config.texts("approvals.allowed_paths").iter();
    paths.filter_map(|path| Some(("approvals.allowed_paths", below(path).err()?.to_string()))).collect()
}

const LISTS: [&str; 3] = ["approvals.ask", "approvals.never", "tools.allow"];

fn names(config: &Config, wrong: &mut Vec<(&'static str, String)>) {
    for key in LISTS {
        for tool in config.texts(key).iter().filter(|tool| !NAMES.contains(&tool.as_str())) {
            wrong.push((key, format!("there is no tool {tool:?}; the tools are: {}", NAMES.join(", "))));
        }
    }
    for tool in config.texts("tools.allow").iter().map(String::as_str) {
        if NAMES.contains(&tool) && !GATED.contains(&tool) {
            wrong.push(("tools.allow", format!("{tool:?} runs without asking anyway")));
        }
    }
}

fn twice(config: &Config, wrong: &mut Vec<(&'static str, String)>) {
    for tool in NAMES {
        let said =
            LISTS.iter().flat_map(|key| config.texts(key).iter().filter(|name| *name == tool).map(|_| *key));
        let mut said: Vec<_> = said.filter_map(|key| Some((config.get(key)?.1, key))).collect();
        said.sort_unstable();
        if let [(line, first), .., (_, last)] = said[..] {
            wrong.push((last, format!("{tool:?} is named twice: line {line}, {first}, names it too")));
        }
    }
}

/// Keys that do nothing without another one.
fn idle(config: &Config, wrong: &mut Vec<(&'static str, String)>) {
    let is_set = |key| config.get(key).is_some();
    if is_set("interceptors.retry.backoff_seconds")
        && config.count("interceptors.retry.attempts").unwrap_or(1) < 2
    {
        let why = "nothing is tried again unless interceptors.retry.attempts is 2 or more";
        wrong.push(("interceptors.retry.backoff_seconds", why.into()));
    }
    if is_set("interceptors.circuit_breaker.open_seconds") && !is_set("interceptors.circuit_breaker.failures")
    {
        let why = "there is no breaker without interceptors.circuit_breaker.failures";
        wrong.push(("interceptors.circuit_breaker.open_seconds", why.into()));
    }
    let is_asked = |tool| {
        let lists = ["approvals.never", "tools.allow"];
        !lists.iter().any(|list| config.texts(list).iter().any(|name| name == tool))
    };
    if is_set("approvals.allowed_paths") && !WRITES.into_iter().any(is_asked) {
        let why = "neither write_file nor edit_file is asked about, so that no path makes a difference";
        wrong.push(("approvals.allowed_paths", why.into()));
    }
}

/// `PROVIDER/MODEL` with a provider that is nearly one. Names of models may have slashes of their own.
fn fallback(config: &Config, wrong: &mut Vec<(&'static str, String)>) {
    for named in config.texts("agent.fallback") {
        let Some((provider, model)) = named.split_once('/') else { continue };
        if model.trim().is_empty() {
            wrong.push(("agent.fallback", format!("{named:?} names no model")));
        }
        let near = |known: &&&str| strsim::damerau_levenshtein(provider, known) <= 2;
        if !super::keys::PROVIDERS.contains(&provider)
            && let Some(meant) = super::keys::PROVIDERS.iter().find(near)
        {
            wrong.push((
                "agent.fallback",
                format!("there is no provider {provider:?}; did you mean {meant:?}?"),
            ));
        }
    }
}
