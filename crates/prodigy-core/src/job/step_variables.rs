//! The variables that show the results of steps to later ones.

use serde_json::{Value, json};

use crate::{event::StepResult, vars::Vars};

/// Sets `${shell.output}` or `${claude.output}`, `${last.output}` and `${steps.ID.…}`.
pub fn set_output(vars: &mut Vars, id: Option<&str>, agent: bool, result: &StepResult) {
    let root = if agent { "claude" } else { "shell" };
    vars.set_field(root, "output", result.output.clone());
    vars.set_field("last", "output", result.output.clone());
    vars.set_field("last", "exit_code", result.exit_code);
    if let Some(id) = id {
        set_step_result(vars, id, result);
    }
}

/// Sets `${steps.ID.…}`.
pub fn set_step_result(vars: &mut Vars, id: &str, result: &StepResult) {
    let status = serde_json::to_value(result.status).unwrap_or(Value::Null);
    let value = json!({
        "output": result.output, "exit_code": result.exit_code, "status": status,
    });
    vars.set_field("steps", id, value);
}
