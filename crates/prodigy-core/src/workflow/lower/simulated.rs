//! The simulated agent, and the files that say what goes wrong in a rehearsal.

use std::time::Duration;

use super::{context::Lower, fields::Fields};
use crate::{
    Timestamp,
    agent::TokenUsage,
    diagnostic::{Diagnostic, Severity, Sources},
    workflow::{
        Rejected, SimulatedAgent, SimulatedEdit, SimulatedFault, SimulatedReset, SimulatedRule,
        SimulatedTrouble, SimulatedWhen, SimulatedWork,
        grammar::{FAULTS, check_record},
    },
    yaml::{self, YamlNode},
};

/// A file of faults that can be used.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadedFaults {
    /// The agent that stands in for every other.
    pub agent: SimulatedAgent,
    /// The file it was read from.
    pub sources: Sources,
}

/// Reads a file of faults; `path` is what messages call it.
pub fn read_faults(path: &str, text: &str) -> Result<LoadedFaults, Rejected> {
    let mut sources = Sources::default();
    let file = sources.add(path, text);
    let (agent, mut diagnostics) = match yaml::parse(text, file) {
        Ok(root) => {
            let mut diagnostics = Vec::new();
            check_record(&root, &FAULTS, &mut diagnostics);
            let agent = Lower::new(&sources, &mut diagnostics).faults_file(&root);
            (agent, diagnostics)
        }
        Err(diagnostics) => (None, diagnostics),
    };
    diagnostics.sort_by_key(|found| found.span);
    diagnostics.dedup();
    let is_wrong = diagnostics.iter().any(|found| found.severity == Severity::Error);
    match agent {
        Some(agent) if !is_wrong => Ok(LoadedFaults { agent, sources }),
        Some(_) | None => Err(Rejected { sources, diagnostics }),
    }
}

impl Lower<'_> {
    /// Reads the agent that is built in.
    pub(super) fn simulated(&mut self, fields: &mut Fields<'_>) -> SimulatedAgent {
        let (seed, rules) = self.seed_and_rules(fields, &SimulatedWork::default());
        SimulatedAgent { seed, rules, ..SimulatedAgent::default() }
    }

    /// Reads a file of faults.
    fn faults_file(&mut self, node: &YamlNode) -> Option<SimulatedAgent> {
        let mut fields = self.fields(node)?;
        let mut otherwise = SimulatedWork::default();
        if let Some(mut fields) = fields.take("default").and_then(|node| self.fields(node)) {
            otherwise = self.work(&mut fields, &otherwise);
            self.finish(fields);
        }
        let (seed, rules) = self.seed_and_rules(&mut fields, &otherwise);
        self.finish(fields);
        let otherwise = Some(Box::new(otherwise));
        Some(SimulatedAgent { seed, rules, otherwise, ..SimulatedAgent::default() })
    }

    fn seed_and_rules(
        &mut self,
        fields: &mut Fields<'_>,
        otherwise: &SimulatedWork,
    ) -> (u64, Vec<SimulatedRule>) {
        let seed = fields.take("seed").and_then(|node| self.whole(node)).unwrap_or_default();
        let rules = fields.take("rules").map(|node| self.list(node)).unwrap_or_default();
        (seed, rules.iter().filter_map(|node| self.rule(node, otherwise)).collect())
    }

    fn rule(&mut self, node: &YamlNode, otherwise: &SimulatedWork) -> Option<SimulatedRule> {
        let mut fields = self.fields(node)?;
        let when = SimulatedWhen {
            prompt: fields.take("prompt").and_then(|node| self.pattern(node)),
            item: fields.take("item").and_then(|node| self.filled(node)),
            step: fields.take("step").and_then(|node| self.filled(node)),
            attempt: fields.take("attempt").and_then(|node| self.whole(node)),
        };
        let trouble = self.trouble(&mut fields);
        let mut otherwise = otherwise.clone();
        if trouble.as_ref().is_some_and(|trouble| trouble.fault.has_error_message()) {
            // The usual answer is no message of an error.
            (otherwise.answer, otherwise.result) = (None, None);
        }
        let work = self.work(&mut fields, &otherwise);
        self.finish(fields);
        Some(SimulatedRule { when, work, trouble })
    }

    /// Reads what the agent does; what is not said is as otherwise.
    fn work(&mut self, fields: &mut Fields<'_>, otherwise: &SimulatedWork) -> SimulatedWork {
        let mut work = otherwise.clone();
        let answer = fields.take("answer").and_then(|node| self.text(node));
        let result = fields.take("result").map(YamlNode::to_json);
        if answer.is_some() || result.is_some() {
            (work.answer, work.result) = (answer, result);
        }
        let time = |lower: &mut Self, node: Option<&YamlNode>| {
            node.and_then(|node| lower.duration(node)).map(milliseconds)
        };
        work.delay_ms = time(self, fields.take("delay")).unwrap_or(work.delay_ms);
        work.jitter_ms = time(self, fields.take("jitter")).unwrap_or(work.jitter_ms);
        if let Some(node) = fields.take("edits") {
            work.edits = self.list(node).iter().filter_map(|node| self.edit(node)).collect();
        }
        work.commit = fields.take("commit").and_then(|node| self.filled(node)).or(work.commit);
        let cost = fields.take("cost_usd").and_then(|node| self.number(node, 0.0, f64::MAX));
        work.cost_usd = cost.unwrap_or(work.cost_usd);
        let tokens = fields.take("tokens").and_then(|node| self.tokens(node));
        work.tokens = tokens.unwrap_or(work.tokens);
        let turns = fields.take("turns").and_then(|node| self.whole(node));
        work.turns = turns.unwrap_or(work.turns);
        work.model = fields.take("model").and_then(|node| self.filled(node)).or(work.model);
        work
    }

    fn tokens(&mut self, node: &YamlNode) -> Option<TokenUsage> {
        let mut fields = self.fields(node)?;
        let input = fields.take("input").and_then(|node| self.whole(node));
        let output = fields.take("output").and_then(|node| self.whole(node));
        self.finish(fields);
        Some(TokenUsage {
            input_tokens: input.unwrap_or_default(),
            output_tokens: output.unwrap_or_default(),
            ..TokenUsage::default()
        })
    }

    fn trouble(&mut self, fields: &mut Fields<'_>) -> Option<SimulatedTrouble> {
        let fault = fields.take("fault").and_then(|node| self.word(node, SimulatedFault::TABLE));
        let probability = fields.take("probability");
        let probability = probability.and_then(|node| self.number(node, 0.0, 1.0));
        let times = fields.take("times").and_then(|node| self.whole(node));
        let after = fields.take("reset_after").and_then(|node| self.duration(node));
        let at = fields.take("resets_at").and_then(|node| self.moment(node));
        let megabytes = fields.take("megabytes").and_then(|node| self.whole(node));
        let plain = SimulatedTrouble::always(fault?);
        let after = after.map(|after| SimulatedReset::AfterMs(milliseconds(after)));
        Some(SimulatedTrouble {
            probability: probability.unwrap_or(plain.probability),
            times,
            reset: at.map(SimulatedReset::At).or(after).unwrap_or(plain.reset),
            megabytes: megabytes.unwrap_or(plain.megabytes),
            ..plain
        })
    }

    /// Reads a moment.
    fn moment(&mut self, node: &YamlNode) -> Option<Timestamp> {
        let text = self.text(node)?;
        let moment = text.parse().ok();
        if moment.is_none() {
            let message = format!("`{text}` is not a moment");
            let help = "write it like `2026-01-02T03:04:05Z`";
            self.report(Diagnostic::error(node.span, message).help(help));
        }
        moment
    }

    fn edit(&mut self, node: &YamlNode) -> Option<SimulatedEdit> {
        let mut fields = self.fields(node)?;
        let path = self.required(&mut fields, "path").and_then(|node| self.filled(node));
        let content = fields.take("content").and_then(|node| self.text(node));
        let append = fields.take("append").is_some_and(|node| self.boolean(node) == Some(true));
        self.finish(fields);
        Some(SimulatedEdit { path: path?, content: content.unwrap_or_default(), append })
    }
}

fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
