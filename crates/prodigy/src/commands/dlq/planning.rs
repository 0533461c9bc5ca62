//! Deciding over the dead letters that are meant.

use std::{collections::BTreeSet, num::NonZeroUsize};

use prodigy_core::{
    Timestamp,
    dlq::EntryStatus,
    ids::{ItemId, JobId},
    replay::{Asked, Verdict},
};
use prodigy_engine::{
    clock,
    dlq::{Bench, Heading, Queue},
};

use super::{
    chosen::{ChoiceArgs, Chosen, named},
    outcome::Outcome,
    queues::skipped,
};
use crate::{error::CliError, output::Output};

/// The flags that say which dead letters are to be replayed.
#[derive(clap::Args, Debug)]
pub(crate) struct WhichArgs {
    /// The items, by id or key [default: all that are open]
    pub(super) items: Vec<String>,

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

    /// Take this item although a person has to look at it first; needs `--reason` (can be repeated)
    ///
    /// It stands for the decision of a person: it lifts a manual review, the limits and waits,
    /// and what may have been changed outside is changed again. It lifts no quarantine and no
    /// need for somebody's agreement.
    #[arg(long, value_name = "ITEM", requires = "reason")]
    pub(super) force: Vec<String>,
}

/// The dead letters that are meant.
pub(super) struct Meant {
    chosen: Chosen,
    items: Vec<ItemId>,
    pub(super) forced: BTreeSet<ItemId>,
    asked_at: Timestamp,
}

/// The selected entries without a decision.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Passed {
    /// The number of interrupted replays: the process that ran them is gone.
    pub(super) interrupted: u32,
    /// The number of entries that another process replayed in the meantime.
    pub(super) meanwhile: u32,
}

impl WhichArgs {
    /// Finds out which entries are meant.
    pub(super) fn read(
        &self,
        queue: &Queue,
        job: &JobId,
        asked_at: Timestamp,
    ) -> Result<Meant, CliError> {
        let choice = ChoiceArgs::of(self.filter.clone(), self.signatures.clone(), self.limit);
        let chosen = choice.read()?;
        let forced: BTreeSet<ItemId> = named(queue, job, &self.force)?.into_iter().collect();
        let mut items = named(queue, job, &self.items)?;
        if !items.is_empty() || chosen.is_all() {
            items.extend(forced.iter().cloned());
        }
        let mut seen = BTreeSet::new();
        items.retain(|item| seen.insert(item.clone()));
        Ok(Meant { chosen, items, forced, asked_at })
    }
}

impl Meant {
    /// Returns whether somebody named entries one by one.
    pub(super) fn names_items(&self) -> bool {
        !self.items.is_empty()
    }

    /// Decides over each entry, the newest first.
    ///
    /// An entry that was replayed by somebody else after this was asked for is not meant any
    /// more: of two that are asked for at once, one takes it.
    pub(super) fn decide(
        &self,
        queue: &Queue,
        job: &JobId,
        bench: &mut Bench,
        out: &mut Output,
        mut each: impl FnMut(&Heading, Outcome, &mut Output) -> Result<(), CliError>,
    ) -> Result<Passed, CliError> {
        let statuses = [EntryStatus::Open, EntryStatus::Replaying];
        let limit = self.chosen.limit.unwrap_or(usize::MAX);
        let now = clock::now();
        let mut passed = Passed::default();
        let mut taken = 0;
        for heading in self.chosen.pick(queue, &self.items, &statuses) {
            if taken >= limit {
                break;
            }
            let heading = match heading {
                Ok(heading) => heading,
                Err(error) => {
                    skipped(job, &error, out);
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
            let outcome = self.ruling(queue, &heading, bench, now);
            let goes_on = [Verdict::Replay, Verdict::Adopt, Verdict::Check];
            taken += usize::from(goes_on.contains(&outcome.verdict));
            each(&heading, outcome, out)?;
        }
        Ok(passed)
    }

    /// Decides over one entry.
    pub(super) fn ruling(
        &self,
        queue: &Queue,
        heading: &Heading,
        bench: &mut Bench,
        now: Timestamp,
    ) -> Outcome {
        let is_forced = self.forced.contains(&heading.item_id);
        let asked = if is_forced { Asked::Forced } else { Asked::Asked };
        let ruling = bench.ruling(queue, heading, asked, now);
        let outcome = Outcome::new(heading, &ruling, is_forced);
        if outcome.verdict == Verdict::Replay {
            // What is replayed before it counts.
            bench.count(&heading.error_signature);
        }
        outcome
    }
}
