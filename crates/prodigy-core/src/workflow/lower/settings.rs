//! Lowering of the keys at the top of a file: environment, secrets, profiles.

use std::collections::BTreeMap;

use super::{context::Lower, scope::Scope};
use crate::{
    template::TemplateKind,
    workflow::{EnvVar, Secret, SecretSource, paths},
    yaml::{YamlKey, YamlNode},
};

impl Lower<'_> {
    /// Reads environment variables.
    pub(super) fn env(&mut self, node: &YamlNode, scope: &Scope) -> Vec<EnvVar> {
        let mut variables = Vec::new();
        for (key, value) in self.table(node) {
            let value = self.template(value, scope, TemplateKind::Text);
            variables.extend(value.map(|value| EnvVar { name: key.text.clone(), value }));
        }
        variables
    }

    /// Reads the names of environment files, relative to the workflow file.
    pub(super) fn env_files(&mut self, node: &YamlNode) -> Vec<String> {
        let files = node.as_sequence().unwrap_or(std::slice::from_ref(node)).iter();
        files.filter_map(|file| self.filled(file).map(|path| self.rebase(file, &path))).collect()
    }

    /// Reads the secrets.
    pub(super) fn secrets(&mut self, node: &YamlNode) -> Vec<Secret> {
        let mut secrets = Vec::new();
        for (key, value) in self.table(node) {
            let source = self.secret(value);
            secrets.extend(source.map(|source| Secret { name: key.text.clone(), source }));
        }
        secrets
    }

    fn secret(&mut self, node: &YamlNode) -> Option<SecretSource> {
        let mut fields = self.fields(node)?;
        let env = fields.take("env").and_then(|node| self.filled(node)).map(SecretSource::Env);
        let file = fields.take("file");
        let file = file.and_then(|node| Some((node, self.filled(node)?)));
        let file = file.map(|(node, path)| self.rebase(node, &path));
        let file = file.map(SecretSource::File);
        let command = fields.take("command").and_then(|node| self.filled(node));
        let command = command.map(SecretSource::Command);
        self.finish(fields);
        let source = [env, file, command].into_iter().flatten().next();
        if source.is_none() {
            self.unusable(node.span, "a secret needs a source");
        }
        source
    }

    /// Reads the profiles.
    pub(super) fn profiles(
        &mut self,
        node: &YamlNode,
        scope: &Scope,
    ) -> BTreeMap<String, Vec<EnvVar>> {
        let entries = self.table(node).iter();
        entries.map(|(key, value)| (key.text.clone(), self.env(value, scope))).collect()
    }

    /// Returns the entries of a mapping whose keys the author chooses.
    pub(super) fn table<'n>(&mut self, node: &'n YamlNode) -> &'n [(YamlKey, YamlNode)] {
        node.as_mapping().unwrap_or_else(|| {
            self.wrong_kind(node, "a mapping");
            &[]
        })
    }

    /// Makes a path that an included file gives relative to the workflow file.
    fn rebase(&self, node: &YamlNode, path: &str) -> String {
        let file = |number| self.sources.get(number).map_or("", |source| source.path.as_str());
        paths::rebase(file(0), file(node.span.file), path)
    }
}
