//! Agents that were at work when prodigy died: what they told until then is counted once.

use std::{
    collections::BTreeSet,
    io::{self, Read as _, Seek as _, SeekFrom},
    path::Path,
};

use prodigy_core::{
    agent::{AgentCost, StreamState, StreamTotals},
    event::{Event, NewEvent},
    ids::ItemId,
    policy::OnUnknownCost,
};

use crate::{
    process::LineSplitter,
    run::{Dispatcher, Error},
    step::{count_interrupted_run, not_kept, stop},
    store::{
        AgentRun, JournalReader, forget_agent_run, open_to_read, price_level, stored_stream_totals,
    },
};

/// The part of a transcript that is read at once.
const PIECE: usize = 64 * 1024;

impl Dispatcher {
    /// Records what agents used that were at work when an earlier run of the job died; returns
    /// why the budget cannot be kept, if nobody knows what one of them cost.
    ///
    /// It is recorded before the job goes on, so that it counts as lost with the attempt that it
    /// was spent on. A run that the journal knows already was counted before.
    pub(crate) fn record_interrupted_runs(&mut self) -> Result<Option<String>, Error> {
        let (layout, id) = (self.parts.settings.layout.clone(), self.parts.id.clone());
        let runs = AgentRun::pending_runs(&layout, &id);
        if runs.is_empty() {
            return Ok(None);
        }
        let counted = self.recorded_runs(&runs)?;
        let (mut facts, mut unknown) = (Vec::new(), None);
        for (at, run) in runs.iter().enumerate() {
            if counted.contains(&run.id) {
                continue;
            }
            let path = run.transcript(&layout, &id);
            // Another agent may have been started behind it before its end was recorded.
            let next = runs.get(at + 1).filter(|next| next.transcript(&layout, &id) == path);
            // Sums are noted once the transcript does not hold all.
            let noted = stored_stream_totals(&layout, &id, &run.id).map(Some);
            let totals =
                noted.or_else(|| read_stream_totals(run, &path, next.map(|next| next.offset)));
            let Some(totals) = totals else { continue };
            let (fact, message) = self.usage_event(run, totals.as_ref());
            facts.push(fact);
            unknown = unknown.or(message);
        }
        self.append_facts(facts)?;
        self.durable()?;
        for run in &runs {
            forget_agent_run(&layout, &id, &run.id);
        }
        Ok(unknown)
    }

    /// Keeps further agents from starting, or warns, if nobody knows what an agent cost that was
    /// cut off.
    pub(crate) fn hold_for_unknown_cost(&mut self, unknown: Option<String>) -> Result<(), Error> {
        let budget = self.parts.settings.workflow.budget;
        let Some(message) = unknown.filter(|_| !budget.is_unlimited()) else { return Ok(()) };
        match budget.on_unknown {
            OnUnknownCost::Stop => self.append(vec![stop(message)]),
            OnUnknownCost::Ignore => {
                self.parts.note(&format!("warning: {message}"));
                Ok(())
            }
        }
    }

    /// Returns the runs that the journal knows, of those that are asked for.
    fn recorded_runs(&self, asked: &[AgentRun]) -> Result<BTreeSet<String>, Error> {
        let asked: BTreeSet<&str> = asked.iter().map(|run| run.id.as_str()).collect();
        let mut counted = BTreeSet::new();
        for record in JournalReader::open(&self.parts.settings.layout, &self.parts.id)? {
            if let Event::AgentUsage { run: Some(run), .. } = record?.event
                && asked.contains(run.as_str())
            {
                counted.insert(run);
            }
        }
        Ok(counted)
    }

    /// Returns what is recorded of a run, and why the budget cannot be kept if its cost is
    /// unknown.
    fn usage_event(
        &self,
        run: &AgentRun,
        totals: Option<&StreamTotals>,
    ) -> (NewEvent, Option<String>) {
        let settings = &self.parts.settings;
        let agent = settings.agents.get(&run.agent).map(|agent| &**agent);
        let prices = agent.and_then(|agent| agent.prices());
        let level = |model: &str| price_level(settings.layout.home(), model);
        let cost = totals.map_or_else(AgentCost::default, |it| AgentCost::of(it, prices, level));
        let tokens = totals.map(StreamTotals::usage).unwrap_or_default();
        let state = settings.layout.state_dir(&self.parts.id);
        count_interrupted_run(&state, run, tokens, cost.usd);
        let unknown = cost.usd.is_none();
        let message = unknown.then(|| not_kept(&run.agent, agent, tokens));
        let map = self.job.map.as_ref();
        let is_known = |id: &ItemId| map.is_some_and(|map| map.find(id).is_some());
        let event = Event::AgentUsage {
            step: run.step.clone(),
            agent: run.agent.clone(),
            cost_usd: cost.usd,
            tokens,
            model: totals.and_then(|totals| totals.model.clone()),
            served: false,
            estimated: cost.estimated,
            run: Some(run.id.clone()),
        };
        let item_id = run.item_id.clone().filter(is_known);
        (NewEvent { agent_id: run.agent_id, item_id, event }, message)
    }
}

/// Reads what the stream of a run told. `None` if it told nothing: the agent may not have been
/// started. An agent without a stream tells nothing ever, which is `Some(None)`.
#[expect(clippy::option_option, reason = "nothing heard and nothing to hear are two things")]
fn read_stream_totals(
    run: &AgentRun,
    path: &Path,
    end: Option<u64>,
) -> Option<Option<StreamTotals>> {
    let Some(dialect) = run.dialect else { return Some(None) };
    let mut heard = StreamState::resumed(dialect, run.before, run.before_usd);
    // What cannot be read was not heard.
    read(path, run.offset, end, &mut heard).ok();
    (heard.events() > 0).then(|| Some(heard.totals()))
}

fn read(path: &Path, begin: u64, end: Option<u64>, heard: &mut StreamState) -> io::Result<()> {
    let mut file = open_to_read(path).map_err(io::Error::other)?;
    file.seek(SeekFrom::Start(begin))?;
    let length = end.map_or(u64::MAX, |end| end.saturating_sub(begin));
    let mut file = file.take(length);
    let (mut lines, mut piece) = (LineSplitter::default(), vec![0; PIECE]);
    loop {
        let count = file.read(&mut piece)?;
        if count == 0 {
            break;
        }
        lines.feed(piece.get(..count).unwrap_or_default(), |line| drop(heard.handle_line(line)));
    }
    lines.finish(|line| drop(heard.handle_line(line)));
    Ok(())
}
