//! Accounting of agents: a run is noted before it starts, and its cost is told when it ended.

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
};

use prodigy_core::{
    agent::{AgentCost, QuotaLimit, StreamState, TokenUsage, was_served},
    event::{Event, QuotaPaused},
    failure::Failure,
    ids::hex,
    policy::{Budget, OnUnknownCost},
    workflow::Ability,
};

use super::{AgentCall, session::AgentSession};
use crate::{
    agent::{Agent, AgentReport},
    process::{ProcessOutcome, ProcessStatus},
    step::StepContext,
    store::{AgentRun, price_level},
};

/// The budget of a job, and the agents for which it cannot be kept because their cost is unknown.
#[derive(Debug)]
pub struct UnknownCosts {
    budget: Budget,
    agents: Mutex<BTreeSet<String>>,
    /// The reason for which no further agent starts.
    stopped_by: Mutex<Option<String>>,
}

impl UnknownCosts {
    /// Begins with a budget that can be kept.
    pub fn new(budget: Budget) -> Self {
        Self { budget, agents: Mutex::default(), stopped_by: Mutex::default() }
    }

    /// Returns the limit that keeps further agents from starting, if there is one.
    pub(crate) fn blocking_limit(&self) -> Option<QuotaLimit> {
        let stopped_by = self.stopped_by.lock().unwrap_or_else(PoisonError::into_inner);
        stopped_by.clone().map(QuotaLimit::unknown_cost)
    }

    /// Returns whether a cost that nobody knows stops the job.
    fn stops_job(&self) -> bool {
        !self.budget.is_unlimited() && self.budget.on_unknown == OnUnknownCost::Stop
    }

    /// Records that the cost of an agent is unknown; returns true if it was not recorded before.
    fn add(&self, agent: &str, message: &str) -> bool {
        if self.budget.is_unlimited() {
            return false;
        }
        if self.stops_job() {
            let mut stopped_by = self.stopped_by.lock().unwrap_or_else(PoisonError::into_inner);
            stopped_by.get_or_insert_with(|| message.to_owned());
        }
        let mut agents = self.agents.lock().unwrap_or_else(PoisonError::into_inner);
        agents.insert(agent.to_owned())
    }
}

/// Returns a name for a run of an agent that no other run has.
pub(crate) fn new_run_id() -> String {
    let mut random = [0; 12];
    // Without random numbers a run that is cut off may be taken for another one.
    getrandom::fill(&mut random).ok();
    hex(&random)
}

/// Says why a budget cannot be kept, and the way out.
pub(crate) fn not_kept(name: &str, agent: Option<&dyn Agent>, tokens: TokenUsage) -> String {
    let is_able = |ability| agent.is_none_or(|agent| agent.kind().supports(ability));
    let has_prices = agent.is_some_and(|agent| agent.prices().is_some());
    let agent = format!("the budget cannot be kept: agent `{name}`");
    if !is_able(Ability::Tokens) {
        return format!(
            "{agent} says neither what it cost nor what it used; `on_unknown: ignore` goes on without knowing"
        );
    }
    let said = if tokens.is_empty() {
        "ended before it said what it used"
    } else {
        "did not say what it cost"
    };
    // Prices are of no use where an agent that tells its cost did not even come to its tokens.
    let is_no_help = has_prices || tokens.is_empty() && is_able(Ability::Cost);
    let help = if is_no_help { "" } else { "; set `prices` for it" };
    format!("{agent} {said}{help}")
}

impl AgentCall<'_> {
    /// Returns the run that is about to begin.
    pub(crate) fn new_run(
        &self,
        conversation: &AgentSession,
        heard: Option<&StreamState>,
    ) -> AgentRun {
        let item = self.workplace.identity.item.as_ref();
        let (before, before_usd) = conversation.previous_usage();
        AgentRun {
            id: self.run_id.clone(),
            step: self.which.path().to_owned(),
            agent: self.name.to_owned(),
            item_id: item.map(|item| item.id.clone()),
            agent_id: item.map(|item| item.agent),
            attempt: self.workplace.attempt(),
            dialect: heard.map(StreamState::dialect),
            slot: 0,
            offset: 0,
            session: conversation.record_name(),
            before,
            before_usd,
        }
    }

    /// Returns what the agent cost, as far as anybody knows.
    pub(crate) fn cost(
        &self,
        heard: Option<&StreamState>,
        ended: Option<&ProcessOutcome>,
    ) -> AgentCost {
        if ended.is_some_and(|ended| matches!(ended.status, ProcessStatus::NotStarted { .. })) {
            return AgentCost::NOTHING;
        }
        let home = self.workplace.tools.layout.home();
        let level = |model: &str| price_level(home, model);
        let totals = heard.map(StreamState::totals);
        let prices = self.agent.prices();
        totals.map_or_else(AgentCost::default, |it| AgentCost::of(&it, prices, level))
    }

    /// Tells what an agent used that was lost before it could be judged.
    pub(crate) fn emit_stream_usage(&self, heard: &StreamState, cost: AgentCost) {
        // One of which nothing was heard may not have been started.
        if heard.cost_usd().is_some() || !heard.usage().is_empty() {
            let model = heard.model().map(str::to_owned);
            // Whether it was turned away in the end is not known.
            self.emit_usage(cost, heard.usage(), model, false);
        }
    }

    /// Tells what an agent that ended used, and whether it was served.
    pub(crate) fn emit_outcome_usage(
        &self,
        report: &AgentReport,
        cost: AgentCost,
        failure: Option<&Failure>,
    ) {
        let kind = failure.map(|failure| failure.kind);
        let tells = self.agent.kind().supports(Ability::Tokens);
        let served = report.limit.is_none() && was_served(kind, report.usage, tells);
        if !tells || !report.usage.is_empty() {
            self.workplace.progress().note_served();
        }
        self.emit_usage(cost, report.usage, report.model.clone(), served);
    }

    /// Tells what the agent used and what that cost.
    fn emit_usage(&self, cost: AgentCost, tokens: TokenUsage, model: Option<String>, served: bool) {
        let AgentCost { usd: cost_usd, estimated } = cost;
        let StepContext { tools, spent, .. } = self.workplace;
        *spent.lock().unwrap_or_else(PoisonError::into_inner) += cost_usd.unwrap_or_default();
        tools.budget.add(cost_usd.unwrap_or_default());
        let stops = cost_usd.is_none() && tools.unknown_costs.stops_job();
        let message = not_kept(self.name, Some(self.agent), tokens);
        let is_news = cost_usd.is_none() && tools.unknown_costs.add(self.name, &message);
        let (step, agent) = (self.which.path().to_owned(), self.name.to_owned());
        // That it does not say what it cost is worth a record: it was not for nothing.
        self.workplace.emit(Event::AgentUsage {
            step: step.clone(),
            agent: agent.clone(),
            cost_usd,
            tokens,
            model,
            // Others do not follow one after which nobody starts.
            served: served && !stops,
            estimated,
            run: Some(self.run_id.clone()),
        });
        if stops {
            tools.emit(stop(message).into());
        } else if is_news && self.agent.kind().supports(Ability::Tokens) {
            // `run` has warned of those that never tell anything.
            self.workplace.emit(Event::AgentWarned { step, agent, message });
        }
    }
}

/// Returns the event that keeps further agents from starting.
pub(crate) fn stop(message: String) -> Event {
    let limit = QuotaLimit::unknown_cost(message);
    Event::QuotaPaused(Box::new(QuotaPaused {
        limit,
        paused_until: None,
        waits: false,
        step: None,
    }))
}
