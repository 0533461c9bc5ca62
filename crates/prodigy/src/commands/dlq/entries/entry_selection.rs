//! Deciding over the dead letters that are meant.

use std::{collections::BTreeSet, num::NonZeroUsize};

use prodigy_core::{
    Timestamp,
    dlq::EntryStatus,
    ids::{ItemId, JobId},
    replay::{ReplayTrigger, ReplayVerdict},
};
use prodigy_engine::{
    clock,
    run::ReplayEvaluator,
    store::dlq::{DeadLetterStore, DeadLetterSummary},
};

use super::{
    entry_filter::{EntryFilter, EntryFilterArgs, resolve_items},
    warn_unreadable_entry,
};
use crate::{commands::dlq::decision::DecisionView, error::CliError, render::console::Console};

/// The flags that say which dead letters are to be replayed.
#[derive(clap::Args, Debug)]
pub(crate) struct EntrySelectionArgs {
    /// The items, by id or key [default: all that are open]
    pub(crate) items: Vec<String>,

    /// Take only entries for which this is true
    ///
    /// The expression is one as in `filter` of a workflow. It may use the fields of the
    /// entry and, below `item`, the data of the item: `item.priority >= 5 && attempts > 2`.
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,

    /// Take only entries of this cause, by the first digits of its signature
    #[arg(long = "signature", value_name = "HEX", value_delimiter = ',')]
    signatures: Vec<String>,

    /// Take only the newest N of those that can be replayed
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,

    /// Take this item although it needs manual review; requires `--reason` (can be repeated)
    ///
    /// It stands for the decision of a person: it lifts a manual review, the limits and waits,
    /// and what may have been changed outside is changed again. It lifts no quarantine and no
    /// need for approval.
    #[arg(long, value_name = "ITEM", requires = "reason")]
    pub(crate) force: Vec<String>,
}

/// The dead letters that are meant.
pub(crate) struct EntrySelection {
    chosen: EntryFilter,
    items: Vec<ItemId>,
    pub(crate) forced: BTreeSet<ItemId>,
    asked_at: Timestamp,
}

/// The selected entries without a decision.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SkippedEntries {
    /// The number of interrupted replays: the process that ran them is gone.
    pub(crate) interrupted: u32,
    /// The number of entries that another process replayed in the meantime.
    pub(crate) meanwhile: u32,
}

impl EntrySelectionArgs {
    /// Finds out which entries are meant.
    pub(crate) fn to_selection(
        &self,
        queue: &DeadLetterStore,
        job: &JobId,
        asked_at: Timestamp,
    ) -> Result<EntrySelection, CliError> {
        let choice = EntryFilterArgs::of(self.filter.clone(), self.signatures.clone(), self.limit);
        let chosen = choice.to_filter()?;
        let forced: BTreeSet<ItemId> =
            resolve_items(queue, job, &self.force)?.into_iter().collect();
        let mut items = resolve_items(queue, job, &self.items)?;
        if !items.is_empty() || chosen.is_unfiltered() {
            items.extend(forced.iter().cloned());
        }
        let mut seen = BTreeSet::new();
        items.retain(|item| seen.insert(item.clone()));
        Ok(EntrySelection { chosen, items, forced, asked_at })
    }
}

impl EntrySelection {
    /// Returns whether somebody named entries one by one.
    pub(crate) fn has_named_items(&self) -> bool {
        !self.items.is_empty()
    }

    /// Decides over each entry, the newest first.
    ///
    /// An entry that was replayed by somebody else after this was asked for is not meant any
    /// more: of two that are asked for at once, one takes it.
    pub(crate) fn evaluate_all(
        &self,
        queue: &DeadLetterStore,
        job: &JobId,
        bench: &mut ReplayEvaluator,
        out: &mut Console,
        mut each: impl FnMut(&DeadLetterSummary, DecisionView, &mut Console) -> Result<(), CliError>,
    ) -> Result<SkippedEntries, CliError> {
        let statuses = [EntryStatus::Open, EntryStatus::Replaying];
        let limit = self.chosen.limit.unwrap_or(usize::MAX);
        let now = clock::now();
        let mut passed = SkippedEntries::default();
        let mut taken = 0;
        for heading in self.chosen.select(queue, &self.items, &statuses) {
            if taken >= limit {
                break;
            }
            let heading = match heading {
                Ok(heading) => heading,
                Err(error) => {
                    warn_unreadable_entry(job, &error, out);
                    continue;
                }
            };
            if heading.status == EntryStatus::Replaying {
                passed.interrupted += 1;
                continue;
            }
            if heading.last_attempt > self.asked_at {
                passed.meanwhile += 1;
                continue;
            }
            let outcome = self.evaluate(queue, &heading, bench, now);
            let goes_on = [ReplayVerdict::Replay, ReplayVerdict::Adopt, ReplayVerdict::Check];
            taken += usize::from(goes_on.contains(&outcome.verdict));
            each(&heading, outcome, out)?;
        }
        Ok(passed)
    }

    /// Decides over one entry.
    pub(crate) fn evaluate(
        &self,
        queue: &DeadLetterStore,
        heading: &DeadLetterSummary,
        bench: &mut ReplayEvaluator,
        now: Timestamp,
    ) -> DecisionView {
        let is_forced = self.forced.contains(&heading.item_id);
        let asked = if is_forced { ReplayTrigger::Forced } else { ReplayTrigger::Asked };
        let ruling = bench.evaluate_summary(queue, heading, asked, now);
        let outcome = DecisionView::new(heading, &ruling, is_forced);
        if outcome.verdict == ReplayVerdict::Replay {
            // What is replayed before it counts.
            bench.count_replay(&heading.error_signature);
        }
        outcome
    }
}
