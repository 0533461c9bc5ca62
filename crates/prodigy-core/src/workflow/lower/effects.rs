//! Lowering of the reach of a step's side effects.

use super::{context::Lower, fields::Fields, scope::Scope};
use crate::{
    diagnostic::{Diagnostic, ParseError},
    template::{Script, ShellDialect},
    workflow::{Effects, ExternalEffect, StepAction},
    yaml::{self, YamlKey, YamlNode},
};

/// The values of `effects`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    Nothing,
    Worktree,
    Outside,
}

const REACHES: &[(&str, Reach)] =
    &[("none", Reach::Nothing), ("local", Reach::Worktree), ("external", Reach::Outside)];

impl Lower<'_> {
    /// Reads how far what a step does reaches, and the keys that go with it.
    pub(super) fn effects(
        &mut self,
        fields: &mut Fields<'_>,
        scope: &Scope,
        action: Option<&StepAction>,
    ) -> Effects {
        let [idempotent, check, compensate] =
            ["idempotent", "check", "compensate"].map(|name| fields.take_entry(name));
        let declared = fields.take_entry("effects");
        let reach = declared.and_then(|(_, node)| self.word(node, REACHES));
        if reach != Some(Reach::Outside) {
            for (key, _) in [idempotent, check, compensate].into_iter().flatten() {
                let message = format!("`{}` only goes with `effects: external`", key.text);
                let help = "add `effects: external` if the step changes something outside";
                self.report(Diagnostic::error(key.span, message).help(help));
            }
            return match reach {
                Some(Reach::Nothing) => Effects::None,
                Some(Reach::Worktree | Reach::Outside) | None => Effects::Local,
            };
        }
        if let Some((key, _)) = declared {
            self.check_external(key, scope, action);
        }
        if let (Some((key, _)), None) = (compensate, check) {
            let message =
                "`compensate` needs a `check`: what was undone is looked at before it counts";
            let help = "add a `check` that exits with 1 once the effect is gone";
            self.report(Diagnostic::error(key.span, message).help(help));
        }
        let dialect = match action {
            Some(StepAction::Shell { program, .. }) => super::action::dialect(program),
            Some(
                StepAction::Agent { .. } | StepAction::WriteFile { .. } | StepAction::Foreach(_),
            )
            | None => ShellDialect::Posix,
        };
        let idempotent = idempotent.and_then(|(_, node)| self.boolean(node)).unwrap_or_default();
        let check = check.and_then(|(_, node)| self.looking(node, scope, dialect));
        let compensate = compensate.and_then(|(_, node)| self.looking(node, scope, dialect));
        Effects::External(Box::new(ExternalEffect { idempotent, check, compensate }))
    }

    /// Reports an external effect where there can be none.
    fn check_external(&mut self, key: &YamlKey, scope: &Scope, action: Option<&StepAction>) {
        let refused = match action {
            Some(StepAction::WriteFile { .. }) => {
                Some(("`write_file` only writes inside the worktree", "remove `effects`"))
            }
            Some(StepAction::Foreach(_)) => Some((
                "a loop changes nothing itself",
                "put `effects: external` on the steps in `do` that change something outside",
            )),
            Some(StepAction::Shell { .. } | StepAction::Agent { .. }) if scope.is_shared => Some((
                "a worktree is prepared once for many items, so what is done for it has no name",
                "move the step to `setup`, or to the steps of the items",
            )),
            Some(StepAction::Shell { .. } | StepAction::Agent { .. }) | None => None,
        };
        if let Some((message, help)) = refused {
            self.report(Diagnostic::error(key.span, message).help(help));
        }
    }

    /// Reads a command that may run long after the step, when most variables are gone.
    fn looking(&mut self, node: &YamlNode, scope: &Scope, dialect: ShellDialect) -> Option<Script> {
        let script = self.script(node, scope, dialect, false)?;
        let Some(lasting) = &scope.lasting else { return Some(script) };
        let gone = script.references().filter(|reference| {
            let root = &reference.path().root;
            !lasting.contains(root)
        });
        let faults: Vec<ParseError> = gone
            .map(|reference| ParseError {
                range: reference.range(),
                message: format!(
                    "`{}` is not known any more when this runs after the attempt",
                    reference.path().root
                ),
                help: Some(
                    "use the item's data, `params`, `env` and `setup`, and \
                     `$PRODIGY_IDEMPOTENCY_KEY`"
                        .to_owned(),
                ),
            })
            .collect();
        self.faults(node, faults);
        Some(script)
    }

    /// Warns of commands that change something outside, of a step that does not say so.
    pub(super) fn warn_of_effects(&mut self, node: &YamlNode, script: &Script) {
        let text = self.sources.get(node.span.file).map(|source| source.text.as_str());
        let found: Vec<Diagnostic> = script
            .external_commands()
            .iter()
            .map(|command| {
                let range = command.range.clone();
                let span = yaml::inner_span(node, text.unwrap_or_default(), range);
                let message =
                    format!("`{}` changes something outside, and the step does not say so", command.name);
                let help = "declare `effects: external`, best with a `check`; `effects: local` if it is harmless";
                Diagnostic::warning(span, message).help(help)
            })
            .collect();
        for one in found {
            self.report(one);
        }
    }
}
