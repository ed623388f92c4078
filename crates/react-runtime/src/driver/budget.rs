//! Budgets in a leg: asked before each call, charged after it, and watched while time passes.

use std::time::Duration;

use turnwright_control::ControlError;
use turnwright_core::{
    Budget, BudgetLimits, BudgetUsed, CancelCause, CancelKind, ErrorInfo, ErrorKind, TokenUsage,
};
use turnwright_interceptor::Exit;
use turnwright_llm_stream::{ModelHandle, prices::Price};

use super::LegRt;
use crate::{agent::AgentInner, ledger::Leg, session::Parent};

/// How often a leg whose time is limited is charged for it.
const TIME_TICK: Duration = Duration::from_millis(250);

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

    /// The leg's time that no budget was charged for yet.
    fn elapsed(&self) -> Duration {
        let now = self.ctx.sources().clock.instant();
        let since = *self.time_charged.lock();
        since.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
    }

    /// Charges the leg's time so far, so that legs which share a budget see each other's.
    fn charge_time_so_far(&self) {
        let Some(budget) = self.ctx.budget() else { return };
        let now = self.ctx.sources().clock.instant();
        let mut charged = self.time_charged.lock();
        if let Some(since) = charged.replace(now) {
            drop(charged);
            budget.charge_time(now.saturating_duration_since(since));
        } else {
            // It is over.
            *charged = None;
        }
    }

    /// The leg is over: its time counts, and no more of it.
    pub(super) fn charge_time(&self) {
        self.charge_time_so_far();
        *self.time_charged.lock() = None;
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
        self.charge_time_so_far();
        budget.take_model_call().map_err(|e| Exit::Control(e.into()))
    }

    /// Before a tool is entered. A refusal ends the turn once the batch is closed, so that the history is legal.
    pub(super) fn take_tool_call(&self) -> Result<(), ErrorInfo> {
        let Some(budget) = self.ctx.budget() else { return Ok(()) };
        self.charge_time_so_far();
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
        loop {
            let Some((left, exceeded)) = self.ctx.budget().and_then(Budget::time_left) else {
                return std::future::pending().await;
            };
            if left.is_zero() {
                self.ctx.cancel().cancel(CancelCause::runtime(CancelKind::Budget, exceeded.to_string()));
                return std::future::pending().await;
            }
            // Others may use of it too.
            tokio::time::sleep(left.min(TIME_TICK)).await;
            self.charge_time_so_far();
        }
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
