//! Lowering of the sandbox.

use super::context::Lower;
use crate::{workflow::SandboxConfig, yaml::YamlNode};

impl Lower<'_> {
    /// Reads `sandbox`.
    pub(super) fn sandbox(&mut self, node: &YamlNode) -> Option<SandboxConfig> {
        let plain = SandboxConfig { without_network: None, write: Vec::new(), read: Vec::new() };
        if node.as_mapping().is_none() {
            return self.word(node, &[("none", None), ("bubblewrap", Some(plain))]).flatten();
        }
        let mut fields = self.fields(node)?;
        if let Some(kind) = self.required(&mut fields, "type") {
            self.word(kind, &[("bubblewrap", ())]);
        }
        let network = fields.take("network");
        let network = network.and_then(|node| {
            let is_off = self.word(node, &[("on", false), ("off", true)])?;
            is_off.then_some(node.span)
        });
        let [write, read] = ["write", "read"].map(|name| fields.take(name));
        let write = write.map(|node| self.texts(node)).unwrap_or_default();
        let read = read.map(|node| self.texts(node)).unwrap_or_default();
        self.finish(fields);
        Some(SandboxConfig { without_network: network, write, read })
    }
}
