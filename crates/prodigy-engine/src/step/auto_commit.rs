//! Committing what a step leaves uncommitted.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prodigy_core::{
    event::Event,
    failure::Failure,
    mask::Mask,
    workflow::{AutoCommit, Step, StepAction, rendered_label},
};

use super::{StepContext, StepScope, output::infrastructure_failure, runner::StepTask};
use crate::git::{self, CommitResult, CommitScope, UncommittedFile};

/// The files that commits of ours leave out.
#[derive(Debug, Default)]
pub struct CommitRules {
    /// Paths that belong to the worktree and not to the work.
    kept: Vec<String>,
    /// The files that were uncommitted when steps began that are under way, by their path.
    before: Mutex<BTreeMap<String, Arc<[UncommittedFile]>>>,
}

impl CommitRules {
    /// Makes rules that leave out paths which belong to the worktree.
    pub fn new(kept: Vec<String>) -> Self {
        Self { kept, before: Mutex::default() }
    }

    /// Goes on with steps that were under way when their work was cut off.
    pub(super) fn resume(&self, uncommitted: BTreeMap<String, Vec<UncommittedFile>>) {
        let files = uncommitted.into_iter().map(|(step, files)| (step, files.into()));
        *self.before() = files.collect();
    }

    /// Returns the files that were uncommitted when steps began that are under way.
    pub(super) fn under_way(&self) -> BTreeMap<String, Vec<UncommittedFile>> {
        self.before().iter().map(|(step, files)| (step.clone(), files.to_vec())).collect()
    }

    fn before(&self) -> MutexGuard<'_, BTreeMap<String, Arc<[UncommittedFile]>>> {
        self.before.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StepContext {
    /// Remembers what is uncommitted before a step, at its first try.
    pub(super) async fn note_uncommitted(&self, task: StepTask<'_>) -> Result<(), Failure> {
        let is_known = self.commit_rules.before().contains_key(task.path());
        if self.auto_commit(task.step) != AutoCommit::StepChanges || is_known {
            return Ok(());
        }
        self.check_repo_guard()?;
        let tree = self.tree.clone();
        let files = blocking(move || tree.uncommitted_files()).await?;
        self.commit_rules.before().insert(task.path().to_owned(), files.into());
        Ok(())
    }

    /// Returns which changes of a step are committed after it, by this agent.
    fn auto_commit(&self, step: &Step) -> AutoCommit {
        let kind = match &step.action {
            StepAction::Agent { agent, .. } => self.tools.agents.get(agent).map(|it| it.kind()),
            StepAction::Shell { .. } | StepAction::WriteFile { .. } | StepAction::Foreach(_) => {
                None
            }
        };
        step.auto_commit_by(kind)
    }

    /// Forgets what was uncommitted before a step that has ended.
    pub(super) fn forget_uncommitted(&self, task: StepTask<'_>) {
        self.commit_rules.before().remove(task.path());
    }

    /// Commits what a step left uncommitted, if it is to be committed.
    pub(super) async fn commit_uncommitted(
        &self,
        task: StepTask<'_>,
        scope: &StepScope,
    ) -> Result<(), Failure> {
        let before = match self.auto_commit(task.step) {
            AutoCommit::Never | AutoCommit::ForAgent => return Ok(()),
            AutoCommit::StepChanges => self.commit_rules.before().get(task.path()).cloned(),
            AutoCommit::Everything => None,
        };
        self.check_repo_guard()?;
        let label = rendered_label(task.step, &scope.vars);
        let label = Mask::new(self.tools.masked.iter().cloned()).mask_str(&label);
        let message = format!("{label}\n\n{}\n", self.identity.trailer());
        let (tree, kept) = (self.tree.clone(), self.commit_rules.kept.clone());
        let committed = blocking(move || {
            let before = before.as_deref().unwrap_or_default();
            tree.commit_uncommitted(&message, CommitScope { before, kept: &kept })
        });
        let committed = committed.await.map_err(|failure| {
            let Failure { kind, message, .. } = failure;
            Failure::new(kind, format!("auto_commit: {message}"))
        })?;
        match committed {
            CommitResult::Nothing | CommitResult::Made(_) => {}
            CommitResult::Refused(reason) => {
                self.warn(task, format!("its changes are not committed: {reason}"));
            }
        }
        Ok(())
    }

    /// Tells something that a person should know of a step that succeeded.
    pub(super) fn warn(&self, task: StepTask<'_>, message: String) {
        let agent = match &task.step.action {
            StepAction::Agent { agent, .. } => agent.clone(),
            StepAction::Shell { .. } => "shell".to_owned(),
            StepAction::WriteFile { .. } => "write_file".to_owned(),
            StepAction::Foreach(_) => "foreach".to_owned(),
        };
        self.emit(Event::AgentWarned { step: task.path().to_owned(), agent, message });
    }
}

/// Does something with git where it keeps nobody waiting.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, git::Error> + Send + 'static,
) -> Result<T, Failure> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done.map_err(|error| infrastructure_failure(&error)),
        Err(error) => Err(infrastructure_failure(&error)),
    }
}
