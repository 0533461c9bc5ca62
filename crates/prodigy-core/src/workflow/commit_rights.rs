//! Steps that must commit: the rules that let an agent do so, and steps that never can.

use super::{
    Ability, AgentConfig, AgentKind, AgentOptions, AutoCommit, CodexSandbox, PermissionMode, Step,
    StepAction, Workflow,
};
use crate::diagnostic::{Diagnostic, Span};

/// The rules by which Claude Code commits without asking, in its own notation.
pub const COMMIT_RULES: [&str; 2] = ["Bash(git add *)", "Bash(git commit *)"];

/// The commands that make a commit.
const COMMANDS: [&str; 2] = ["git add", "git commit"];

impl Step {
    /// Returns the options of an agent for this step: if it must commit, Claude Code may do so.
    pub fn with_commit_rules(&self, kind: AgentKind, mut options: AgentOptions) -> AgentOptions {
        let is_allowed = match options.permission_mode {
            Some(PermissionMode::Bypass | PermissionMode::Plan) => false,
            Some(PermissionMode::Default | PermissionMode::AcceptEdits) | None => true,
        };
        if self.commit_required && kind == AgentKind::Claude && is_allowed {
            let tools = options.allowed_tools.get_or_insert_default();
            for rule in COMMIT_RULES {
                if !tools.iter().any(|tool| tool == rule) {
                    tools.push(rule.to_owned());
                }
            }
        }
        options
    }

    /// Returns which of its changes are committed after it when its agent is of a kind.
    pub fn auto_commit_by(&self, kind: Option<AgentKind>) -> AutoCommit {
        match (self.auto_commit, kind) {
            (AutoCommit::ForAgent, Some(AgentKind::Codex | AgentKind::Command)) => {
                AutoCommit::StepChanges
            }
            (AutoCommit::ForAgent, Some(AgentKind::Claude | AgentKind::Simulated) | None) => {
                AutoCommit::Never
            }
            (other @ (AutoCommit::Never | AutoCommit::StepChanges | AutoCommit::Everything), _) => {
                other
            }
        }
    }
}

impl Workflow {
    /// Returns the steps that must commit and whose agent never can.
    ///
    /// `config_of` returns the configuration of an agent, or nothing if that is not known here.
    pub fn impossible_commits(
        &self,
        config_of: &dyn Fn(&str) -> Option<AgentConfig>,
    ) -> Vec<Diagnostic> {
        let mut found = Vec::new();
        self.visit_steps(&mut |step| {
            let StepAction::Agent { agent, options, .. } = &step.action else { return };
            let Some(config) = config_of(agent).filter(|_| step.commit_required) else { return };
            let is_confined = self.sandbox.is_some();
            found.extend(match config {
                AgentConfig::Claude(claude) => impossible_by_claude(
                    step,
                    agent,
                    options,
                    &options.with_defaults(&claude.options),
                ),
                AgentConfig::Codex(codex) => {
                    let mode = options.permission_mode.or(codex.options.permission_mode);
                    impossible_by_codex(
                        step,
                        agent,
                        options,
                        sandbox(mode, codex.sandbox),
                        is_confined,
                    )
                }
                AgentConfig::Command(_) | AgentConfig::Simulated(_) => None,
            });
        });
        found
    }
}

fn impossible_by_claude(
    step: &Step,
    agent: &str,
    own: &AgentOptions,
    options: &AgentOptions,
) -> Option<Diagnostic> {
    if options.permission_mode == Some(PermissionMode::Plan) {
        let span = place(step, own, Ability::PermissionMode);
        let message = format!(
            "agent `{agent}` changes nothing with `permission_mode: plan`, and the step has `commit_required`"
        );
        let help = "use `permission_mode: acceptEdits`, or take `commit_required` out";
        return Some(Diagnostic::error(span, message).help(help));
    }
    // What the agent leaves is committed for it.
    if step.auto_commit != AutoCommit::ForAgent && step.auto_commit != AutoCommit::Never {
        return None;
    }
    let rules = options.disallowed_tools.iter().flatten().flat_map(|text| split(text));
    let rule =
        rules.into_iter().find(|rule| COMMANDS.iter().any(|command| covers(rule, command)))?;
    let span = place(step, own, Ability::DisallowedTools);
    let message = format!(
        "`disallowed_tools` has `{rule}`, so agent `{agent}` cannot commit, and the step has `commit_required`"
    );
    let help =
        format!("take `{rule}` out of `disallowed_tools`, or add `auto_commit: true` to the step");
    Some(Diagnostic::error(span, message).help(help))
}

fn impossible_by_codex(
    step: &Step,
    agent: &str,
    own: &AgentOptions,
    sandbox: Option<CodexSandbox>,
    is_confined: bool,
) -> Option<Diagnostic> {
    let span = place(step, own, Ability::PermissionMode);
    match sandbox {
        Some(CodexSandbox::ReadOnly) => {
            let message =
                format!("agent `{agent}` may only read, and the step has `commit_required`");
            let help = "let it write (`permission_mode: acceptEdits`, or its `sandbox`), or take `commit_required` out";
            Some(Diagnostic::error(span, message).help(help))
        }
        Some(CodexSandbox::WorkspaceWrite)
            if step.auto_commit == AutoCommit::Never && !is_confined =>
        {
            let message = format!(
                "agent `{agent}` cannot commit in its own sandbox, nothing is committed for it here, and the step has `commit_required`"
            );
            let help = "add `auto_commit: true` to the step, or take `commit_required` out";
            Some(Diagnostic::error(span, message).help(help))
        }
        Some(CodexSandbox::WorkspaceWrite | CodexSandbox::DangerFullAccess) | None => None,
    }
}

/// Returns what the commands of Codex may touch; nothing if its own settings say it.
fn sandbox(mode: Option<PermissionMode>, own: CodexSandbox) -> Option<CodexSandbox> {
    match mode {
        None => Some(own),
        Some(PermissionMode::Default) => None,
        Some(PermissionMode::AcceptEdits) => Some(CodexSandbox::WorkspaceWrite),
        Some(PermissionMode::Plan) => Some(CodexSandbox::ReadOnly),
        Some(PermissionMode::Bypass) => Some(CodexSandbox::DangerFullAccess),
    }
}

/// Returns where a step says something of its agent, or else the step.
fn place(step: &Step, own: &AgentOptions, ability: Ability) -> Span {
    let given = own.given.iter().find(|given| given.ability == ability);
    given.map_or(step.span, |given| given.span)
}

/// Returns the rules of one text: they stand between spaces or commas outside of parentheses.
fn split(text: &str) -> Vec<String> {
    let (mut rules, mut rule, mut depth) = (Vec::new(), String::new(), 0_usize);
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if depth == 0 && (c == ',' || c.is_whitespace()) {
            rules.push(std::mem::take(&mut rule));
        } else {
            rule.push(c);
        }
    }
    rules.push(rule);
    rules.retain(|rule| !rule.is_empty());
    rules
}

/// Returns whether a rule holds for a command, whatever its arguments are.
fn covers(rule: &str, command: &str) -> bool {
    if rule == "Bash" {
        return true;
    }
    let pattern = rule.strip_prefix("Bash(").and_then(|rest| rest.strip_suffix(')'));
    let Some(pattern) = pattern else { return false };
    if let Some(start) = pattern.strip_suffix(":*") {
        let rest = command.strip_prefix(start);
        return rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(' '));
    }
    // Nobody writes a rule for such an argument.
    let command = format!("{command} \u{1}");
    let Some((start, rest)) = pattern.split_once('*') else { return false };
    let Some(mut left) = command.strip_prefix(start) else { return false };
    let Some((middle, end)) = rest.rsplit_once('*') else { return left.ends_with(rest) };
    for part in middle.split('*') {
        let Some(at) = left.find(part) else { return false };
        left = left.get(at + part.len()..).unwrap_or_default();
    }
    left.ends_with(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_found_in_a_list_and_in_one_text() {
        assert_eq!(split("Edit, Bash(git commit *) Bash"), ["Edit", "Bash(git commit *)", "Bash"]);
    }

    #[test]
    fn a_rule_forbids_commits_if_it_holds_for_all_of_them() {
        let forbids = |rule: &str| covers(rule, "git commit");
        let broad = [
            "Bash",
            "Bash(*)",
            "Bash(git:*)",
            "Bash(git *)",
            "Bash(git commit:*)",
            "Bash(git commit *)",
            "Bash(git comm*)",
            "Bash(*commit*)",
        ];
        let narrow = [
            "Edit",
            "Bash(git push:*)",
            "Bash(git commit --amend *)",
            "Bash(git commit)",
            "Bash(rm *)",
        ];
        assert_eq!(broad.map(forbids), [true; 8]);
        assert_eq!(narrow.map(forbids), [false; 5]);
    }
}
