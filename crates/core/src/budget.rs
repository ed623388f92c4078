//! Budgets: how much a turn, a session or whoever started them may use, as a tree in which no child exceeds its parent.

use std::{fmt, sync::Arc, time::Duration};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::TokenUsage;

/// How much may be used. What is none has no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetLimits {
    /// Tokens, in and out.
    pub tokens: Option<u64>,
    /// Money, in millionths of a US dollar.
    pub cost_micros: Option<u64>,
    /// Tool calls that are entered.
    pub tool_calls: Option<u64>,
    /// Model calls, those that fail included.
    pub model_calls: Option<u64>,
    /// Time in which a leg runs. Waiting between legs does not count.
    pub time: Option<Duration>,
}

/// How much was used.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BudgetUsed {
    /// Tokens, in and out, as far as they are known.
    pub tokens: u64,
    /// Money, in millionths of a US dollar.
    pub cost_micros: u64,
    /// Tool calls.
    pub tool_calls: u64,
    /// Model calls.
    pub model_calls: u64,
    /// Time.
    pub time: Duration,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BudgetKind {
    /// Tokens.
    Tokens,
    /// Money.
    Cost,
    /// Tool calls.
    ToolCalls,
    /// Model calls.
    ModelCalls,
    /// Time.
    Time,
}

/// A budget is used up. It names whose, from the outermost to the one that is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("the budget {budget:?} of {limit} is used up", limit = self.limit())]
pub struct BudgetExceeded {
    /// Whose: names from the outermost, with slashes between.
    pub budget: String,
    /// Of what.
    pub what: BudgetKind,
    /// How much there was, in the unit of its kind: tokens, millionths of a dollar, calls, milliseconds.
    pub limit: u64,
}

impl BudgetExceeded {
    fn limit(&self) -> String {
        let n = self.limit;
        match self.what {
            BudgetKind::Tokens => format!("{n} tokens"),
            #[expect(clippy::cast_precision_loss, reason = "it is shown to four places")]
            BudgetKind::Cost => format!("${:.4}", n as f64 / 1e6),
            BudgetKind::ToolCalls => format!("{n} tool calls"),
            BudgetKind::ModelCalls => format!("{n} model calls"),
            #[expect(clippy::cast_precision_loss, reason = "it is shown to three places")]
            BudgetKind::Time => format!("{:.3} s", n as f64 / 1e3),
        }
    }
}

/// A budget: limits, what was used of them, and the budget it was granted from. Clones are the same budget.
///
/// Whatever is used is charged to it and to every one above it. Calls are taken before they are made, from all of them or
/// from none, so that none is ever exceeded. Tokens and money are known only afterwards: no call is made once they are used
/// up, and the calls under way at that moment may exceed them. Time is asked for before each call, and ends what runs.
#[derive(Clone)]
pub struct Budget(Arc<Node>);

struct Node {
    name: Arc<str>,
    limits: BudgetLimits,
    used: Mutex<BudgetUsed>,
    parent: Option<Budget>,
    /// It is that of one turn, whose legs have a time of their own.
    is_turn: bool,
}

impl Budget {
    /// A budget of nobody.
    pub fn new(name: impl Into<Arc<str>>, limits: BudgetLimits) -> Self {
        Self::node(name.into(), limits, None, false)
    }

    /// A part of this budget: it has limits of its own, and what it uses is used here as well. Limits beyond what is left
    /// here grant no more than that.
    pub fn child(&self, name: impl Into<Arc<str>>, limits: BudgetLimits) -> Self {
        Self::node(name.into(), limits, Some(self.clone()), false)
    }

    /// For runtimes: the budget of one turn. The time of a turn that another turn started is a part of that one's own, and
    /// is charged to nobody above.
    pub fn of_turn(name: impl Into<Arc<str>>, limits: BudgetLimits, parent: Option<&Self>) -> Self {
        Self::node(name.into(), limits, parent.cloned(), true)
    }

    /// The same budget with what was used before: for what goes on in another process. Nothing is charged to a parent again.
    #[must_use]
    pub fn resumed(self, used: BudgetUsed) -> Self {
        *self.0.used.lock() = used;
        self
    }

    fn node(name: Arc<str>, limits: BudgetLimits, parent: Option<Self>, is_turn: bool) -> Self {
        Self(Arc::new(Node { name, limits, used: Mutex::default(), parent, is_turn }))
    }

    /// Its limits.
    pub fn limits(&self) -> BudgetLimits {
        self.0.limits
    }

    /// What was used of it.
    pub fn used(&self) -> BudgetUsed {
        *self.0.used.lock()
    }

    /// The budget it is a part of.
    pub fn parent(&self) -> Option<&Self> {
        self.0.parent.as_ref()
    }

    /// It and those above it, innermost first.
    fn line(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |budget| budget.parent())
    }

    fn exceeded(&self, what: BudgetKind, limit: u64) -> BudgetExceeded {
        let mut names: Vec<&str> = self.line().map(|budget| &*budget.0.name).collect();
        names.reverse();
        BudgetExceeded { budget: names.join("/"), what, limit }
    }

    /// Whether any of them limits money: then a model without a price cannot be asked.
    pub fn limits_cost(&self) -> bool {
        self.line().any(|budget| budget.0.limits.cost_micros.is_some())
    }

    /// Takes one model call, if tokens, money, time and calls are left everywhere. They are looked at in this order, from
    /// the innermost outwards.
    ///
    /// # Errors
    /// [`BudgetExceeded`]; nothing was taken.
    pub fn take_model_call(&self) -> Result<(), BudgetExceeded> {
        self.check()?;
        self.take(BudgetKind::ModelCalls)
    }

    /// Takes one tool call, if time and calls are left everywhere.
    ///
    /// # Errors
    /// [`BudgetExceeded`]; nothing was taken.
    pub fn take_tool_call(&self) -> Result<(), BudgetExceeded> {
        self.check_time()?;
        self.take(BudgetKind::ToolCalls)
    }

    /// Whether tokens, money and time are left everywhere.
    ///
    /// # Errors
    /// [`BudgetExceeded`].
    pub fn check(&self) -> Result<(), BudgetExceeded> {
        for budget in self.line() {
            let (limits, used) = (budget.0.limits, budget.used());
            for (what, used, limit) in [
                (BudgetKind::Tokens, used.tokens, limits.tokens),
                (BudgetKind::Cost, used.cost_micros, limits.cost_micros),
            ] {
                if let Some(limit) = limit
                    && used >= limit
                {
                    return Err(budget.exceeded(what, limit));
                }
            }
        }
        self.check_time()
    }

    fn check_time(&self) -> Result<(), BudgetExceeded> {
        match self.line().find(|budget| budget.0.limits.time.is_some_and(|limit| budget.used().time >= limit))
        {
            Some(budget) => Err(budget.time_exceeded()),
            None => Ok(()),
        }
    }

    fn time_exceeded(&self) -> BudgetExceeded {
        let limit = self.0.limits.time.unwrap_or_default();
        self.exceeded(BudgetKind::Time, u64::try_from(limit.as_millis()).unwrap_or(u64::MAX))
    }

    /// The least time that is left, and what is to be said when it is over; none without a limit.
    pub fn time_left(&self) -> Option<(Duration, BudgetExceeded)> {
        let left =
            |budget: &&Self| budget.0.limits.time.map(|limit| limit.saturating_sub(budget.used().time));
        let least = self.line().filter(|budget| left(budget).is_some()).min_by_key(|budget| left(budget))?;
        Some((left(&least)?, least.time_exceeded()))
    }

    fn take(&self, what: BudgetKind) -> Result<(), BudgetExceeded> {
        let mut taken: Vec<&Self> = Vec::new();
        for budget in self.line() {
            if let Err(e) = budget.take_here(what) {
                for budget in taken {
                    *count(&mut budget.0.used.lock(), what) -= 1;
                }
                return Err(e);
            }
            taken.push(budget);
        }
        Ok(())
    }

    fn take_here(&self, what: BudgetKind) -> Result<(), BudgetExceeded> {
        let limit = match what {
            BudgetKind::ToolCalls => self.0.limits.tool_calls,
            _ => self.0.limits.model_calls,
        };
        let mut used = self.0.used.lock();
        let count = count(&mut used, what);
        match limit {
            Some(limit) if *count >= limit => Err(self.exceeded(what, limit)),
            _ => {
                *count += 1;
                Ok(())
            }
        }
    }

    /// Charges what a model call used. Tokens that are not known count as none, and the call counts all the same.
    pub fn charge(&self, usage: &TokenUsage, cost_micros: u64) {
        let tokens = usage.input_tokens.unwrap_or(0).saturating_add(usage.output_tokens.unwrap_or(0));
        for budget in self.line() {
            let mut used = budget.0.used.lock();
            used.tokens = used.tokens.saturating_add(tokens);
            used.cost_micros = used.cost_micros.saturating_add(cost_micros);
        }
    }

    /// Charges time in which a leg ran.
    pub fn charge_time(&self, time: Duration) {
        let above = self.line().skip(1).take_while(|budget| !budget.0.is_turn);
        for budget in std::iter::once(self).chain(above) {
            let mut used = budget.0.used.lock();
            used.time = used.time.saturating_add(time);
        }
    }
}

fn count(used: &mut BudgetUsed, what: BudgetKind) -> &mut u64 {
    match what {
        BudgetKind::ToolCalls => &mut used.tool_calls,
        _ => &mut used.model_calls,
    }
}

impl fmt::Debug for Budget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Budget")
            .field("name", &self.0.name)
            .field("limits", &self.0.limits)
            .field("used", &self.used())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_m5_no_child_exceeds_its_parent_whatever_it_was_granted() {
        let parent = Budget::new("user", BudgetLimits { tool_calls: Some(3), ..BudgetLimits::default() });
        let child = parent.child("agent", BudgetLimits { tool_calls: Some(100), ..BudgetLimits::default() });
        let grandchild = child.child("sub", BudgetLimits { tool_calls: Some(2), ..BudgetLimits::default() });
        assert_eq!((grandchild.take_tool_call(), grandchild.take_tool_call()), (Ok(()), Ok(())));
        let e = grandchild.take_tool_call().unwrap_err();
        assert_eq!(e.to_string(), r#"the budget "user/agent/sub" of 2 tool calls is used up"#);
        assert_eq!(child.take_tool_call(), Ok(()));
        let e = child.take_tool_call().unwrap_err();
        assert_eq!((e.budget.as_str(), e.limit), ("user", 3));
        assert_eq!(
            (parent.used().tool_calls, child.used().tool_calls),
            (3, 3),
            "nothing is taken of a refused one"
        );
    }

    #[test]
    fn many_at_once_take_no_more_calls_than_there_are() {
        let root = Budget::new("root", BudgetLimits { model_calls: Some(1_000), ..BudgetLimits::default() });
        let taken: usize = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8)
                .map(|n| {
                    let child = root.child(
                        format!("{n}"),
                        BudgetLimits { model_calls: Some(200), ..BudgetLimits::default() },
                    );
                    scope.spawn(move || (0..500).filter(|_| child.take_model_call().is_ok()).count())
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!((taken, root.used().model_calls), (1_000, 1_000));
    }

    #[test]
    fn tokens_money_and_time_end_the_next_call() {
        let limits = BudgetLimits {
            tokens: Some(100),
            cost_micros: Some(50),
            time: Some(Duration::from_secs(1)),
            ..BudgetLimits::default()
        };
        let usage = TokenUsage { input_tokens: Some(90), output_tokens: Some(20), ..TokenUsage::UNKNOWN };
        let of = |charge: &dyn Fn(&Budget)| {
            let budget = Budget::new("b", limits);
            assert_eq!(budget.take_model_call(), Ok(()));
            charge(&budget);
            budget.take_model_call().unwrap_err().what
        };
        assert_eq!(of(&|b| b.charge(&usage, 0)), BudgetKind::Tokens);
        assert_eq!(of(&|b| b.charge(&TokenUsage::UNKNOWN, 50)), BudgetKind::Cost);
        assert_eq!(of(&|b| b.charge_time(Duration::from_secs(1))), BudgetKind::Time);
        let budget = Budget::new("b", limits)
            .resumed(BudgetUsed { time: Duration::from_millis(900), ..BudgetUsed::default() });
        assert_eq!(budget.time_left().unwrap().0, Duration::from_millis(100));
    }
}
