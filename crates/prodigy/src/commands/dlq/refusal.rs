//! Which dead letters are not replayed, why, and what would help.

use std::collections::BTreeMap;

use prodigy_core::{
    failure::{DefaultAction, FailureKind},
    ids::{ItemId, JobId},
};
use prodigy_engine::dlq::Heading;
use serde_json::json;

use super::retry::Plan;
use crate::{error::CliError, exit::Exit, output::Output, report::count};

/// The most items that are named behind one reason.
const NAMED: usize = 5;
/// The version of the preview as JSON.
const VERSION: u32 = 1;

/// The entries that are not replayed.
#[derive(Debug, Default)]
pub(super) struct Refusals {
    entries: Vec<(ItemId, FailureKind)>,
    /// How many were replayed by somebody else meanwhile.
    pub(super) meanwhile: u32,
}

impl Refusals {
    /// Adds an entry whose reason speaks against it.
    pub(super) fn add(&mut self, heading: &Heading) {
        self.entries.push((heading.item_id.clone(), heading.reason_code));
    }

    /// Puts them in the order of their items.
    pub(super) fn sort(&mut self) {
        self.entries.sort();
    }

    /// Returns whether nothing was refused.
    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Says what is not replayed, and what would help.
    pub(super) fn show(&self, program: &str, job: &JobId, out: &mut Output) {
        for (kind, items) in self.groups() {
            let named = items.iter().take(NAMED).map(|item| item.as_str()).collect::<Vec<_>>();
            let named = named.join(", ");
            let more = match items.len().saturating_sub(NAMED) {
                0 => String::new(),
                more => format!(" and {more} more"),
            };
            let number = u32::try_from(items.len()).unwrap_or(u32::MAX);
            let entries = count(number, "entry").replace("entrys", "entries");
            out.note(format_args!("not replayed: {entries} with `{kind}`: {named}{more}"));
            out.note(format_args!("  {}", advice(kind.action())));
            if let (Some(item), true) = (items.first(), can_be_forced(kind)) {
                out.note(format_args!(
                    "  then: {program} dlq retry {job} --force {item} --reason TEXT"
                ));
            }
        }
        if self.meanwhile > 0 {
            let entries = count(self.meanwhile, "entry").replace("entrys", "entries");
            out.note(format_args!("not replayed: {entries} that another replay took meanwhile"));
        }
    }

    fn groups(&self) -> BTreeMap<FailureKind, Vec<&ItemId>> {
        let mut groups: BTreeMap<FailureKind, Vec<&ItemId>> = BTreeMap::new();
        for (item, kind) in &self.entries {
            groups.entry(*kind).or_default().push(item);
        }
        groups
    }
}

/// Returns whether a person may have an entry replayed although its reason speaks against it.
pub(super) fn can_be_forced(kind: FailureKind) -> bool {
    kind.action() != DefaultAction::Never
}

/// Returns what would help.
fn advice(action: DefaultAction) -> &'static str {
    match action {
        DefaultAction::Always | DefaultAction::Once => "it can be replayed",
        DefaultAction::Check => "find out first what was changed outside",
        DefaultAction::Approval => "somebody has to agree first",
        DefaultAction::Review => "somebody has to look at it first",
        DefaultAction::Quarantine => "it would fail again: change what it failed of first",
        DefaultAction::Never => "somebody decided against it: `prodigy dlq drop` closes it",
    }
}

/// Shows what a replay would do.
pub(super) fn preview(
    as_json: bool,
    job: &JobId,
    plan: &Plan,
    out: &mut Output,
) -> Result<Exit, CliError> {
    let refused = &plan.refusals.entries;
    if as_json {
        let refused = refused.iter().map(|(item, kind)| {
            let (action, advice) = (kind.action(), advice(kind.action()));
            json!({ "item_id": item, "reason_code": kind, "action": action, "advice": advice })
        });
        let document = json!({
            "schema_version": VERSION,
            "job_id": job,
            "replay": plan.items,
            "forced": plan.forced,
            "interrupted": plan.interrupted,
            "refused": refused.collect::<Vec<_>>(),
        });
        out.line(format_args!("{document:#}"))?;
    } else {
        for item in &plan.items {
            let forced = if plan.forced.contains(item) { "  forced" } else { "" };
            out.line(format_args!("replay   {item}{forced}"))?;
        }
        for (item, kind) in refused {
            out.line(format_args!("refuse   {item}  {kind}: {}", advice(kind.action())))?;
        }
        let number = |entries: usize| u32::try_from(entries).unwrap_or(u32::MAX);
        let (replayed, refused) = (number(plan.items.len()), number(refused.len()));
        let unfinished = match plan.interrupted {
            0 => String::new(),
            number => format!(", {number} that were interrupted would be finished"),
        };
        out.note(format_args!(
            "\n{} would be replayed, {refused} would not{unfinished}; nothing was changed",
            count(replayed, "item"),
        ));
    }
    let is_denied = plan.items.is_empty() && plan.interrupted == 0 && !refused.is_empty();
    Ok(if is_denied { Exit::ReplayDenied } else { Exit::Success })
}
