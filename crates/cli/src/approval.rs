//! Calls that are asked about: which ones, what is shown, and what counts as an answer.

mod answer;
mod settle;
mod show;

use turnwright::{Session, Sources, core::ApprovalRequest};

pub(crate) use settle::{Cleared, Desk, First, to_the_end};
pub(crate) use show::whole as question;

use crate::{
    Refusal,
    config::Config,
    tools::{GATED, NAMES},
};

/// The tools that are asked about when these are allowed: those that change something and those that the configuration names,
/// but for those that never run.
pub(crate) fn asked_about(allowed: &[String], config: &Config) -> Result<Vec<&'static str>, Refusal> {
    let allowed: Vec<&str> = allowed.iter().map(|name| name.trim()).filter(|name| !name.is_empty()).collect();
    let named = |key: &str, tool: &str| config.texts(key).iter().any(|name| name == tool);
    let has_code = config.get("tools.python").is_some();
    let asked = NAMES.into_iter().filter(|name| GATED.contains(name) || named("approvals.ask", name));
    let asked: Vec<_> = asked.chain(has_code.then_some("code")).collect();
    if let Some(unknown) = allowed.iter().find(|name| !asked.contains(name)) {
        let refusal = Refusal::new(format!("--allow: {unknown:?} is no tool that is asked about"));
        return Err(refusal.hint(format!("these are: {}", asked.join(", "))));
    }
    let is_asked = |name: &&str| !allowed.contains(name) && !named("approvals.never", name);
    Ok(asked.into_iter().filter(is_asked).collect())
}

/// The questions that can still be answered: one that has expired counts as denied, as soon as the turn goes on.
pub(crate) fn open(session: &Session) -> Vec<ApprovalRequest> {
    let now = Sources::default().clock.now();
    let is_open = |request: &ApprovalRequest| request.expires_at.is_none_or(|at| at > now);
    session.pending().into_iter().filter(is_open).collect()
}

/// What is said of a turn that waits for decisions nobody here can be asked for.
pub(crate) fn nobody_to_ask(session: &Session, is_kept: bool) -> String {
    if is_kept {
        let id = session.id();
        return format!(
            "`turnwright resume {id} --approve CALL` lets a call run, `--deny CALL` does not, `all` means every one; on a \
             terminal `turnwright resume {id}` asks"
        );
    }
    let mut tools: Vec<String> = session.pending().into_iter().map(|request| request.call.name).collect();
    tools.sort_unstable();
    tools.dedup();
    format!(
        "the session is not kept, so nobody can decide later: --store PATH keeps it; `--allow {}` runs without asking, \
         and on a terminal you are asked",
        tools.join(",")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_allowed_is_not_asked_about_and_there_is_no_word_for_all() {
        let asked = |allowed: &[&str]| {
            let allowed: Vec<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
            asked_about(&allowed, &Config::default()).map_err(|refusal| refusal.message)
        };
        assert_eq!(asked(&[]), Ok(GATED.to_vec()));
        assert_eq!(asked(&["", " shell", "shell"]), Ok(vec!["write_file", "edit_file"]));
        assert_eq!(asked(&GATED), Ok(vec![]));
        for unknown in ["all", "*", "Shell", "read_file"] {
            assert!(asked(&["shell", unknown]).is_err_and(|message| message.contains(unknown)), "{unknown}");
        }
    }
}
