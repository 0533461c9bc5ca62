//! The final merge into the branch the user started from.

use std::{sync::Arc, time::Instant};

use prodigy_core::{
    event::{Event, JobStarted, PhaseName},
    failure::{Failure, ReasonCode},
    job::{JobInput, MERGE_STEPS},
    workflow::{Phase, StepAddress},
};
use serde_json::json;

use crate::{
    git::{CommitLine, MergeOutcome, MergeRequest, Repo, Worktree},
    governance,
    run::{
        Dispatcher, Error, MergeQuestion,
        dispatcher::run_state::TaskOutcome,
        map::suspend::{self, suspend_step},
    },
    step::{self, StepContext, StepOutcome, StepScope, StepTask, worktree_failure},
};

/// The source and the target of a merge.
#[derive(Clone)]
struct FinalMerge {
    repo: Repo,
    source: String,
    target: String,
    base: String,
    commits: Vec<CommitLine>,
    message: String,
}

impl Dispatcher {
    /// Merges the job's branch, or finds out that it cannot or may not be merged now.
    pub(crate) async fn run_final_merge(&mut self) -> Result<(), Error> {
        self.check_repo_guard()?;
        // What steps of the merge left that were cut off is theirs.
        if self.job.suspended_step(MERGE_STEPS).is_none() {
            self.commit_leftovers()?;
        }
        let input = match self.prepare_final_merge()? {
            Err(input) => input,
            // Somebody merged it by hand: there is nothing to ask.
            Ok(route) if self.parts.settings.workflow.merge.is_none() && route.is_merged() => {
                let commit = route.repo.resolve_commit(&route.target)?;
                route.merged(commit)
            }
            Ok(route) => match self.review_final_merge(&route).await? {
                Some(refusal) => refusal,
                None => match self.parts.settings.workflow.merge.clone() {
                    Some(phase) => return self.start_merge_steps(route, phase),
                    None => self.merge_into_target(&route)?,
                },
            },
        };
        let is_outstanding = matches!(input, JobInput::NotMerged { .. }) && self.parts.merge_waited;
        let elsewhere = if is_outstanding { self.merged_elsewhere()? } else { None };
        let input = elsewhere.unwrap_or(input);
        self.inputs.push_back(input);
        Ok(())
    }

    /// Returns that the result is in another branch than the target, if the user has put it there
    /// while the merge waited.
    fn merged_elsewhere(&self) -> Result<Option<JobInput>, Error> {
        let Some(tree) = &self.job.tree else { return Ok(None) };
        let repo = &self.parts.settings.repo;
        let Some(target) = repo.branch_with(&tree.branch)? else { return Ok(None) };
        let commit = repo.resolve_commit(&target)?;
        let (source, commits) = (tree.branch.clone(), self.parts.commits);
        Ok(Some(JobInput::Merged { source, target, commit, commits }))
    }

    /// Finds out what there is to merge.
    fn prepare_final_merge(&mut self) -> Result<Result<FinalMerge, JobInput>, Error> {
        let adopted =
            if self.job.tree.is_some() { self.job_worktree()?.adopt_head()? } else { None };
        let (Some(started), Some(tree)) = (&self.job.started, &self.job.tree) else {
            return Ok(Err(JobInput::NothingToMerge));
        };
        let repo = self.parts.settings.repo.clone();
        let branch = &tree.branch;
        if adopted.is_none() {
            let message = format!(
                "the worktree is on a branch that does not contain all of `{branch}`; check out what you want and resume"
            );
            return Ok(Err(JobInput::NotMerged { message, conflict: None }));
        }
        let commits = repo.commits_between(&tree.base, &tree.branch)?;
        self.parts.commits = commits.len() as u64;
        if commits.is_empty() {
            return Ok(Err(JobInput::NothingToMerge));
        }
        let source = tree.branch.clone();
        let Some(target) = started.target_branch.clone() else {
            let message = format!(
                "HEAD was detached when the job began, so there is no branch to merge into; `prodigy resume {} --into BRANCH` merges `{source}`",
                self.parts.id
            );
            return Ok(Err(JobInput::NotMerged { message, conflict: None }));
        };
        let name = started.workflow_name.clone().unwrap_or_else(|| started.workflow_file.clone());
        let message = format!("Merge {source}\n\nWorkflow: {name}\nProdigy-Job: {}", self.parts.id);
        let base = tree.base.clone();
        Ok(Ok(FinalMerge { repo, source, target, base, commits, message }))
    }

    /// Names what a person should look at before the merge, then asks whether to merge.
    async fn review_final_merge(&mut self, route: &FinalMerge) -> Result<Option<JobInput>, Error> {
        let FinalMerge { repo, base, source, target, .. } = route;
        self.record_guarded_files(repo, base, source, target)?;
        self.confirm_merge(route).await
    }

    /// Asks whether to merge; returns the refusal if the answer is no.
    async fn confirm_merge(&mut self, route: &FinalMerge) -> Result<Option<JobInput>, Error> {
        if self.job.started.as_ref().is_some_and(JobStarted::auto_merges) {
            return Ok(None);
        }
        let question = MergeQuestion {
            source: route.source.clone(),
            target: route.target.clone(),
            commits: route.commits.len(),
            files: route.repo.files_changed(&route.base, &route.source)?.len(),
        };
        let command = format!("git merge {}", route.source);
        let message = match self.await_confirmation(question).await {
            Some(true) => return Ok(None),
            // Ctrl-C answered the question: the tick stops the run.
            None if self.parts.settings.shutdown.reason().is_some() => {
                return Ok(Some(JobInput::Tick));
            }
            Some(false) => format!("merge declined; `{command}` merges it"),
            None => {
                format!("not merged: no terminal to ask and no `-y`; `{command}` merges it")
            }
        };
        Ok(Some(JobInput::NotMerged { message, conflict: None }))
    }

    /// Waits for the answer in a thread of its own: signals have to be heard meanwhile.
    async fn await_confirmation(&mut self, question: MergeQuestion) -> Option<bool> {
        let mut confirm = self.parts.settings.confirm.take()?;
        let asked = tokio::task::spawn_blocking(move || (confirm.merge(&question), confirm)).await;
        let (answer, confirm) = asked.ok()?;
        self.parts.settings.confirm = Some(confirm);
        answer
    }

    /// Runs the workflow's own merge steps; how they ended comes as an input.
    fn start_merge_steps(&mut self, route: FinalMerge, phase: Phase) -> Result<(), Error> {
        let workplace = self.job_step_context()?;
        self.begin_merge(&workplace)?;
        let tree = self.job_worktree()?;
        let mut scope = StepScope::new(self.phase_variables(PhaseName::Merge, 0)?);
        scope.vars.set("merge", self.merge_vars(&route)?);
        let ended = self.parts.ended.0.clone();
        self.parts.busy = true;
        // The handle is not needed: the task always answers, and `go` waits for the answer.
        drop(tokio::spawn(async move {
            let input = merge_steps(&workplace, &route, &phase, scope, tree).await;
            // The loop listens until the answer is in.
            ended.send(TaskOutcome { input, fingerprint: None, note: None }).ok();
        }));
        Ok(())
    }

    /// Begins the steps of the merge where the steps before them ended, or goes on with them where
    /// they were cut off.
    fn begin_merge(&mut self, workplace: &StepContext) -> Result<(), Error> {
        let work = self.job.suspended_step(MERGE_STEPS).cloned();
        let layout = &self.parts.settings.layout;
        if let Some(saved) = suspend::load_step(layout, &self.parts.id, work.as_ref()) {
            let is_as_left = work.is_none_or(|work| work.starts == 0);
            if let Some(snapshot) = saved.snapshot.as_ref().filter(|_| !is_as_left) {
                self.job_worktree()?.restore(snapshot)?;
            }
            workplace.resume_work(saved, is_as_left);
            return Ok(());
        }
        workplace.begin_work();
        if let Some(snapshot) = self.job.last_snapshot() {
            self.job_worktree()?.restore(&snapshot)?;
            self.commit_leftovers()?;
        }
        Ok(())
    }

    /// Merges with plain git.
    fn merge_into_target(&mut self, route: &FinalMerge) -> Result<JobInput, Error> {
        let request = MergeRequest {
            source_branch: route.source.clone(),
            target_branch: route.target.clone(),
            base_commit: route.base.clone(),
            is_named: self.job.started.as_ref().is_some_and(|started| started.into),
            message: route.message.clone(),
            guarded: governance::guarded_files(&route.repo, &route.target),
        };
        let outcome = route.repo.merge_job(&request, |update| {
            self.append(vec![Event::CheckoutUpdateStarted(Box::new(update))])
        })?;
        let FinalMerge { source, target, .. } = route;
        let again = format!("`prodigy resume {}`", self.parts.id);
        let refused = |message: String| JobInput::NotMerged { message, conflict: None };
        Ok(match outcome {
            MergeOutcome::Merged { commit, .. } => route.merged(commit),
            MergeOutcome::UpToDate => route.merged(route.repo.resolve_commit(target)?),
            MergeOutcome::Conflict { paths } => JobInput::NotMerged {
                message: format!(
                    "`{source}` conflicts with `{target}` in {}; `git merge {source}` lets you resolve it",
                    display_paths(&paths)
                ),
                conflict: Some((target.clone(), paths)),
            },
            MergeOutcome::DirtyTarget { paths } => refused(format!(
                "your checkout of `{target}` has changes of its own in the way: {}; commit or stash them",
                display_paths(&paths)
            )),
            MergeOutcome::Refused { reason } => refused(format!(
                "nothing was merged: {reason}; once that is out of the way, {again} merges `{source}`"
            )),
            MergeOutcome::TargetMissing => refused(format!(
                "the branch `{target}` is gone; `prodigy resume {} --into BRANCH` merges `{source}` into another",
                self.parts.id
            )),
            MergeOutcome::TargetRewritten => refused(format!(
                "the branch `{target}` was rewritten: it no longer contains {}, which the job started from; `git merge {source}` or `prodigy resume {} --into {target}` merges it all the same",
                route.base, self.parts.id
            )),
        })
    }

    /// Returns `${merge.…}`.
    fn merge_vars(&self, route: &FinalMerge) -> Result<serde_json::Value, Error> {
        let job = self.parts.id.as_str();
        let worktree = self.job.tree.as_ref().map(|tree| tree.path.clone()).unwrap_or_default();
        let commits: Vec<_> = route
            .commits
            .iter()
            .map(|commit| json!({ "id": commit.commit, "subject": commit.subject }))
            .collect();
        Ok(json!({
            "worktree": worktree,
            "source_branch": route.source,
            "target_branch": route.target,
            "job_id": job,
            "session_id": job,
            "commit_count": commits.len(),
            "commits": commits,
            "file_list": route.repo.files_changed(&route.base, &route.source)?,
        }))
    }
}

impl FinalMerge {
    /// Returns whether the target holds the job's commits already.
    fn is_merged(&self) -> bool {
        // A target that cannot be looked at is refused by the merge, with the reason.
        self.repo.is_ancestor(&self.source, &self.target).unwrap_or(false)
    }

    /// Says that the merge is done.
    fn merged(&self, commit: String) -> JobInput {
        JobInput::Merged {
            source: self.source.clone(),
            target: self.target.clone(),
            commit,
            commits: self.commits.len() as u64,
        }
    }
}

/// Runs the workflow's merge steps and checks that they merged.
async fn merge_steps(
    workplace: &Arc<StepContext>,
    route: &FinalMerge,
    phase: &Phase,
    mut scope: StepScope,
    tree: Worktree,
) -> JobInput {
    let begun = Instant::now();
    let deadline = phase.timeout.and_then(|limit| begun.checked_add(limit));
    let fail = |step: String, failure: Failure, attempt| JobInput::StepFailed {
        step,
        attempt,
        failure,
        duration_ms: step::millis(begun.elapsed()),
        log: None,
    };
    let list = StepAddress::named("merge");
    for (number, step) in phase.steps.iter().enumerate() {
        let address = list.step(&phase.steps, number);
        let path = address.path().to_owned();
        let task = StepTask { step, address: &address, top_level: false, deadline };
        match step::run(workplace, task, &mut scope).await {
            StepOutcome::Skipped { .. } | StepOutcome::GoOn(_) => {}
            StepOutcome::Stop { failure, attempt, .. } => return fail(path, failure, attempt),
            StepOutcome::Interrupted => {
                let Some(cut_off) = workplace.interruption.take() else { return JobInput::Tick };
                let work = Box::new(suspend_step(workplace, MERGE_STEPS, tree).await);
                return JobInput::StepCutOff { step: path, cut_off, work };
            }
        }
    }
    let step = || "merge".to_owned();
    if let Err(failure) = workplace.check_repo_guard() {
        return fail(step(), failure, 1);
    }
    match route.repo.is_ancestor(&route.source, &route.target) {
        Ok(true) => match route.repo.resolve_commit(&route.target) {
            Ok(commit) => route.merged(commit),
            Err(error) => fail(step(), worktree_error(&error.to_string()), 1),
        },
        Ok(false) => {
            let message = format!(
                "the merge steps ended well, but `{}` does not contain `{}`",
                route.target, route.source
            );
            fail(step(), Failure::new(ReasonCode::MergeConflict, message), 1)
        }
        Err(error) => fail(step(), worktree_error(&error.to_string()), 1),
    }
}

fn worktree_error(message: &str) -> Failure {
    worktree_failure(message)
}

/// Returns some paths for a message.
fn display_paths(paths: &[String]) -> String {
    let first: Vec<_> = paths.iter().take(5).map(|path| format!("`{path}`")).collect();
    let text = first.join(", ");
    match paths.len().saturating_sub(5) {
        0 => text,
        more => format!("{text} and {more} more"),
    }
}
