//! Steps that stand in no file.

use std::collections::BTreeMap;

use super::{Effects, Step, StepAction};
use crate::{diagnostic::Span, template::Script};

impl Step {
    /// Makes a step that runs a script and nothing else, for a command that is not a step.
    pub fn shell(script: Script) -> Self {
        Self::with_action(StepAction::Shell { script, program: "sh".to_owned() })
    }

    /// Makes a step of an action and nothing else.
    pub(super) fn with_action(action: StepAction) -> Self {
        Self {
            span: Span::default(),
            id: None,
            name: None,
            action,
            when: None,
            timeout: None,
            idle_timeout: None,
            env: Vec::new(),
            working_dir: None,
            captures: Vec::new(),
            output_file: None,
            commit_required: false,
            auto_commit: super::AutoCommit::Never,
            on_failure: None,
            on_success: Vec::new(),
            on_exit_code: BTreeMap::new(),
            retry: None,
            continue_on_error: false,
            validate: None,
            effects: Effects::Local,
        }
    }
}
