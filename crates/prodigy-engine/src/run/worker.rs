//! One agent of a job: it takes attempts from the queue, one after the other.

use std::{path::PathBuf, sync::Arc};

use prodigy_core::{
    event::Event,
    failure::{Failure, FailureKind},
    ids::{AgentId, ItemId},
    job::FailedAttempt,
    policy::Allowance,
    workflow::{Isolation, Preserve},
};

use super::{
    attempt::{self, Attempt},
    crew::{Crew, item_branch},
    furnish,
    merges::Old,
    put_away::PutAway,
    secure::Remains,
};
pub(super) use crate::step::blocking;
use crate::{
    git::{self, JobTree, Leftover, Slot},
    queue::{Claim, Outcome, Settled, WorkQueue as _},
    step::{
        CommitRules, Identity, ItemIdentity, KnownEffects, Limited, Past, Supervisors, Workplace,
        worktree_fault,
    },
};

/// Takes attempts until there are no more.
pub(super) async fn work(crew: Arc<Crew>, agent: AgentId) {
    let mut desk = Desk {
        crew,
        agent,
        slot: None,
        supervisors: Supervisors::default(),
        old: None,
        kept: Vec::new(),
        effects: Arc::default(),
        limited: Arc::default(),
        allowance: None,
        past: Arc::default(),
    };
    while let Some(claim) = desk.crew.queue.claim(agent).await {
        desk.see_through(claim).await;
    }
    desk.leave().await;
}

/// Where an agent works, and what it keeps between attempts.
pub(super) struct Desk {
    pub(super) crew: Arc<Crew>,
    pub(super) agent: AgentId,
    pub(super) slot: Option<Slot>,
    supervisors: Supervisors,
    /// The branch of the last attempt, if nothing of it is needed.
    pub(super) old: Option<Old>,
    /// What stays in the worktree from item to item.
    pub(super) kept: Vec<String>,
    /// What is known of the changes that the attempt under way makes outside.
    effects: Arc<KnownEffects>,
    /// The limit of an account that the attempt under way ran into.
    pub(super) limited: Arc<Limited>,
    /// What the agents of the attempt under way may spend.
    allowance: Option<Allowance>,
    /// What went wrong in the attempts before the one under way.
    past: Arc<Past>,
}

/// What is left when an attempt is over.
struct Over {
    id: ItemId,
    outcome: Outcome,
    left: Option<Leftover>,
    /// Whether every process of it ended by itself, so that the worktree can be used again.
    is_clean: bool,
}

impl Desk {
    /// Makes an attempt and does what becomes of it.
    async fn see_through(&mut self, claim: Claim) {
        let assignment = claim.assignment.clone();
        let ledger = assignment.ledger.clone();
        self.effects = Arc::new(KnownEffects::new(ledger, assignment.may_repeat));
        self.limited = Arc::default();
        self.allowance = assignment.allowance;
        self.past = Arc::new(Past::new(assignment.setbacks.clone()));
        if let Some(conflict) = &assignment.conflict {
            return self.resolve(claim, conflict).await;
        }
        if let Some(handler) = &assignment.handler {
            return self.handle_again(claim, handler).await;
        }
        let over = self.attempt(&claim).await;
        let (id, left, is_clean) = (over.id, over.left, over.is_clean);
        let mut outcome = over.outcome;
        if left.as_ref().is_some_and(|left| left.is_untouched)
            && self.crew.preserve != Preserve::Always
        {
            // There is nothing to make safe.
            outcome = outcome.secured();
        }
        let is_done = matches!(&outcome, Outcome::Completed(done) if !done.has_commits());
        let step = match &outcome {
            Outcome::Failed { step, .. } => step.clone(),
            Outcome::Completed(_)
            | Outcome::Handled { .. }
            | Outcome::Resolved { .. }
            | Outcome::Unresolved { .. }
            | Outcome::Limited { .. }
            | Outcome::Released => None,
        };
        let again = matches!(outcome, Outcome::Failed { .. } | Outcome::Limited { .. });
        let again = again.then(|| outcome.clone().secured());
        let mut remains =
            Remains { id, attempt: assignment.attempt, left, is_clean, is_secured: false };
        let mut settled = self.crew.queue.finish(claim, outcome).await;
        if let Settled::Secure { claim, goes_on } = settled {
            if goes_on {
                self.secure_for_handler(&remains).await;
            } else {
                self.secure(&mut remains).await;
            }
            let outcome = again.unwrap_or(Outcome::Released);
            settled = self.crew.queue.finish(claim, outcome).await;
        }
        while let Settled::Handle { claim, name, failure } = settled {
            let failed = FailedAttempt { step: step.clone(), failure };
            settled = self.run_handler(claim, &name, failed, &mut remains).await;
        }
        self.settle(settled, remains, is_done).await;
    }

    /// Does what becomes of an attempt that is settled; `is_done` says whether nothing of its
    /// branch is needed.
    pub(super) async fn settle(&mut self, settled: Settled, remains: Remains, mut is_done: bool) {
        let Remains { id, attempt, left, mut is_clean, is_secured } = remains;
        let failed = match settled {
            Settled::Released { failed } => {
                is_done |= failed;
                failed
            }
            // Nobody waits for this any more: the run ends, or it was given to another.
            Settled::Fenced | Settled::Handle { .. } | Settled::Secure { .. } => {
                (is_clean, is_done) = (false, false);
                false
            }
        };
        if failed {
            self.crew.died(&id);
        }
        if is_secured {
            return self.release_secured(failed, is_clean).await;
        }
        if is_done {
            // Nothing of the branch is needed once the worktree is on another one. An item
            // that is tried again may be under way elsewhere by then: its branch is not ours.
            let branch = item_branch(&self.crew.job, &id);
            self.old = Some(Old { branch, recorded: None });
        }
        let ended = PutAway { id, attempt, left, failed, clean: is_clean };
        self.put_away(ended).await;
    }

    pub(super) fn identity(&self, id: &ItemId, attempt: u32) -> Identity {
        let item = ItemIdentity { id: id.clone(), agent: self.agent, attempt };
        Identity { job: self.crew.job.clone(), item: Some(item) }
    }

    /// Makes the worktree ready and runs the item's steps.
    async fn attempt(&mut self, claim: &Claim) -> Over {
        let (place, number) = (claim.assignment.item, claim.assignment.attempt);
        let fallback = ItemId::at(usize::try_from(place).unwrap_or_default() + 1, 1);
        let item = match self.crew.spool.read(usize::try_from(place).unwrap_or(usize::MAX)) {
            Ok(item) => item,
            Err(error) => return Over::broken(fallback, error.to_string()),
        };
        let id = item.id.clone();
        let identity = self.identity(&id, number);
        let workplace = match self.workplace(identity, self.tip()).await {
            Ok(workplace) => workplace,
            Err(failure) => {
                let mut over = Over::failed(id, failure);
                if let Some(limit) = self.limited.take() {
                    over.outcome =
                        Outcome::Limited { limit, duration_ms: 0, cost_usd: 0.0, secured: false };
                }
                return over;
            }
        };
        let base = match self.base() {
            Ok(base) => base,
            Err(error) => return Over::broken(id, error.to_string()),
        };
        let attempt = Attempt { crew: &self.crew, workplace: &workplace, item: &item, place };
        let mut ended = attempt::run(attempt).await;
        let is_clean = ended.is_clean();
        let mut left = match self.examine().await {
            Ok(left) => left,
            Err(failure) => {
                ended.fail(failure);
                None
            }
        };
        if left.as_ref().is_some_and(|left| left.commits == 0 && left.head != base) {
            let message = "HEAD was left at a commit from before the item began";
            ended.fail(broken(message.to_owned()));
        }
        if let Some(count) = left.as_ref().map(|left| left.astray).filter(|count| *count > 0) {
            let (branch, commits) = (item_branch(&self.crew.job, &id), counted(count));
            let message = format!("HEAD was left without {commits} of the branch `{branch}`");
            ended.fail(broken(message));
        }
        if let Some(left) = left.as_mut().filter(|_| ended.is_success())
            && let Err(failure) = self.keep_work(&id, left).await
        {
            ended.fail(failure);
        }
        let outcome = ended.outcome(&base, left.as_ref());
        Over { id, outcome, left, is_clean }
    }

    /// Returns the commit that the attempt starts from.
    fn base(&self) -> Result<String, git::Error> {
        match &self.slot {
            Some(slot) => slot.tree().head(),
            None => Ok(String::new()),
        }
    }

    /// Returns where the job's branch stands.
    pub(super) fn tip(&self) -> String {
        let merges = self.crew.merges.as_ref();
        merges.map(super::merges::MergeQueue::tip).unwrap_or_default()
    }

    /// Makes the worktree ready for an item, at a commit.
    pub(super) async fn workplace(
        &mut self,
        identity: Identity,
        tip: String,
    ) -> Result<Workplace, Failure> {
        let temporary = self.crew.tools.state.join("tmp").join(self.agent.to_string());
        crate::store::create_dir(&temporary).map_err(|error| broken(error.to_string()))?;
        if self.crew.map.isolation == Isolation::Shared {
            return Ok(self.workplace_at(identity));
        }
        let item = identity.item.as_ref().map(|item| item.id.clone());
        let Some(id) = item else { return Err(broken("no item".to_owned())) };
        let branch = item_branch(&self.crew.job, &id);
        self.free_branch(&identity, &branch).await?;
        if let Some(slot) = self.slot.take() {
            self.slot = Some(self.lease(slot, branch.clone(), tip).await?);
        } else {
            self.slot = Some(self.create(branch.clone(), tip.clone()).await?);
            let workplace = self.workplace_at(identity.clone());
            workplace.tell(Event::WorktreeCreated {
                path: workplace.tree.path().to_string_lossy().into_owned(),
                branch: branch.clone(),
                commit: workplace.tree.head().map_err(|error| broken(error.to_string()))?,
            });
            match furnish::furnish(&self.crew, &workplace).await {
                Ok(kept) => {
                    self.kept = kept;
                    self.settle_in(branch.clone(), tip).await?;
                }
                Err(failure) => {
                    // Half furnished, it would be missing something for the next item too.
                    self.discard().await;
                    return Err(failure);
                }
            }
        }
        if let Some(old) = self.old.take().filter(|old| old.branch != branch) {
            self.crew.forget(old);
        }
        Ok(self.workplace_at(identity))
    }

    pub(super) fn workplace_at(&self, identity: Identity) -> Workplace {
        let tree: &JobTree = self.slot.as_ref().map_or(&self.crew.job_tree, Slot::tree);
        Workplace {
            tools: Arc::clone(&self.crew.tools),
            identity,
            tree: tree.clone(),
            supervisors: self.supervisors.clone(),
            spent: std::sync::Mutex::default(),
            allowance: self.allowance,
            past: Arc::clone(&self.past),
            commit_rules: CommitRules::new(self.kept.clone()),
            limited: Arc::clone(&self.limited),
            effects: Arc::clone(&self.effects),
        }
    }

    async fn create(&self, branch: String, tip: String) -> Result<Slot, Failure> {
        let (repo, path) = (self.crew.repo.clone(), self.path());
        blocking(move || repo.create_slot(&path, &branch, &tip)).await
    }

    /// Makes a furnished worktree what it will be for later items, so that what it was
    /// furnished with does not count as the work of the first one.
    ///
    /// What its setup committed goes too: later items do not begin from that either.
    async fn settle_in(&mut self, branch: String, tip: String) -> Result<(), Failure> {
        if self.kept.is_empty() {
            return Ok(());
        }
        let Some(slot) = self.slot.take() else { return Ok(()) };
        self.slot = Some(self.lease(slot, branch, tip).await?);
        Ok(())
    }

    async fn lease(&self, mut slot: Slot, branch: String, tip: String) -> Result<Slot, Failure> {
        let kept = self.kept.clone();
        blocking(move || slot.lease(&branch, &tip, &kept).map(|()| slot)).await
    }

    fn path(&self) -> PathBuf {
        self.crew.worktrees.join(self.agent.to_string())
    }

    /// Looks at what an attempt left behind.
    pub(super) async fn examine(&mut self) -> Result<Option<Leftover>, Failure> {
        let Some(mut slot) = self.slot.take() else { return Ok(None) };
        let (slot, left) = blocking(move || {
            let left = slot.examine()?;
            Ok((slot, left))
        })
        .await?;
        self.slot = Some(slot);
        Ok(Some(left))
    }

    /// Throws the worktree away: nobody knows what is in it.
    pub(super) async fn discard(&mut self) {
        let Some(slot) = self.slot.take() else { return };
        if let Ok(Some(trash)) = blocking(move || slot.discard()).await {
            self.crew.throw_away(trash);
        }
    }

    /// Puts everything away for good.
    async fn leave(&mut self) {
        self.supervisors.close().await;
        self.discard().await;
        if let Some(old) = self.old.take() {
            self.crew.forget(old);
        }
    }
}

impl Over {
    /// Makes one of an attempt that could not even begin.
    fn failed(id: ItemId, failure: Failure) -> Self {
        let (step, duration_ms, cost_usd) = (None, 0, 0.0);
        let outcome = Outcome::Failed { step, failure, duration_ms, cost_usd, secured: false };
        Self { id, outcome, left: None, is_clean: false }
    }

    fn broken(id: ItemId, why: String) -> Self {
        Self::failed(id, broken(why))
    }
}

/// Returns whether a failure leaves a worktree in which no process is at work.
pub(super) fn is_orderly(failure: &Failure) -> bool {
    // A check may have had more to say than why the step ended.
    !matches!(
        failure.cause.unwrap_or(failure.kind),
        FailureKind::Timeout
            | FailureKind::Stalled
            | FailureKind::WorkerLost
            | FailureKind::Cancelled
            | FailureKind::WorktreeError
            | FailureKind::DiskFull
    )
}

/// Says how many commits, for people.
fn counted(commits: u64) -> String {
    if commits == 1 { "1 commit".to_owned() } else { format!("{commits} commits") }
}

fn broken(why: String) -> Failure {
    worktree_fault(why)
}
