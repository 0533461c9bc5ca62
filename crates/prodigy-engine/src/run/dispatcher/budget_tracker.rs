//! Spending of the run's job, and of all jobs today.

use prodigy_core::{
    agent::PriceLevel,
    event::{Event, EventRecord, NewEvent},
    ids::JobId,
    job::{Job, SpendContext},
};

use crate::{
    clock,
    run::{Dispatcher, Error, RunSettings},
    store::{DailySpend, forget_agent_run, note_price_level},
};

/// The money of a job, and that of the day.
pub(crate) struct BudgetTracker {
    book: DailySpend,
    /// The spending of all jobs today when it was last looked up.
    today_usd: f64,
    /// The cost of this job at that time.
    total_usd: f64,
    is_warned: bool,
}

impl BudgetTracker {
    /// Takes the money of a job to hand.
    pub(crate) fn new(settings: &RunSettings, job: &JobId) -> Self {
        let book = DailySpend::new(&settings.layout, job);
        Self { book, today_usd: 0.0, total_usd: 0.0, is_warned: false }
    }

    /// Looks up what was spent today.
    fn refresh(&mut self, job: &Job) -> Result<(), crate::store::Error> {
        self.today_usd = self.book.today_usd(clock::now(), job.cost_usd)?;
        self.total_usd = job.cost_usd;
        Ok(())
    }

    /// Returns what was spent today, as far as that is known.
    fn today_usd(&self, job: &Job) -> f64 {
        self.today_usd + (job.cost_usd - self.total_usd).max(0.0)
    }
}

/// Refuses a budget of the day if nobody can say what was spent today.
pub(crate) fn check_daily_budget(settings: &RunSettings, job: &JobId) -> Result<(), Error> {
    if settings.workflow.budget.day_usd.is_none() {
        return Ok(());
    }
    BudgetTracker::new(settings, job).refresh(&Job::default()).map_err(Error::Daybook)
}

impl Dispatcher {
    /// Notes what an earlier run of the job spent and did not get to note.
    pub(crate) fn catch_up_spending(&mut self) {
        if self.job.cost_usd > 0.0 {
            let (purse, layout) = (&mut self.parts.purse, &self.parts.settings.layout);
            let caught_up = purse.book.catch_up(layout, &self.job);
            self.warn_of_spending(caught_up);
        }
    }

    /// Notes what a record says was spent.
    pub(crate) fn record_spending(&mut self, record: &EventRecord) {
        let noted = self.parts.purse.book.record(record);
        self.warn_of_spending(noted);
        let Event::AgentUsage { cost_usd, tokens, model, estimated, run, .. } = &record.event
        else {
            return;
        };
        let layout = &self.parts.settings.layout;
        if let Some(run) = run {
            forget_agent_run(layout, &self.parts.id, run);
        }
        let told = cost_usd.filter(|_| !estimated);
        let level = told.and_then(|cost_usd| PriceLevel::of(cost_usd, *tokens));
        if let (Some(level), Some(model)) = (level, model) {
            // Without it an agent that is cut off has a cost that nobody knows.
            note_price_level(layout.home(), model, level).ok();
        }
    }

    /// Looks up what was spent today, if anything depends on it.
    pub(crate) fn refresh_spending(&mut self) {
        if self.parts.settings.workflow.budget.day_usd.is_some() {
            let looked_up = self.parts.purse.refresh(&self.job);
            self.warn_of_spending(looked_up);
        }
    }

    /// Returns what holds for the job's accounts and money.
    pub(crate) fn spend_context(&self) -> SpendContext<'_> {
        let settings = &self.parts.settings;
        SpendContext {
            quota: &settings.workflow.quota,
            budget: &settings.workflow.budget,
            waits: !settings.options.no_wait,
            today_usd: self.parts.purse.today_usd(&self.job),
        }
    }

    /// Says at once that a resumed job waits for a usage limit, and how to try it now.
    pub(crate) fn note_wait(&mut self) {
        let Some(wait) = self.job.waits_for_limit(self.spend_context(), clock::now()) else {
            return;
        };
        let note = format!("{wait}; `prodigy resume {} --now` tries it at once", self.parts.id);
        self.parts.note(&note);
    }

    /// Says once that what is spent cannot be noted; that is no reason to stop.
    fn warn_of_spending(&mut self, result: Result<(), crate::store::Error>) {
        let Err(error) = result else { return };
        if std::mem::replace(&mut self.parts.purse.is_warned, true) {
            return;
        }
        let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
        let cause = cause.unwrap_or_default();
        self.parts.note(&format!(
            "warning: what is spent today cannot be noted, the job goes on without that: {error}{cause}"
        ));
    }
}

/// Returns whether something is known that has to be recorded although the run is over.
pub(crate) fn is_recorded_after_stop(fact: &NewEvent) -> bool {
    let is_worth_it =
        matches!(fact.event, Event::WorktreePreserved { .. } | Event::AgentUsage { .. });
    fact.item_id.is_some() && is_worth_it
}
