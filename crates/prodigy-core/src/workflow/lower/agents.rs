//! Lowering of the configuration of agents.

use std::collections::BTreeMap;

use super::context::Lower;
use crate::{
    diagnostic::{Diagnostic, Sources},
    workflow::{AgentConfig, AgentKind},
    yaml::YamlNode,
};

/// Reads agents that stand outside of a workflow, e.g. in a configuration file.
///
/// `diagnostics` holds what the structural check found and gets what is found here.
pub fn read_agents(
    node: &YamlNode,
    sources: &Sources,
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<String, AgentConfig> {
    Lower::new(sources, diagnostics).agents(node)
}

impl Lower<'_> {
    /// Reads the agents.
    pub(super) fn agents(&mut self, node: &YamlNode) -> BTreeMap<String, AgentConfig> {
        let entries = self.table(node).iter();
        let agents = entries.filter_map(|(key, node)| Some((key.text.clone(), self.config(node)?)));
        agents.collect()
    }

    fn config(&mut self, node: &YamlNode) -> Option<AgentConfig> {
        let mut fields = self.fields(node)?;
        let kinds: Vec<_> = AgentKind::ALL.iter().map(|kind| (kind.as_str(), *kind)).collect();
        let kind = self.required(&mut fields, "type");
        let kind = kind.and_then(|node| self.word(node, &kinds))?;
        let config = match kind {
            AgentKind::Claude => Some(AgentConfig::Claude(Box::new(self.claude(&mut fields)))),
            AgentKind::Codex => Some(AgentConfig::Codex(Box::new(self.codex(&mut fields)))),
            AgentKind::Command => self.program(&mut fields).map(AgentConfig::Command),
            AgentKind::Simulated => Some(AgentConfig::Simulated(self.simulated(&mut fields))),
        };
        self.finish(fields);
        config
    }
}
