//! The merge queue: one thread that merges the items' commits into the job's branch.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread::{self, JoinHandle},
};

use prodigy_core::{
    event::{Event, NewEvent},
    ids::{ItemId, JobId},
    job::{CommitRange, ItemInput},
    workflow::Preserve,
};
use tokio::sync::mpsc::UnboundedSender;

use crate::{
    git::{self, ItemMergeOutcome, ItemMergeRequest, ItemMerger, Repo, RepoGuard},
    step::commit_trailer,
};

/// The branch of an attempt that is over.
pub(crate) struct RetiredBranch {
    pub(crate) branch: String,
    /// A commit of it that something else holds, with all that is below.
    pub(crate) recorded: Option<String>,
}

/// The requests to the merge thread.
enum MergeCommand {
    Merge { item: u32, id: ItemId, commits: CommitRange },
    Forget(RetiredBranch),
}

/// The replies of the merge thread.
pub(crate) enum MergeMessage {
    /// The result of merging an item's commits.
    Item(ItemInput),
    /// Something worth recording happened on the way.
    Fact(NewEvent),
    /// Git would not do what was asked; the run cannot go on.
    Broken(git::Error),
}

/// Merges commits in the order in which they come.
pub(crate) struct MergeQueue {
    orders: Option<Sender<MergeCommand>>,
    tip: Arc<Mutex<String>>,
    thread: Option<JoinHandle<()>>,
}

/// The state of the merge thread.
struct MergeThread {
    repo: Repo,
    merger: ItemMerger,
    guard: RepoGuard,
    job: JobId,
    target: String,
    tip: Arc<Mutex<String>>,
    /// Set if branches stay when they are merged: every worktree is kept, on its branch.
    keeps_branches: bool,
    answers: UnboundedSender<MergeMessage>,
}

impl MergeQueue {
    /// Starts the thread for a job's branch.
    pub(crate) fn start(
        repo: &Repo,
        job: &JobId,
        target: &str,
        guard: RepoGuard,
        preserve: Preserve,
        answers: UnboundedSender<MergeMessage>,
    ) -> Result<Self, crate::run::Error> {
        let merger = ItemMerger::start(repo, target)?;
        let tip = Arc::new(Mutex::new(merger.tip().to_owned()));
        let (orders, received) = channel();
        let worker = MergeThread {
            repo: repo.clone(),
            merger,
            guard,
            job: job.clone(),
            target: target.to_owned(),
            tip: Arc::clone(&tip),
            keeps_branches: preserve == Preserve::Always,
            answers,
        };
        let thread = thread::Builder::new()
            .name("merges".to_owned())
            .spawn(move || worker.run(&received))
            .map_err(|source| crate::run::Error::Prepare {
                what: "no thread can be started for merges".to_owned(),
                source,
            })?;
        Ok(Self { orders: Some(orders), tip, thread: Some(thread) })
    }

    /// Returns where the job's branch stands.
    pub(crate) fn tip(&self) -> String {
        self.tip.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks for an item's commits to be merged.
    pub(crate) fn merge(&self, item: u32, id: ItemId, commits: CommitRange) {
        self.order(MergeCommand::Merge { item, id, commits });
    }

    /// Asks for a branch that nobody needs to be deleted, unless only it has its commits.
    pub(crate) fn delete_branch(&self, old: RetiredBranch) {
        self.order(MergeCommand::Forget(old));
    }

    fn order(&self, order: MergeCommand) {
        if let Some(orders) = &self.orders {
            // A thread that is gone has said why.
            orders.send(order).ok();
        }
    }
}

impl Drop for MergeQueue {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // What it had to say it has said.
            thread.join().ok();
        }
    }
}

impl MergeThread {
    fn run(mut self, orders: &Receiver<MergeCommand>) {
        while let Ok(order) = orders.recv() {
            let done = match order {
                MergeCommand::Merge { item, id, commits } => self.merge(item, &id, &commits),
                MergeCommand::Forget(RetiredBranch { branch, recorded }) => {
                    self.merger.delete_branch(&branch, recorded.as_deref())
                }
            };
            if let Err(error) = done {
                self.send(MergeMessage::Broken(error));
                return;
            }
        }
    }

    fn merge(&mut self, item: u32, id: &ItemId, commits: &CommitRange) -> Result<(), git::Error> {
        let found = self.guard.check_and_restore()?;
        if !found.is_empty() {
            let changes = found.iter().map(ToString::to_string).collect();
            self.send(MergeMessage::Fact(Event::GitTampering { changes }.into()));
        }
        let source = super::worker_pool::item_branch(&self.job, id);
        let message = merge_message(&self.job, id, &format!("Merge {id}"));
        let request =
            ItemMergeRequest { commit: commits.head.clone(), base: commits.base.clone(), message };
        let target = self.target.clone();
        let merged = self.merger.merge(&request)?;
        if self.merger.take_branch_restored() {
            let changes = vec![crate::run::phases::job_worktree::branch_deleted_message(&target)];
            self.send(MergeMessage::Fact(Event::GitTampering { changes }.into()));
        }
        let input = match merged {
            ItemMergeOutcome::Merged { tip } => {
                self.forget(&source)?;
                self.tip.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&tip);
                ItemInput::Merged { item, source, target, tip }
            }
            ItemMergeOutcome::AlreadyMerged => {
                self.forget(&source)?;
                let tip = self.merger.tip().to_owned();
                ItemInput::Merged { item, source, target, tip }
            }
            ItemMergeOutcome::Conflict { paths } => {
                self.repo.set_item_branch(&source, &commits.head)?;
                ItemInput::Conflict { item, target, paths }
            }
            ItemMergeOutcome::Missing => ItemInput::CommitsGone { item },
        };
        self.send(MergeMessage::Item(input));
        Ok(())
    }

    /// Deletes the branch of an item that was merged.
    fn forget(&mut self, branch: &str) -> Result<(), git::Error> {
        if self.keeps_branches { Ok(()) } else { self.merger.delete_branch(branch, None) }
    }

    fn send(&self, answer: MergeMessage) {
        // A run that does not listen any more is over.
        self.answers.send(answer).ok();
    }
}

/// Returns the message of a commit that merges the work on an item.
pub(crate) fn merge_message(job: &JobId, id: &ItemId, subject: &str) -> String {
    let key = commit_trailer(job, id.as_str());
    format!("{subject}\n\nProdigy-Job: {job}\nProdigy-Item: {id}\n{key}\n")
}
