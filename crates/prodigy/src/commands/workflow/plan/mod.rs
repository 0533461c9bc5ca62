//! `prodigy plan`.

mod action;
mod error_policy;
mod estimate;
mod planned_items;
mod worktree_plan;

use std::{collections::BTreeMap, path::PathBuf};

use prodigy_core::{
    duration,
    event::RunOptions,
    vars::Vars,
    workflow::{
        AgentConfig, AgentKind, AutoCommit, Body, Effects, MapReduce, Step, StepAction,
        Unrecovered, step_label,
    },
};
use serde_json::{Value, json};

use super::{
    item_concurrency,
    run::{RunRequest, StepCounts},
};
use crate::{
    cli::Cli,
    commands::{
        context,
        prepare::{
            given_items::{self, InputArgs},
            hooks::skipped_hooks,
            parameters, workflow_file,
        },
    },
    error::CliError,
    exit::Exit,
    progress::plural,
    render::console::Console,
    trust::{self, RepoContent},
};
use estimate::PlanSize;
use worktree_plan::WorktreePlan;

/// Show what a workflow would do, and do nothing
#[derive(clap::Args, Debug)]
pub(crate) struct PlanArgs {
    /// The workflow file
    workflow: PathBuf,

    /// Set a parameter of the workflow (can be repeated)
    #[arg(long = "param", value_name = "NAME=VALUE")]
    params: Vec<String>,

    /// Read parameters from a YAML or JSON file
    #[arg(long, value_name = "FILE")]
    param_file: Option<PathBuf>,

    #[command(flatten)]
    input: InputArgs,

    /// Work on this many items at once [default: what the workflow says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256))]
    max_parallel: Option<u32>,

    /// Print the plan as a JSON document
    #[arg(long)]
    json: bool,

    /// Work on the repository in this directory [default: the current one]
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
}

pub(crate) fn run(args: &Cli, command: &PlanArgs, out: &mut Console) -> Result<Exit, CliError> {
    let file = workflow_file::load(&command.workflow, out)?;
    let declared = &file.loaded.workflow.parameters;
    let parameters = parameters::resolve(declared, &command.params, command.param_file.as_deref())?;
    let mode = StepCounts::of(&file.loaded.workflow).mode;
    let max_parallel = item_concurrency(command.max_parallel, mode)?;
    let given = command.input.read(mode)?;
    let request = RunRequest {
        verbose: false,
        name: command.workflow.to_string_lossy().into_owned(),
        repo: context::repo(command.path.as_deref())?,
        file,
        parameters,
        inputs: Vec::new(),
        iterations: 1,
        profile: None,
        yes: false,
        job: None,
        junit: None,
        given,
        options: RunOptions { max_parallel, ..RunOptions::default() },
        rehearsal: None,
        into: None,
    };
    given_items::check(&request, out)?;
    show(args, &request, command.json, out)
}

/// Shows what a request would do.
pub(crate) fn show(
    args: &Cli,
    request: &RunRequest,
    json: bool,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let workflow = &request.file.loaded.workflow;
    let head = request.repo.head().map_err(context::git_error)?;
    let work = match &workflow.body {
        Body::Sequential { steps, .. } => PlanView::Steps(steps),
        Body::MapReduce(parts) => {
            let chosen = planned_items::select_items(&parts.map, request)?;
            let at_once = request.options.max_parallel.unwrap_or(parts.map.max_parallel);
            PlanView::Items(parts, chosen, at_once.get())
        }
    };
    // Without a place for state there is no history, and a plan all the same.
    let layout =
        context::resolve_home(args).and_then(|home| context::layout(&home, &request.repo)).ok();
    let content = RepoContent::read(request.repo.root());
    let estimate = estimate::estimate(layout.as_ref(), request);
    let extent = work.size(request.rounds());
    if json {
        let mut document = json!({
            "schema_version": 1,
            "workflow": request.name,
            "name": workflow.name,
            "target_branch": request.into.as_ref().or(head.branch.as_ref()),
            "base_commit": head.commit,
            "rounds": request.rounds(),
            "inputs": request.inputs,
            "parameters": request.parameters,
            "merge": workflow.merge.as_ref().map(|phase| step_views(&phase.steps, false, &PlanContext::of(request))),
            "estimate": estimate.json(&extent),
            "trust": content.document(),
            "hooks_not_run": request.repo.commit_hooks().map_err(context::git_error)?,
        });
        if let Value::Object(fields) = &mut document {
            fields.extend(work.fields(&PlanContext::of(request)));
        }
        out.line(format_args!("{document:#}"))?;
        return Ok(Exit::Success);
    }
    let start = head.branch.clone().unwrap_or_else(|| "no branch (detached HEAD)".to_owned());
    let short: String = head.commit.chars().take(10).collect();
    let name = workflow.name.as_deref().unwrap_or("unnamed");
    out.line(format_args!("workflow  {name} ({})", request.name))?;
    out.line(format_args!("start     {start} at {short}"))?;
    match &request.into {
        Some(branch) => out.line(format_args!("into      {branch}"))?,
        None if head.branch.is_none() => out.line("into      nothing yet: give `--into BRANCH`")?,
        None => {}
    }
    if request.rounds() > 1 {
        out.line(format_args!("rounds    {} {}", request.rounds(), request.inputs.join(" ")))?;
    }
    for (name, value) in &request.parameters {
        out.line(format_args!("parameter {name} = {value}"))?;
    }
    work.lines(&PlanContext::of(request), out)?;
    match &workflow.merge {
        Some(phase) => list("merge", &phase.steps, false, &PlanContext::of(request), out)?,
        None => out.line("merge     plain git, asks first (`-y` says yes)")?,
    }
    if let Some(hooks) = skipped_hooks(&request.repo)? {
        out.line(format_args!("hooks     {hooks}"))?;
    }
    for (number, line) in trust::lines(&content).iter().enumerate() {
        let title = if number == 0 { "trust" } else { "" };
        out.line(format_args!("{title:<10}{line}"))?;
    }
    for (number, line) in estimate.lines(&extent).iter().enumerate() {
        let title = if number == 0 { "cost" } else { "" };
        out.line(format_args!("{title:<10}{line}"))?;
    }
    Ok(Exit::Success)
}

/// The work of a workflow.
enum PlanView<'a> {
    /// Steps, one after the other.
    Steps(&'a [Step]),
    /// The same steps for many items, so many at once.
    Items(&'a MapReduce, planned_items::PlannedItems, u32),
}

impl PlanView<'_> {
    /// Returns how much there is to do.
    fn size(&self, rounds: u32) -> PlanSize {
        match self {
            Self::Steps(_) => PlanSize { items: None, at_once: 1, rounds },
            Self::Items(_, chosen, at_once) => {
                let items = match chosen {
                    planned_items::PlannedItems::Known(items) => u32::try_from(items.len()).ok(),
                    planned_items::PlannedItems::Later(_) => None,
                };
                PlanSize { items, at_once: *at_once, rounds: 1 }
            }
        }
    }

    /// Returns the part of the JSON document that differs between the kinds.
    fn fields(&self, plan: &PlanContext<'_>) -> Vec<(String, Value)> {
        match self {
            Self::Steps(steps) => vec![("steps".to_owned(), step_views(steps, false, plan))],
            Self::Items(parts, chosen, at_once) => {
                let places = WorktreePlan::new(&parts.map, chosen, *at_once);
                let setup = parts.setup.as_ref().map_or(&[][..], |setup| &setup.phase.steps);
                let reduce = parts.reduce.as_ref().map_or(&[][..], |phase| &phase.steps);
                let map = json!({
                    "steps": step_views(&parts.map.steps, true, plan),
                    "max_parallel": at_once,
                    "items": chosen.json(),
                    "worktrees": places.json(),
                    "worktree_setup": step_views(places.setup(), true, plan),
                    "policy": error_policy::describe_error_policy(&parts.error_policy),
                });
                let phases = [
                    ("setup", step_views(setup, false, plan)),
                    ("map", map),
                    ("reduce", step_views(reduce, false, plan)),
                ];
                phases.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
            }
        }
    }

    /// Shows the part for people that differs between the kinds.
    fn lines(&self, plan: &PlanContext<'_>, out: &mut Console) -> Result<(), CliError> {
        match self {
            Self::Steps(steps) => list("steps", steps, false, plan, out),
            Self::Items(parts, chosen, at_once) => {
                let places = WorktreePlan::new(&parts.map, chosen, *at_once);
                if let Some(setup) = &parts.setup {
                    list("setup", &setup.phase.steps, false, plan, out)?;
                }
                chosen.lines(&parts.map, &plan.vars, out)?;
                out.line(format_args!("worktrees {}", places.line()))?;
                if !places.setup().is_empty() {
                    list("new worktree", places.setup(), true, plan, out)?;
                }
                let title = format!("map       {} at once", places.at_once);
                list(&title, &parts.map.steps, true, plan, out)?;
                for (number, line) in
                    error_policy::describe_error_policy(&parts.error_policy).iter().enumerate()
                {
                    let title = if number == 0 { "policy" } else { "" };
                    out.line(format_args!("{title:<10}{line}"))?;
                }
                match &parts.reduce {
                    Some(reduce) => list("reduce", &reduce.steps, false, plan, out),
                    None => Ok(()),
                }
            }
        }
    }
}

/// Returns the values that are known before a run: the parameters.
pub(crate) fn known_variables(request: &RunRequest) -> Vars {
    let mut vars = Vars::default();
    vars.set("params", Value::Object(request.parameters.clone().into_iter().collect()));
    vars
}

/// The values that are known before a workflow runs.
struct PlanContext<'a> {
    /// The parameters.
    vars: Vars,
    /// The agents of the workflow.
    agents: &'a BTreeMap<String, AgentConfig>,
}

impl<'a> PlanContext<'a> {
    fn of(request: &'a RunRequest) -> Self {
        Self { vars: known_variables(request), agents: &request.file.loaded.workflow.agents }
    }

    /// Returns the kind of a step's agent, as far as the workflow tells.
    fn agent_kind(&self, step: &Step) -> Option<AgentKind> {
        let StepAction::Agent { agent, .. } = &step.action else { return None };
        let own = self.agents.get(agent).map(AgentConfig::kind);
        own.or_else(|| AgentConfig::built_in(agent).map(|found| found.kind()))
    }
}

/// Shows some steps: what they are called, and what they do, in full. `is_item` is whether they
/// run for each item.
fn list(
    title: &str,
    steps: &[Step],
    is_item: bool,
    plan: &PlanContext<'_>,
    out: &mut Console,
) -> Result<(), CliError> {
    out.line(title)?;
    for (number, step) in steps.iter().enumerate() {
        for (row, line) in action::step_lines(step, &plan.vars).into_iter().enumerate() {
            match row {
                0 => out.line(format_args!("  {:>3}  {line}", number + 1))?,
                _ => out.line(format_args!("       {line}"))?,
            }
        }
        let notes = notes(step, is_item, plan);
        if !notes.is_empty() {
            out.line(format_args!("       {}", notes.join(" · ")))?;
        }
    }
    Ok(())
}

/// Returns some steps for the JSON document.
fn step_views(steps: &[Step], is_item: bool, plan: &PlanContext<'_>) -> Value {
    steps.iter().enumerate().map(|(number, step)| row(number, step, is_item, plan)).collect()
}

/// Returns a step for the JSON document.
fn row(number: usize, step: &Step, is_item: bool, plan: &PlanContext<'_>) -> Value {
    let (kind, text) = action::action_text(step, &plan.vars);
    json!({
        "step": number + 1,
        "id": step.id,
        "name": step_label(step),
        "action": kind,
        "text": text,
        "notes": notes(step, is_item, plan),
    })
}

/// Returns how far what a step does reaches, if somebody said so.
fn effects(step: &Step) -> Option<String> {
    let external = match &step.effects {
        Effects::Local => return None,
        Effects::None => return Some("changes nothing".to_owned()),
        Effects::External(external) => external,
    };
    let known = [
        (external.idempotent, "harmless twice"),
        (external.check.is_some(), "can be checked"),
        (external.compensate.is_some(), "can be undone"),
    ];
    let known: Vec<_> = known.iter().filter(|(is_so, _)| *is_so).map(|(_, word)| *word).collect();
    let more = if known.is_empty() { "cannot be checked".to_owned() } else { known.join(", ") };
    Some(format!("changes something outside ({more})"))
}

/// Returns what is special about a step.
fn notes(step: &Step, is_item: bool, plan: &PlanContext<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(when) = &step.when {
        notes.push(format!("when {}", when.source()));
    }
    if let Some(timeout) = step.timeout {
        notes.push(format!("at most {}", duration::format(timeout)));
    }
    notes.extend(step.captures.iter().map(|capture| format!("captures {}", capture.name)));
    notes.extend(effects(step));
    let kind = plan.agent_kind(step);
    if step.commit_required {
        notes.push("must commit".to_owned());
    }
    if step.commit_required && kind == Some(AgentKind::Claude) {
        notes.push("may use `git add` and `git commit`".to_owned());
    }
    match step.auto_commit_by(kind) {
        AutoCommit::Never | AutoCommit::ForAgent => {}
        AutoCommit::StepChanges => notes.push("its changes are committed".to_owned()),
        AutoCommit::Everything => notes.push("commits what is left".to_owned()),
    }
    if let Some(retry) = &step.retry {
        notes.push(format!("up to {} attempts", retry.attempts));
    }
    if step.validate.is_some() {
        notes.push("validated".to_owned());
    }
    if let Some(handler) = &step.on_failure {
        let then = match (handler.unrecovered, is_item) {
            (Unrecovered::Fail, _) => "then stops",
            (Unrecovered::FailItem, true) => "fails the item if it does not help",
            (Unrecovered::FailItem, false) | (Unrecovered::GoOn, _) => "then goes on",
        };
        let steps = plural(handler.steps.len(), "handler step");
        notes.push(format!("on failure: {steps}, {then}"));
    } else if step.continue_on_error {
        notes.push("a failure does not stop the run".to_owned());
    }
    notes
}
