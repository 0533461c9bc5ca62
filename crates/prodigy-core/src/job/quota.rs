//! The decisions that follow from usage limits and budgets.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::{Decision, DecisionContext, Job, JobAction, RunOutcome};
use crate::{
    Timestamp,
    agent::{QuotaKind, QuotaLimit},
    duration,
    event::{BudgetScope, Event, EventRecord, FailureDecision, NewEvent, PauseReason, QuotaPaused},
    ids::ItemId,
    policy::{Budget, OnExceeded, OnLimit, QuotaPolicy},
};

/// The first wait for a limit of which no reset time is known; then twice as long, …
const FIRST_WAIT: Duration = Duration::from_secs(5 * 60);
/// … and so on, but never longer than this.
const LONGEST_WAIT: Duration = Duration::from_secs(60 * 60);
/// The least wait: a moment that is over says nothing about when it will be better.
const LEAST_WAIT: Duration = Duration::from_secs(60);
/// The least wait after a try that ran into the limit again; then twice as long, and so on.
const SOON: Duration = Duration::from_secs(1);
/// The most that is added to a wait at random, so that not everybody comes back at once.
const MOST_JITTER: Duration = Duration::from_secs(30);

/// Sums of money that differ by less are the same: most amounts have no exact binary form.
const TINY_USD: f64 = 1e-9;

/// The usage limits and the budget of a job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SpendContext<'a> {
    /// The policy for usage limits.
    pub quota: &'a QuotaPolicy,
    /// The budget.
    pub budget: &'a Budget,
    /// Set if the run may wait at all.
    pub waits: bool,
    /// The amount that all jobs have spent today, this one included.
    pub today_usd: f64,
}

/// A limit that keeps a job from starting anything that needs an agent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaState {
    /// The limit.
    pub limit: QuotaLimit,
    /// When one agent may try whether it is lifted; `None` if waiting does not help.
    pub until: Option<Timestamp>,
    /// Since when the job waits.
    pub since: Timestamp,
    /// The number of times that the limit was hit.
    pub times: u32,
    /// The item whose attempt tries it, if one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probe: Option<ItemId>,
    /// The item whose attempt tried it last. Another one tries next: what one item meets may
    /// be its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tried: Option<ItemId>,
}

/// The used share of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct QuotaShare {
    /// From 0 to 1.
    pub share: f64,
    /// When it begins anew.
    pub resets_at: Option<Timestamp>,
}

/// Money that is spent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BudgetOverrun {
    /// Whose.
    pub scope: BudgetScope,
    /// The budget.
    pub limit_usd: f64,
    /// The amount spent.
    pub spent_usd: f64,
}

impl QuotaState {
    /// Returns the pause for a limit that was hit, once more if there was one before.
    pub(crate) fn after_pause(before: Option<&Self>, paused: &QuotaPaused, now: Timestamp) -> Self {
        Self {
            limit: paused.limit.clone(),
            until: paused.paused_until,
            since: before.map_or(now, |before| before.since),
            times: before.map_or(0, |before| before.times) + 1,
            probe: None,
            tried: before.and_then(|before| before.tried.clone()),
        }
    }

    /// Applies a resume of the job: the limit is probed when its wait is over, or now.
    pub(crate) fn resume(&mut self, try_now: bool, now: Timestamp) {
        self.probe = None;
        self.since = now;
        self.until = self.until.filter(|_| !try_now).or(Some(now));
    }

    /// Applies a record of an item: it begins to probe the limit, or ends its probe.
    pub(crate) fn track_probe(&mut self, record: &EventRecord) {
        let is_probe = self.probe.is_some() && self.probe == record.item_id;
        if let Event::AgentStarted { .. }
        | Event::HandlerRestarted { .. }
        | Event::ResolutionStarted { .. } = &record.event
        {
            self.probe.clone_from(&record.item_id);
        } else if let Event::AgentFailed(failed) = &record.event {
            // Its handler may ask an agent yet.
            if is_probe && failed.then != FailureDecision::Handler {
                self.probe = None;
            }
        } else if let Event::AgentReleased { .. } = &record.event
            && is_probe
        {
            self.tried = self.probe.take();
        } else if let Event::AgentCompleted(_)
        | Event::ResolutionCompleted { .. }
        | Event::ResolutionFailed { .. }
        | Event::ItemSkipped { .. }
        | Event::ItemDeadLettered { .. } = &record.event
            && is_probe
        {
            self.probe = None;
        }
    }

    /// Returns how many attempts may start.
    pub(crate) fn free_slots(&self, now: Timestamp) -> u32 {
        let is_over = self.until.is_some_and(|until| until <= now);
        u32::from(is_over && self.probe.is_none())
    }
}

impl Job {
    /// Applies an event about costs, usage limits or budgets.
    pub(crate) fn apply_spending(&mut self, event: &Event, at: Timestamp) {
        if let Event::AgentUsage { cost_usd, tokens, .. } = event {
            self.cost_usd += cost_usd.unwrap_or_default();
            self.tokens += *tokens;
        } else if let Event::QuotaPaused(paused) = event {
            self.quota = Some(QuotaState::after_pause(self.quota.as_ref(), paused, at));
        } else if let Event::QuotaWarned { share, resets_at, .. } = event {
            self.utilization = Some(QuotaShare { share: *share, resets_at: *resets_at });
        } else if let Event::QuotaResumed {} = event {
            self.quota = None;
        } else if let Event::BudgetExceeded { scope, limit_usd, spent_usd } = event {
            let (scope, limit_usd, spent_usd) = (*scope, *limit_usd, *spent_usd);
            self.overspent = Some(BudgetOverrun { scope, limit_usd, spent_usd });
        }
    }

    /// Applies a resume of the job: the budget may be higher now, and `try_now` probes a limit
    /// at once.
    pub(crate) fn resume_spending(&mut self, try_now: bool, now: Timestamp) {
        self.overspent = None;
        if let Some(quota) = &mut self.quota {
            quota.resume(try_now, now);
        }
    }

    /// Says why the job waits and until when, if it waits for a usage limit at a moment.
    pub fn waits_for_limit(&self, spending: SpendContext<'_>, now: Timestamp) -> Option<String> {
        let paused = self.quota.as_ref()?;
        let until = paused.until.filter(|until| *until > now)?;
        may_wait(paused.since, until, spending)
            .then(|| format!("waiting: {}; it is tried again at {until:.0}", paused.limit.message))
    }
}

/// Returns that the limit is lifted, if something that happened inside a step shows it.
///
/// Only an agent that was served does, and only one that was let through to try: an older one
/// that answers late proves nothing. The job's own steps are let through one at a time.
pub(crate) fn quota_lifted(job: &Job, inside: &NewEvent) -> Option<NewEvent> {
    let paused = job.quota.as_ref()?;
    let is_served = matches!(inside.event, Event::AgentUsage { served: true, .. });
    let is_try = inside.item_id.is_none() || paused.probe == inside.item_id;
    (is_served && is_try).then(|| Event::QuotaResumed {}.into())
}

/// Returns what is recorded when an agent ran into a limit.
///
/// Many run into the same one; what is known already is not recorded again.
pub(crate) fn quota_paused(
    job: &Job,
    limit: QuotaLimit,
    step: Option<String>,
    surroundings: DecisionContext<'_>,
) -> Option<Event> {
    let before = job.quota.as_ref();
    let now = surroundings.now;
    if before.is_some_and(|paused| paused.until.is_none_or(|until| until > now)) {
        return None;
    }
    let times = before.map_or(0, |paused| paused.times);
    let paused_until = match limit.kind {
        QuotaKind::Credits | QuotaKind::Access | QuotaKind::UnknownCost => None,
        QuotaKind::Usage => Some(lifted_at(&limit, times, now, surroundings.random)),
    };
    let since = before.map_or(now, |paused| paused.since);
    let waits = paused_until.is_some_and(|until| may_wait(since, until, surroundings.spending));
    Some(Event::QuotaPaused(Box::new(QuotaPaused { limit, paused_until, waits, step })))
}

/// Returns when to try whether a limit is lifted.
///
/// Each try may cost money. So the more of them ran into it, the longer the wait is at least,
/// whatever the agent says of its end.
fn lifted_at(limit: &QuotaLimit, times: u32, now: Timestamp, random: f64) -> Timestamp {
    let doubled =
        |wait: Duration, times: u32| wait.saturating_mul(1 << times.min(20)).min(LONGEST_WAIT);
    let least =
        times.checked_sub(1).map_or(Duration::from_millis(1), |failed| doubled(SOON, failed));
    let wait = match limit.resets_at.and_then(|at| Duration::try_from(at.duration_since(now)).ok())
    {
        Some(wait) => wait.max(least),
        None if limit.resets_at.is_some() => doubled(LEAST_WAIT, times),
        None => doubled(FIRST_WAIT, times),
    };
    let jitter = wait.div_f64(10.0).min(MOST_JITTER).mul_f64(random.clamp(0.0, 1.0));
    saturating_add(now, wait.saturating_add(jitter))
}

/// Returns what keeps the job from going on, if something does.
///
/// `needs_agent` is whether what comes next may ask an agent: nothing else has to wait.
pub(crate) fn block_on_spend(
    job: &Job,
    surroundings: DecisionContext<'_>,
    needs_agent: bool,
) -> Option<Decision> {
    if !needs_agent {
        return None;
    }
    if let Some(paused) = &job.quota {
        return wait(job, paused, surroundings);
    }
    if let Some(overspent) = &job.overspent {
        return Some(stop_spending(job, *overspent, surroundings));
    }
    let SpendContext { budget, today_usd, .. } = surroundings.spending;
    let overspent = exceeded(budget, job.cost_usd, today_usd)?;
    let BudgetOverrun { scope, limit_usd, spent_usd } = overspent;
    Some(Decision::record(vec![Event::BudgetExceeded { scope, limit_usd, spent_usd }]))
}

/// Waits for a limit to be lifted, or stops.
fn wait(job: &Job, paused: &QuotaState, surroundings: DecisionContext<'_>) -> Option<Decision> {
    let DecisionContext { spending, now, .. } = surroundings;
    if paused.until.is_some_and(|until| until <= now) {
        // One agent tries.
        return None;
    }
    if let Some(until) = paused.until.filter(|until| may_wait(paused.since, *until, spending)) {
        return Some(Decision { wake: Some(until), ..Decision::default() });
    }
    if is_under_way(job) {
        return Some(Decision::default());
    }
    let (reason, message) = match (paused.limit.kind, paused.until) {
        (QuotaKind::Usage, Some(until)) => {
            let too_long = wait_limit_message(paused.since, until, spending.quota);
            let too_long = too_long.map(|why| format!(" ({why})")).unwrap_or_default();
            let message = format!(
                "{}; `prodigy resume` tries it with one agent from {until:.0} on{too_long}, and with `--now` at once",
                paused.limit.message
            );
            (PauseReason::UsageLimit, message)
        }
        (QuotaKind::Usage, None) => (PauseReason::UsageLimit, paused.limit.message.clone()),
        (QuotaKind::Credits, _) => (PauseReason::OutOfCredits, paused.limit.message.clone()),
        (QuotaKind::Access, _) => (PauseReason::NoAccess, paused.limit.message.clone()),
        (QuotaKind::UnknownCost, _) => (PauseReason::Budget, paused.limit.message.clone()),
    };
    let event = Event::JobPaused { reason, message };
    Some(Decision::finish(vec![event], RunOutcome::Paused(reason)))
}

/// Returns whether a job that waits since a moment may wait until another.
fn may_wait(since: Timestamp, until: Timestamp, spending: SpendContext<'_>) -> bool {
    let is_short = wait_limit_message(since, until, spending.quota).is_none();
    spending.waits && spending.quota.on_limit == OnLimit::Wait && is_short
}

/// Says that a wait is longer than it may be, if it is.
fn wait_limit_message(since: Timestamp, until: Timestamp, quota: &QuotaPolicy) -> Option<String> {
    let wait = Duration::try_from(until.duration_since(since)).unwrap_or_default();
    let most = quota.longest_wait();
    (wait > most).then(|| format!("a wait longer than `max_wait`, {}", duration::format(most)))
}

/// Ends the run because money is spent.
fn stop_spending(
    job: &Job,
    overspent: BudgetOverrun,
    surroundings: DecisionContext<'_>,
) -> Decision {
    if is_under_way(job) {
        return match surroundings.spending.budget.on_exceeded {
            OnExceeded::Pause => Decision::default(),
            OnExceeded::Stop => Decision::perform(JobAction::Halt(PauseReason::Budget)),
        };
    }
    let event = Event::JobPaused { reason: PauseReason::Budget, message: overspent.message() };
    Decision::finish(vec![event], RunOutcome::Paused(PauseReason::Budget))
}

impl BudgetOverrun {
    /// Returns what is to be said about it.
    pub fn message(self) -> String {
        let Self { limit_usd, spent_usd, .. } = self;
        match self.scope {
            BudgetScope::Job => {
                format!("the job has cost ${spent_usd:.2}, and its budget is ${limit_usd:.2}")
            }
            BudgetScope::Day => {
                format!(
                    "jobs have cost ${spent_usd:.2} today, and the day's budget is ${limit_usd:.2}"
                )
            }
        }
    }
}

/// Returns the budget that is spent, if one is.
pub fn exceeded(budget: &Budget, job_usd: f64, today_usd: f64) -> Option<BudgetOverrun> {
    let scopes = [
        (BudgetScope::Job, budget.job_usd, job_usd),
        (BudgetScope::Day, budget.day_usd, today_usd),
    ];
    scopes.into_iter().find_map(|(scope, limit_usd, spent_usd)| {
        let limit_usd = limit_usd.filter(|limit| spent_usd + TINY_USD >= *limit)?;
        Some(BudgetOverrun { scope, limit_usd, spent_usd })
    })
}

/// Returns how many attempts may be under way when a limit comes closer.
pub(crate) fn throttled_concurrency(
    job: &Job,
    most: u32,
    surroundings: DecisionContext<'_>,
) -> u32 {
    let Some(throttle_at) = surroundings.spending.quota.throttle_at else { return most };
    let Some(used) = job.utilization.filter(|used| used.share >= throttle_at) else { return most };
    if used.resets_at.is_some_and(|at| at <= surroundings.now) {
        return most;
    }
    // From all of them at the mark down to one at the limit.
    let left = ((1.0 - used.share) / (1.0 - throttle_at).max(f64::EPSILON)).clamp(0.0, 1.0);
    let allowed = (f64::from(most) * left).floor();
    (1..=most).rev().find(|number| f64::from(*number) <= allowed).unwrap_or(1)
}

fn is_under_way(job: &Job) -> bool {
    job.map.as_ref().is_some_and(|map| map.in_flight() > 0)
}

/// Returns a moment that comes later, or the last one there is.
pub(crate) fn saturating_add(now: Timestamp, delay: Duration) -> Timestamp {
    jiff::SignedDuration::try_from(delay)
        .ok()
        .and_then(|delay| now.checked_add(delay).ok())
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the shortest and the longest wait for a limit, in seconds.
    fn wait(resets_in: Option<i64>, times: u32) -> (i64, i64) {
        let resets_at = resets_in.map(|second| Timestamp::from_second(second).unwrap());
        let (kind, message) = (QuotaKind::Usage, String::new());
        let limit = QuotaLimit { kind, resets_at, window: None, message };
        let at = |random| lifted_at(&limit, times, Timestamp::UNIX_EPOCH, random).as_second();
        (at(0.0), at(1.0))
    }

    #[test]
    fn a_limit_is_waited_for_as_long_as_was_said_and_a_little_longer() {
        assert_eq!(wait(Some(100), 3), (100, 110));
        assert_eq!(wait(Some(7200), 0), (7200, 7230));
        assert_eq!(wait(Some(-5), 0), (60, 66), "what is over says nothing");
        assert_eq!(wait(Some(-5), 2), (240, 264));
    }

    #[test]
    fn a_limit_that_is_said_to_end_soon_and_does_not_is_tried_less_and_less_often() {
        assert_eq!(wait(Some(0), 0).0, 0);
        assert_eq!([1, 2, 5, 40].map(|times| wait(Some(1), times).0), [1, 2, 16, 3600]);
    }

    #[test]
    fn a_limit_whose_end_nobody_told_is_tried_less_and_less_often() {
        assert_eq!([0, 1, 2, 9].map(|times| wait(None, times).0), [300, 600, 1200, 3600]);
    }
}
