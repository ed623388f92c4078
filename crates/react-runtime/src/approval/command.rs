//! Decisions as text: the second route beside the structured [`Decision`].

use turnwright_core::{ApprovalRequest, CallId, Decision, Remember, Timestamp, Verdict};

/// A decision in words, about calls that wait.
#[derive(Debug, Clone, PartialEq)]
pub struct TextDecision {
    /// The calls.
    pub calls: Vec<CallId>,
    /// What is decided.
    pub verdict: Verdict,
    /// Whether it covers further calls.
    pub remember: Option<Remember>,
}

/// Why words that begin as a decision are none. Nothing was decided.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Unclear(String);

impl TextDecision {
    /// Reads `/approve [CALL|all] [session]`, `/deny [CALL|all] [REASON]`, `/edit CALL JSON` and `/answer [CALL] TEXT`. Without
    /// a call the first one that waits is meant. Other text is no decision, and none is made of it: what somebody says while
    /// a call waits is a message (the seed's reference takes it for a denial; here nobody decides by accident).
    ///
    /// # Errors
    /// [`Unclear`] for one of these words with something else behind it.
    pub fn parse(text: &str, pending: &[ApprovalRequest]) -> Result<Option<Self>, Unclear> {
        let (word, rest) = split(text.trim());
        let first = || pending.iter().take(1).map(|request| request.call.id.clone()).collect::<Vec<_>>();
        let done = |calls, verdict| Ok(Some(Self { calls, verdict, remember: None }));
        match word {
            "/approve" => {
                let (rest, remember) = match rest.strip_suffix("session").map(str::trim_end) {
                    Some(before) if before.is_empty() || rest.ends_with(" session") => {
                        (before, Some(Remember::Session))
                    }
                    _ => (rest, None),
                };
                let calls = if rest.is_empty() { first() } else { calls(rest, pending)? };
                Ok(Some(Self { calls, verdict: Verdict::Allow { edit: None }, remember }))
            }
            "/deny" if rest.is_empty() => done(first(), Verdict::Deny { reason: None }),
            "/deny" => {
                let (whom, reason) = split(rest);
                let reason = (!reason.is_empty()).then(|| reason.to_owned());
                done(calls(whom, pending)?, Verdict::Deny { reason })
            }
            "/edit" => {
                let (whom, arguments) = split(rest);
                if arguments.is_empty() {
                    return Err(Unclear("an edit names its call and its arguments: /edit CALL JSON".into()));
                }
                done(calls(whom, pending)?, Verdict::Allow { edit: Some(arguments.to_owned()) })
            }
            "/answer" => {
                let (whom, words) = split(rest);
                let named = pending.iter().any(|request| request.call.id.as_str() == whom);
                let (calls, words) = if named { (vec![CallId::from(whom)], words) } else { (first(), rest) };
                done(calls, Verdict::Answer { content: words.to_owned(), error: None })
            }
            _ => Ok(None),
        }
    }

    /// The same as a [`Decision`] of somebody.
    pub fn by(self, actor: impl Into<String>, at: Timestamp) -> Decision {
        let Self { calls, verdict, remember } = self;
        Decision { calls, verdict, actor: actor.into(), at, remember }
    }
}

fn split(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

fn calls(whom: &str, pending: &[ApprovalRequest]) -> Result<Vec<CallId>, Unclear> {
    let ids = || pending.iter().map(|request| request.call.id.clone());
    if whom == "all" {
        // Models name their calls: this word must not come to mean more than the call it stands beside.
        if pending.len() > 1 && ids().any(|id| id.as_str() == whom) {
            return Err(Unclear("a call is named \"all\", so that word is not clear".into()));
        }
        return Ok(ids().collect());
    }
    match ids().find(|id| id.as_str() == whom) {
        Some(id) => Ok(vec![id]),
        None => {
            let ids: Vec<String> = ids().map(|id| id.to_string()).collect();
            Err(Unclear(format!("no call {whom:?} waits; these do: {}", ids.join(", "))))
        }
    }
}
