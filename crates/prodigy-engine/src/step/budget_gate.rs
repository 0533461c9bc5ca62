//! The check of budgets before every agent, whoever starts it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use prodigy_core::{
    job::{BudgetOverrun, exceeded},
    policy::Budget,
};

use crate::{clock, store::TodaySpend};

/// The budgets of the job and of the day, and what was spent of them.
///
/// The dispatcher learns of spending from events, which take their time. An agent that is about to
/// start has to know at once.
#[derive(Debug)]
pub struct BudgetGate {
    budget: Budget,
    spent: Mutex<BudgetSpend>,
}

#[derive(Debug)]
struct BudgetSpend {
    job_usd: f64,
    today: TodaySpend,
    /// The spending of all jobs today, when it could last be read.
    today_usd: f64,
}

impl BudgetGate {
    /// Begins with what the job has cost so far.
    pub fn new(budget: Budget, job_usd: f64, today: TodaySpend) -> Self {
        let spent = BudgetSpend { job_usd, today, today_usd: 0.0 };
        Self { budget, spent: Mutex::new(spent) }
    }

    fn spent(&self) -> MutexGuard<'_, BudgetSpend> {
        self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the cost of an agent.
    pub(super) fn add(&self, cost_usd: f64) {
        self.spent().job_usd += cost_usd;
    }

    /// Returns the budget that is spent, if one is: no agent may start then.
    pub(super) fn exceeded_budget(&self) -> Option<BudgetOverrun> {
        let mut spent = self.spent();
        if self.budget.day_usd.is_some() {
            let job_usd = spent.job_usd;
            let read = spent.today.usd(clock::now(), job_usd);
            // What cannot be read now was not less before.
            spent.today_usd = read.unwrap_or(spent.today_usd);
        }
        exceeded(&self.budget, spent.job_usd, spent.today_usd)
    }
}
