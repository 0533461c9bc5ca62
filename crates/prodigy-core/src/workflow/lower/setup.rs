//! The phases around the map phase: setup, reduce and merge.

use super::{context::Lower, scope::Scope, step::FORMATS};
use crate::{
    diagnostic::Diagnostic,
    workflow::{Phase, Setup, SetupCapture},
    yaml::{YamlKey, YamlNode},
};

impl Lower<'_> {
    /// Reads a phase: a list of steps, or a mapping with `commands` and `timeout`.
    pub(super) fn phase(&mut self, node: &YamlNode, scope: &Scope) -> Option<Phase> {
        if node.as_sequence().is_some() {
            return Some(Phase { steps: self.steps(node, scope), timeout: None });
        }
        let mut fields = self.fields(node)?;
        let commands = self.required(&mut fields, "commands");
        let steps = commands.map(|node| self.steps(node, scope)).unwrap_or_default();
        let timeout = fields.take("timeout").and_then(|node| self.limit(node));
        self.finish(fields);
        Some(Phase { steps, timeout })
    }

    /// Reads the setup phase, which can also name the outputs of its steps.
    pub(super) fn setup(&mut self, node: &YamlNode, scope: &Scope) -> Option<Setup> {
        if node.as_sequence().is_some() {
            return Some(Setup { phase: self.phase(node, scope)?, captures: Vec::new() });
        }
        let mut fields = self.fields(node)?;
        let commands = self.required(&mut fields, "commands");
        let count = commands.and_then(YamlNode::as_sequence).map(<[YamlNode]>::len);
        let steps = commands.map(|node| self.steps(node, scope)).unwrap_or_default();
        let timeout = fields.take("timeout").and_then(|node| self.limit(node));
        let outputs = fields.take("capture_outputs");
        let outputs = outputs.map(|node| self.table(node)).unwrap_or_default();
        let captures =
            outputs.iter().filter_map(|(key, node)| self.setup_capture(key, node, count));
        let captures = captures.collect();
        self.finish(fields);
        Some(Setup { phase: Phase { steps, timeout }, captures })
    }

    fn setup_capture(
        &mut self,
        key: &YamlKey,
        node: &YamlNode,
        count: Option<usize>,
    ) -> Option<SetupCapture> {
        let plain = SetupCapture {
            name: key.text.clone(),
            command_index: 0,
            format: crate::capture::CaptureFormat::default(),
            json_path: None,
            pattern: None,
            default: None,
        };
        if node.as_i64().is_some() {
            return Some(SetupCapture { command_index: self.index(node, count)?, ..plain });
        }
        let mut fields = self.fields(node)?;
        let index = self.required(&mut fields, "command_index");
        let index = index.and_then(|node| self.index(node, count));
        let format = fields.take("format").and_then(|node| self.word(node, FORMATS));
        let json_path = fields.take("json_path").and_then(|node| self.json_path(node));
        let pattern = fields.take("pattern").and_then(|node| self.pattern(node));
        let default = fields.take("default").map(YamlNode::to_json);
        self.finish(fields);
        let format = format.unwrap_or(plain.format);
        Some(SetupCapture { command_index: index?, format, json_path, pattern, default, ..plain })
    }

    fn index(&mut self, node: &YamlNode, count: Option<usize>) -> Option<usize> {
        let index = self.whole::<usize>(node)?;
        if let Some(count) = count.filter(|count| index >= *count) {
            let message = format!("there is no command {index}: setup has {count}, counted from 0");
            self.report(Diagnostic::error(node.span, message));
        }
        Some(index)
    }
}
