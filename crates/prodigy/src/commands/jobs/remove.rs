//! `prodigy jobs rm`.

use std::io::{self, BufRead as _, IsTerminal as _};

use prodigy_core::{
    audit::{AuditAction, AuditOutcome, IdentityKind, NewAuditRecord},
    ids::JobId,
    job::Job,
};
use prodigy_engine::{
    clock,
    git::Repo,
    store::{self, JobLock, JournalReader, Layout, Tombstone, audit::AuditTrail},
};
use serde_json::json;

use super::SCHEMA_VERSION;
use crate::{
    cli::Cli,
    commands::{
        audit::audit_error,
        context::{self, git_error},
        lookup::{all_layouts, ambiguous_job_error, current_layout, job_error, repository},
        prepare::secrets::mask_inherited,
        worktree::{WorktreeKind, WorktreeView, list_worktrees},
    },
    error::CliError,
    exit::Exit,
    progress::plural,
    render::console::Console,
};

/// Remove a job: its journal, logs, dead letters, worktrees and branches
///
/// A running job is refused. So is one that would take work with it: commits that are on no other
/// branch, work that was kept of items, open dead letters, changes outside that may or may not have
/// been made. They are listed, and `--force` removes them too. The audit trail stays and records
/// the removal. The id of a removed job is not used again. A removal that was cut off is finished by
/// the next one.
///
/// For example, `prodigy jobs rm mapreduce-20260102-030405-a1b2 -y`.
#[derive(clap::Args, Debug)]
pub(crate) struct JobsRemoveArgs {
    /// The job
    job: JobId,

    /// Do not ask
    #[arg(short, long)]
    yes: bool,

    /// Remove work that is nowhere else, too
    #[arg(long)]
    force: bool,

    /// The reason to record in the audit trail
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(
    args: &Cli,
    command: &JobsRemoveArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let job = &command.job;
    let failed = |error| job_error(job, error);
    let layout = layout_of(args, job)?;
    let tombstone = Tombstone::read(&layout, job).map_err(failed)?;
    if tombstone.is_some() && !store::has_files(&layout, job) {
        return report(command, "was removed before", &[], out);
    }
    let mut lock = JobLock::take(&layout, job).map_err(failed)?;
    if tombstone.is_none() && !store::has_begun(&layout, job).map_err(failed)? {
        store::remove_files(&layout, job).map_err(failed)?;
        return report(command, "never began; what was there of it is removed", &[], out);
    }
    let removal = JobRemoval { layout: &layout, repo: repository::repo_of_job(&layout, job)?, job };
    let mut lost = Vec::new();
    if tombstone.is_none() {
        // Only the job's own branch can say what a half updated checkout was to become.
        removal.recover_checkout(out)?;
        // A worktree is looked into only if nobody works in it.
        drop(lock);
        let before = store::read_last_seq(&layout, job).ok();
        lost = removal.lost_work()?;
        lock = JobLock::take(&layout, job).map_err(failed)?;
        if store::read_last_seq(&layout, job).ok() != before {
            let message = format!("job `{job}` was worked on meanwhile");
            return Err(CliError::new(Exit::TryLater, message)
                .with_hint(format!("`prodigy jobs show {job}` shows how it is now")));
        }
        if !lost.is_empty() && !command.force {
            return removal_refused(command, &lost, out);
        }
        confirm(command, &lost, out)?;
    }
    removal.remove(command, &lost, tombstone.is_some())?;
    drop(lock);
    report(command, "is removed", &lost, out)
}

/// Returns the layout that has something of a job: that of this repository, or else the only one.
fn layout_of(args: &Cli, job: &JobId) -> Result<Layout, CliError> {
    let home = context::resolve_home(args)?;
    let has_files = |layout: &Layout| store::has_files(layout, job);
    let is_removed = |layout: &Layout| layout.tombstone(job).symlink_metadata().is_ok();
    if let Some(layout) = current_layout(&home)?.filter(|here| has_files(here) || is_removed(here))
    {
        return Ok(layout);
    }
    let (found, others): (Vec<_>, Vec<_>) = all_layouts(&home)?.into_iter().partition(has_files);
    if found.len() > 1 {
        return Err(ambiguous_job_error(job, &found));
    }
    let found = found.into_iter().next().or_else(|| others.into_iter().find(is_removed));
    found.ok_or_else(|| job_error(job, store::Error::NoJob { job: job.clone() }))
}

/// A job that is to be removed.
pub(crate) struct JobRemoval<'a> {
    pub(crate) layout: &'a Layout,
    pub(crate) repo: Repo,
    pub(crate) job: &'a JobId,
}

impl JobRemoval<'_> {
    /// Completes or undoes an update of the user's checkout that was cut off.
    fn recover_checkout(&self, out: &mut Console) -> Result<(), CliError> {
        let branch = format!("prodigy/{}/job", self.job);
        let recovery = self.repo.recover_checkout(&branch, None).map_err(git_error)?;
        if let Some(message) = recovery.message() {
            out.note(format_args!("{message}"));
        }
        Ok(())
    }

    /// Returns the work that would be lost, for people; refuses what is in use.
    pub(crate) fn lost_work(&self) -> Result<Vec<String>, CliError> {
        self.refuse_in_use()?;
        let mut lost = Vec::new();
        for left in list_worktrees(self.layout, &self.repo, Some(self.job))? {
            lost.extend(lost_work_of(&left));
        }
        lost.extend(self.lost_with_journal());
        Ok(lost)
    }

    /// Refuses a job with a branch that the user has checked out.
    fn refuse_in_use(&self) -> Result<(), CliError> {
        let own = self.layout.worktrees_dir(self.job);
        let own = own.canonicalize().unwrap_or(own);
        for tree in self.repo.worktrees().map_err(git_error)? {
            let branch = tree.branch.unwrap_or_default();
            if branch.split('/').nth(1) == Some(self.job.as_str())
                && branch.starts_with("prodigy/")
                && !tree.path.starts_with(&own)
            {
                let place = tree.path.display();
                let message = format!("the branch `{branch}` is checked out in `{place}`");
                return Err(CliError::new(Exit::Failure, message)
                    .with_hint("check out another branch there, then remove the job"));
            }
        }
        Ok(())
    }

    /// Returns the decisions that go with the journal: dead letters and unknown effects.
    fn lost_with_journal(&self) -> Vec<String> {
        let mut fold = Job::default();
        let Ok(records) = JournalReader::open(self.layout, self.job) else {
            return vec!["a journal that cannot be read".to_owned()];
        };
        for record in records {
            if !record.is_ok_and(|record| fold.apply(&record).is_ok()) {
                return vec!["a journal that is damaged: what it holds is not known".to_owned()];
            }
        }
        let mut lost = Vec::new();
        let dead = fold.map.as_ref().map_or(0, |map| map.counts.dead_lettered);
        if dead > 0 {
            lost.push(plural(dead, "open dead letter"));
        }
        let items = fold.map.iter().flat_map(|map| &map.items);
        let unknown = items.filter_map(|item| item.ledger.as_deref()).chain([&fold.ledger]);
        let unknown: usize = unknown.map(|ledger| ledger.open().count()).sum();
        if unknown > 0 {
            lost.push(format!(
                "{} outside that may or may not have been made",
                plural(unknown, "change")
            ));
        }
        lost
    }

    /// Removes everything; records it before and after.
    fn remove(
        &self,
        command: &JobsRemoveArgs,
        lost: &[String],
        is_begun: bool,
    ) -> Result<(), CliError> {
        let failed = |error| job_error(self.job, error);
        let by = context::actor(&self.repo);
        let mut said = NewAuditRecord::new(
            by.clone(),
            IdentityKind::Asserted,
            AuditAction::Remove,
            self.job.clone(),
        );
        said.reason = audit_reason(command, lost).map(|reason| mask_inherited(&reason));
        let audit = AuditTrail::open(self.layout, &self.repo).map_err(audit_error)?;
        let record = |said| audit.append(vec![said], clock::now()).map_err(audit_error);
        if !is_begun {
            record(said.clone())?;
            let removed_at = clock::now();
            let forced = !lost.is_empty();
            Tombstone { job_id: self.job.clone(), removed_at, by, forced }
                .write(self.layout)
                .map_err(failed)?;
        }
        self.remove_from_git()?;
        store::remove_files(self.layout, self.job).map_err(failed)?;
        record(said.with_outcome(AuditOutcome::Done)).map(drop)
    }

    /// Removes the worktrees, branches and references of the job.
    pub(crate) fn remove_from_git(&self) -> Result<(), CliError> {
        for left in list_worktrees(self.layout, &self.repo, Some(self.job))? {
            if let (WorktreeKind::Worktree, Some(path)) = (left.kind, &left.path) {
                let branch = left.branch.unwrap_or_default();
                self.repo.remove_job_worktree(path, &branch, true).map_err(git_error)?;
            }
        }
        self.repo.delete_job(self.job.as_str()).map_err(git_error)
    }
}

/// Returns the work that goes with a worktree, a branch or references.
fn lost_work_of(left: &WorktreeView) -> Vec<String> {
    let mut lost = Vec::new();
    let place = match (&left.branch, &left.path) {
        (Some(branch), _) => format!("`{branch}`"),
        (None, Some(path)) => format!("`{}`", path.display()),
        (None, None) => left.references.join(", "),
    };
    if left.unmerged_commits > 0 {
        lost.push(format!(
            "{} on no other branch: {place}",
            plural(left.unmerged_commits, "commit")
        ));
    }
    match (left.kind, left.uncommitted_files) {
        (WorktreeKind::Worktree, Some(0)) => {
            let name = left.path.as_deref().and_then(|path| path.file_name());
            let name = name.unwrap_or_default().to_string_lossy();
            if name != "job" && !name.starts_with("agent-") {
                lost.push(format!("a worktree that was kept: {place}"));
            }
        }
        (WorktreeKind::Worktree, Some(files)) => {
            lost.push(format!("{} not committed: {place}", plural(files, "file")));
        }
        (WorktreeKind::Worktree, None) => lost.push(format!("a worktree in use: {place}")),
        (WorktreeKind::Records, _) if left.unmerged_commits == 0 => {
            lost.push(format!("work that was kept: {place}"));
        }
        (WorktreeKind::Other, _) => lost.push(format!("a directory of its worktrees: {place}")),
        (
            WorktreeKind::Branch
            | WorktreeKind::Trash
            | WorktreeKind::Snapshot
            | WorktreeKind::Records,
            _,
        ) => {}
    }
    lost
}

/// Returns why a job is removed, and what goes with it.
fn audit_reason(command: &JobsRemoveArgs, lost: &[String]) -> Option<String> {
    let forced = (!lost.is_empty()).then(|| format!("with --force: {}", lost.join("; ")));
    match (command.reason.clone(), forced) {
        (Some(reason), Some(forced)) => Some(format!("{reason} ({forced})")),
        (reason, forced) => reason.or(forced),
    }
}

/// Says which work keeps a job from being removed.
fn removal_refused(
    command: &JobsRemoveArgs,
    lost: &[String],
    out: &mut Console,
) -> Result<Exit, CliError> {
    let job = &command.job;
    if command.json {
        let document = json!({
            "schema_version": SCHEMA_VERSION, "job_id": job, "removed": false, "work": lost,
        });
        out.raw(format!("{document:#}\n").as_bytes())?;
    }
    for one in lost {
        out.note(format_args!("kept  {one}"));
    }
    Err(CliError::new(Exit::Failure, format!("job `{job}` holds work that is nowhere else"))
        .with_hint(format!("`prodigy jobs rm {job} --force` removes the job and this work")))
}

/// Asks whether the job may be removed.
fn confirm(command: &JobsRemoveArgs, lost: &[String], out: &mut Console) -> Result<(), CliError> {
    if command.yes {
        return Ok(());
    }
    let job = &command.job;
    if !io::stdin().is_terminal() {
        return Err(CliError::new(Exit::Usage, format!("this would remove job `{job}`"))
            .with_hint("pass `-y` to remove it without asking"));
    }
    for one in lost {
        out.note(format_args!("removes  {one}"));
    }
    out.note(format_args!("This removes job `{job}` for good. Go on? [y/N]"));
    let mut answer = String::new();
    // No answer is no.
    io::stdin().lock().read_line(&mut answer).ok();
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        return Ok(());
    }
    Err(CliError::new(Exit::Failure, "nothing was removed"))
}

/// Says what was done.
fn report(
    command: &JobsRemoveArgs,
    done: &str,
    lost: &[String],
    out: &mut Console,
) -> Result<Exit, CliError> {
    let job = &command.job;
    if command.json {
        let document = json!({
            "schema_version": SCHEMA_VERSION, "job_id": job, "removed": true, "work": lost,
        });
        out.raw(format!("{document:#}\n").as_bytes())?;
        return Ok(Exit::Success);
    }
    for one in lost {
        out.note(format_args!("removed  {one}"));
    }
    out.line(format_args!("job `{job}` {done}"))?;
    Ok(Exit::Success)
}
