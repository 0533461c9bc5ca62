//! How the agents of a workflow are run.

use std::collections::BTreeMap;

use super::{context::Lower, fields::Fields};
use crate::{
    diagnostic::{Diagnostic, Sources},
    workflow::{
        AgentConfig, CommandAgent, PromptBy, SimulatedAgent, SimulatedEdit, SimulatedFault,
        SimulatedRule,
    },
    yaml::Node,
};

#[derive(Clone, Copy)]
enum Kind {
    Command,
    Simulated,
}

const KINDS: &[(&str, Kind)] = &[("command", Kind::Command), ("simulated", Kind::Simulated)];

const PROMPTS: &[(&str, PromptBy)] =
    &[("stdin", PromptBy::Stdin), ("argument", PromptBy::Argument)];

const FAULTS: &[(&str, SimulatedFault)] = &[
    ("crash", SimulatedFault::Crash),
    ("hang", SimulatedFault::Hang),
    ("lie", SimulatedFault::Lie),
    ("error", SimulatedFault::Error),
    ("permission_denied", SimulatedFault::PermissionDenied),
];

/// Reads agents that stand outside of a workflow, e.g. in a configuration file.
///
/// `diagnostics` holds what the structural check found and gets what is found here.
pub fn read_agents(
    node: &Node,
    sources: &Sources,
    diagnostics: &mut Vec<Diagnostic>,
) -> BTreeMap<String, AgentConfig> {
    Lower::new(sources, diagnostics).agents(node)
}

impl Lower<'_> {
    /// Reads the agents.
    pub(super) fn agents(&mut self, node: &Node) -> BTreeMap<String, AgentConfig> {
        let entries = self.table(node).iter();
        let agents = entries.filter_map(|(key, node)| Some((key.text.clone(), self.config(node)?)));
        agents.collect()
    }

    fn config(&mut self, node: &Node) -> Option<AgentConfig> {
        let mut fields = self.fields(node)?;
        let kind = self.required(&mut fields, "type");
        let kind = kind.and_then(|node| self.word(node, KINDS))?;
        let config = match kind {
            Kind::Command => self.program(&mut fields).map(AgentConfig::Command),
            Kind::Simulated => Some(AgentConfig::Simulated(self.simulated(&mut fields))),
        };
        self.finish(fields);
        config
    }

    fn program(&mut self, fields: &mut Fields<'_>) -> Option<CommandAgent> {
        let prompt = fields.take("prompt").and_then(|node| self.word(node, PROMPTS));
        let node = self.required(fields, "command")?;
        let words = self.list(node).iter();
        let command: Vec<String> = words.filter_map(|word| self.text(word)).collect();
        if command.first().is_none_or(|program| program.trim().is_empty()) {
            self.report(Diagnostic::error(node.span, "there is no program to run"));
            return None;
        }
        Some(CommandAgent { command, prompt: prompt.unwrap_or(PromptBy::Stdin) })
    }

    fn simulated(&mut self, fields: &mut Fields<'_>) -> SimulatedAgent {
        let seed = fields.take("seed").and_then(|node| self.whole(node)).unwrap_or_default();
        let rules = fields.take("rules").map(|node| self.list(node)).unwrap_or_default();
        let rules = rules.iter().filter_map(|node| self.rule(node)).collect();
        SimulatedAgent { seed, rules }
    }

    fn rule(&mut self, node: &Node) -> Option<SimulatedRule> {
        let mut fields = self.fields(node)?;
        let prompt = fields.take("prompt").and_then(|node| self.pattern(node));
        let answer = fields.take("answer").and_then(|node| self.text(node));
        let delay = fields.take("delay").and_then(|node| self.duration(node)).unwrap_or_default();
        let edits = fields.take("edits").map(|node| self.list(node)).unwrap_or_default();
        let edits = edits.iter().filter_map(|node| self.edit(node)).collect();
        let commit = fields.take("commit").and_then(|node| self.filled(node));
        let cost = fields.take("cost_usd").and_then(|node| self.number(node, 0.0, f64::MAX));
        let fault = fields.take("fault").and_then(|node| self.word(node, FAULTS));
        let probability = fields.take("probability");
        let probability = probability.and_then(|node| self.number(node, 0.0, 1.0));
        let times = fields.take("times").and_then(|node| self.whole(node));
        self.finish(fields);
        Some(SimulatedRule {
            prompt,
            answer: answer.unwrap_or_default(),
            delay_ms: u64::try_from(delay.as_millis()).unwrap_or(u64::MAX),
            edits,
            commit,
            cost_usd: cost.unwrap_or_default(),
            fault,
            probability: probability.unwrap_or(1.0),
            times,
        })
    }

    fn edit(&mut self, node: &Node) -> Option<SimulatedEdit> {
        let mut fields = self.fields(node)?;
        let path = self.required(&mut fields, "path").and_then(|node| self.filled(node));
        let content = fields.take("content").and_then(|node| self.text(node));
        let append = fields.take("append").is_some_and(|node| self.boolean(node) == Some(true));
        self.finish(fields);
        Some(SimulatedEdit { path: path?, content: content.unwrap_or_default(), append })
    }
}
