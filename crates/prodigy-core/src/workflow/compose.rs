//! Files made of other files: `extends`, `imports` and `template`.
//!
//! The result is one tree. Every value in it still points into the file it came
//! from, so an error is shown where it was written.

use std::collections::BTreeMap;

use super::{merge::overlay, paths};
use crate::nearest::did_you_mean;
use crate::{
    diagnostic::{Diagnostic, Sources, Span},
    yaml::{self, YamlKey, YamlNode, YamlValue},
};

/// The maximum depth of files that include each other.
const DEEPEST: usize = 16;

/// The keys that an imported file can provide.
const IMPORTED: &[&str] = &["agents", "env", "parameters", "profiles", "secrets"];

/// Reads a file and lays it over the files that it includes.
///
/// Returns nothing if a file could not be read; checking the rest would only report
/// what that file was to bring.
pub(super) fn compose(
    path: &str,
    read: &mut dyn FnMut(&str) -> Result<String, String>,
    sources: &mut Sources,
    diagnostics: &mut Vec<Diagnostic>,
) -> Option<YamlNode> {
    let mut composer =
        Composer { read, sources, diagnostics, done: BTreeMap::new(), chain: Vec::new() };
    composer.file(path, None)
}

struct Composer<'a> {
    read: &'a mut dyn FnMut(&str) -> Result<String, String>,
    sources: &'a mut Sources,
    diagnostics: &'a mut Vec<Diagnostic>,
    /// The files that are done, so that none is read or reported twice.
    done: BTreeMap<String, Option<YamlNode>>,
    /// The files that are being read, each included by the one before it.
    chain: Vec<String>,
}

type Entries = Vec<(YamlKey, YamlNode)>;

impl Composer<'_> {
    fn error(&mut self, span: Span, message: impl Into<String>) {
        self.diagnostics.push(Diagnostic::error(span, message));
    }

    /// Reads a file; `from` is where its name stands.
    fn file(&mut self, path: &str, from: Option<Span>) -> Option<YamlNode> {
        let name = paths::normalise(path);
        if let (Some(from), true) = (from, self.chain.contains(&name)) {
            let start = self.chain.iter().skip_while(|other| **other != name);
            let chain: Vec<_> = start.chain([&name]).map(|file| format!("`{file}`")).collect();
            self.error(from, format!("a file includes itself: {}", chain.join(" → ")));
            return None;
        }
        if let Some(done) = self.done.get(&name) {
            return done.clone();
        }
        if let (Some(from), true) = (from, self.chain.len() >= DEEPEST) {
            self.error(from, format!("more than {DEEPEST} files include each other in a row"));
            return None;
        }
        self.chain.push(name.clone());
        let node = self.parse(path, from).filter(|node| self.has_parts(path, node, from));
        let node = node.and_then(|node| self.includes(path, node));
        self.chain.pop();
        self.done.insert(name, node.clone());
        node
    }

    fn parse(&mut self, path: &str, from: Option<Span>) -> Option<YamlNode> {
        let text = match (self.read)(path) {
            Ok(text) => text,
            Err(reason) => {
                // The first file has no place that names it, so it is an empty one.
                let span = from.unwrap_or_else(|| Span {
                    file: self.sources.add(path, ""),
                    ..Span::default()
                });
                self.error(span, format!("cannot read `{path}`: {reason}"));
                return None;
            }
        };
        let file = self.sources.add(path, text.as_str());
        match yaml::parse(&text, file) {
            Ok(node) => Some(node),
            Err(diagnostics) => {
                self.diagnostics.extend(diagnostics);
                None
            }
        }
    }

    /// Refuses a file that has nothing to include; the first file is checked with its keys.
    fn has_parts(&mut self, path: &str, node: &YamlNode, from: Option<Span>) -> bool {
        let fits = node.as_mapping().is_some() || node.as_sequence().is_some();
        let Some(from) = from.filter(|_| !fits) else { return true };
        let found = node.kind_name();
        self.error(from, format!("`{path}` is neither a mapping nor a list of steps, but {found}"));
        false
    }

    /// Lays a file over what it includes.
    fn includes(&mut self, path: &str, mut node: YamlNode) -> Option<YamlNode> {
        let YamlValue::Mapping(entries) = &mut node.value else { return Some(node) };
        let extends = remove(entries, "extends");
        let imports = remove(entries, "imports");
        let template = remove(entries, "template");
        if let (Some((key, _)), Some(_)) = (&template, &extends) {
            self.error(key.span, "a file has `extends` or `template`, not both");
        }
        let extended = extends.map(|(_, node)| self.extends(path, &node));
        let imported = imports.map(|(_, node)| self.imports(path, &node));
        let filled = template.map(|(_, node)| self.template(path, &node));
        let mut result = Entries::new();
        for layer in [extended, filled, imported].into_iter().flatten() {
            result = overlay(result, layer?);
        }
        *entries = overlay(result, std::mem::take(entries));
        Some(node)
    }

    /// Reads the names of files: one, or a list.
    fn names(&mut self, node: &YamlNode) -> Option<Vec<(String, Span)>> {
        let nodes = node.as_sequence().unwrap_or(std::slice::from_ref(node));
        let mut names = Vec::new();
        for node in nodes {
            if let Some(name) = node.as_str().filter(|name| !name.trim().is_empty()) {
                names.push((name.to_owned(), node.span));
            } else {
                let found = node.kind_name();
                self.error(node.span, format!("expected the name of a file, found {found}"));
            }
        }
        (names.len() == nodes.len()).then_some(names)
    }

    fn extends(&mut self, path: &str, node: &YamlNode) -> Option<Entries> {
        let mut result = Some(Entries::new());
        for (name, span) in self.names(node)? {
            // The next file is looked at even if this one is broken.
            let layer = self.file(&paths::join(path, &name), Some(span)).map(entries);
            result = result.zip(layer).map(|(below, above)| overlay(below, above));
        }
        result
    }

    fn imports(&mut self, path: &str, node: &YamlNode) -> Option<Entries> {
        let mut result = Some(Entries::new());
        for (name, span) in self.names(node)? {
            let layer = self.file(&paths::join(path, &name), Some(span));
            let layer = layer.and_then(|node| self.importable(node, &name, span));
            result = result.zip(layer).map(|(below, above)| overlay(below, above));
        }
        result
    }

    /// Returns what an imported file gives.
    fn importable(&mut self, node: YamlNode, name: &str, from: Span) -> Option<Entries> {
        let YamlValue::Mapping(entries) = node.value else {
            let message = format!("`{name}` has steps, so it cannot be imported");
            self.diagnostics.push(Diagnostic::error(from, message).help("use `extends`"));
            return None;
        };
        let (mut taken, mut good) = (Entries::new(), true);
        for (key, node) in entries {
            let handlers = key.text == "error_policy"
                && node.as_mapping().is_some_and(|policy| {
                    policy.iter().all(|(setting, _)| setting.text == "handlers")
                });
            if handlers || IMPORTED.contains(&key.text.as_str()) {
                taken.push((key, node));
            } else if key.text != "name" {
                let message = format!("`{}` cannot stand in an imported file", key.text);
                let help = format!(
                    "an imported file has `{}` and `error_policy.handlers`; use `extends` for more",
                    IMPORTED.join("`, `")
                );
                self.diagnostics.push(Diagnostic::error(key.span, message).help(help));
                good = false;
            }
        }
        good.then_some(taken)
    }

    /// Reads `template: {source, with}`: a workflow with its parameters filled in.
    fn template(&mut self, path: &str, node: &YamlNode) -> Option<Entries> {
        let Some(keys) = node.as_mapping() else {
            let found = node.kind_name();
            self.error(node.span, format!("expected `{{source, with}}`, found {found}"));
            return None;
        };
        for (key, _) in keys.iter().filter(|(key, _)| !matches!(&*key.text, "source" | "with")) {
            let help = did_you_mean(&key.text, ["source", "with"]);
            let message = format!("unknown key `{}`", key.text);
            self.diagnostics.push(Diagnostic { help, ..Diagnostic::error(key.span, message) });
        }
        let Some(source) = node.get("source") else {
            self.error(node.span, "`source` is missing: the file to fill in");
            return None;
        };
        let Some(name) = source.as_str() else {
            let found = source.kind_name();
            self.error(source.span, format!("expected the name of a file, found {found}"));
            return None;
        };
        let given = node.get("with");
        let composed = self.file(&paths::join(path, name), Some(source.span))?;
        self.fill_in(entries(composed), given, name, source.span)
    }

    /// Gives the parameters of a source file their values.
    fn fill_in(
        &mut self,
        mut workflow: Entries,
        given: Option<&YamlNode>,
        name: &str,
        span: Span,
    ) -> Option<Entries> {
        let before = self.diagnostics.len();
        let parameters = workflow.iter_mut().find(|(key, _)| key.text == "parameters");
        let mut none = Entries::new();
        let parameters = match parameters {
            Some((_, YamlNode { value: YamlValue::Mapping(entries), .. })) => entries,
            Some(_) | None => &mut none,
        };
        if let Some(node) = given.filter(|node| node.as_mapping().is_none()) {
            let found = node.kind_name();
            self.error(node.span, format!("expected a mapping of parameters, found {found}"));
        }
        for (key, value) in given.and_then(YamlNode::as_mapping).unwrap_or_default() {
            if value.as_str().is_some_and(|text| text.contains("${")) {
                self.error(
                    value.span,
                    "a value of `with` is taken as it is and cannot hold `${…}`",
                );
            }
            if let Some((_, parameter)) = parameters.iter_mut().find(|(k, _)| k.text == key.text) {
                set_default(parameter, value);
            } else {
                let help =
                    did_you_mean(&key.text, parameters.iter().map(|(key, _)| key.text.as_str()));
                let message = format!("`{name}` has no parameter `{}`", key.text);
                self.diagnostics.push(Diagnostic { help, ..Diagnostic::error(key.span, message) });
            }
        }
        for (key, parameter) in parameters.iter() {
            if parameter.get("required").and_then(YamlNode::as_bool) == Some(true) {
                self.error(span, format!("`{name}` needs the parameter `{}`", key.text));
            }
        }
        (self.diagnostics.len() == before).then_some(workflow)
    }
}

/// Makes a value the default of a parameter, which is then no longer missing.
fn set_default(parameter: &mut YamlNode, value: &YamlNode) {
    if let YamlValue::Mapping(entries) = &mut parameter.value {
        entries.retain(|(key, _)| !matches!(&*key.text, "default" | "required"));
        entries.push((YamlKey { span: value.span, text: "default".to_owned() }, value.clone()));
    }
}

/// Returns the entries of a file; a bare list is its steps.
fn entries(node: YamlNode) -> Entries {
    match node.value {
        YamlValue::Mapping(entries) => entries,
        YamlValue::Null
        | YamlValue::Bool(_)
        | YamlValue::Integer(_)
        | YamlValue::Float(_)
        | YamlValue::String(_)
        | YamlValue::Sequence(_) => {
            vec![(YamlKey { span: node.span, text: "steps".to_owned() }, node)]
        }
    }
}

fn remove(entries: &mut Entries, name: &str) -> Option<(YamlKey, YamlNode)> {
    let position = entries.iter().position(|(key, _)| key.text == name)?;
    Some(entries.remove(position))
}
