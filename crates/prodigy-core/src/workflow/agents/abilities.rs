//! Abilities of the kinds of agents: one table for checks and for the reference.

use super::{Ability, AgentConfig, AgentKind};

/// The kinds of agents that have each ability.
const ABILITIES: &[(Ability, &[AgentKind])] = {
    use AgentKind::{Claude, Codex, Command, Simulated};
    &[
        (Ability::Model, &[Claude, Codex, Simulated]),
        (Ability::FallbackModel, &[Claude, Simulated]),
        (Ability::PermissionMode, &[Claude, Codex, Simulated]),
        (Ability::AllowedTools, &[Claude, Simulated]),
        (Ability::DisallowedTools, &[Claude, Simulated]),
        (Ability::MaxTurns, &[Claude, Simulated]),
        (Ability::MaxBudget, &[Claude, Simulated]),
        (Ability::SystemPrompt, &[Claude, Codex, Simulated]),
        (Ability::OutputSchema, &[Claude, Codex, Command, Simulated]),
        (Ability::Resume, &[Claude, Codex]),
        (Ability::Cost, &[Claude, Simulated]),
        (Ability::Tokens, &[Claude, Codex, Simulated]),
    ]
};

impl AgentKind {
    /// Every kind, in the order of the documentation.
    pub const ALL: &[Self] = &[Self::Claude, Self::Codex, Self::Command, Self::Simulated];

    /// Returns the word for it in `type`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Claude => "claude",
            Self::Codex => "codex",
            Self::Command => "command",
            Self::Simulated => "simulated",
        }
    }

    /// Returns whether agents of this kind can do something.
    pub fn supports(self, ability: Ability) -> bool {
        ability.supported_by().contains(&self)
    }
}

impl Ability {
    /// Every ability, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Self> {
        ABILITIES.iter().map(|(ability, _)| *ability)
    }

    /// Returns the kinds of agents that have it.
    pub fn supported_by(self) -> &'static [AgentKind] {
        let row = ABILITIES.iter().find(|(ability, _)| *ability == self);
        row.map_or(&[], |(_, kinds)| kinds)
    }

    /// Returns the key that asks for it, if there is one.
    pub fn key(self) -> Option<&'static str> {
        Some(match self {
            Self::Model => "model",
            Self::FallbackModel => "fallback_model",
            Self::PermissionMode => "permission_mode",
            Self::AllowedTools => "allowed_tools",
            Self::DisallowedTools => "disallowed_tools",
            Self::MaxTurns => "max_turns",
            Self::MaxBudget => "max_budget_usd",
            Self::SystemPrompt => "system_prompt",
            Self::OutputSchema => "output_schema",
            Self::Resume | Self::Cost | Self::Tokens => return None,
        })
    }

    /// Returns what it is, for people.
    pub fn description(self) -> &'static str {
        match self {
            Self::Model => "uses the model that is named",
            Self::FallbackModel => "uses another model while that one is overloaded",
            Self::PermissionMode => "keeps to a permission mode",
            Self::AllowedTools => "uses tools that are named without asking",
            Self::DisallowedTools => "keeps from tools that are named",
            Self::MaxTurns => "stops after so many turns",
            Self::MaxBudget => "stops when so much money is spent",
            Self::SystemPrompt => "keeps to what it is told besides its own system prompt",
            Self::OutputSchema => "has its answer checked against a JSON Schema",
            Self::Resume => "goes on where an attempt was cut off",
            Self::Cost => "says what it cost",
            Self::Tokens => "says how many tokens it used",
        }
    }
}

impl AgentConfig {
    /// Returns the agent that is there without any configuration, if the name is one of those.
    pub fn built_in(name: &str) -> Option<Self> {
        match name {
            "claude" => Some(Self::Claude(Box::default())),
            "codex" => Some(Self::Codex(Box::default())),
            _ => None,
        }
    }

    /// Returns its kind.
    pub fn kind(&self) -> AgentKind {
        match self {
            Self::Claude(_) => AgentKind::Claude,
            Self::Codex(_) => AgentKind::Codex,
            Self::Command(_) => AgentKind::Command,
            Self::Simulated(_) => AgentKind::Simulated,
        }
    }

    /// Returns true if its tokens have prices.
    pub fn has_prices(&self) -> bool {
        match self {
            Self::Claude(agent) => agent.prices.is_some(),
            Self::Codex(agent) => agent.prices.is_some(),
            Self::Command(_) | Self::Simulated(_) => false,
        }
    }

    /// Returns the program that must be installed, if there is one.
    pub fn program(&self) -> Option<&str> {
        let command = match self {
            Self::Claude(agent) => &agent.command,
            Self::Codex(agent) => &agent.command,
            Self::Command(agent) => &agent.command,
            Self::Simulated(_) => return None,
        };
        command.first().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::grammar::STEP;

    #[test]
    fn every_key_that_asks_for_an_ability_exists() {
        for ability in Ability::all().filter(|ability| *ability != Ability::FallbackModel) {
            if let Some(key) = ability.key() {
                assert!(STEP.key(key).is_some(), "{key}");
            }
        }
    }

    #[test]
    fn every_ability_has_one_row() {
        let all: Vec<_> = Ability::all().collect();
        for ability in &all {
            assert_eq!(all.iter().filter(|other| *other == ability).count(), 1, "{ability:?}");
            assert!(!ability.supported_by().is_empty(), "{ability:?}");
        }
        assert_eq!(all.len(), 12);
    }
}
