//! Check of the options that steps ask of agents.

use super::{AgentKind, GivenOption, StepAction, Workflow};
use crate::diagnostic::Diagnostic;

impl Workflow {
    /// Returns what steps ask of agents that cannot do it.
    ///
    /// `kind_of` returns the kind of an agent, or nothing if that is not known here: an agent
    /// may be configured outside of the workflow.
    pub fn unsupported_options(
        &self,
        kind_of: &dyn Fn(&str) -> Option<AgentKind>,
    ) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        self.visit_steps(&mut |step| match &step.action {
            StepAction::Agent { agent, options, .. } => {
                if let Some(kind) = kind_of(agent) {
                    let asked = options.given.iter();
                    found.extend(asked.filter_map(|given| beyond(agent, kind, *given)));
                }
            }
            StepAction::Shell { .. } | StepAction::WriteFile { .. } | StepAction::Foreach(_) => {}
        });
        found
    }
}

/// Returns why an agent cannot do what is asked of it.
fn beyond(agent: &str, kind: AgentKind, given: GivenOption) -> Option<Diagnostic> {
    if kind.supports(given.ability) {
        return None;
    }
    let key = given.ability.key().unwrap_or_default();
    let message =
        format!("agent `{agent}` is of type `{}`, which cannot honour `{key}`", kind.as_str());
    // Somebody who wants the key wants it to have an effect.
    let able = given.ability.supported_by().iter().filter(|able| **able != AgentKind::Simulated);
    let able: Vec<String> = able.map(|able| format!("`{}`", able.as_str())).collect();
    let help = format!("take `{key}` out, or use an agent of type {}", able.join(" or "));
    Some(Diagnostic::error(given.span, message).help(help))
}
