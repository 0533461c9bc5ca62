//! Where steps work and what they share.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use prodigy_core::{
    Timestamp,
    effect::idempotency_key,
    event::{Event, NewEvent},
    failure::{Failure, ReasonCode},
    ids::{AgentId, ItemId, JobId, OWN_STEPS},
    job::SuspensionCause,
    policy::{ItemBudget, RetryPolicy},
    workflow::{EnvVar, StepAddress},
};
use tokio::sync::{mpsc::UnboundedSender, oneshot};

use super::{
    BudgetGate, CommitRules, EffectTracker, PreviousFailures, SavedProgress, SuspensionFlag,
    UnknownCosts, WorkProgress,
    launch::{ConfinedAgent, SupervisorPool},
    output::{ActionFailure, ActionOutput, infrastructure_failure, launch_failure},
    runner::cancelled_failure,
};
use crate::{
    agent::Agent,
    clock,
    git::{RepoGuard, Worktree},
    process::{
        self, Launch, OutputListener, ProcessOutcome, ProcessStatus, StopToken, SupervisorClient,
    },
    sandbox::Sandbox,
    store::{Layout, LogFile},
    trust::TrustedFiles,
};

/// The job and item that a step works for; part of its environment.
#[derive(Clone, Debug)]
pub struct StepOwner {
    /// The job.
    pub job: JobId,
    /// The attempt of an item, if it is for one.
    pub item: Option<AttemptId>,
}

/// The attempt of an item that a step is part of.
#[derive(Clone, Debug)]
pub struct AttemptId {
    /// The item.
    pub id: ItemId,
    /// The agent that makes the attempt.
    pub agent: AgentId,
    /// Which attempt it is, from 1.
    pub attempt: u32,
}

impl StepOwner {
    /// Returns the item's name, or the one that stands for the job's own steps.
    pub fn item_name(&self) -> &str {
        self.item.as_ref().map_or(OWN_STEPS, |item| item.id.as_str())
    }

    /// Returns the line of a commit message by which the work can be found again.
    pub(crate) fn trailer(&self) -> String {
        commit_trailer(&self.job, self.item_name())
    }
}

/// Returns the line of a commit message by which the work on an item can be found again.
pub fn commit_trailer(job: &JobId, item: &str) -> String {
    format!("Prodigy-Idempotency-Key: {job}:{item}")
}

/// Everything a step needs besides its variables.
pub struct StepContext {
    /// The context that all steps of the job share.
    pub tools: Arc<JobContext>,
    /// The job and item that the steps work for.
    pub identity: StepOwner,
    /// The worktree.
    pub tree: Worktree,
    /// The supervisors.
    pub supervisors: SupervisorPool,
    /// The cost that agents reported.
    pub spent: Mutex<f64>,
    /// The spending limit of the item, if there is one.
    pub allowance: Option<ItemBudget>,
    /// The limit or the budget that cut the work off: nothing more is begun.
    pub interruption: Arc<SuspensionFlag>,
    /// The progress of the item or step that is under way.
    pub progress: Mutex<Arc<WorkProgress>>,
    /// The side effects of the steps, as far as known.
    pub effects: Arc<EffectTracker>,
    /// The previous failures.
    pub past: Arc<PreviousFailures>,
    /// The files that commits of ours leave out.
    pub commit_rules: CommitRules,
}

/// Something that happened inside a step.
pub struct StepNotification {
    /// The fact to record.
    pub fact: NewEvent,
    /// Hears when it is safe on disk, if somebody waits for that.
    pub safe: Option<oneshot::Sender<()>>,
}

/// The context that all steps of a job share.
pub struct JobContext {
    /// The repository's settings as they were when the job began.
    pub guard: RepoGuard,
    /// This program, for supervisors and the simulated agent.
    pub program: PathBuf,
    /// The inherited environment, scrubbed, with `env_files`.
    pub base_env: Vec<(OsString, OsString)>,
    /// `env` and the chosen profile.
    pub env: Vec<EnvVar>,
    /// Secrets, by variable name.
    pub secrets: Vec<(String, String)>,
    /// The values masked in the output of steps.
    pub masked: Vec<String>,
    /// The sandbox for agents and the steps of items.
    pub sandbox: Option<Sandbox>,
    /// The agents, by name.
    pub agents: BTreeMap<String, Box<dyn Agent>>,
    /// The content of the repository that the user trusts.
    pub trusted: TrustedFiles,
    /// Every path of the job.
    pub layout: Layout,
    /// Where temporary files and agent state go.
    pub state: PathBuf,
    /// The most one step may add to a log file.
    pub log_cap: u64,
    /// The time between asking a process to end and making it.
    pub grace: Duration,
    /// The budget, and the agents of which nobody knows what they cost.
    pub unknown_costs: UnknownCosts,
    /// The retry of agents outside of items whose provider had no capacity.
    pub patience: RetryPolicy,
    /// The longest a step may print nothing, unless it says otherwise.
    pub idle_timeout: Option<Duration>,
    /// The budgets, which are looked at before every agent.
    pub budget: BudgetGate,
    /// Ends everything.
    pub stop: StopToken,
    /// Where the job hears what happens inside steps.
    pub events: UnboundedSender<StepNotification>,
}

impl JobContext {
    /// Tells the job what happened.
    pub fn emit(&self, fact: NewEvent) {
        // The job stops listening only when it is over; then nobody needs to know.
        self.events.send(StepNotification { fact, safe: None }).ok();
    }
}

impl StepContext {
    /// Tells the job what happened inside a step.
    pub fn emit(&self, event: Event) {
        // An earlier run of the same work may have recorded it.
        if self.progress().is_unrecorded(&event) {
            self.tools.emit(self.fact(event));
        }
    }

    /// Tells the job of a change outside, and waits until that is on disk.
    ///
    /// An error means that nobody will ever know of it: the job is over, or its journal
    /// cannot be written.
    pub(crate) async fn emit_durable(&self, event: Event) -> Result<(), Failure> {
        self.effects.apply(&event);
        let (safe, is_safe) = oneshot::channel();
        self.tools.events.send(StepNotification { fact: self.fact(event), safe: Some(safe) }).ok();
        is_safe.await.map_err(|_| {
            let message = "what it changes outside could not be recorded";
            Failure::new(ReasonCode::StoreUnavailable, message)
        })
    }

    fn fact(&self, event: Event) -> NewEvent {
        let item = self.identity.item.as_ref();
        NewEvent {
            agent_id: item.map(|item| item.agent),
            item_id: item.map(|item| item.id.clone()),
            event,
        }
    }

    /// Returns the name of a step's change outside. One that was recorded keeps its name.
    pub(crate) fn effect_key(&self, address: &StepAddress, intent_hash: Option<&str>) -> String {
        let (job, item) = (&self.identity.job, self.identity.item_name());
        let key = idempotency_key(job, item, address.identity());
        match intent_hash {
            Some(intent_hash) => self.effects.key(address, intent_hash, key),
            None => key,
        }
    }

    /// Returns whether nothing more may be begun: the run was stopped, or a limit or a budget cut
    /// the work off.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.tools.stop.is_requested() || self.interruption.is_set()
    }

    /// Returns what keeps agents from starting, if a budget is spent or cannot be kept.
    pub(crate) fn agent_start_blocked(&self) -> Option<SuspensionCause> {
        let spent = self.tools.budget.exceeded_budget().map(SuspensionCause::Budget);
        spent.or_else(|| self.tools.unknown_costs.blocking_limit().map(SuspensionCause::Limit))
    }

    /// Returns the progress of the item or step that is under way.
    pub fn progress(&self) -> Arc<WorkProgress> {
        Arc::clone(&self.progress.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Begins an item or a step.
    pub fn begin_work(&self) {
        self.commit_rules.resume(BTreeMap::new());
        self.set_progress(WorkProgress::default());
    }

    /// Goes on with an item or a step that was cut off; `is_as_left` says whether the worktree is
    /// as it was then.
    pub fn resume_work(&self, saved: SavedProgress, is_as_left: bool) {
        self.commit_rules.resume(saved.uncommitted.clone());
        let progress = WorkProgress::new(Some(saved));
        self.set_progress(if is_as_left { progress } else { progress.without_sessions() });
    }

    fn set_progress(&self, progress: WorkProgress) {
        *self.progress.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(progress);
    }

    /// Returns the progress as it is stored when the work is cut off.
    pub fn save_progress(&self) -> SavedProgress {
        let mut saved = self.progress().to_saved();
        saved.uncommitted = self.commit_rules.under_way();
        saved
    }

    /// Returns what agents said they cost so far.
    pub fn spent(&self) -> f64 {
        *self.spent.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes back what a step planted in git's settings: to be called before git is used
    /// on what the step left behind.
    pub fn check_repo_guard(&self) -> Result<(), Failure> {
        let failed = |why: String| {
            let message = format!("git's settings cannot be checked: {why}");
            Failure::new(ReasonCode::WorktreeError, message)
        };
        let found =
            self.tools.guard.check_and_restore().map_err(|error| failed(error.to_string()))?;
        if !found.is_empty() {
            let changes = found.iter().map(ToString::to_string).collect();
            self.emit(Event::GitTampering { changes });
        }
        Ok(())
    }

    /// Runs a program under a supervisor, and returns the number of its log files.
    pub(crate) async fn launch(
        &self,
        launch: Launch,
    ) -> Result<(u32, ProcessOutcome), Box<ActionFailure>> {
        self.supervise(launch, None, &mut |_| ControlFlow::Continue(())).await
    }

    /// Runs an agent under a supervisor, and lets somebody hear what it prints if the launch is
    /// to be streamed.
    ///
    /// Its standard output is then in the file for transcripts.
    pub(crate) async fn launch_agent(
        &self,
        launch: Launch,
        agent: ConfinedAgent<'_>,
        listener: OutputListener<'_>,
    ) -> Result<(u32, ProcessOutcome), Box<ActionFailure>> {
        let (slot, ended) = self.supervise(launch, Some(agent), listener).await?;
        Ok((slot, self.restore_signal_status(ended)))
    }

    async fn supervise(
        &self,
        launch: Launch,
        agent: Option<ConfinedAgent<'_>>,
        listener: OutputListener<'_>,
    ) -> Result<(u32, ProcessOutcome), Box<ActionFailure>> {
        self.verify_location(&launch.cwd).map_err(ActionFailure::without_output)?;
        let mut launch =
            match self.sandbox_launch(launch, agent).map_err(ActionFailure::without_output)? {
                Ok(launch) => launch,
                Err(ended) => return Ok((0, ended)),
            };
        let (slot, mut supervisor) = match self.supervisors.acquire() {
            Ok(waiting) => waiting,
            Err(slot) => {
                match SupervisorClient::start(&self.tools.program, &self.tools.state).await {
                    Ok(supervisor) => (slot, supervisor),
                    Err(error) => return Err(self.launch_failure(&error).await),
                }
            }
        };
        let stdout = self.log_file(slot, LogFile::output(launch.stream));
        launch.log = Some((stdout, self.log_file(slot, LogFile::Errors)));
        if let Some(agent) = agent {
            // Without the note, what it costs is lost with prodigy, and only then.
            agent.run.begin(&self.tools.layout, &self.identity.job, slot).ok();
        }
        // A supervisor that was lost is not given back: the next step gets a new one.
        let began = clock::now();
        let _record = self.tree.repo().record_step_start();
        let ended = match supervisor.run_streaming(&launch, &self.tools.stop, listener).await {
            Ok(ended) => ended,
            Err(error) => {
                self.remove_stale_locks(began).await.map_err(ActionFailure::without_output)?;
                return Err(self.launch_failure(&error).await);
            }
        };
        self.supervisors.release(slot, supervisor);
        if ended.ended_by.is_some() || matches!(ended.status, ProcessStatus::Signaled(_)) {
            let unlocked = self.remove_stale_locks(began).await;
            unlocked.map_err(|failure| {
                let output = ActionOutput {
                    transcript: launch.stream,
                    ..ActionOutput::from_process(slot, &ended)
                };
                ActionFailure::with_output(failure, output)
            })?;
        }
        Ok((slot, ended))
    }

    /// Makes a failure of a launch that was not seen to its end.
    ///
    /// Whoever stops a run may end its supervisors with it. That is no fault of the step.
    async fn launch_failure(&self, error: &process::Error) -> Box<ActionFailure> {
        let mut failed = launch_failure(error);
        let is_lost = failed.failure.kind == ReasonCode::WorkerLost;
        if is_lost && self.tools.stop.is_requested_soon().await {
            failed.failure = cancelled_failure();
        }
        failed
    }

    /// Removes what a git that was killed has left in the way of every other.
    async fn remove_stale_locks(&self, since: Timestamp) -> Result<(), Failure> {
        let repo = self.tree.repo().clone();
        let removed = tokio::task::spawn_blocking(move || repo.remove_stale_locks(since.into()));
        match removed.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(infrastructure_failure(&error)),
            Err(error) => Err(infrastructure_failure(&error)),
        }
    }

    /// Returns which attempt of its item this is; the job's own steps have one.
    pub(crate) fn attempt(&self) -> u32 {
        self.identity.item.as_ref().map_or(1, |item| item.attempt)
    }

    /// Returns a log file of a slot.
    pub(crate) fn log_file(&self, slot: u32, which: LogFile) -> PathBuf {
        let item = self.identity.item.as_ref().map(|item| &item.id);
        self.tools.layout.log_file(&self.identity.job, item, self.attempt(), slot, which)
    }
}
