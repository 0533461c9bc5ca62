//! Lowering of the options of agents.

use super::{context::Lower, fields::Fields, scope::Scope};
use crate::{
    template::TemplateKind,
    workflow::{Ability, AgentOptions, GivenOption, PermissionMode},
    yaml::YamlNode,
};

const PERMISSION_MODES: &[(&str, PermissionMode)] = &[
    ("default", PermissionMode::Default),
    ("acceptEdits", PermissionMode::AcceptEdits),
    ("plan", PermissionMode::Plan),
    ("bypass", PermissionMode::Bypass),
];

impl Lower<'_> {
    /// Takes the keys that ask something of an agent; those that are not there ask nothing.
    pub(super) fn agent_options(
        &mut self,
        fields: &mut Fields<'_>,
        scope: &Scope,
    ) -> Box<AgentOptions> {
        let mut options = Box::<AgentOptions>::default();
        for ability in Ability::all() {
            let Some((key, node)) = ability.key().and_then(|key| fields.take_entry(key)) else {
                continue;
            };
            options.given.push(GivenOption { ability, span: key.span });
            self.agent_option(&mut options, ability, node, scope);
        }
        options
    }

    fn agent_option(
        &mut self,
        options: &mut AgentOptions,
        ability: Ability,
        node: &YamlNode,
        scope: &Scope,
    ) {
        match ability {
            Ability::Model => options.model = self.filled(node),
            Ability::FallbackModel => options.fallback_model = self.filled(node),
            Ability::PermissionMode => options.permission_mode = self.word(node, PERMISSION_MODES),
            Ability::AllowedTools => options.allowed_tools = Some(self.tools(node)),
            Ability::DisallowedTools => options.disallowed_tools = Some(self.tools(node)),
            Ability::MaxTurns => options.max_turns = self.count(node),
            Ability::MaxBudget => options.max_budget_usd = self.number(node, 0.0, f64::MAX),
            Ability::SystemPrompt => {
                options.system_prompt =
                    self.filled(node).and_then(|_| self.template(node, scope, TemplateKind::Text));
            }
            Ability::OutputSchema => options.output_schema = self.schema(node),
            // No key asks for these.
            Ability::Resume | Ability::Cost | Ability::Tokens => {}
        }
    }

    /// Reads names of tools: a list, or one text in the agent's own notation.
    fn tools(&mut self, node: &YamlNode) -> Vec<String> {
        if node.as_sequence().is_some() {
            return self.texts(node);
        }
        self.filled(node).into_iter().collect()
    }
}
