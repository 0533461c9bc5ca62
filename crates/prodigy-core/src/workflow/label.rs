//! The label of a step, as people see it.

use super::{Step, StepAction};
use crate::vars::Vars;

/// The most letters of an action that a label shows.
const LONGEST: usize = 60;

/// Returns the label of a step: its name, or else the start of its action.
///
/// Progress, events and reports all use this one, so that they can be compared.
pub fn step_label(step: &Step) -> String {
    if let Some(name) = &step.name {
        return name.clone();
    }
    match &step.action {
        StepAction::Shell { script, .. } => format!("shell: {}", first_line(script.source())),
        StepAction::Agent { agent, prompt, .. } => {
            format!("{agent}: {}", first_line(prompt.source()))
        }
        StepAction::WriteFile { path, .. } => format!("write_file: {}", first_line(path.source())),
        StepAction::Foreach(_) => "foreach".to_owned(),
    }
}

/// Returns the label of a step with its values filled in where that is possible.
///
/// Steps inside a loop differ only in their values. A shell command is shown as
/// written: its values travel in the environment.
pub fn rendered_label(step: &Step, vars: &Vars) -> String {
    let filled = match &step.action {
        _ if step.name.is_some() => None,
        StepAction::Agent { agent, prompt, .. } => {
            prompt.render(vars).ok().map(|text| format!("{agent}: {}", first_line(&text)))
        }
        StepAction::WriteFile { path, .. } => {
            path.render(vars).ok().map(|text| format!("write_file: {}", first_line(&text)))
        }
        StepAction::Shell { .. } | StepAction::Foreach(_) => None,
    };
    filled.unwrap_or_else(|| step_label(step))
}

fn first_line(text: &str) -> String {
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let line = lines.next().unwrap_or_default();
    if line.chars().count() <= LONGEST {
        return line.to_owned();
    }
    let start: String = line.chars().take(LONGEST - 1).collect();
    format!("{}…", start.trim_end())
}
