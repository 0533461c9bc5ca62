//! Carrying out what a job decided.

use std::{
    sync::{Arc, Mutex},
    time::Instant,
};

use prodigy_core::{
    capture::CaptureStream,
    event::{Event, PauseReason, PhaseName, WorktreeSnapshot},
    ids::JobId,
    job::{JobAction, JobInput},
    policy::RetryPolicy,
    vars::Vars,
    workflow::{Body, Capture, StepAddress},
};
use serde_json::{Value, json};

use super::records::stop_input;
use crate::{
    git::Worktree,
    run::{
        Dispatcher, Error, RunSettings,
        map::suspend,
        phases::{
            self,
            top_level_step::{TopLevelStep, WorktreeProbe},
        },
        start,
    },
    step::{
        BudgetGate, CommitRules, EffectTracker, JobContext, StepContext, StepOwner, StepScope,
        UnknownCosts,
    },
    store::TodaySpend,
};

impl Dispatcher {
    /// Does what was decided; anything that takes long answers by an input later.
    pub(crate) async fn perform_action(&mut self, action: JobAction) -> Result<(), Error> {
        match action {
            JobAction::CreateTree => self.create_tree(),
            JobAction::RestoreTree(snapshot) => self.restore_tree(&snapshot),
            JobAction::RunStep { phase, path, round, index, attempt } => {
                self.start_step(phase, path, round, index, attempt)
            }
            JobAction::Item(action) => self.perform_item_action(action),
            JobAction::SyncTree => self.sync_job_worktree().await,
            JobAction::Merge => self.run_final_merge().await,
            JobAction::Halt(reason) => {
                self.halt(reason);
                Ok(())
            }
            JobAction::CleanTree => self.clean_tree(),
            // The loop ends itself.
            JobAction::Finish(_) => Ok(()),
        }
    }

    /// Ends what is under way; the job stops once it has.
    fn halt(&mut self, reason: PauseReason) {
        self.parts.halt = Some(reason);
        self.parts.settings.shutdown.stop().request();
        self.inputs.push_back(JobInput::Tick);
    }

    /// Makes the job's worktree.
    fn create_tree(&mut self) -> Result<(), Error> {
        let parts = &mut self.parts;
        let path = parts.settings.layout.worktrees_dir(&parts.id).join("job");
        let branch = job_branch(&parts.id);
        let commit = self.job.started.as_ref().map(|started| started.base_commit.clone());
        let commit = commit.unwrap_or_default();
        let tree = parts.settings.repo.create_job_worktree(&path, &branch, &commit)?;
        parts.tree = Some(tree);
        let path = path.to_string_lossy().into_owned();
        self.inputs.push_back(JobInput::TreeReady { path, branch, commit });
        Ok(())
    }

    /// Returns the job's worktree, opened once.
    pub(crate) fn job_worktree(&mut self) -> Result<Worktree, Error> {
        if let Some(tree) = &self.parts.tree {
            return Ok(tree.clone());
        }
        let (path, branch) = self.job.tree.as_ref().map_or_else(
            || {
                let parts = &self.parts;
                let path = parts.settings.layout.worktrees_dir(&parts.id).join("job");
                (path, job_branch(&parts.id))
            },
            |tree| (tree.path.clone().into(), tree.branch.clone()),
        );
        let is_gone = !path.is_dir();
        let tree = self.parts.settings.repo.open_job_worktree(&path, &branch)?;
        // A worktree that somebody deleted held more than the commits of its branch.
        let suspended = self.job.suspended.as_ref().and_then(|work| work.snapshot.clone());
        if is_gone
            && let Some(snapshot) = suspended.or_else(|| self.job.last_snapshot())
            && tree.head()? == snapshot.head
        {
            tree.restore(&snapshot)?;
        }
        self.parts.tree = Some(tree.clone());
        Ok(tree)
    }

    /// Takes back what a step did that was cut off or failed, if there is one.
    pub(crate) fn restore_interrupted_step(&mut self) -> Result<(), Error> {
        let cut_off = self.job.running.as_ref().and(self.job.tree.as_ref());
        let Some(snapshot) = cut_off.and_then(|_| self.job.last_snapshot()) else { return Ok(()) };
        self.check_repo_guard()?;
        self.restore_tree(&snapshot)
    }

    /// Takes back what a step that was cut off did to the worktree.
    fn restore_tree(&mut self, snapshot: &WorktreeSnapshot) -> Result<(), Error> {
        let tree = self.job_worktree()?;
        if let Some(kept) = tree.stash_to_ref(snapshot)? {
            self.parts.note(&format!(
                "the worktree was set back to where the step began; what it held is kept in `{kept}`"
            ));
        }
        tree.restore(snapshot)?;
        self.parts.fingerprint = None;
        Ok(())
    }

    /// Starts a top-level step; how it ended comes as an input.
    fn start_step(
        &mut self,
        phase: PhaseName,
        path: String,
        round: u32,
        index: u32,
        attempt: u32,
    ) -> Result<(), Error> {
        if let Err(error) = check_free_space(&self.parts.settings) {
            self.parts.note(&error.to_string());
            self.inputs.push_back(stop_input(PauseReason::DiskFull, None));
            return Ok(());
        }
        let workplace = self.job_step_context()?;
        self.begin_work(&workplace, &path)?;
        let tree = self.job_worktree()?;
        let before = match self.parts.fingerprint.take() {
            Some(fingerprint) => fingerprint,
            None => tree.fingerprint()?,
        };
        let steps = phases::phase_steps(&self.parts.settings.workflow, phase);
        let number = usize::try_from(index).unwrap_or(usize::MAX);
        let Some(step) = steps.get(number) else { return Ok(()) };
        let mut step = step.clone();
        // The path begins with the phase or the round.
        let list = path.strip_suffix(&(number + 1).to_string()).unwrap_or_default();
        let address = StepAddress::named(list.trim_end_matches('.')).step(steps, number);
        let captures = phases::setup_captures(&self.parts.settings.workflow, phase, number);
        step.captures.extend(captures.iter().map(|capture| Capture {
            name: capture.name.clone(),
            format: capture.source_format(),
            stream: CaptureStream::Stdout,
        }));
        self.count_commits(&tree)?;
        let is_resumed = self.job.suspended_step(&path).is_some();
        let look = WorktreeProbe { tree, before, is_resumed };
        let scope = StepScope::new(self.phase_variables(phase, round)?);
        let deadline = self.deadline(phase);
        let ended = self.parts.ended.0.clone();
        self.parts.busy = true;
        // The handle is not needed: the task always answers, and `go` waits for the answer.
        drop(tokio::spawn(async move {
            let task = TopLevelStep { step, path, address, attempt, captures, deadline };
            let answer = task.run(&workplace, look, scope).await;
            // The loop listens until the answer is in.
            ended.send(answer).ok();
        }));
        Ok(())
    }

    /// Begins a step of the job, or goes on with it where it was cut off.
    fn begin_work(&mut self, workplace: &StepContext, step: &str) -> Result<(), Error> {
        let Some(work) = self.job.suspended_step(step).cloned() else {
            workplace.begin_work();
            return Ok(());
        };
        let layout = &self.parts.settings.layout;
        if let Some(saved) = suspend::load_step(layout, &self.parts.id, Some(&work)) {
            workplace.resume_work(saved, work.starts <= 1);
            return Ok(());
        }
        // Nobody knows how far it had come: it begins anew.
        workplace.begin_work();
        if let Some(snapshot) = self.job.last_snapshot() {
            self.restore_tree(&snapshot)?;
        }
        Ok(())
    }

    /// Counts the job's commits, if there may be new ones.
    fn count_commits(&mut self, tree: &Worktree) -> Result<(), Error> {
        let head = tree.head()?;
        if let Some(base) = self.job.tree.as_ref().map(|tree| &tree.base)
            && head != self.parts.counted
        {
            let commits = self.parts.settings.repo.commits_between(base, &head)?;
            self.parts.commits = commits.len() as u64;
            self.parts.files_changed = self.parts.settings.repo.files_changed(base, &head)?.len();
            self.parts.counted = head;
        }
        Ok(())
    }

    /// Puts planted settings back before git is used, and writes that down.
    pub(crate) fn check_repo_guard(&mut self) -> Result<(), Error> {
        let found = self.parts.guard.check_and_restore()?;
        if !found.is_empty() {
            let changes = found.iter().map(ToString::to_string).collect();
            self.append(vec![Event::GitTampering { changes }])?;
        }
        self.restore_job_branch()
    }

    /// Returns what steps work with, made once.
    pub(crate) fn job_step_context(&mut self) -> Result<Arc<StepContext>, Error> {
        if let Some(workplace) = &self.parts.workplace {
            return Ok(workplace.clone());
        }
        let tree = self.job_worktree()?;
        let tools = self.tools();
        let ledger = self.job.ledger.clone().with_lost_end(self.job.end_lost);
        let workplace = Arc::new(StepContext {
            tools: Arc::new(tools),
            identity: StepOwner { job: self.parts.id.clone(), item: None },
            tree,
            supervisors: self.parts.supervisors.clone(),
            spent: Mutex::default(),
            allowance: None,
            past: Arc::default(),
            commit_rules: CommitRules::default(),
            interruption: Arc::default(),
            progress: Mutex::default(),
            effects: Arc::new(EffectTracker::new(ledger, false)),
        });
        self.parts.workplace = Some(workplace.clone());
        Ok(workplace)
    }

    /// Returns what all steps share; to be made once, since the agents go into it.
    pub(crate) fn tools(&mut self) -> JobContext {
        let job_usd = self.job.cost_usd;
        let parts = &mut self.parts;
        let state = start::state_dir(&parts.settings, &parts.id);
        let today = TodaySpend::new(&parts.settings.layout, &parts.id, job_usd);
        let budget = BudgetGate::new(parts.settings.workflow.budget, job_usd, today);
        let settings = &mut parts.settings;
        let retry = match &settings.workflow.body {
            Body::Sequential { .. } => None,
            Body::MapReduce(body) => body.error_policy.retry.clone(),
        };
        JobContext {
            unknown_costs: UnknownCosts::new(settings.workflow.budget),
            patience: retry.unwrap_or_else(RetryPolicy::for_busy_provider),
            guard: parts.guard.clone(),
            program: settings.program.clone(),
            base_env: settings.base_env.clone(),
            env: settings.env.clone(),
            secrets: settings.secrets.clone(),
            masked: settings.masked.clone(),
            sandbox: settings.sandbox.clone(),
            agents: std::mem::take(&mut settings.agents),
            trusted: settings.trusted.clone(),
            layout: settings.layout.clone(),
            state,
            log_cap: settings.log_cap,
            grace: settings.grace,
            idle_timeout: settings.idle_timeout,
            budget,
            stop: settings.shutdown.stop().clone(),
            events: parts.inside.0.clone(),
        }
    }

    /// Returns when a phase has to be over; the time begins with its first step in this run.
    fn deadline(&mut self, phase: PhaseName) -> Option<Instant> {
        let limit = phases::phase_timeout(&self.parts.settings.workflow, phase)?;
        let end = Instant::now().checked_add(limit);
        match self.parts.deadline {
            Some((of, at)) if of == phase => Some(at),
            Some(_) | None => {
                self.parts.deadline = end.map(|end| (phase, end));
                end
            }
        }
    }

    /// Returns the variables that a step of a phase sees.
    pub(crate) fn phase_variables(&mut self, phase: PhaseName, round: u32) -> Result<Vars, Error> {
        let mut vars = self.round_variables(round);
        match phase {
            PhaseName::Reduce | PhaseName::Merge if self.job.map.is_some() => {
                vars.set("map", self.map_variables()?);
                Ok(Vars::with_base(Arc::new(vars)))
            }
            PhaseName::Steps
            | PhaseName::Setup
            | PhaseName::Map
            | PhaseName::Reduce
            | PhaseName::Merge => Ok(vars),
        }
    }

    /// Returns the variables that a step of a round sees.
    pub(crate) fn round_variables(&self, round: u32) -> Vars {
        let mut vars = self.job.vars.clone();
        let Some(started) = &self.job.started else { return vars };
        vars.set("params", Value::Object(started.parameters.clone().into_iter().collect()));
        vars.set(
            "workflow",
            json!({
                "name": started.workflow_name.clone().unwrap_or_default(),
                "job_id": self.parts.id.as_str(),
                "commits": self.parts.commits,
                "files_changed": self.parts.files_changed,
            }),
        );
        vars.set("env", self.parts.env.clone());
        let outer = vars.clone();
        for var in &self.parts.settings.env {
            // One that cannot be filled in is an error where a step wants the environment.
            if let Ok(value) = var.value.render(&outer) {
                vars.set_field("env", &var.name, value);
            }
        }
        if !started.inputs.is_empty() {
            let number = usize::try_from(round).unwrap_or_default() % started.inputs.len();
            vars.set("item", started.inputs.get(number).cloned().unwrap_or_default());
        }
        vars.set("index", round + 1);
        vars.set("total", started.rounds);
        vars
    }
}

/// Returns the branch that a job works on.
pub(crate) fn job_branch(job: &JobId) -> String {
    format!("prodigy/{job}/job")
}

/// Refuses to go on when too little disk space is left.
pub(crate) fn check_free_space(settings: &RunSettings) -> Result<(), Error> {
    let path = settings.layout.home();
    // A file system that does not say how full it is is not taken for full.
    let Ok(seen) = rustix::fs::statvfs(path) else { return Ok(()) };
    let free = seen.f_bavail.saturating_mul(seen.f_frsize);
    if free >= settings.disk_floor {
        return Ok(());
    }
    let mib = 1024 * 1024;
    let (free, floor) = (free / mib, settings.disk_floor / mib);
    Err(Error::DiskFloor { path: path.to_owned(), free, floor })
}
