//! Which dead letters a run tries again.

use prodigy_core::{
    event::{PhaseName, Reopened},
    ids::ItemId,
    job::{Job, Replays, Stage},
};

use super::{Error, Settings};

/// Dead letters that somebody wants to be tried again.
#[derive(Clone, Debug)]
pub struct Replay {
    /// Which.
    pub which: Which,
    /// Whether the reduce phase runs once more, if it had been run.
    pub rerun_reduce: bool,
    /// Who asks for it.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
}

/// Which dead letters are tried again.
#[derive(Clone, Debug)]
pub enum Which {
    /// Those whose reasons allow it without anybody asking, along with everything else.
    Unasked,
    /// These, and nothing else.
    Asked {
        /// The items.
        items: Vec<ItemId>,
        /// Those of them that are tried again although their reason speaks against it.
        forced: Vec<ItemId>,
    },
}

impl Replay {
    /// Returns what is to be tried again, and what that means for the job.
    pub(super) fn plan(
        self,
        settings: &Settings,
        job: &Job,
    ) -> Result<(Replays, Option<Reopened>), Error> {
        let Self { which, rerun_reduce, by, reason } = self;
        let replays = match which {
            Which::Unasked => {
                let places = job.replayed_unasked();
                Replays { places, by, reason, ..Replays::default() }
            }
            Which::Asked { items, forced } => {
                let dead = |items: Vec<ItemId>| {
                    let found = items.into_iter().filter_map(|id| job.map.as_ref()?.find(&id));
                    found
                        .filter(|(_, item)| item.stage == Stage::DeadLettered)
                        .map(|(at, _)| at)
                        .collect()
                };
                let (places, forced) = (dead(items), dead(forced));
                Replays { places, forced, only: true, by, reason }
            }
        };
        let is_over = job.phases_done.contains(&PhaseName::Map);
        if !is_over {
            // Replays that were cut off go on, and what comes after them may have been done.
            let again = rerun_reduce && job.phases_done.contains(&PhaseName::Reduce);
            let reopened = again.then_some(Reopened { rerun_reduce, base_commit: None });
            return Ok((replays, reopened));
        }
        if replays.places.is_empty() {
            return Ok((replays, None));
        }
        let base_commit = new_base(settings, job)?;
        Ok((replays, Some(Reopened { rerun_reduce, base_commit })))
    }
}

/// Returns where a new worktree for the job begins, if the old one is gone.
///
/// What the job had done before was merged where the user started from, so that is
/// where the replayed items go on.
fn new_base(settings: &Settings, job: &Job) -> Result<Option<String>, Error> {
    let repo = &settings.repo;
    if let Some(tree) = &job.tree
        && repo.branch(&tree.branch)?.is_some()
    {
        return Ok(None);
    }
    let target = job.started.as_ref().and_then(|started| started.target_branch.as_deref());
    let tip = match target {
        Some(target) => repo.branch(target)?,
        None => None,
    };
    match tip {
        Some(tip) => Ok(Some(tip)),
        None => Ok(Some(repo.head()?.commit)),
    }
}
