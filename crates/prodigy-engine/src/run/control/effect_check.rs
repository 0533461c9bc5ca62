//! Looking, outside of a run, at what dead letters may have changed outside.

use std::{path::PathBuf, sync::Arc};

use prodigy_core::{
    effect::{Effect, EffectFinding, EffectState},
    event::{Event, NewEvent},
    failure::{Failure, ReasonCode},
    ids::{AgentId, ItemId, JobId},
    job::ItemStage,
    vars::Vars,
    workflow::{Counterpart, Step, Workflow},
};

use crate::{
    clock,
    git::Worktree,
    run::{
        Dispatcher, Error, RunSettings,
        dispatcher::{actions, records::mask_event, run_state::RunState},
        map::attempt::item_vars,
        start::{self, clean_up_dead_run, load_job},
    },
    step::{self, AttemptId, EffectTracker, JobContext, StepContext, StepOwner},
    store::{JobLock, create_dir},
};

/// The name of the worktree and of the branch on which checks run. No item can be called so.
const PLACE: &str = "+check";

/// Dead letters that somebody wants to be looked at.
pub struct EffectCheckRequest {
    /// The job.
    pub job: JobId,
    /// Its lock, held while its journal is written.
    pub lock: JobLock,
    /// The items; `None` for all.
    pub items: Option<Vec<ItemId>>,
    /// Set to compensate the side effects that were made.
    pub compensate: bool,
    /// The name of the requester.
    pub by: String,
    /// The workflow that the job ran with so far, if it is known.
    pub recorded: Option<Workflow>,
}

/// A change outside that was looked at.
#[derive(Clone, Debug)]
pub struct CheckedEffect {
    /// The item.
    pub item: ItemId,
    /// The effect as it was recorded before the check.
    pub before: Effect,
    /// The state after the check.
    pub state: EffectState,
    /// The receipt that the check returned.
    pub receipt: Option<String>,
    /// The reason why the check or the compensation failed.
    pub problem: Option<String>,
    /// The reason code for that.
    pub reason_code: Option<ReasonCode>,
}

/// Runs the checks of dead letters whose changes outside are not known, and records what they
/// found; with `compensate` it undoes what was changed, too.
///
/// A stop that is asked for ends it early: what was found out is returned.
pub async fn check_effects(
    settings: RunSettings,
    asked: EffectCheckRequest,
) -> Result<Vec<CheckedEffect>, Error> {
    let EffectCheckRequest { job, lock, items, compensate, by, recorded } = asked;
    let mut settings = settings;
    let (journal, opened, fold) = load_job(&mut settings, &job)?;
    let Some(started) = &fold.started else { return Err(Error::NoBeginning { job }) };
    let repository = settings.layout.current_path(&started.repository)?;
    if repository != settings.repo.root().to_string_lossy() {
        return Err(Error::OtherRepository { job, repository: repository.into() });
    }
    settings.repo.enter_linked_checkout(started.worktree.as_deref())?;
    clean_up_dead_run(&mut settings, &job, &fold)?;
    let mut parts = RunState::new(settings, job, lock, journal)?;
    parts.before = opened.last_seq;
    let mut run = Dispatcher::new(parts, fold);
    let wanted = run.effects_to_check(items.as_deref(), compensate);
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    let place = run.create_check_worktree()?;
    let mut inspector =
        EffectChecker { tools: Arc::new(run.tools()), run: &mut run, place, by, recorded };
    let mut checked = Vec::new();
    let mut result = Ok(());
    for (at, effects) in wanted {
        match inspector.item(at, effects, compensate).await {
            Ok(found) => checked.extend(found),
            Err(error) => {
                result = Err(error);
                break;
            }
        }
    }
    inspector.close().await?;
    run.check_repo_guard()?;
    run.finish_dead_letters();
    result.map(|()| checked)
}

impl Dispatcher {
    /// Returns the dead letters that are meant, and which of their effects.
    fn effects_to_check(
        &self,
        items: Option<&[ItemId]>,
        compensate: bool,
    ) -> Vec<(u32, Vec<Effect>)> {
        let Some(map) = &self.job.map else { return Vec::new() };
        let is_wanted = |effect: &&Effect| match effect.state {
            EffectState::Prepared | EffectState::Partial | EffectState::Indeterminate => true,
            EffectState::Committed => compensate,
            EffectState::Absent | EffectState::Compensated => false,
        };
        let mut wanted = Vec::new();
        for (at, item) in (0..).zip(&map.items) {
            let is_meant = items.is_none_or(|items| items.contains(&item.id));
            if item.stage != ItemStage::DeadLettered || !is_meant {
                continue;
            }
            let effects = item.ledger.iter().flat_map(|ledger| ledger.effects());
            let effects: Vec<Effect> = effects.filter(is_wanted).cloned().collect();
            if !effects.is_empty() {
                wanted.push((at, effects));
            }
        }
        wanted
    }

    /// Makes a clean worktree of what the job has come to so far.
    fn create_check_worktree(&mut self) -> Result<CheckWorktree, Error> {
        self.check_repo_guard()?;
        let parts = &self.parts;
        let repo = &parts.settings.repo;
        let started = self.job.started.as_ref();
        let target = started.and_then(|started| started.target_branch.as_deref());
        let tip = match repo.branch_tip(&actions::job_branch(&parts.id))? {
            Some(tip) => Some(tip),
            None => match target {
                Some(target) => repo.branch_tip(target)?,
                None => None,
            },
        };
        let base = || started.map(|started| started.base_commit.clone());
        let commit = tip.or_else(base).unwrap_or_default();
        let path = parts.settings.layout.worktrees_dir(&parts.id).join(PLACE);
        let branch = format!("prodigy/{}/{PLACE}", parts.id);
        let tree = repo.create_job_worktree(&path, &branch, &commit)?;
        Ok(CheckWorktree { tree, path, branch })
    }
}

/// Where checks run.
struct CheckWorktree {
    tree: Worktree,
    path: PathBuf,
    branch: String,
}

/// Whoever looks at the dead letters.
struct EffectChecker<'a> {
    run: &'a mut Dispatcher,
    tools: Arc<JobContext>,
    place: CheckWorktree,
    by: String,
    recorded: Option<Workflow>,
}

/// The step that made an effect, and what it sees.
struct EffectStep<'a> {
    workplace: &'a StepContext,
    step: &'a Step,
    vars: &'a Vars,
}

impl EffectChecker<'_> {
    /// Looks at the effects of an item.
    async fn item(
        &mut self,
        at: u32,
        effects: Vec<Effect>,
        compensate: bool,
    ) -> Result<Vec<CheckedEffect>, Error> {
        let spool = self.run.open_spool()?;
        let spooled = spool.read(usize::try_from(at).unwrap_or(usize::MAX))?;
        let total = self.run.job.map.as_ref().map_or(0, |map| map.total);
        let vars = item_vars(&Arc::new(self.run.round_variables(0)), &spooled, at, total);
        let workplace = self.workplace(at, spooled.id.clone());
        create_dir(&workplace.temp_dir())?;
        let workflow = self.run.parts.settings.workflow.clone();
        let mut checked = Vec::new();
        for effect in effects {
            if self.tools.stop.is_requested() {
                break;
            }
            let mut one = CheckedEffect {
                item: spooled.id.clone(),
                state: effect.state,
                receipt: effect.receipt.clone(),
                problem: None,
                reason_code: None,
                before: effect,
            };
            let counterpart = workflow.counterpart(&one.before, true, self.recorded.as_ref());
            match counterpart {
                Counterpart::Step { step, .. } => {
                    let maker = EffectStep { workplace: &workplace, step, vars: &vars };
                    self.effect(&mut one, &maker, compensate).await?;
                }
                Counterpart::Unknown | Counterpart::Missing => {
                    one.problem = Some("the workflow has no such step".to_owned());
                }
            }
            checked.push(one);
        }
        Ok(checked)
    }

    fn workplace(&self, at: u32, id: ItemId) -> StepContext {
        let item = self.run.job.map.as_ref().and_then(|map| map.item(at));
        let attempt = item.map_or(1, |item| item.attempts.max(1));
        let identity = AttemptId { id, agent: AgentId::new(1), attempt };
        StepContext {
            tools: Arc::clone(&self.tools),
            identity: StepOwner { job: self.run.parts.id.clone(), item: Some(identity) },
            tree: self.place.tree.clone(),
            supervisors: self.run.parts.supervisors.clone(),
            spent: std::sync::Mutex::default(),
            allowance: None,
            past: Arc::default(),
            commit_rules: step::CommitRules::default(),
            interruption: Arc::default(),
            progress: std::sync::Mutex::default(),
            effects: Arc::new(EffectTracker::default()),
        }
    }

    /// Looks at an effect, and undoes it if that is wanted and it is there.
    async fn effect(
        &mut self,
        one: &mut CheckedEffect,
        maker: &EffectStep<'_>,
        compensate: bool,
    ) -> Result<(), Error> {
        if one.before.state.is_open() {
            self.run_check(one, maker).await?;
        }
        let is_there = matches!(one.state, EffectState::Committed | EffectState::Partial);
        if !compensate || !is_there {
            return Ok(());
        }
        let external = maker.step.external_effect();
        if external.is_none_or(|external| external.compensate.is_none()) {
            one.problem = Some("the step has no `compensate`".to_owned());
            return Ok(());
        }
        // Whoever dies while it is being undone leaves nothing that could be taken for done.
        self.record(one, EffectFinding::Indeterminate, None)?;
        let undone =
            step::compensate_effect(maker.workplace, maker.step, maker.vars, &one.before).await;
        let why = undone.err().map(|failure| failure.message);
        self.run_check(one, maker).await?;
        if one.state == EffectState::Absent {
            let (key, by) = (one.before.key.clone(), self.by.clone());
            self.append(&one.item, Event::EffectCompensated { key, by })?;
            one.state = EffectState::Compensated;
        } else {
            let why = why.or(one.problem.take()).map(|why| format!(": {why}")).unwrap_or_default();
            one.problem = Some(format!("it could not be undone{why}"));
            one.reason_code = Some(ReasonCode::CompensationFailed);
        }
        Ok(())
    }

    /// Runs the check of an effect and records what it found.
    async fn run_check(
        &mut self,
        one: &mut CheckedEffect,
        maker: &EffectStep<'_>,
    ) -> Result<(), Error> {
        let external = maker.step.external_effect();
        if external.is_none_or(|external| external.check.is_none()) {
            one.problem = Some("the step has no `check`".to_owned());
            return Ok(());
        }
        match step::check_effect(maker.workplace, maker.step, maker.vars, &one.before).await {
            Ok(looked) => {
                one.problem =
                    (looked.finding == EffectFinding::Indeterminate).then_some(looked.problem);
                self.record(one, looked.finding, looked.receipt)
            }
            Err(Failure { message, .. }) => {
                one.problem = Some(message);
                Ok(())
            }
        }
    }

    fn record(
        &mut self,
        one: &mut CheckedEffect,
        finding: EffectFinding,
        receipt: Option<String>,
    ) -> Result<(), Error> {
        let (key, by) = (one.before.key.clone(), self.by.clone());
        (one.state, one.receipt) = (finding.into(), receipt.clone());
        one.reason_code = match finding {
            EffectFinding::Committed | EffectFinding::Absent => None,
            EffectFinding::Partial => Some(ReasonCode::PartialExternalWrite),
            EffectFinding::Indeterminate => Some(ReasonCode::EffectCheckFailed),
        };
        self.append(&one.item, Event::EffectReconciled { key, finding, receipt, by })
    }

    /// Writes an event about an item, makes it safe, and has the dead letter follow.
    fn append(&mut self, item: &ItemId, mut event: Event) -> Result<(), Error> {
        let run = &mut *self.run;
        let broken = |job: &JobId, source| Error::Journal { job: job.clone(), source };
        mask_event(&run.parts.mask, &mut event);
        let fact = NewEvent { agent_id: None, item_id: Some(item.clone()), event };
        let records = run.parts.journal.append(vec![fact], clock::now());
        let records = records.map_err(|source| broken(&run.parts.id, source))?;
        run.parts.journal.sync().map_err(|source| broken(&run.parts.id, source))?;
        for record in &records {
            let job = &run.parts.id;
            run.job
                .apply(record)
                .map_err(|source| Error::Journalled { job: job.clone(), source })?;
            run.apply_projections(record)?;
        }
        Ok(())
    }

    /// Puts everything away.
    async fn close(self) -> Result<(), Error> {
        self.run.parts.supervisors.close().await;
        let parts = &self.run.parts;
        parts.settings.repo.remove_job_worktree(&self.place.path, &self.place.branch, true)?;
        start::delete_repo_guard(&parts.settings, &parts.id);
        Ok(())
    }
}
