//! The action of a step, with the known values filled in.

use prodigy_core::{
    vars::Vars,
    workflow::{Step, StepAction},
};

use crate::{progress::plural, render::console::one_line};

/// Returns what kind of action a step has, and its text.
///
/// Known values are filled in in a prompt or a path. A command is shown as written, because its
/// values travel in the environment; only where it is shown for one item are they filled
/// in, to be read by people.
pub(crate) fn action_text<'a>(step: &'a Step, vars: &Vars) -> (&'a str, String) {
    match &step.action {
        StepAction::Shell { script, .. } if vars.root("item").is_some() => {
            ("shell", script.preview(vars))
        }
        StepAction::Shell { script, .. } => ("shell", script.source().to_owned()),
        StepAction::Agent { agent, prompt, .. } => (agent.as_str(), prompt.preview(vars)),
        StepAction::WriteFile { path, .. } => ("write_file", path.preview(vars)),
        StepAction::Foreach(each) => ("foreach", plural(each.steps.len(), "step")),
    }
}

/// Returns the action of a step for people, line by line, with the steps inside it.
pub(crate) fn action_lines(step: &Step, vars: &Vars) -> Vec<String> {
    let (kind, text) = action_text(step, vars);
    let text = format!("{kind}: {text}");
    let mut lines = text.trim_end().lines();
    let first = lines.next().map(str::to_owned);
    let mut shown: Vec<_> =
        first.into_iter().chain(lines.map(|line| format!("  {line}"))).collect();
    if let StepAction::Foreach(each) = &step.action {
        // Inside, `item` is another one.
        let mut vars_inside = Vars::default();
        for (name, value) in vars.roots().filter(|(name, _)| *name != "item") {
            vars_inside.set(name, value.clone());
        }
        let inside = each.steps.iter().flat_map(|step| step_lines(step, &vars_inside));
        shown.extend(inside.map(|line| format!("  {line}")));
    }
    shown
}

/// Returns the name of a step, if it has one, and its action, line by line.
pub(crate) fn step_lines(step: &Step, vars: &Vars) -> Vec<String> {
    step.name.iter().map(|name| one_line(name)).chain(action_lines(step, vars)).collect()
}
