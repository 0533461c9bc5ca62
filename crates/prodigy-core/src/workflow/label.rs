//! What a step is called where people see it.

use super::{Step, StepAction};

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
        StepAction::Agent { agent, prompt } => format!("{agent}: {}", first_line(prompt.source())),
        StepAction::WriteFile { path, .. } => format!("write_file: {}", first_line(path.source())),
        StepAction::Foreach(_) => "foreach".to_owned(),
    }
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
