//! Calls that a running call makes: the same gate, chain and limits, served in the polls of the call that makes them.

use std::pin::pin;

use futures::future::{Either, select};
use turnwright_control::ControlError;
use turnwright_core::{
    BoxFuture, CallDigest, Concurrency, ErrorInfo, ErrorKind, Synthetic, ToolCall, ToolResult,
};
use turnwright_hook::ToolDecision;
use turnwright_interceptor::Exit;

use super::{LegRt, tools::ToolCore};
use crate::{
    agent::RegisteredTool,
    tool::{Asked, ToolContext},
};

/// What the executor must know of an inner call: it stands in no batch.
pub(super) struct InnerCall<'a> {
    pub(super) outer: &'a ToolContext,
    pub(super) tool: &'a str,
    /// What the gate allowed.
    pub(super) allowed: CallDigest,
}

impl LegRt {
    /// Polls the body of a call, and the calls it makes beside it.
    pub(super) async fn while_serving<T>(
        &self,
        ctx: &ToolContext,
        tool: &RegisteredTool,
        body: impl Future<Output = T>,
    ) -> Result<T, ControlError> {
        let body = pin!(body);
        let serving = pin!(self.serve(ctx, tool));
        match select(body, serving).await {
            Either::Left((out, _)) => Ok(out),
            Either::Right((control, _)) => Err(control),
        }
    }

    /// Makes the calls that a call asks for, one after the other. Ends by a control error only.
    async fn serve(&self, ctx: &ToolContext, tool: &RegisteredTool) -> ControlError {
        loop {
            let Asked { call, scope, mut answer } = ctx.desk().next().await;
            let made = {
                let made = self.make_inner(ctx, tool.definition.concurrency, call);
                let made = match scope {
                    Some(scope) => Box::pin(scope.run(made)),
                    None => made,
                };
                match select(made, pin!(answer.closed())).await {
                    Either::Left((made, _)) => made,
                    // Nobody waits for it any more: it is dropped.
                    Either::Right(_) => continue,
                }
            };
            ctx.touch();
            match made {
                // Should nobody wait for it any more, there is nobody to tell.
                Ok(result) => drop(answer.send(result)),
                Err(control) => return control,
            }
        }
    }

    /// Boxed, since calls stand in each other.
    fn make_inner<'a>(
        &'a self,
        outer: &'a ToolContext,
        concurrency: Concurrency,
        call: ToolCall,
    ) -> BoxFuture<'a, Result<ToolResult, ControlError>> {
        Box::pin(async move {
            let made = self.try_inner(outer, concurrency, &call).await;
            let result = match made {
                Ok(result) => result,
                Err(Exit::Control(control)) => return Err(control),
                Err(Exit::Failed(error)) => ToolResult::error(&call, error),
            };
            Ok(self.agent.tool_result_limit.limited(result))
        })
    }

    async fn try_inner(
        &self,
        outer: &ToolContext,
        concurrency: Concurrency,
        call: &ToolCall,
    ) -> Result<ToolResult, Exit> {
        let tool = self.agent.tools.get(&call.name);
        if concurrency == Concurrency::Parallel
            && tool.is_some_and(|tool| tool.definition.concurrency == Concurrency::Exclusive)
        {
            let message = format!("{:?} runs alone, and the tool that calls it does not", call.name);
            return Err(Exit::failed(ErrorKind::NotRun, message));
        }
        let classified = self.classify(call).await?;
        match (classified.decision, classified.result) {
            (ToolDecision::Allowed, _) => {}
            (ToolDecision::Pending(reason), _) => {
                return Ok(refused_inside(call, &format!("waits for a decision: {reason}")));
            }
            (_, Some(result)) => return Ok(result),
            (decision, None) => {
                return Err(Exit::failed(ErrorKind::Internal, format!("{decision:?} without a result")));
            }
        }
        let inner = InnerCall { outer, tool: &call.name, allowed: self.digest(call) };
        let idempotent = tool.is_some_and(|tool| tool.definition.idempotent);
        let no_replay = (!idempotent).then_some("the tool is not idempotent");
        let core = ToolCore::inner(self, &inner);
        self.agent.interceptors.tool_call.call(&self.ctx, call.clone(), &core, no_replay).await
    }
}

/// An inner call that would have to wait: the call around it could not be gone on with after a restart.
pub(super) fn refused_inside(call: &ToolCall, why: &str) -> ToolResult {
    let message =
        format!("not run: it {why}, and a call inside of another cannot wait; make it a call of its own");
    ToolResult::synthetic(call, Synthetic::Denied, ErrorInfo::new(ErrorKind::ApprovalRequired, message))
}
