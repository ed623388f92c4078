//! The approval gate: asked about every call before any layer sees it.
//!
//! A decision binds to a digest of source, tool and arguments, and the executor checks that digest again inside the
//! chain. What a layer rewrites is classified anew; no layer can approve a call.

use std::sync::Arc;

use turnwright_core::{
    ApprovalRequest, BoxFuture, Decision, SessionId, Timestamp, ToolCall, ToolDefinition, TurnContext,
};
use turnwright_interceptor::Exit;

/// What the gate says about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GateDecision {
    /// It runs.
    Allow,
    /// It does not run; the reason goes to the model.
    Deny {
        /// Why.
        reason: String,
    },
    /// A person decides; the leg suspends.
    Ask {
        /// Why it is asked.
        reason: String,
        /// After this it counts as denied.
        expires_at: Option<Timestamp>,
    },
}

/// Classifies calls. Asked once a call, and once more for arguments that a layer rewrote or a person edited.
///
/// A gate that fails, panics or takes longer than a minute fails closed: the call is not run.
///
/// # Cancel safety
/// A cancel drops the question; the call is then not run. A gate must not count on being asked to the end.
pub trait Gate: Send + Sync + 'static {
    /// Decides about a call of a registered tool. The arguments are as they came; blank ones stand for `{}`.
    fn decide(
        &self,
        ctx: &TurnContext,
        call: &ToolCall,
        tool: &ToolDefinition,
    ) -> impl Future<Output = Result<GateDecision, Exit>> + Send;

    /// A person approved of a call, in this process or another. Told once, when the leg starts that lets it run: for gates
    /// that keep rules for all sessions ([`Remember::Always`](turnwright_core::Remember::Always)). Those for one session are kept
    /// with it, and are no gate's business: a call they cover runs where the gate asks, never where it denies.
    fn granted(&self, session: &SessionId, request: &ApprovalRequest, decision: &Decision) {
        let _ = (session, request, decision);
    }

    /// Its name in plans. By default that of its type, without path and parameters.
    fn name(&self) -> &'static str {
        turnwright_core::short_name::<Self>()
    }
}

/// The object-safe twin of [`Gate`]; implemented for every gate.
pub trait DynGate: Send + Sync {
    /// As [`Gate::decide`], boxed.
    fn dyn_decide<'a>(
        &'a self,
        ctx: &'a TurnContext,
        call: &'a ToolCall,
        tool: &'a ToolDefinition,
    ) -> BoxFuture<'a, Result<GateDecision, Exit>>;

    /// As [`Gate::granted`].
    fn dyn_granted(&self, session: &SessionId, request: &ApprovalRequest, decision: &Decision);

    /// As [`Gate::name`].
    fn dyn_name(&self) -> &'static str;
}

impl<G: Gate> DynGate for G {
    fn dyn_decide<'a>(
        &'a self,
        ctx: &'a TurnContext,
        call: &'a ToolCall,
        tool: &'a ToolDefinition,
    ) -> BoxFuture<'a, Result<GateDecision, Exit>> {
        Box::pin(self.decide(ctx, call, tool))
    }

    fn dyn_granted(&self, session: &SessionId, request: &ApprovalRequest, decision: &Decision) {
        self.granted(session, request, decision);
    }

    fn dyn_name(&self) -> &'static str {
        self.name()
    }
}

impl Gate for Arc<dyn DynGate> {
    async fn decide(
        &self,
        ctx: &TurnContext,
        call: &ToolCall,
        tool: &ToolDefinition,
    ) -> Result<GateDecision, Exit> {
        (**self).dyn_decide(ctx, call, tool).await
    }

    fn granted(&self, session: &SessionId, request: &ApprovalRequest, decision: &Decision) {
        (**self).dyn_granted(session, request, decision);
    }

    fn name(&self) -> &'static str {
        (**self).dyn_name()
    }
}

/// Lets everything run: for agents whose tools are harmless.
#[derive(Debug, Clone, Copy, Default)]
pub struct AllowAll;

impl Gate for AllowAll {
    async fn decide(&self, _: &TurnContext, _: &ToolCall, _: &ToolDefinition) -> Result<GateDecision, Exit> {
        Ok(GateDecision::Allow)
    }
}

/// Asks about the tools with these names, and lets all others run.
#[derive(Debug, Clone, Default)]
pub struct AskFor(Vec<String>);

impl AskFor {
    /// Asks about these tools.
    pub fn tools<S: Into<String>>(names: impl IntoIterator<Item = S>) -> Self {
        Self(names.into_iter().map(Into::into).collect())
    }
}

impl Gate for AskFor {
    async fn decide(
        &self,
        _: &TurnContext,
        call: &ToolCall,
        _: &ToolDefinition,
    ) -> Result<GateDecision, Exit> {
        Ok(if self.0.contains(&call.name) {
            GateDecision::Ask { reason: format!("{:?} needs approval", call.name), expires_at: None }
        } else {
            GateDecision::Allow
        })
    }
}
