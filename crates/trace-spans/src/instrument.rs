//! The callbacks that open and end what has its own times: legs, model calls, tools.

use std::sync::Arc;

use turnwright_core::{LegOutcome, ToolCall, ToolResult, TurnContext};
use turnwright_hook::instrument::{Call, Ended, Instrumentation};
use turnwright_llm_stream::{LlmRequest, LlmResponse};

use crate::{Tier, leg::Leg, traces::Shared};

pub(crate) struct SpanInstrument(pub(crate) Arc<Shared>);

impl SpanInstrument {
    /// The leg, where calls have spans.
    fn leg(&self, call: &Call<'_>) -> Option<Arc<Leg>> {
        if self.0.settings.tier < Tier::Standard {
            return None;
        }
        self.0.leg(call.ctx)
    }
}

impl Instrumentation for SpanInstrument {
    /// That the call has a span, which lives in the leg.
    type Context = ();

    fn leg_begins(&self, ctx: &TurnContext) {
        self.0.leg_begins(ctx);
    }

    fn leg_over(&self, ctx: &TurnContext, outcome: Option<&LegOutcome>) {
        self.0.leg_over(ctx, outcome);
    }

    fn before_model_call(&self, call: &Call<'_>, request: &LlmRequest) -> Option<()> {
        self.leg(call)?.chat_begins(call.ctx, call.scope.id, request).then_some(())
    }

    fn on_request(&self, call: &Call<'_>, request: &LlmRequest) {
        if let Some(leg) = self.leg(call) {
            leg.chat_sent(call.scope.id, request);
        }
    }

    fn on_first_chunk(&self, call: &Call<'_>) {
        if let Some(leg) = self.leg(call) {
            leg.first_chunk(call.scope.id);
        }
    }

    fn after_model_call(
        &self,
        call: &Call<'_>,
        _: &LlmRequest,
        ended: Ended<'_, LlmResponse>,
        context: Option<()>,
    ) {
        if let (Some(leg), Some(())) = (self.leg(call), context) {
            leg.chat_ends(call.scope.id, &ended);
        }
    }

    fn before_tool_call(&self, call: &Call<'_>, tool: &ToolCall) -> Option<()> {
        self.leg(call)?.tool_begins(call.ctx, call.scope, tool).then_some(())
    }

    fn after_tool_call(
        &self,
        call: &Call<'_>,
        _: &ToolCall,
        ended: Ended<'_, ToolResult>,
        context: Option<()>,
    ) {
        if let (Some(leg), Some(())) = (self.leg(call), context) {
            leg.tool_ends(call.ctx, call.scope.id, &ended);
        }
    }
}
