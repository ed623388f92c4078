//! Approvals: decisions of people, each bound to one digest of the call it decides.

use std::{collections::BTreeMap, fmt};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest, Sha256};

use crate::{ApprovalId, CallId, ErrorInfo, Timestamp, ToolCall, TurnId};

/// A digest of source, tool and arguments. Byte-exact, but for white space round the arguments: arguments that differ in
/// a single byte are another call, since numbers and key orders that compare equal to one reader may differ to the tool.
/// Hexadecimal in JSON.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct CallDigest([u8; 32]);

impl CallDigest {
    /// The digest of a call to a tool of this source.
    pub fn of(source: &str, call: &ToolCall) -> Self {
        let mut hasher = Sha256::new();
        // Lengths in front, so that no two triples share one concatenation.
        for part in [source, &call.name, call.arguments_json().trim()] {
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part.as_bytes());
        }
        Self(hasher.finalize().into())
    }
}

impl fmt::Display for CallDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}
impl fmt::Debug for CallDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(8).try_for_each(|b| write!(f, "{b:02x}"))
    }
}
impl Serialize for CallDigest {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}
impl<'de> Deserialize<'de> for CallDigest {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let text = <std::borrow::Cow<'de, str>>::deserialize(d)?;
        let mut bytes = [0; 32];
        let digits = text.as_bytes();
        if digits.len() != 64 || !digits.is_ascii() {
            return Err(de::Error::custom("a call digest has 64 hexadecimal digits"));
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(de::Error::custom)?;
            *byte = u8::from_str_radix(pair, 16).map_err(de::Error::custom)?;
        }
        Ok(Self(bytes))
    }
}

/// What is waited for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "wants", rename_all = "snake_case")]
pub enum Wants {
    /// Whether the call may run.
    #[default]
    Approval,
    /// An answer to a question of the tool: it becomes the call's result.
    Answer {
        /// The question.
        question: String,
        /// What may be answered; anything when empty.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        choices: Vec<String>,
    },
    /// A result from outside: the tool began something that somebody else completes.
    Result,
}

impl Wants {
    /// Whether it is whether the call may run.
    pub fn is_approval(&self) -> bool {
        *self == Self::Approval
    }
}

/// What is asked about one call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalRequest {
    /// The call as it would run; a rewrite by an interceptor is shown, not the original.
    pub call: ToolCall,
    /// Where the tool comes from.
    pub source: String,
    /// What the decision will cover.
    pub digest: CallDigest,
    /// The agent that asks, where it is not the turn's own but one that a call of it started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// What is waited for.
    #[serde(default, skip_serializing_if = "Wants::is_approval")]
    pub wants: Wants,
    /// Why it is asked.
    pub reason: String,
    /// After this it counts as denied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
}

/// Yes or no.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Run it; with an edit, run it with these arguments, which are classified again first.
    Allow {
        /// Arguments to run instead: JSON text.
        #[serde(default)]
        edit: Option<String>,
    },
    /// Do not run it; the reason goes back to the model.
    Deny {
        /// Why, in the words of who decided.
        #[serde(default)]
        reason: Option<String>,
    },
    /// What is answered to a question, or what came of work outside: it becomes the call's result, and the tool does not
    /// run again.
    Answer {
        /// The content of the result.
        content: String,
        /// Why the work failed, if it did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<ErrorInfo>,
    },
}

/// For how long an approval covers further calls of the same tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Remember {
    /// For the rest of the session.
    Session,
    /// For every session of the agent.
    Always,
}

/// A decision about calls of one transaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// The calls it decides.
    pub calls: Vec<CallId>,
    /// Yes or no.
    pub verdict: Verdict,
    /// Who decided.
    pub actor: String,
    /// When.
    pub at: Timestamp,
    /// Whether an approval covers further calls of the same tool from the same source: for gates that keep such rules.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remember: Option<Remember>,
}

impl Decision {
    /// Lets these calls run as they are.
    pub fn allow(calls: impl IntoIterator<Item = CallId>, actor: impl Into<String>, at: Timestamp) -> Self {
        Self {
            calls: calls.into_iter().collect(),
            verdict: Verdict::Allow { edit: None },
            actor: actor.into(),
            at,
            remember: None,
        }
    }

    /// Refuses these calls.
    pub fn deny(
        calls: impl IntoIterator<Item = CallId>,
        actor: impl Into<String>,
        at: Timestamp,
        reason: Option<String>,
    ) -> Self {
        Self {
            calls: calls.into_iter().collect(),
            verdict: Verdict::Deny { reason },
            actor: actor.into(),
            at,
            remember: None,
        }
    }

    /// Answers a question, or gives the result of work outside.
    pub fn answer(
        call: impl Into<CallId>,
        content: impl Into<String>,
        actor: impl Into<String>,
        at: Timestamp,
    ) -> Self {
        let verdict = Verdict::Answer { content: content.into(), error: None };
        Self { calls: vec![call.into()], verdict, actor: actor.into(), at, remember: None }
    }

    /// The same approval, for further calls of the same tools as well.
    #[must_use]
    pub fn remember(mut self, how_long: Remember) -> Self {
        self.remember = Some(how_long);
        self
    }
}

/// Why a decision was refused. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecisionError {
    /// It names no call.
    #[error("the decision names no call")]
    Empty,
    /// It names a call that was never asked about.
    #[error("no approval was asked for call {0}")]
    UnknownCall(CallId),
    /// The call was decided before.
    #[error("call {0} is decided already")]
    AlreadyDecided(CallId),
    /// The question expired before the decision.
    #[error("the approval of call {0} has expired")]
    Expired(CallId),
    /// The transaction is over.
    #[error("the approval {0} is sealed")]
    Sealed(ApprovalId),
    /// An edit is for one call only.
    #[error("an edit decides one call, not {0}")]
    AmbiguousEdit(usize),
    /// The call waits for something else.
    #[error("call {0} does not wait for {1}")]
    WrongKind(CallId, &'static str),
    /// The answer is none of the choices.
    #[error("{answer:?} is no answer to call {call}; these are: {choices}", choices = .choices.join(", "))]
    NoChoice {
        /// The call.
        call: CallId,
        /// What was answered.
        answer: String,
        /// What may be.
        choices: Vec<String>,
    },
    /// The edited arguments are not JSON.
    #[error("the edited arguments of call {0} are not valid JSON: {1}")]
    InvalidEdit(CallId, String),
}

/// The questions of one suspended batch and the decisions made so far.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ApprovalTransaction {
    /// Its id.
    pub id: ApprovalId,
    /// The turn that waits.
    pub turn: TurnId,
    /// What is asked, in model order.
    pub requests: Vec<ApprovalRequest>,
    decisions: BTreeMap<CallId, Decision>,
    sealed: bool,
}

impl ApprovalTransaction {
    /// Opens a transaction for these questions.
    pub fn open(id: ApprovalId, turn: TurnId, requests: Vec<ApprovalRequest>) -> Self {
        Self { id, turn, requests, decisions: BTreeMap::new(), sealed: false }
    }

    /// Records a decision, for all its calls or for none. `now` is the runtime's time: whether a question has expired
    /// is not the decider's to say.
    ///
    /// # Errors
    /// A [`DecisionError`] that names the call; the transaction is then unchanged.
    pub fn apply(&mut self, decision: &Decision, now: Timestamp) -> Result<(), DecisionError> {
        if self.sealed {
            return Err(DecisionError::Sealed(self.id));
        }
        if decision.calls.is_empty() {
            return Err(DecisionError::Empty);
        }
        for id in &decision.calls {
            let request = self.request(id).ok_or_else(|| DecisionError::UnknownCall(id.clone()))?;
            if self.decisions.contains_key(id) {
                return Err(DecisionError::AlreadyDecided(id.clone()));
            }
            if request.expires_at.is_some_and(|at| at <= now) {
                return Err(DecisionError::Expired(id.clone()));
            }
            fits(request, &decision.verdict)?;
            if let Verdict::Allow { edit: Some(edit) } = &decision.verdict {
                if decision.calls.len() > 1 {
                    return Err(DecisionError::AmbiguousEdit(decision.calls.len()));
                }
                if let Err(e) = serde_json::from_str::<serde_json::Value>(edit) {
                    return Err(DecisionError::InvalidEdit(id.clone(), e.to_string()));
                }
            }
        }
        for id in &decision.calls {
            self.decisions.insert(id.clone(), decision.clone());
        }
        Ok(())
    }

    /// Ends the transaction: no further decision is taken.
    pub fn seal(&mut self) {
        self.sealed = true;
    }

    /// Whether it is over.
    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// The question about a call.
    pub fn request(&self, call: &CallId) -> Option<&ApprovalRequest> {
        self.requests.iter().find(|r| r.call.id == *call)
    }

    /// The decision about a call.
    pub fn decision(&self, call: &CallId) -> Option<&Decision> {
        self.decisions.get(call)
    }

    /// The questions without a decision, in model order. None of a sealed transaction: nobody can answer them.
    pub fn pending(&self) -> impl Iterator<Item = &ApprovalRequest> {
        self.requests.iter().filter(|r| !self.sealed && !self.decisions.contains_key(&r.call.id))
    }
}

/// Whether the verdict answers what is asked. Anything may be denied.
fn fits(request: &ApprovalRequest, verdict: &Verdict) -> Result<(), DecisionError> {
    let id = || request.call.id.clone();
    match (&request.wants, verdict) {
        (_, Verdict::Deny { .. }) | (Wants::Approval, Verdict::Allow { .. }) => Ok(()),
        (Wants::Approval, Verdict::Answer { .. }) => Err(DecisionError::WrongKind(id(), "an answer")),
        (_, Verdict::Allow { .. }) => Err(DecisionError::WrongKind(id(), "an approval")),
        (Wants::Answer { choices, .. }, Verdict::Answer { content, error: None })
            if !choices.is_empty() && !choices.contains(content) =>
        {
            Err(DecisionError::NoChoice { call: id(), answer: content.clone(), choices: choices.clone() })
        }
        (_, Verdict::Answer { .. }) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sources;

    fn transaction() -> ApprovalTransaction {
        let s = Sources::default();
        let request = |id: &str| {
            let call = ToolCall::new(id, "write", "{}");
            ApprovalRequest {
                digest: CallDigest::of("local", &call),
                call,
                source: "local".into(),
                agent: None,
                wants: Wants::Approval,
                reason: "writes".into(),
                expires_at: None,
            }
        };
        ApprovalTransaction::open(s.id(), s.id(), vec![request("a"), request("b")])
    }

    #[test]
    fn fault_c7_decisions_are_keyed_by_call_and_change_nothing_when_refused() {
        let mut t = transaction();
        let before = t.clone();
        let at = Timestamp::UNIX_EPOCH;
        let e = t.apply(&Decision::allow(["a".into(), "zz".into()], "me", at), at).unwrap_err();
        assert_eq!(e, DecisionError::UnknownCall("zz".into()));
        assert_eq!(t, before);
        t.apply(&Decision::allow(["a".into()], "me", at), at).unwrap();
        assert_eq!(t.pending().map(|r| r.call.id.as_str().to_owned()).collect::<Vec<_>>(), ["b"]);
        let e = t.apply(&Decision::deny(["a".into()], "me", at, None), at).unwrap_err();
        assert_eq!(e, DecisionError::AlreadyDecided("a".into()));
        t.seal();
        assert!(matches!(
            t.apply(&Decision::allow(["b".into()], "me", at), at),
            Err(DecisionError::Sealed(_))
        ));
    }

    #[test]
    fn fault_c13_c14_the_digest_covers_source_tool_and_every_byte_of_the_arguments() {
        let d = |s: &str, n: &str, a: &str| CallDigest::of(s, &ToolCall::new("x", n, a));
        let base = d("local", "write", r#"{"n":15092511270073158000}"#);
        assert_eq!(base, d("local", "write", r#" {"n":15092511270073158000} "#));
        assert_ne!(base, d("local", "write", r#"{"n":15092511270073158001}"#));
        assert_ne!(base, d("mcp", "write", r#"{"n":15092511270073158000}"#));
        assert_ne!(base, d("local", "read", r#"{"n":15092511270073158000}"#));
        assert_ne!(d("ab", "c", "{}"), d("a", "bc", "{}"));
        let json = serde_json::to_string(&base).unwrap();
        assert_eq!(json.len(), 66, "{json}");
        assert_eq!(serde_json::from_str::<CallDigest>(&json).unwrap(), base);
        assert!(serde_json::from_str::<CallDigest>("\"ab\"").is_err());
    }
}
