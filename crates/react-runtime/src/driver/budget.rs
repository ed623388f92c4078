//! Budgets in a leg: asked before each call, charged after it, and watched while time passes.

use turnwright_control::ControlError;
use turnwright_core::{
    Budget, BudgetLimits, BudgetUsed, CancelCause, CancelKind, ErrorInfo, ErrorKind, TokenUsage,
};
use turnwright_interceptor::Exit;
use turnwright_llm_stream::{ModelHandle, prices::Price};

use super::LegRt;
use crate::{agent::AgentInner, ledger::Leg, session::Parent};

impl AgentInner {
    /// The budget of a turn: none where nothing is limited.
    pub(crate) fn budget_of(&self, parent: &Parent, used: BudgetUsed) -> Option<Budget> {
        let above = parent.granted().or(self.within.as_ref());
        if above.is_none() && self.budget == BudgetLimits::default() {
            return None;
        }
        Some(Budget::of_turn(self.name.clone(), self.budget, above).resumed(used))
    }
}

impl LegRt {
    /// What the turn used, this leg's time so far included.
    pub(crate) fn budget_used(&self) -> BudgetUsed {
        let Some(budget) = self.ctx.budget() else { return BudgetUsed::default() };
        let mut used = budget.used();
        used.time += self.elapsed();
        used
    }

    fn elapsed(&self) -> std::time::Duration {
        let is_over = *self.time_charged.lock();
        let now = self.ctx.sources().clock.instant();
        if is_over { std::time::Duration::ZERO } else { now.saturating_duration_since(self.began) }
    }

    /// The leg is over: its time counts.
    pub(super) fn charge_time(&self) {
        if let Some(budget) = self.ctx.budget() {
            let time = self.elapsed();
            if !std::mem::replace(&mut *self.time_charged.lock(), true) {
                budget.charge_time(time);
            }
        }
    }

    /// Before a model is asked. A history is legal here, and nothing was begun.
    pub(super) fn take_model_call(&self, model: &ModelHandle) -> Result<(), Exit> {
        let Some(budget) = self.ctx.budget() else { return Ok(()) };
        if budget.limits_cost() && self.price(model).is_none() {
            let message = format!(
                "what the model {}/{} costs is not known, so no budget of money can hold for it: add its price",
                model.provider(),
                model.model()
            );
            return Err(Exit::failed(ErrorKind::Configuration, message));
        }
        budget.take_model_call().map_err(|e| Exit::Control(e.into()))
    }

    /// Before a tool is entered. A refusal ends the turn once the batch is closed, so that the history is legal.
    pub(super) fn take_tool_call(&self) -> Result<(), ErrorInfo> {
        let Some(budget) = self.ctx.budget() else { return Ok(()) };
        budget.take_tool_call().map_err(|e| {
            let message = format!("not run: {e}");
            self.breach.lock().get_or_insert_with(|| e.into());
            ErrorInfo::new(ErrorKind::NotRun, message)
        })
    }

    /// What a call of the batch was refused for.
    pub(super) fn breach(&self) -> Option<ControlError> {
        self.breach.lock().clone()
    }

    /// Charges what model calls used since the last time.
    pub(super) fn charge(&self, model: &ModelHandle) {
        let Some(budget) = self.ctx.budget() else { return };
        let used = self.ledger.with(Leg::take_uncharged);
        let price = self.price(model);
        for usage in used {
            budget.charge(&usage, price.map_or(0, |price| micros(price, &usage)));
        }
    }

    fn price(&self, model: &ModelHandle) -> Option<&Price> {
        self.agent.prices.of(model.provider(), model.model())
    }

    /// Ends the turn when its time, or that of a budget above it, is over. Never ends without such a limit.
    pub(super) async fn watch_time(&self) {
        let Some((left, exceeded)) = self.ctx.budget().and_then(Budget::time_left) else {
            return std::future::pending().await;
        };
        tokio::time::sleep(left).await;
        self.ctx.cancel().cancel(CancelCause::runtime(CancelKind::Budget, exceeded.to_string()));
    }
}

/// In millionths of a dollar, rounded up: what is not nothing costs something.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "money is not negative, and floats saturate"
)]
fn micros(price: &Price, usage: &TokenUsage) -> u64 {
    price.cost(usage).map_or(0, |dollars| (dollars * 1e6).ceil() as u64)
}
