//! The environment that a step sees, and its temporary files.

use std::{ffi::OsString, path::PathBuf};

use prodigy_core::{
    failure::{Failure, ReasonCode},
    vars::Vars,
    workflow::EnvVar,
};
use serde_json::Value;

use super::{StepContext, action::StepAttempt};
use crate::process;

impl StepContext {
    /// Returns the environment of a step.
    pub(super) fn environment(
        &self,
        step_env: &[EnvVar],
        which: StepAttempt<'_>,
        vars: &Vars,
    ) -> Result<Vec<(OsString, OsString)>, Failure> {
        let mut env = self.tools.base_env.clone();
        // What the workflow sets may build on what was there before, and is built once.
        let mut outer = Vars::default();
        if !self.tools.env.is_empty() {
            outer = vars.clone();
            outer.set("env", env_variables(&self.tools.base_env));
        }
        let workflow_env = self.tools.env.iter().map(|var| (var, &outer));
        for (var, vars) in workflow_env.chain(step_env.iter().map(|var| (var, vars))) {
            let value = var.value.render(vars).map_err(|error| {
                let message = format!("environment variable `{}`: {error}", var.name);
                Failure::new(ReasonCode::TemplateError, message)
            })?;
            if value.contains('\0') {
                let message = format!("environment variable `{}` holds a NUL byte", var.name);
                return Err(Failure::new(ReasonCode::TemplateError, message));
            }
            set(&mut env, &var.name, value);
        }
        for (name, value) in &self.tools.secrets {
            set(&mut env, name, value);
        }
        let (job, item) = (&self.identity.job, self.identity.item_name());
        // Whoever works for an item wants to know about the item's attempts.
        let attempt = self.identity.item.as_ref().map_or(which.attempt, |item| item.attempt);
        let key = which.key.map(str::to_owned);
        let key = key.unwrap_or_else(|| self.effect_key(which.address, None));
        set(&mut env, "PRODIGY_JOB_ID", job.as_str());
        set(&mut env, "PRODIGY_ITEM_ID", item);
        set(&mut env, "PRODIGY_ATTEMPT", attempt.to_string());
        set(&mut env, "PRODIGY_WORKTREE", self.tree.path());
        set(&mut env, "PRODIGY_IDEMPOTENCY_KEY", key);
        set(&mut env, "PRODIGY_RESULT_FILE", self.result_file(which.path()));
        set(&mut env, "PRODIGY_AUTOMATION", "true");
        set(&mut env, process::JOB_MARKER, &self.tools.state);
        Ok(env)
    }

    /// Returns the file in which a step may say why it failed.
    pub(super) fn result_file(&self, step: &str) -> PathBuf {
        self.temp_dir().join(format!("result-{}.json", prodigy_core::ids::safe_name(step)))
    }

    /// Returns the directory for temporary files; agents do not share one.
    pub fn temp_dir(&self) -> PathBuf {
        let directory = self.tools.state.join("tmp");
        match &self.identity.item {
            Some(item) => directory.join(item.agent.to_string()),
            None => directory,
        }
    }
}

/// Returns an environment as `${env.NAME}` shows it.
pub fn env_variables(env: &[(OsString, OsString)]) -> Value {
    let pairs = env.iter().filter_map(|(name, value)| {
        Some((name.to_str()?.to_owned(), Value::String(value.to_str()?.to_owned())))
    });
    Value::Object(pairs.collect())
}

/// Sets a variable, replacing one of the same name.
fn set(env: &mut Vec<(OsString, OsString)>, name: &str, value: impl Into<OsString>) {
    let value = value.into();
    match env.iter_mut().find(|(have, _)| have == name) {
        Some((_, have)) => *have = value,
        None => env.push((name.into(), value)),
    }
}
