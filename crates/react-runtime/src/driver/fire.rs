//! Firing points with what each of them is given.

use turnwright_control::ControlError;
use turnwright_core::{AgentResult, ErrorInfo, Origin, Part};
use turnwright_hook::{DecidedCall, Dispatch, HookPoint, LegEnd, ToolDecision, TurnAnswer};
use turnwright_interceptor::Exit;
use turnwright_llm_stream::LlmResponse;

use super::LegRt;
use crate::{
    event::TurnEventKind,
    ledger::Leg,
    machine::{Fed, LegStop, Stop},
    typed::AnswerCheck,
};

impl LegRt {
    /// Fires a point of the work: raced with cancel, control errors obeyed.
    pub(crate) async fn fire_in_work(&self, point: HookPoint) -> Result<(), Exit> {
        if point == HookPoint::BeforeIteration {
            self.ledger.with(|leg| {
                let (iteration, attempt) = (leg.machine.iteration(), leg.machine.attempt());
                self.ctx.set_position(attempt, iteration);
                leg.emit(TurnEventKind::IterationStarted { iteration, attempt });
            });
        }
        if point == HookPoint::BeforeLlm {
            // What an earlier call came to is not what this one comes to.
            self.ledger.with(Leg::forget_response);
        }
        if point == HookPoint::AfterTurn {
            return self.after_turn_in_work().await;
        }
        self.or_cancel(self.fire(point, Dispatch::new().log(&*self.ledger), None)).await??;
        self.fired(point);
        self.feed(Fed::Done)
    }

    async fn after_turn_in_work(&self) -> Result<(), Exit> {
        let mut result = self.ledger.read(Leg::attempt_result);
        let before = result.content.clone();
        let dispatch = Dispatch::new().log(&*self.ledger);
        let answer = self.or_cancel(self.agent.hooks.after_turn(&self.ctx, &mut result, dispatch)).await??;
        keep_streamed(&mut result, before);
        let answer = if answer == TurnAnswer::Done { self.ask_for_repair(&result) } else { answer };
        let stop = Stop {
            reason: result.stop_reason,
            error: result.error.clone(),
            cancelled_by: result.cancelled_by.clone(),
            user_content: None,
        };
        self.ledger.with(|leg| leg.result = Some(result));
        self.feed(Fed::AttemptEnded { answer, stop })?;
        self.ledger.with(|leg| {
            let stop = leg.machine.stop_reason().cloned();
            match (stop, &mut leg.result) {
                // The machine may have had the last word: no attempt was left.
                (Some(stop), Some(result)) => {
                    result.stop_reason = stop.reason;
                    result.error = stop.error;
                }
                // The turn goes on: this was not its result.
                (None, result) => *result = None,
                (Some(_), None) => {}
            }
        });
        Ok(())
    }

    /// What becomes of a turn whose answer must have a form: one that has it is done; of another the model is told what
    /// is wrong, in the same history, as long as there are repairs and attempts left.
    fn ask_for_repair(&self, result: &AgentResult) -> TurnAnswer {
        let Some(answer) = &self.answer else { return TurnAnswer::Done };
        let Some(complaint) = answer.complaint(result) else { return TurnAnswer::Done };
        if !self.ledger.read(|leg| leg.machine.has_attempt_left()) || !answer.take_repair(self.ctx.state()) {
            return TurnAnswer::Done;
        }
        let origin = Origin::Hook(AnswerCheck::ORIGIN.into());
        self.ledger.with(|leg| leg.land(vec![Part::text(complaint)], origin, None));
        TurnAnswer::Continue
    }

    /// Fires a point of the unwinding: nothing races it, every hook runs, control errors are recorded.
    pub(crate) async fn fire_owed(
        &self,
        point: HookPoint,
        dispatch: Dispatch<'_>,
        crashed: Option<&ErrorInfo>,
    ) {
        match point {
            HookPoint::AfterTurn => {
                let mut result = self.owed_result();
                let before = result.content.clone();
                // The turn is ending: what the hooks make of the result counts, what they ask for does not.
                let _ = self.agent.hooks.after_turn(&self.ctx, &mut result, dispatch).await;
                keep_streamed(&mut result, before);
                self.ledger.with(|leg| leg.result = Some(result));
            }
            HookPoint::FinalizeContent => {
                let mut result = self.owed_result();
                let is_due = !result.content.is_empty() || !self.ledger.read(|leg| leg.machine.was_cut());
                if is_due && self.agent.hooks.is_heard(point) {
                    let before = std::mem::take(&mut result.content);
                    let (content, raised) =
                        self.agent.hooks.finalize_content(&self.ctx, before.clone(), dispatch);
                    result.content = content;
                    // The last word on an answer that was whole; a turn that was cut has had its last word.
                    if let Some(control) = raised
                        && !self.ledger.read(|leg| leg.machine.was_cut())
                    {
                        result.stop_reason = control.stop_reason();
                        result.error = Some(control.info());
                        result.cancelled_by = control.cause().cloned();
                        if let Some(words) = control.user_content {
                            self.ledger.with(|leg| leg.tell_user(words.clone()));
                            result.content = words;
                        }
                    }
                    keep_streamed(&mut result, before);
                }
                self.ledger.with(|leg| leg.result = Some(result));
            }
            // Control errors cannot come out of an unwinding dispatch.
            _ => drop(self.fire(point, dispatch, crashed).await),
        }
        self.fired(point);
    }

    fn owed_result(&self) -> AgentResult {
        self.ledger.with(|leg| leg.result.clone().unwrap_or_else(|| leg.attempt_result()))
    }

    fn fired(&self, point: HookPoint) {
        if point == HookPoint::AfterIteration {
            self.ledger.with(|leg| {
                leg.emit(TurnEventKind::IterationFinished { iteration: leg.machine.iteration() });
            });
        }
    }

    async fn fire(
        &self,
        point: HookPoint,
        dispatch: Dispatch<'_>,
        crashed: Option<&ErrorInfo>,
    ) -> Result<(), ControlError> {
        let (hooks, ctx) = (&self.agent.hooks, &self.ctx);
        if !hooks.is_heard(point) {
            return Ok(());
        }
        match point {
            HookPoint::BeforeGraph => hooks.before_graph(ctx, dispatch).await,
            HookPoint::StartNodeTurn => hooks.start_node_turn(ctx, dispatch).await,
            HookPoint::EndNodeTurn => hooks.end_node_turn(ctx, dispatch).await,
            HookPoint::BeforeTurn => hooks.before_turn(ctx, dispatch).await,
            HookPoint::BeforeIteration => hooks.before_iteration(ctx, dispatch).await,
            HookPoint::AfterIteration => hooks.after_iteration(ctx, dispatch).await,
            HookPoint::BeforeLlm => {
                let request = self.build_request();
                let out = hooks.before_llm(ctx, &request.0, dispatch).await;
                *self.request.lock() = Some(request);
                out
            }
            HookPoint::AfterLlmResponse => match self.ledger.read(Leg::response) {
                Some(response) => hooks.after_llm_response(ctx, &response, dispatch).await,
                // Cut between BEFORE_LLM and the call: there is no answer, only why.
                None => {
                    let error =
                        self.ledger.with(|leg| leg.machine.stop_reason().and_then(|s| s.error.clone()));
                    let none = LlmResponse { error, ..LlmResponse::default() };
                    hooks.after_llm_response(ctx, &none, dispatch).await
                }
            },
            HookPoint::BeforeToolExecution => {
                let calls = self.decided_calls();
                hooks.before_tool_execution(ctx, &calls, dispatch).await
            }
            HookPoint::AfterToolExecution => {
                let results = self.ledger.read(Leg::results);
                hooks.after_tool_execution(ctx, &results, dispatch).await
            }
            HookPoint::AfterApproval => match self.ledger.read(|leg| leg.transaction.clone()) {
                Some(transaction) => hooks.after_approval(ctx, &transaction, dispatch).await,
                None => Ok(()),
            },
            HookPoint::AfterGraph => hooks.after_graph(ctx, &self.owed_result(), dispatch).await,
            HookPoint::FinallyGraph => {
                let stop = self.ledger.read(|leg| leg.machine.leg_stop());
                let result = self.owed_result();
                let end = match (crashed, stop) {
                    (Some(error), _) => LegEnd::Crashed(error),
                    (None, LegStop::Terminal) => LegEnd::Terminal(&result),
                    (None, LegStop::Suspended) => LegEnd::Suspended,
                    (None, LegStop::Drained) => LegEnd::Drained,
                };
                hooks.finally_graph(ctx, end, dispatch).await
            }
            // These two have their own ways, above.
            HookPoint::AfterTurn | HookPoint::FinalizeContent => Ok(()),
        }
    }

    fn decided_calls(&self) -> Vec<DecidedCall> {
        self.ledger.with(|leg| {
            let calls = leg.batch.iter().flat_map(|b| &b.calls);
            calls
                .map(|entry| DecidedCall {
                    call: entry.call.clone(),
                    decision: entry.decision.clone().unwrap_or(ToolDecision::Allowed),
                })
                .collect()
        })
    }
}

/// Hooks may have changed the content: what had been streamed stands beside it.
fn keep_streamed(result: &mut AgentResult, before: String) {
    let now = std::mem::replace(&mut result.content, before);
    result.replace_content(now);
}
