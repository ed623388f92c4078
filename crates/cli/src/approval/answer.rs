//! Answers to the question whether a call may run.

use turnwright::{CallId, core::ApprovalRequest};

/// As the question lists them.
pub(super) const CHOICES: &str =
    "y, n, n REASON; or /approve [CALL|all], /deny [CALL|all] [REASON], /show [CALL|all], /stop";

/// What somebody answers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// These run.
    Allow(Vec<CallId>),
    /// These do not, for this reason.
    Deny(Vec<CallId>, Option<String>),
    /// These are to be shown whole.
    Show(Vec<CallId>),
    /// The whole turn ends.
    Stop,
    /// It is none, for this reason.
    Unclear(String),
}

impl Answer {
    /// Reads an answer to the first of these requests.
    pub(super) fn parse(line: &str, pending: &[ApprovalRequest]) -> Self {
        let line = line.trim();
        let (word, rest) = split(line);
        let this = || pending.iter().take(1).map(|request| request.call.id.clone()).collect();
        match word.to_ascii_lowercase().as_str() {
            "y" | "yes" if rest.is_empty() => Self::Allow(this()),
            "n" | "no" => Self::Deny(this(), reason(rest)),
            "/stop" if rest.is_empty() => Self::Stop,
            "/approve" if rest.is_empty() => Self::Allow(this()),
            "/deny" if rest.is_empty() => Self::Deny(this(), None),
            "/show" if rest.is_empty() => Self::Show(this()),
            "/show" => match calls(rest, pending) {
                Ok(calls) => Self::Show(calls),
                Err(unclear) => unclear,
            },
            "/approve" => match calls(rest, pending) {
                Ok(calls) => Self::Allow(calls),
                Err(unclear) => unclear,
            },
            "/deny" => {
                let (whom, words) = split(rest);
                match calls(whom, pending) {
                    Ok(calls) => Self::Deny(calls, reason(words)),
                    Err(unclear) => unclear,
                }
            }
            "" => Self::Unclear("nothing is not an answer".into()),
            _ => Self::Unclear("that is no answer, and it was not sent".into()),
        }
    }
}

fn split(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

fn reason(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

fn calls(whom: &str, pending: &[ApprovalRequest]) -> Result<Vec<CallId>, Answer> {
    let ids = || pending.iter().map(|request| request.call.id.clone());
    if whom == "all" {
        // Models name their calls: this word must not come to mean more than the call it stands beside.
        if pending.len() > 1 && ids().any(|id| id.as_str() == whom) {
            return Err(Answer::Unclear("a call is named \"all\", so that word is not clear".into()));
        }
        return Ok(ids().collect());
    }
    match ids().find(|id| id.as_str() == whom) {
        Some(id) => Ok(vec![id]),
        None => {
            let ids: Vec<String> = ids().map(|id| id.to_string()).collect();
            Err(Answer::Unclear(format!("no call {whom:?} waits; these do: {}", ids.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use turnwright::{ToolCall, core::CallDigest};

    use super::*;

    fn request(id: &str) -> ApprovalRequest {
        let call = ToolCall::new(id, "shell", "{}");
        let digest = CallDigest::of("local", &call);
        ApprovalRequest { call, source: "local".into(), digest, reason: "asks".into(), expires_at: None }
    }

    #[test]
    fn answers_name_their_calls_and_nothing_else_is_one() {
        let pending = [request("a"), request("b")];
        let (a, b) = (|| vec![CallId::from("a")], || vec![CallId::from("b")]);
        let both = || vec![CallId::from("a"), CallId::from("b")];
        let table = [
            ("y", Answer::Allow(a())),
            (" YES ", Answer::Allow(a())),
            ("/approve", Answer::Allow(a())),
            ("/approve b", Answer::Allow(b())),
            ("/approve all", Answer::Allow(both())),
            ("n", Answer::Deny(a(), None)),
            ("no  too  risky ", Answer::Deny(a(), Some("too  risky".into()))),
            ("/deny", Answer::Deny(a(), None)),
            ("/deny b not now", Answer::Deny(b(), Some("not now".into()))),
            ("/deny all not now", Answer::Deny(both(), Some("not now".into()))),
            ("/show", Answer::Show(a())),
            ("/show b", Answer::Show(b())),
            ("/show all", Answer::Show(both())),
            ("/stop", Answer::Stop),
        ];
        for (line, expected) in table {
            assert_eq!(Answer::parse(line, &pending), expected, "{line:?}");
        }
        let unclear = [
            "",
            " ",
            "yy",
            "y please",
            "ok",
            "1",
            "true",
            "never",
            "/approve c",
            "/approve a b",
            "/approve A",
            "/deny c",
            "/show c",
            "/stop now",
            "//y",
            "what does it do?",
        ];
        for line in unclear {
            assert!(matches!(Answer::parse(line, &pending), Answer::Unclear(_)), "{line:?}");
        }
        assert_eq!(
            Answer::parse("/deny c", &pending),
            Answer::Unclear("no call \"c\" waits; these do: a, b".into())
        );
        let named = [request("all"), request("b")];
        for line in ["/approve all", "/deny all"] {
            assert!(matches!(Answer::parse(line, &named), Answer::Unclear(_)), "{line:?}");
        }
        assert_eq!(Answer::parse("/approve all", &named[..1]), Answer::Allow(vec![CallId::from("all")]));
    }
}
