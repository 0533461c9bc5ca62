//! `prodigy dlq drill`.

mod approval_rules;
mod fixtures;
mod report;
mod scenarios;
mod workspace;

use serde_json::json;

use crate::{cli::Cli, error::CliError, exit::Exit, progress::plural, render::console::Console};
use report::DrillReport;
use scenarios::DrillScenario;
use workspace::DrillWorkspace;

/// The version of the result as JSON.
const VERSION: u32 = 1;

/// Rehearse what must never go wrong when dead letters are replayed
///
/// Each scenario runs this program in a repository and a home of its own, with the simulated
/// agent and a step that changes something outside: it counts how often. What is yours is not
/// touched. Each looks at what was decided, at the entry, at the number of effects, which has
/// to be exactly one at the end, and at the audit trail.
///
/// Exit codes: 0 if everything was as it must be, 1 if something was not.
#[derive(clap::Args, Debug)]
pub(crate) struct DlqDrillArgs {
    /// The scenarios [default: all]
    #[arg(value_name = "SCENARIO", value_parser = scenario)]
    scenarios: Vec<&'static DrillScenario>,

    /// Show the scenarios and run none
    #[arg(long)]
    list: bool,

    /// Keep the repository and the home of each scenario, and say where they are
    #[arg(long)]
    keep: bool,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Returns every scenario.
fn all() -> impl Iterator<Item = &'static DrillScenario> {
    scenarios::SCENARIOS.iter().chain(approval_rules::SCENARIOS)
}

/// Finds a scenario by its name.
fn scenario(name: &str) -> Result<&'static DrillScenario, String> {
    let names = all().map(|scenario| scenario.name).collect::<Vec<_>>().join(", ");
    all()
        .find(|scenario| scenario.name == name)
        .ok_or_else(|| format!("there is no such scenario; there are {names}"))
}

pub(super) fn run(_: &Cli, command: &DlqDrillArgs, out: &mut Console) -> Result<Exit, CliError> {
    if command.list {
        return list(command.json, out);
    }
    let chosen: Vec<&DrillScenario> =
        if command.scenarios.is_empty() { all().collect() } else { command.scenarios.clone() };
    let mut documents = Vec::new();
    let mut failed = 0;
    for scenario in &chosen {
        let (findings, kept) = run_scenario(scenario, command.keep)?;
        failed += u32::from(!findings.has_passed());
        if command.json {
            documents.push(json!({
                "scenario": scenario.name,
                "ok": findings.has_passed(),
                "findings": findings.documents(),
                "kept": kept,
            }));
            continue;
        }
        let sign = if findings.has_passed() { "✓" } else { "✗" };
        out.line(format_args!("{sign} {}: {}", scenario.name, scenario.about))?;
        for line in findings.lines() {
            out.line(format_args!("    {line}"))?;
        }
        if let Some(kept) = kept {
            out.note(format_args!("    kept in {kept}"));
        }
        out.flush()?;
    }
    let total = u32::try_from(chosen.len()).unwrap_or(u32::MAX);
    if command.json {
        let ok = failed == 0;
        let document = json!({ "schema_version": VERSION, "ok": ok, "scenarios": documents });
        out.line(format_args!("{document:#}"))?;
    } else if failed == 0 {
        out.note(format_args!("\n{}, all passed", plural(total, "scenario")));
    } else {
        out.note(format_args!("\n{failed} of {} failed", plural(total, "scenario")));
        out.note("next: prodigy dlq drill SCENARIO --keep");
    }
    Ok(if failed == 0 { Exit::Success } else { Exit::Failure })
}

fn list(as_json: bool, out: &mut Console) -> Result<Exit, CliError> {
    if as_json {
        let scenarios =
            all().map(|scenario| json!({ "scenario": scenario.name, "about": scenario.about }));
        let scenarios: Vec<_> = scenarios.collect();
        let document = json!({ "schema_version": VERSION, "scenarios": scenarios });
        out.line(format_args!("{document:#}"))?;
        return Ok(Exit::Success);
    }
    for scenario in all() {
        out.line(format_args!("{:<21}{}", scenario.name, scenario.about))?;
    }
    Ok(Exit::Success)
}

/// Runs one scenario; returns what was found, and where it is kept.
fn run_scenario(
    scenario: &DrillScenario,
    keep: bool,
) -> Result<(DrillReport, Option<String>), CliError> {
    let mut stage = DrillWorkspace::new()?;
    let mut findings = DrillReport::default();
    (scenario.play)(&mut stage, &mut findings)?;
    let kept = if keep { Some(stage.keep().display().to_string()) } else { None };
    Ok((findings, kept))
}
