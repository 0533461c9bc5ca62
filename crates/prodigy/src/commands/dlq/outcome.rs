//! Replay decisions over dead letters, in words.

use std::collections::BTreeMap;

use prodigy_core::{
    Timestamp,
    ids::{ItemId, JobId},
    replay::{Need, Ruling, Verdict},
};
use prodigy_engine::dlq::Heading;
use serde_json::{Value, json};

use crate::{commands::jobs::second, output::Output, report::count};

/// The most items that are named behind one reason.
pub(super) const NAMED: usize = 5;

/// The replay decision over one entry.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    pub(super) item: ItemId,
    pub(super) verdict: Verdict,
    pub(super) rule: String,
    pub(super) snapshot: String,
    pub(super) needs: Option<Need>,
    pub(super) not_before: Option<Timestamp>,
    pub(super) why: Vec<String>,
    pub(super) is_forced: bool,
}

impl Outcome {
    pub(super) fn new(heading: &Heading, ruling: &Ruling<'_>, is_forced: bool) -> Self {
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
    pub(super) fn sentence(&self) -> String {
        self.why.join("; ")
    }

    /// Returns it as JSON.
    pub(super) fn document(&self, program: &str, job: &JobId, heading: &Heading) -> Value {
        json!({
            "item_id": self.item,
            "reason_code": heading.reason_code,
            "error_signature": heading.error_signature,
            "verdict": self.verdict,
            "rule": self.rule,
            "why": self.why,
            "forced": self.is_forced,
            "not_before": self.not_before,
            "next": self.needs.map(|need| next(program, job, &self.item, need)),
        })
    }
}

/// Returns what becomes of an entry, in a word or two.
pub(super) fn word(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Replay => "replay",
        Verdict::Adopt => "adopt",
        Verdict::Check => "check",
        Verdict::Approval => "approval",
        Verdict::Review => "review",
        Verdict::Quarantine => "quarantine",
        Verdict::Later => "later",
        Verdict::Limit => "limit",
        Verdict::Never => "never",
        Verdict::Running => "running",
        Verdict::Closed => "closed",
        Verdict::Damaged => "damaged",
    }
}

/// Returns what a verdict means, for people.
pub(super) fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Replay => "it can be replayed",
        Verdict::Adopt => "it counts as done: nothing has to run again",
        Verdict::Check => "find out first what was changed outside",
        Verdict::Approval => "somebody has to agree first",
        Verdict::Review => "a person has to look at it first",
        Verdict::Quarantine => "it is kept back until something is changed",
        Verdict::Later => "not yet",
        Verdict::Limit => "it was replayed as often, or for as much, as is allowed",
        Verdict::Never => "it is not replayed",
        Verdict::Running => "it is being worked on",
        Verdict::Closed => "it is closed",
        Verdict::Damaged => "its entry is not as it was written",
    }
}

/// Returns the command that would get an entry on.
pub(super) fn next(program: &str, job: &JobId, item: &ItemId, need: Need) -> String {
    match need {
        Need::Check => format!("{program} dlq check {job} {item}"),
        Need::Ask => format!("{program} dlq retry {job} {item}  (asks for it)"),
        Need::Approve => format!("{program} dlq approvals {job}"),
        Need::Members => {
            format!("name `members` in {}, and commit it", crate::replay_policy::FILE)
        }
        Need::Release => format!("{program} dlq release {job} {item} --reason TEXT"),
        Need::Edit => format!("{program} dlq edit {job} {item} --set FIELD=VALUE --reason TEXT"),
        Need::Adopt => format!("{program} dlq adopt {job} {item} --reason TEXT"),
        Need::Force => format!("{program} dlq retry {job} --force {item} --reason TEXT"),
        Need::Wait(until) => format!("{program} dlq retry {job} {item}  (from {})", second(until)),
        Need::Idle => format!("{program} events {job} --follow"),
        Need::Fsck => format!("{program} dlq fsck {job}"),
        Need::Drop => format!("{program} dlq drop {job} {item} --reason TEXT"),
    }
}

/// Decisions, by verdict and rule.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    groups: BTreeMap<(usize, String), Group>,
}

/// Decisions that are the same.
#[derive(Debug)]
pub(super) struct Group {
    /// The first of them.
    pub(super) first: Outcome,
    pub(super) count: u32,
    named: Vec<ItemId>,
}

impl Outcomes {
    pub(super) fn add(&mut self, outcome: Outcome) {
        let key = (place(outcome.verdict), outcome.rule.clone());
        let item = outcome.item.clone();
        let group = self.groups.entry(key).or_insert_with(|| Group {
            first: outcome,
            count: 0,
            named: Vec::new(),
        });
        group.count += 1;
        if group.named.len() < NAMED {
            group.named.push(item);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &Group> {
        self.groups.values()
    }

    /// Returns how many entries have a verdict.
    pub(super) fn count(&self, verdict: Verdict) -> u32 {
        let of_verdict = self.groups.iter().filter(|((at, _), _)| *at == place(verdict));
        of_verdict.map(|(_, group)| group.count).sum()
    }

    /// Says what is not replayed, why, and what would help.
    pub(super) fn show(&self, program: &str, job: &JobId, out: &mut Output) {
        for group in self.groups() {
            let Group { first, count: number, named } = group;
            let entries = entries(*number);
            let names = named.iter().map(ItemId::as_str).collect::<Vec<_>>().join(", ");
            let more = match usize::try_from(*number).unwrap_or(usize::MAX) - named.len() {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let meaning = meaning(first.verdict);
            out.note(format_args!("not replayed: {entries}: {names}{more}: {meaning}"));
            out.note(format_args!("  {}", first.sentence()));
            // Who has to agree has just been asked.
            let needs =
                first.needs.map(|need| if need == Need::Ask { Need::Approve } else { need });
            if let Some(need) = needs {
                out.note(format_args!("  then: {}", next(program, job, &first.item, need)));
            }
        }
    }

    /// Returns how many entries there are of each kind, as JSON.
    pub(super) fn document(&self) -> Value {
        let groups = self.groups().map(|group| {
            let Group { first, count, .. } = group;
            json!({ "verdict": first.verdict, "rule": first.rule, "entries": count })
        });
        groups.collect()
    }
}

/// Returns so many entries, in words.
pub(super) fn entries(number: u32) -> String {
    count(number, "entry").replace("entrys", "entries")
}

/// Returns the order in which verdicts are shown.
fn place(verdict: Verdict) -> usize {
    let order = [
        Verdict::Replay,
        Verdict::Adopt,
        Verdict::Check,
        Verdict::Approval,
        Verdict::Later,
        Verdict::Limit,
        Verdict::Review,
        Verdict::Quarantine,
        Verdict::Never,
        Verdict::Running,
        Verdict::Closed,
        Verdict::Damaged,
    ];
    order.iter().position(|known| *known == verdict).unwrap_or(order.len())
}
