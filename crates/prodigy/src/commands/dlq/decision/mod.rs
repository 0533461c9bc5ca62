//! Replay decisions over dead letters, in words.

pub(crate) mod explain;
pub(crate) mod replay_context;
pub(crate) mod replay_plan;

use std::collections::BTreeMap;

use prodigy_core::{
    Timestamp,
    ids::{ItemId, JobId},
    replay::{NextAction, ReplayDecision, ReplayVerdict},
};
use prodigy_engine::store::dlq::DeadLetterSummary;
use serde_json::{Value, json};

use crate::{commands::jobs::format_timestamp, progress::plural, render::console::Console};

/// The most items that are named behind one reason.
pub(crate) const NAMED: usize = 5;

/// The replay decision over one entry.
#[derive(Clone, Debug)]
pub(crate) struct DecisionView {
    pub(crate) item: ItemId,
    pub(crate) verdict: ReplayVerdict,
    pub(crate) rule: String,
    pub(crate) snapshot: String,
    pub(crate) needs: Option<NextAction>,
    pub(crate) not_before: Option<Timestamp>,
    pub(crate) why: Vec<String>,
    pub(crate) is_forced: bool,
}

impl DecisionView {
    pub(crate) fn new(
        heading: &DeadLetterSummary,
        ruling: &ReplayDecision<'_>,
        is_forced: bool,
    ) -> Self {
        Self {
            item: heading.item_id.clone(),
            verdict: ruling.verdict,
            rule: ruling.rule.name.clone(),
            snapshot: ruling.snapshot.to_owned(),
            needs: ruling.needs,
            not_before: ruling.not_before,
            why: ruling.explain(),
            is_forced,
        }
    }

    /// Returns what decided, in one sentence.
    pub(crate) fn explanation(&self) -> String {
        self.why.join("; ")
    }

    /// Returns it as JSON.
    pub(crate) fn document(
        &self,
        program: &str,
        job: &JobId,
        heading: &DeadLetterSummary,
    ) -> Value {
        json!({
            "item_id": self.item,
            "reason_code": heading.reason_code,
            "error_signature": heading.error_signature,
            "verdict": self.verdict,
            "rule": self.rule,
            "why": self.why,
            "forced": self.is_forced,
            "not_before": self.not_before,
            "next": self.needs.map(|need| next_command(program, job, &self.item, need)),
        })
    }
}

/// Returns what becomes of an entry, in a word or two.
pub(crate) fn decision_label(verdict: ReplayVerdict) -> &'static str {
    match verdict {
        ReplayVerdict::Replay => "replay",
        ReplayVerdict::Adopt => "adopt",
        ReplayVerdict::Check => "check",
        ReplayVerdict::Approval => "approval",
        ReplayVerdict::Review => "review",
        ReplayVerdict::Quarantine => "quarantine",
        ReplayVerdict::Later => "later",
        ReplayVerdict::Limit => "limit",
        ReplayVerdict::Never => "never",
        ReplayVerdict::Running => "running",
        ReplayVerdict::Closed => "closed",
        ReplayVerdict::Damaged => "damaged",
    }
}

/// Returns what a verdict means, for people.
pub(crate) fn describe_decision(verdict: ReplayVerdict) -> &'static str {
    match verdict {
        ReplayVerdict::Replay => "it can be replayed",
        ReplayVerdict::Adopt => "it counts as done: nothing has to run again",
        ReplayVerdict::Check => "find out first what was changed outside",
        ReplayVerdict::Approval => "needs approval",
        ReplayVerdict::Review => "needs manual review",
        ReplayVerdict::Quarantine => "quarantined until changed or released",
        ReplayVerdict::Later => "not yet",
        ReplayVerdict::Limit => "it was replayed as often, or for as much, as is allowed",
        ReplayVerdict::Never => "it is not replayed",
        ReplayVerdict::Running => "it is being worked on",
        ReplayVerdict::Closed => "it is closed",
        ReplayVerdict::Damaged => "its entry is not as it was written",
    }
}

/// Returns the command that would get an entry on.
pub(crate) fn next_command(program: &str, job: &JobId, item: &ItemId, need: NextAction) -> String {
    match need {
        NextAction::Check => format!("{program} dlq check {job} {item}"),
        NextAction::Ask => format!("{program} dlq retry {job} {item}  (asks for it)"),
        NextAction::Approve => format!("{program} dlq approvals {job}"),
        NextAction::Members => {
            format!(
                "name `members` in {}, and commit it",
                crate::commands::policy::policy_file::FILE
            )
        }
        NextAction::Release => format!("{program} dlq release {job} {item} --reason TEXT"),
        NextAction::Edit => {
            format!("{program} dlq edit {job} {item} --set FIELD=VALUE --reason TEXT")
        }
        NextAction::Adopt => format!("{program} dlq adopt {job} {item} --reason TEXT"),
        NextAction::Force => format!("{program} dlq retry {job} --force {item} --reason TEXT"),
        NextAction::Wait(until) => {
            format!("{program} dlq retry {job} {item}  (from {})", format_timestamp(until))
        }
        NextAction::Idle => format!("{program} events {job} --follow"),
        NextAction::Fsck => format!("{program} dlq fsck {job}"),
        NextAction::Drop => format!("{program} dlq drop {job} {item} --reason TEXT"),
    }
}

/// Decisions, by verdict and rule.
#[derive(Debug, Default)]
pub(crate) struct DecisionSummary {
    groups: BTreeMap<(usize, String), DecisionGroup>,
}

/// Decisions that are the same.
#[derive(Debug)]
pub(crate) struct DecisionGroup {
    /// The first of them.
    pub(crate) first: DecisionView,
    pub(crate) count: u32,
    named: Vec<ItemId>,
}

impl DecisionSummary {
    pub(crate) fn add(&mut self, outcome: DecisionView) {
        let key = (display_order(outcome.verdict), outcome.rule.clone());
        let item = outcome.item.clone();
        let group = self.groups.entry(key).or_insert_with(|| DecisionGroup {
            first: outcome,
            count: 0,
            named: Vec::new(),
        });
        group.count += 1;
        if group.named.len() < NAMED {
            group.named.push(item);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(crate) fn groups(&self) -> impl Iterator<Item = &DecisionGroup> {
        self.groups.values()
    }

    /// Returns how many entries have a verdict.
    pub(crate) fn count(&self, verdict: ReplayVerdict) -> u32 {
        let of_verdict = self.groups.iter().filter(|((at, _), _)| *at == display_order(verdict));
        of_verdict.map(|(_, group)| group.count).sum()
    }

    /// Says what is not replayed, why, and what would help.
    pub(crate) fn show(&self, program: &str, job: &JobId, out: &mut Console) {
        for group in self.groups() {
            let DecisionGroup { first, count: number, named } = group;
            let entries = count_entries(*number);
            let names = named.iter().map(ItemId::as_str).collect::<Vec<_>>().join(", ");
            let more = match usize::try_from(*number).unwrap_or(usize::MAX) - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let meaning = describe_decision(first.verdict);
            out.note(format_args!("not replayed: {entries}: {names}{more}: {meaning}"));
            out.note(format_args!("  {}", first.explanation()));
            // Who has to agree has just been asked.
            let needs = first
                .needs
                .map(|need| if need == NextAction::Ask { NextAction::Approve } else { need });
            if let Some(need) = needs {
                out.note(format_args!("  then: {}", next_command(program, job, &first.item, need)));
            }
        }
    }

    /// Returns how many entries there are of each kind, as JSON.
    pub(crate) fn document(&self) -> Value {
        let groups = self.groups().map(|group| {
            let DecisionGroup { first, count, .. } = group;
            json!({ "verdict": first.verdict, "rule": first.rule, "entries": count })
        });
        groups.collect()
    }
}

/// Returns so many entries, in words.
pub(crate) fn count_entries(number: u32) -> String {
    plural(number, "entry").replace("entrys", "entries")
}

/// Returns the order in which verdicts are shown.
fn display_order(verdict: ReplayVerdict) -> usize {
    let order = [
        ReplayVerdict::Replay,
        ReplayVerdict::Adopt,
        ReplayVerdict::Check,
        ReplayVerdict::Approval,
        ReplayVerdict::Later,
        ReplayVerdict::Limit,
        ReplayVerdict::Review,
        ReplayVerdict::Quarantine,
        ReplayVerdict::Never,
        ReplayVerdict::Running,
        ReplayVerdict::Closed,
        ReplayVerdict::Damaged,
    ];
    order.iter().position(|known| *known == verdict).unwrap_or(order.len())
}
