//! What a turn at rest keeps of its spans, so that the next leg, perhaps in another process, finds them.

use std::collections::BTreeMap;

use opentelemetry::trace::SpanContext;
use serde::{Deserialize, Serialize};
use turnwright_core::{CallId, StateKey, Timestamp, TurnContext};

use crate::w3c::TraceHeaders;

const KEPT: StateKey<Kept> = StateKey::new("turnwright.trace/spans", 1);

/// In the turn's state, and so in its snapshot.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Kept {
    /// The last leg's root.
    pub(crate) root: TraceHeaders,
    /// When it was last written.
    pub(crate) at: Timestamp,
    /// The tool spans of calls that wait.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) calls: BTreeMap<CallId, TraceHeaders>,
}

impl Kept {
    /// What the leg before kept. None for a first leg; what cannot be read is as if it were not there.
    pub(crate) fn of_leg_before(ctx: &TurnContext) -> Option<Self> {
        if ctx.leg() < 2 {
            return None;
        }
        ctx.state().get(&KEPT).ok().flatten().map(|kept| Self::clone(&kept))
    }

    pub(crate) fn keep(self, ctx: &TurnContext) {
        ctx.state().set(&KEPT, self);
    }

    /// Keeps the span of a call that waits.
    pub(crate) fn keep_call(ctx: &TurnContext, call: &CallId, span: &SpanContext) {
        let (Some(headers), Ok(Some(kept))) = (TraceHeaders::of(span), ctx.state().get(&KEPT)) else {
            return;
        };
        let mut kept = Self::clone(&kept);
        kept.at = ctx.sources().clock.now();
        kept.calls.insert(call.clone(), headers);
        kept.keep(ctx);
    }
}
