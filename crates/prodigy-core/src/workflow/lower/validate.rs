//! The judge of a step.

use std::num::NonZeroU32;

use super::{context::Lower, fields::Fields, read::at_least_one, scope::Scope};
use crate::{
    template::TemplateKind,
    workflow::{Step, StepAction, Validate},
    yaml::YamlNode,
};

/// The percentage that counts as done if nobody says.
const THRESHOLD: f64 = 100.0;

/// The default maximum number of times that `on_incomplete` runs.
const ATTEMPTS: NonZeroU32 = at_least_one(2);

impl Lower<'_> {
    /// Reads the judge of a step.
    pub(super) fn validate(&mut self, node: &YamlNode, scope: &Scope) -> Option<Validate> {
        let mut fields = self.fields(node)?;
        let result_file = fields.take("result_file");
        let result_file =
            result_file.and_then(|node| self.template(node, scope, TemplateKind::Path));
        let threshold = fields.take("threshold").and_then(|node| self.number(node, 0.0, 100.0));
        let incomplete = fields.take("on_incomplete").and_then(|node| self.fields(node));
        let incomplete = incomplete.map(|fields| self.on_incomplete(fields, scope));
        // A judge looks at work and does none.
        let mut steps = self.judge(fields, &scope.uncommitted());
        if let (None, Some(step)) = (&result_file, steps.last_mut())
            && let StepAction::Agent { options, .. } = &mut step.action
        {
            options.is_judge = options.output_schema.is_none();
        }
        let (on_incomplete, max_attempts, fail_workflow) =
            incomplete.unwrap_or((Vec::new(), ATTEMPTS, true));
        Some(Validate {
            steps,
            result_file,
            threshold: threshold.unwrap_or(THRESHOLD),
            on_incomplete,
            max_attempts,
            fail_workflow,
        })
    }

    fn on_incomplete(
        &mut self,
        mut fields: Fields<'_>,
        scope: &Scope,
    ) -> (Vec<Step>, NonZeroU32, bool) {
        let attempts = fields.take_either("max_attempts", "max_retries");
        let attempts = attempts.and_then(|node| self.count(node)).unwrap_or(ATTEMPTS);
        let fail = fields.take("fail_workflow").and_then(|node| self.boolean(node));
        (self.judge(fields, scope), attempts, fail.unwrap_or(true))
    }

    /// Reads `commands`, or the step that stands there directly.
    fn judge(&mut self, mut fields: Fields<'_>, scope: &Scope) -> Vec<Step> {
        let Some(node) = fields.take("commands") else {
            return self.one_or_two_of(fields, scope);
        };
        self.finish(fields);
        self.commands(node, scope)
    }
}
