//! Handling of items whose commits conflict with what was merged meanwhile.

use std::{num::NonZeroU32, time::Duration};

use super::{AgentOptions, Step, StepAction};
use crate::{
    diagnostic::Span,
    failure::ReasonCode,
    policy::{Backoff, RetryPolicy},
    template::{Template, TemplateKind, VarRoots},
};

/// The path of the step that resolves a conflict, in records and logs.
pub const RESOLVING: &str = "on_conflict";

/// The prompt of the agent that resolves a conflict.
const PROMPT: &str = "\
Resolve a merge conflict in this git worktree.

The work on ${item_id} was done on the branch ${conflict.source}, which is checked out here. \
Meanwhile other work was merged into the branch ${conflict.target}, and both changed the same \
places. A merge of ${conflict.target} into ${conflict.source} is under way in this worktree and \
stopped at these paths:

${conflict.paths}

The item is: ${item}

Commits of ${conflict.source} (commit ${conflict.ours}), between <<<<<<< and ======= in files:
${conflict.ours_log}

Commits of ${conflict.target} (commit ${conflict.theirs}), between ======= and >>>>>>> in files:
${conflict.theirs_log}

Make every path in conflict what it should be so that the work of both sides is kept. Remove all \
conflict markers. Delete a file that should be gone. Change nothing else.
When you are done, stage the paths and commit the merge with `git commit --no-edit`; if you cannot \
run git, leave the files as they should be, and the merge is committed for you. Do not abort the \
merge, do not rebase, and do not touch other branches.
";

/// The policy for an item whose commits conflict with what was merged meanwhile.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum OnConflict {
    /// The item is tried once more, on what was merged.
    #[default]
    Rerun,
    /// It goes to the dead letter queue at once.
    Fail,
    /// An agent resolves the conflict, by this step.
    Resolve(Box<Step>),
}

impl OnConflict {
    /// Has an agent resolve conflicts; `None` only if the prompt were no template.
    pub fn resolve_with(agent: &str, span: Span) -> Option<Self> {
        let roots = ["item", "item_id", "conflict"].map(str::to_owned).into();
        let prompt = Template::parse(PROMPT, &VarRoots { roots }, TemplateKind::Text).ok()?;
        let options = Box::new(AgentOptions::default());
        let action = StepAction::Agent { agent: agent.to_owned(), prompt, options };
        let name = Some(format!("{RESOLVING}: {agent}"));
        // The provider had no room, which says nothing about the conflict.
        let retry = Some(RetryPolicy {
            attempts: NonZeroU32::MIN.saturating_add(4),
            backoff: Backoff::Exponential { initial: Duration::from_secs(2), multiplier: 2.0 },
            max_delay: Some(Duration::from_secs(60)),
            jitter: true,
            retry_on: vec![ReasonCode::RateLimited, ReasonCode::ProviderOverloaded],
        });
        Some(Self::Resolve(Box::new(Step { span, name, retry, ..Step::with_action(action) })))
    }

    /// Returns the agent that resolves conflicts, if one does.
    pub fn resolver(&self) -> Option<&str> {
        match self {
            Self::Resolve(step) => match &step.action {
                StepAction::Agent { agent, .. } => Some(agent),
                StepAction::Shell { .. }
                | StepAction::WriteFile { .. }
                | StepAction::Foreach(_) => None,
            },
            Self::Rerun | Self::Fail => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::vars::Vars;

    #[test]
    fn the_prompt_names_the_item_the_paths_and_both_sides() {
        let OnConflict::Resolve(step) =
            OnConflict::resolve_with("claude", Span::default()).unwrap()
        else {
            panic!("an agent resolves it");
        };
        let StepAction::Agent { prompt, .. } = &step.action else { panic!("it is asked") };
        let mut vars = Vars::default();
        vars.set("item_id", "item-002");
        vars.set("item", json!({"path": "a ${x}"}));
        vars.set(
            "conflict",
            json!({
                "source": "prodigy/j/item-002", "target": "prodigy/j/job", "paths": "- a\n- b",
                "ours": "1111", "theirs": "2222", "ours_log": "- mine", "theirs_log": "- other",
            }),
        );
        let text = prompt.render(&vars).unwrap();
        for part in ["item-002", r#"{"path":"a ${x}"}"#, "- a\n- b", "1111", "2222", "- other"] {
            assert!(text.contains(part), "{part}: {text}");
        }
    }
}
