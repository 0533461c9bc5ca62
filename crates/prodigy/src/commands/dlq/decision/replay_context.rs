//! The context of replay decisions over a job's dead letters.

use std::{path::Path, sync::Arc};

use prodigy_core::{
    audit::{AuditAction, AuditOutcome, IdentityKind, NewAuditRecord},
    dlq::RunFingerprint,
    event::JobStarted,
    ids::{ItemId, JobId},
    replay::ReplayPolicy,
};
use prodigy_engine::{
    clock,
    git::Repo,
    governance::{ActivePolicy, PolicySource},
    process::ProcessOrigin,
    run::{
        ApprovalService, CheckedEffect, EffectCheckRequest, MergeHistory, ReplayBase,
        ReplayEvaluator,
        control::{DeadLetterAction, DeadLetterEditor, EditorError},
    },
    store::{
        JobLock, Layout,
        audit::{self, AuditTrail},
        dlq::DeadLetterStore,
    },
};

use crate::{
    cli::Cli,
    commands::{
        audit::audit_error,
        context,
        dlq::entries::queue_error,
        lookup::repository,
        policy::policy_file,
        prepare::{
            self,
            secrets::mask,
            workflow_file::{self, WorkflowFile},
        },
        workflow::resume,
    },
    error::{CliError, error_chain},
    exit::Exit,
    render::console::Console,
};

/// The context of replay decisions over a job's dead letters.
pub(crate) struct ReplayContext {
    layout: Layout,
    job: JobId,
    /// The beginning of the job.
    pub(crate) started: JobStarted,
    /// Its repository.
    pub(crate) repo: Repo,
    /// The policy in force.
    pub(crate) policy: ActivePolicy,
    /// The run facts of a replay, as far as they are known.
    pub(crate) run: Option<RunFingerprint>,
    /// The name of the person who runs the command.
    pub(crate) by: String,
}

impl ReplayContext {
    /// Finds what decides, with the workflow that is kept with the job.
    pub(crate) fn load(
        args: &Cli,
        layout: &Layout,
        job: &JobId,
        out: &mut Console,
    ) -> Result<Self, CliError> {
        let file = workflow_file::load_stored(&layout.state_dir(job)).ok();
        Self::load_with_workflow(args, layout, job, file.as_ref(), out)
    }

    /// Finds what decides, if replays use this workflow.
    pub(crate) fn load_with_workflow(
        args: &Cli,
        layout: &Layout,
        job: &JobId,
        file: Option<&WorkflowFile>,
        out: &mut Console,
    ) -> Result<Self, CliError> {
        let target = MergeHistory::read(layout, job).map_err(queue_error)?.target;
        Self::load_for_branch(args, layout, job, file, target, out)
    }

    /// Finds what decides, by the policy of a branch.
    fn load_for_branch(
        args: &Cli,
        layout: &Layout,
        job: &JobId,
        file: Option<&WorkflowFile>,
        target: Option<String>,
        out: &mut Console,
    ) -> Result<Self, CliError> {
        let started = context::job_started(layout, job)?;
        let repo = repository::repo_of_job(layout, job)?;
        let policy = load_active_policy(&repo, layout, target, out)?;
        let profile = started.profile.as_deref();
        // What cannot be told counts as unchanged; a replay says what is wrong.
        let run =
            file.and_then(|file| prepare::run_fingerprint(args, file, profile, repo.root()).ok());
        let by = context::actor(&repo);
        Ok(Self { layout: layout.clone(), job: job.clone(), started, repo, policy, run, by })
    }

    /// Returns what decides over entries that whoever asks would replay.
    pub(crate) fn evaluator(&self, queue: &DeadLetterStore) -> Result<ReplayEvaluator, CliError> {
        self.evaluator_with_policy(queue, Arc::clone(&self.policy.policy))
    }

    /// Returns what would decide over entries with another policy.
    pub(crate) fn evaluator_with_policy(
        &self,
        queue: &DeadLetterStore,
        policy: Arc<ReplayPolicy>,
    ) -> Result<ReplayEvaluator, CliError> {
        let bench = ReplayEvaluator::new(policy, self.run.clone(), queue).map_err(queue_error)?;
        Ok(bench.with_people(self.started.by.clone(), Some(self.by.clone())).with_base(self.base()))
    }

    /// Returns what decides over entries for whoever is asked to agree to a replay.
    pub(crate) fn approval_evaluator(
        &self,
        queue: &DeadLetterStore,
    ) -> Result<ReplayEvaluator, CliError> {
        let stored = workflow_file::load_stored(&self.layout.state_dir(&self.job)).ok();
        let newest = stored
            .and_then(|file| resume::current_workflow_hash(&file, &self.started.workflow_file));
        let policy = Arc::clone(&self.policy.policy);
        let bench = ReplayEvaluator::new(policy, self.run.clone(), queue).map_err(queue_error)?;
        Ok(bench
            .with_people(self.started.by.clone(), None)
            .with_newest_workflow(newest)
            .with_base(self.base()))
    }

    /// Returns the commit that a replay would run on.
    fn base(&self) -> ReplayBase {
        ReplayBase::new(self.repo.clone(), self.layout.clone(), self.job.clone())
    }

    /// Refuses a decision that a running step takes, and records that it was tried.
    pub(crate) fn refuse_automation(
        &self,
        action: AuditAction,
        entries: &[String],
    ) -> Result<(), CliError> {
        if !ProcessOrigin::of_process().is_automation {
            return Ok(());
        }
        let refused = |entry: &String| {
            let mut record =
                NewAuditRecord { entry: entry.clone(), ..self.new_audit_record(action) };
            record.decision = Some("automation".to_owned());
            record.with_outcome(AuditOutcome::Refused)
        };
        let nameless = [String::new()];
        let entries = if entries.is_empty() { &nameless } else { entries };
        append_audit(&self.audit_trail()?, entries.iter().map(refused).collect())?;
        Err(automation_error(action))
    }

    /// Returns who asks people to agree, or answers.
    pub(crate) fn approval_service<'a>(
        &'a self,
        queue: &'a DeadLetterStore,
        bench: &'a ReplayEvaluator,
        reason: &'a str,
    ) -> ApprovalService<'a> {
        let (layout, job, by, now) = (&self.layout, &self.job, &*self.by, clock::now());
        let identity = IdentityKind::Asserted;
        ApprovalService {
            queue,
            bench,
            amending: DeadLetterEditor { layout, job, by, identity, reason, now },
        }
    }

    /// Returns a text that is recorded without the secrets that are known here.
    pub(crate) fn mask_secrets(&self, text: &str) -> String {
        let file = workflow_file::load_stored(&self.layout.state_dir(&self.job)).ok();
        match &file {
            Some(file) => mask(text, &file.loaded.workflow.secrets, &file.directory),
            None => mask(text, &[], self.repo.root()),
        }
    }

    /// Opens the audit trail.
    pub(crate) fn audit_trail(&self) -> Result<AuditTrail, CliError> {
        AuditTrail::open(&self.layout, &self.repo).map_err(audit_error)
    }

    /// Returns a record of the audit trail about the job.
    pub(crate) fn new_audit_record(&self, action: AuditAction) -> NewAuditRecord {
        NewAuditRecord::new(&self.by, IdentityKind::Asserted, action, self.job.clone())
    }

    /// Finds out what entries may have changed outside, with a record before and one behind.
    pub(crate) fn check_effects(
        &self,
        args: &Cli,
        world: prepare::RunSetup,
        file: WorkflowFile,
        asked: EffectCheckRequest,
        out: &mut Console,
    ) -> Result<Vec<CheckedEffect>, CliError> {
        let action = if asked.compensate { AuditAction::Compensate } else { AuditAction::Check };
        if asked.compensate {
            self.refuse_automation(action, &[])?;
        }
        let audit = self.audit_trail()?;
        let record = |item: String| NewAuditRecord { entry: item, ..self.new_audit_record(action) };
        let records: Vec<_> = match &asked.items {
            Some(items) => items.iter().map(|item| record(item.to_string())).collect(),
            None => vec![record(String::new())],
        };
        append_audit(&audit, records.clone())?;
        let checked = prepare::check_effects(args, world, file, out, asked);
        let end = if checked.is_ok() { AuditOutcome::Done } else { AuditOutcome::Failed };
        append_audit(&audit, records.into_iter().map(|record| record.with_outcome(end)).collect())?;
        checked
    }

    /// Changes entries by hand, with a record before and one behind.
    pub(crate) fn apply_action(
        &self,
        lock: Option<&JobLock>,
        items: &[ItemId],
        amendment: &DeadLetterAction,
        identity: IdentityKind,
        reason: &str,
    ) -> Result<Vec<ItemId>, CliError> {
        if let Some(action) = human_only_action(amendment) {
            let entries: Vec<_> = items.iter().map(ToString::to_string).collect();
            self.refuse_automation(action, &entries)?;
        }
        let audit = self.audit_trail()?;
        let reason = &*self.mask_secrets(reason);
        let (layout, job, by, now) = (&self.layout, &self.job, &*self.by, clock::now());
        let amending = DeadLetterEditor { layout, job, by, identity, reason, now };
        let mut trail = |records| audit.append(records, clock::now()).map(drop);
        let amended = match lock {
            Some(lock) => amending.apply_locked(lock, items, amendment, &mut trail),
            None => amending.apply(items, amendment, &mut trail),
        };
        amended.map_err(amend_error)
    }
}

/// Returns what decides over entries that are only looked at, or `None` if that cannot be told.
pub(crate) fn read_only_evaluator(
    args: &Cli,
    layout: &Layout,
    job: &JobId,
    queue: &DeadLetterStore,
    out: &mut Console,
) -> Option<ReplayEvaluator> {
    let started = context::job_started(layout, job).ok();
    if !started.as_ref().is_some_and(|started| Path::new(&started.repository).is_dir()) {
        // Of a job of an older program, or of a repository that is gone, there are only the
        // entries.
        return ReplayEvaluator::new(Arc::new(ReplayPolicy::builtin().clone()), None, queue).ok();
    }
    // A branch that was named later is found where something is decided: that takes the whole
    // journal.
    let target = started.and_then(|started| started.target_branch);
    let file = workflow_file::load_stored(&layout.state_dir(job)).ok();
    let found = ReplayContext::load_for_branch(args, layout, job, file.as_ref(), target, out)
        .and_then(|found| found.evaluator(queue));
    match found {
        Ok(bench) => {
            let is_running = JobLock::holder(layout, job).is_ok_and(|holder| holder.is_some());
            Some(bench.with_running_job(is_running))
        }
        Err(error) => {
            let why = error_chain(&error);
            out.note(format_args!(
                "warning: job `{job}`: whether entries can be replayed is not known: {why}"
            ));
            None
        }
    }
}

/// Reads the policy of the branch that a job merges into, in a way that shows a change of it.
pub(crate) fn load_active_policy(
    repo: &Repo,
    layout: &Layout,
    target: Option<String>,
    out: &mut Console,
) -> Result<ActivePolicy, CliError> {
    let source = PolicySource::new(repo.clone(), layout.clone(), target);
    let committed = policy_file::load_committed(&source, out)?;
    Ok(ActivePolicy::new(committed, source))
}

/// Returns the action of a change that only people make; keeping an entry back is open to all.
fn human_only_action(amendment: &DeadLetterAction) -> Option<AuditAction> {
    match amendment {
        DeadLetterAction::Quarantine { .. } => None,
        DeadLetterAction::Drop => Some(AuditAction::Drop),
        DeadLetterAction::Clear => Some(AuditAction::Clear),
        DeadLetterAction::Adopt => Some(AuditAction::Adopt),
        DeadLetterAction::Release => Some(AuditAction::Release),
        DeadLetterAction::Edit(_) => Some(AuditAction::Edit),
    }
}

/// Returns that a running step cannot decide something.
pub(crate) fn automation_error(action: AuditAction) -> CliError {
    let what = match action {
        AuditAction::Approve => "approve a replay",
        AuditAction::Reject => "reject a replay",
        AuditAction::ConfirmPolicy => "confirm a policy",
        AuditAction::Compensate => "undo what was changed outside",
        AuditAction::Replay | AuditAction::RequestApproval => "replay dead letters",
        AuditAction::Adopt
        | AuditAction::Drop
        | AuditAction::Clear
        | AuditAction::Quarantine
        | AuditAction::Release
        | AuditAction::Edit
        | AuditAction::Check
        | AuditAction::AcceptLostEnd
        | AuditAction::RestartTrail
        | AuditAction::Purge
        | AuditAction::Remove => "decide over dead letters",
    };
    CliError::new(Exit::ReplayDenied, format!("a step of a job cannot {what}"))
        .with_hint("a person decides that, in a terminal that no job has started")
}

/// Turns an error about a change into one for people.
pub(crate) fn amend_error(error: EditorError) -> CliError {
    match error {
        EditorError::Queue(error) => queue_error(error),
        EditorError::Audit(error) => {
            let said = audit_error(error);
            let message = format!("nothing was changed: {said}");
            let shown = CliError::new(Exit::Failure, message);
            match said.hint() {
                Some(hint) => shown.with_hint(hint),
                None => shown,
            }
        }
    }
}

/// Refuses a reason that says nothing.
pub(crate) fn require_reason(reason: &str) -> Result<&str, CliError> {
    if reason.trim().is_empty() {
        return Err(CliError::new(Exit::Usage, "the reason is empty")
            .with_hint("say in a few words why; it is recorded"));
    }
    Ok(reason)
}

/// Appends to an audit trail; what is announced must not be done if that fails.
pub(crate) fn append_audit(
    audit: &AuditTrail,
    records: Vec<NewAuditRecord>,
) -> Result<(), CliError> {
    let appended: Result<_, audit::Error> = audit.append(records, clock::now());
    appended.map(drop).map_err(audit_error)
}
