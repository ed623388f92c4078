//! Answers to the question whether a call may run.

use turnwright::{CallId, Verdict, core::ApprovalRequest, runtime::approval::TextDecision};

/// As the question lists them.
pub(super) const CHOICES: &str = "y, n, n REASON; or /approve [CALL|all] [session], /deny [CALL|all] [REASON], \
    /edit CALL JSON, /show [CALL|all], /stop";
/// The same for a question of a tool.
pub(super) const ANSWERS: &str = "your answer in a line; or /deny [REASON], /stop";

/// What somebody answers.
#[derive(Debug, PartialEq)]
pub(super) enum Answer {
    /// This is decided.
    Decide(TextDecision),
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
        match TextDecision::parse(line, pending) {
            Ok(Some(decision)) => return Self::Decide(decision),
            Err(unclear) => return Self::Unclear(unclear.to_string()),
            Ok(None) => {}
        }
        let decide = |verdict| Self::Decide(TextDecision { calls: this(), verdict, remember: None });
        match word.to_ascii_lowercase().as_str() {
            "/stop" if rest.is_empty() => Self::Stop,
            "/show" if rest.is_empty() => Self::Show(this()),
            "/show" => {
                // Whom a decision would name.
                match TextDecision::parse(&format!("/approve {rest}"), pending) {
                    Ok(Some(decision)) => Self::Show(decision.calls),
                    Ok(None) => Self::Unclear("that names no call".into()),
                    Err(unclear) => Self::Unclear(unclear.to_string()),
                }
            }
            "" => Self::Unclear("nothing is not an answer".into()),
            _ if !word.starts_with('/')
                && pending.first().is_some_and(|request| !request.wants.is_approval()) =>
            {
                decide(Verdict::Answer { content: line.to_owned(), error: None })
            }
            "y" | "yes" if rest.is_empty() => decide(Verdict::Allow { edit: None }),
            "n" | "no" => decide(Verdict::Deny { reason: (!rest.is_empty()).then(|| rest.to_owned()) }),
            _ => Self::Unclear("that is no answer, and it was not sent".into()),
        }
    }
}

fn split(text: &str) -> (&str, &str) {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (word, rest.trim())
}

#[cfg(test)]
mod tests {
    use turnwright::{ToolCall, core::CallDigest};

    use super::*;

    fn request(id: &str) -> ApprovalRequest {
        let call = ToolCall::new(id, "shell", "{}");
        let digest = CallDigest::of("local", &call);
        ApprovalRequest {
            call,
            source: "local".into(),
            agent: None,
            digest,
            wants: turnwright::core::Wants::Approval,
            reason: "asks".into(),
            expires_at: None,
        }
    }

    #[test]
    fn answers_name_their_calls_and_nothing_else_is_one() {
        let pending = [request("a"), request("b")];
        let allow = |calls| {
            Answer::Decide(TextDecision { calls, verdict: Verdict::Allow { edit: None }, remember: None })
        };
        let deny = |calls, reason: Option<&str>| {
            let verdict = Verdict::Deny { reason: reason.map(Into::into) };
            Answer::Decide(TextDecision { calls, verdict, remember: None })
        };
        let (a, b) = (|| vec![CallId::from("a")], || vec![CallId::from("b")]);
        let both = || vec![CallId::from("a"), CallId::from("b")];
        let table = [
            ("y", allow(a())),
            (" YES ", allow(a())),
            ("/approve", allow(a())),
            ("/approve b", allow(b())),
            ("/approve all", allow(both())),
            ("n", deny(a(), None)),
            ("no  too  risky ", deny(a(), Some("too  risky"))),
            ("/deny", deny(a(), None)),
            ("/deny b not now", deny(b(), Some("not now"))),
            ("/deny all not now", deny(both(), Some("not now"))),
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
        assert_eq!(Answer::parse("/approve all", &named[..1]), allow(vec![CallId::from("all")]));
    }
}
