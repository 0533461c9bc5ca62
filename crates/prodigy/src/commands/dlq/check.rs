//! `prodigy dlq check`.

use prodigy_core::{
    effect::EffectState,
    ids::{ItemId, JobId},
    replay::ReplayTrigger,
};
use prodigy_engine::{
    clock,
    run::{CheckedEffect, EffectCheckRequest, ReplayEvaluator},
    store::{JobLock, dlq::DeadLetterStore},
};
use serde_json::json;

use super::{
    decision::{self, replay_context::ReplayContext},
    entries::{entry_filter::resolve_items, labels::SCHEMA_VERSION, queue_error},
};
use crate::{
    cli::Cli,
    commands::{
        context,
        lookup::{find_job, job_error},
        prepare,
        workflow::{exit_rules::ExitRules, resume},
    },
    error::CliError,
    exit::Exit,
    render::console::Console,
};

/// Find out what dead letters changed outside
///
/// Runs the `check` of each step that may have changed something outside without anybody
/// knowing, in a clean worktree and with the item's variables, and records what it found. Nothing
/// is replayed: a replay does not do again what was done.
///
/// Exit codes: 0 if everything is known, 1 if something is still not known or could not be
/// undone, 75 if another process works on the job.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqCheckArgs {
    /// The job
    job: JobId,

    /// The items, by id or by key [default: all dead letters]
    #[arg(value_name = "ITEM")]
    items: Vec<String>,

    /// Undo what was changed, with the `compensate` of its step; its `check` has to confirm it
    #[arg(long)]
    compensate: bool,

    /// Use the workflow file as it is now instead of as it was
    #[arg(long)]
    use_current_workflow: bool,

    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Cli, command: &DlqCheckArgs, out: &mut Console) -> Result<Exit, CliError> {
    let (layout, job) = find_job(args, &command.job)?;
    let started = context::job_started(&layout, &job)?;
    let lock = JobLock::take(&layout, &job).map_err(|error| job_error(&job, error))?;
    let queue = DeadLetterStore::open_locked(&layout, &job, &lock).map_err(queue_error)?;
    let items = resolve_items(&queue, &job, &command.items)?;
    drop(queue);
    let stored = crate::commands::prepare::workflow_file::load_stored(&layout.state_dir(&job))?;
    let file = resume::workflow_to_resume(
        command.use_current_workflow,
        &stored,
        &started.workflow_file,
        out,
    )?;
    let authority = ReplayContext::load_with_workflow(args, &layout, &job, Some(&file), out)?;
    let world = prepare::RunSetup {
        verbose: false,
        home: context::ensure_home(args)?,
        repo: authority.repo.clone(),
        profile: started.profile.clone(),
        max_parallel: None,
        junit: None,
        rehearsal: None,
        exit: ExitRules::default(),
    };
    let asked = EffectCheckRequest {
        job: job.clone(),
        lock,
        items: (!items.is_empty()).then_some(items),
        compensate: command.compensate,
        by: authority.by.clone(),
        recorded: resume::recorded_workflow(&stored, &started),
    };
    let checked = authority.check_effects(args, world, file, asked, out)?;
    let is_known = checked.iter().all(|one| one.problem.is_none() && !one.state.is_open());
    if command.json {
        let effects: Vec<_> = checked.iter().map(document).collect();
        let document = json!({"schema_version": SCHEMA_VERSION, "job_id": job, "effects": effects});
        out.raw(format!("{document}\n").as_bytes())?;
    } else {
        let queue = DeadLetterStore::open(&layout, &job).map_err(queue_error)?;
        let bench = authority.evaluator(&queue)?;
        let next =
            EffectCheckView { program: context::self_command(args), job: &job, queue, bench };
        next.show(&checked, out)?;
    }
    Ok(if is_known { Exit::Success } else { Exit::Failure })
}

/// Shows the next command for an item, once its side effects are known.
struct EffectCheckView<'a> {
    program: String,
    job: &'a JobId,
    queue: DeadLetterStore,
    bench: ReplayEvaluator,
}

impl EffectCheckView<'_> {
    /// Shows what was found out, item by item.
    fn show(&self, checked: &[CheckedEffect], out: &mut Console) -> Result<(), CliError> {
        if checked.is_empty() {
            let job = self.job;
            out.note(format_args!(
                "nothing to look at: what the dead letters of job `{job}` changed outside is known"
            ));
            return Ok(());
        }
        for effects in checked.chunk_by(|one, next| one.item == next.item) {
            let Some(first) = effects.first() else { continue };
            out.line(format_args!("{}", first.item))?;
            for one in effects {
                let (before, after) = (effect_label(one.before.state), effect_label(one.state));
                let receipt = one.receipt.as_deref().and_then(|receipt| receipt.lines().next());
                let more = receipt.or(one.problem.as_deref());
                let more = more.map(|more| format!(": {more}")).unwrap_or_default();
                out.line(format_args!("  {}  {}", one.before.key, one.before.name))?;
                out.line(format_args!("    {before} → {after}{more}"))?;
                if let (Some(_), Some(problem)) = (receipt, &one.problem) {
                    out.line(format_args!("    {problem}"))?;
                }
            }
            out.line(format_args!("  next: {}", self.command(&first.item, effects)?))?;
        }
        Ok(())
    }

    /// Returns the command that gets an item on.
    fn command(&self, item: &ItemId, effects: &[CheckedEffect]) -> Result<String, CliError> {
        let Self { program, job, .. } = self;
        let can_undo = |one: &CheckedEffect| {
            one.state == EffectState::Partial && one.before.can_compensate && one.problem.is_none()
        };
        if effects.iter().any(can_undo) {
            return Ok(format!("{program} dlq check {job} {item} --compensate"));
        }
        if effects.iter().any(|one| one.state.is_open() || one.problem.is_some()) {
            return Ok(format!("{program} dlq show {job} {item}"));
        }
        let entry = self.queue.entry(item).map_err(queue_error)?;
        let now = clock::now();
        let ruling =
            entry.as_ref().map(|entry| self.bench.evaluate(entry, ReplayTrigger::Asked, now));
        Ok(match ruling.and_then(|ruling| ruling.needs) {
            Some(need) => decision::next_command(program, job, item, need),
            None => format!("{program} dlq retry {job} {item}"),
        })
    }
}

/// Returns what was found out, for programs.
fn document(one: &CheckedEffect) -> serde_json::Value {
    json!({
        "item_id": one.item,
        "key": one.before.key,
        "step": one.before.step,
        "name": one.before.name,
        "before": one.before.state,
        "after": one.state,
        "receipt": one.receipt,
        "problem": one.problem,
        "reason_code": one.reason_code,
    })
}

/// Returns what is known of an effect, in a word.
fn effect_label(state: EffectState) -> &'static str {
    match state {
        EffectState::Prepared | EffectState::Indeterminate => "unknown",
        EffectState::Committed => "made",
        EffectState::Absent => "not made",
        EffectState::Partial => "made in part",
        EffectState::Compensated => "undone",
    }
}
