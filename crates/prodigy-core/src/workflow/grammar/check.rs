//! Checking a file against the tables: all mistakes at once.

use super::{
    file::{MAPREDUCE, WORKFLOW},
    fit::{Class, class, class_of, fits, help_for, wrong_name},
    place::Place,
    shape::{Choice, KeyNames, KeyShape, RecordShape, Shape, TaggedShape},
    step::STEP,
    suggest,
    words::{either, expected, found, shortened},
};
use crate::{
    diagnostic::{Diagnostic, Span},
    nearest::did_you_mean,
    yaml::{YamlKey, YamlNode, YamlValue},
};

/// The maximum number of reported mistakes; a file with more is the wrong file.
const MAX_DIAGNOSTICS: usize = 1_000;

/// Checks the structure of a whole workflow file.
///
/// The kind of file is decided by its structure: a list is sequential, a mapping is what its
/// `mode` says. What stands inside texts (templates, expressions, durations) is not looked at.
pub fn check(node: &YamlNode, diagnostics: &mut Vec<Diagnostic>) {
    let mut found_here = Vec::new();
    let mut checker =
        Checker { diagnostics: &mut found_here, enclosing: Vec::new(), complete: true };
    match &node.value {
        YamlValue::Sequence(steps) => checker.steps_file(node, steps),
        YamlValue::Mapping(_) => checker.mapping_file(node),
        YamlValue::Null
        | YamlValue::Bool(_)
        | YamlValue::Integer(_)
        | YamlValue::Float(_)
        | YamlValue::String(_) => {
            let message =
                format!("a workflow is a list of steps or a mapping, found {}", found(node));
            checker.report(
                Diagnostic::error(node.span, message)
                    .help("write `- shell: …`, or `mode: mapreduce` with `map:`"),
            );
        }
    }
    // People read a file from top to bottom.
    found_here.sort_by_key(|diagnostic| diagnostic.span);
    diagnostics.append(&mut found_here);
}

/// Checks a value against a record, e.g. a configuration file against its table.
pub fn check_record(
    node: &YamlNode,
    record: &'static RecordShape,
    diagnostics: &mut Vec<Diagnostic>,
) {
    let mut checker = Checker { diagnostics, enclosing: Vec::new(), complete: true };
    checker.record(&Place::new(record.title, node.span), record, node);
}

struct Checker<'d> {
    diagnostics: &'d mut Vec<Diagnostic>,
    /// The records around the value, the outermost first.
    enclosing: Vec<&'static RecordShape>,
    /// Set if the file must be complete; a file that extends another need not be.
    complete: bool,
}

impl Checker<'_> {
    fn report(&mut self, diagnostic: Diagnostic) {
        match self.diagnostics.len() {
            ..MAX_DIAGNOSTICS => self.diagnostics.push(diagnostic),
            MAX_DIAGNOSTICS => {
                let message =
                    format!("more than {MAX_DIAGNOSTICS} mistakes; the rest is not listed");
                self.diagnostics.push(Diagnostic::error(diagnostic.span, message));
            }
            _ => {}
        }
    }

    fn steps_file(&mut self, node: &YamlNode, steps: &[YamlNode]) {
        if steps.is_empty() {
            self.report(Diagnostic::error(node.span, "there are no steps"));
        }
        for step in steps {
            self.value(&Place::new("a step", step.span), &Shape::Record(&STEP), step);
        }
    }

    fn mapping_file(&mut self, node: &YamlNode) {
        self.complete = node.get("extends").is_none() && node.get("template").is_none();
        let mode = node.get("mode").and_then(YamlNode::as_str);
        let is_mapreduce = match mode {
            Some("mapreduce") => true,
            Some("sequential") => false,
            // A wrong or missing mode is one mistake, not one for every key of the other kind.
            Some(_) | None => {
                let keys =
                    || node.as_mapping().unwrap_or_default().iter().map(|(key, _)| &key.text);
                let only_in = |here: &RecordShape, there: &RecordShape| {
                    keys().any(|key| here.key(key).is_some() && there.key(key).is_none())
                };
                only_in(&MAPREDUCE, &WORKFLOW) && !only_in(&WORKFLOW, &MAPREDUCE)
            }
        };
        let record = if is_mapreduce { &MAPREDUCE } else { &WORKFLOW };
        let start = Span { end: node.span.start, ..node.span };
        let first = node.as_mapping().and_then(<[_]>::first).map_or(start, |(key, _)| key.span);
        self.record(&Place::new(record.title, first), record, node);
    }

    fn value(&mut self, place: &Place, shape: &Shape, node: &YamlNode) {
        // Looking for more mistakes than are listed only takes time.
        if self.diagnostics.len() > MAX_DIAGNOSTICS {
            return;
        }
        if node.is_null() && !matches!(shape, Shape::Any) {
            let message = format!("{} has no value", place.title);
            let help = if matches!(shape, Shape::Text | Shape::Template) {
                "write `\"\"` for empty text".to_owned()
            } else {
                format!("expected {}", expected(shape))
            };
            self.report(Diagnostic::error(place.span(node), message).help(help));
            return;
        }
        match shape {
            Shape::Any => {}
            Shape::List(element) | Shape::NonEmptyList(element) => {
                let Some(elements) = node.as_sequence() else {
                    self.wrong(place, shape, node);
                    return;
                };
                if elements.is_empty() && matches!(shape, Shape::NonEmptyList(_)) {
                    let message = format!("{} is empty", place.title);
                    self.report(Diagnostic::error(place.span(node), message));
                }
                for child in elements {
                    self.value(&place.element(child), element, child);
                }
            }
            Shape::Table { names, value } => self.table(place, *names, value, shape, node),
            Shape::Record(record) => self.record(place, record, node),
            Shape::Tagged(tagged) => self.tagged(place, tagged, node),
            Shape::OneOf(shapes) => self.one_of(place, shapes, shape, node),
            Shape::Bool
            | Shape::Text
            | Shape::Template
            | Shape::Script
            | Shape::Expression
            | Shape::JsonPath
            | Shape::JsonSchema
            | Shape::Integer { .. }
            | Shape::Number { .. }
            | Shape::Duration
            | Shape::Word(_)
            | Shape::WordOr { .. } => {
                if !fits(shape, node) {
                    self.wrong(place, shape, node);
                }
            }
        }
    }

    /// Reports a value that is not what its shape asks for.
    fn wrong(&mut self, place: &Place, shape: &Shape, node: &YamlNode) {
        let message = format!("{} must be {}, found {}", place.title, expected(shape), found(node));
        let mut diagnostic = Diagnostic::error(place.span(node), message);
        diagnostic.help = help_for(shape, node);
        self.report(diagnostic);
    }

    fn one_of(&mut self, place: &Place, shapes: &'static [Shape], whole: &Shape, node: &YamlNode) {
        let candidates: Vec<&Shape> = shapes
            .iter()
            .filter(|shape| class(shape).is_none_or(|class| class == class_of(node)))
            .collect();
        match candidates.as_slice() {
            [only] if class_of(node) != Class::Scalar => self.value(place, only, node),
            [] => self.wrong(place, whole, node),
            several => {
                if !several.iter().any(|shape| fits(shape, node)) {
                    self.wrong(place, whole, node);
                }
            }
        }
    }

    fn table(
        &mut self,
        place: &Place,
        names: KeyNames,
        value: &Shape,
        shape: &Shape,
        node: &YamlNode,
    ) {
        let Some(entries) = node.as_mapping() else {
            self.wrong(place, shape, node);
            return;
        };
        for (key, child) in entries {
            if let Some(problem) = wrong_name(names, &key.text) {
                self.report(Diagnostic::error(key.span, problem));
            }
            self.value(&Place::key(key), value, child);
        }
    }

    fn tagged(&mut self, place: &Place, tagged: &'static TaggedShape, node: &YamlNode) {
        let words = || tagged.variants.iter().map(|(word, _)| *word);
        let Some(tag) = node.get(tagged.tag) else {
            let shown = either(words().map(|word| format!("`{}: {word}`", tagged.tag)));
            let message = if node.as_mapping().is_some() {
                format!("{} needs {shown}", place.title)
            } else {
                format!("{} must be a mapping with {shown}, found {}", place.title, found(node))
            };
            self.report(Diagnostic::error(place.owner, message));
            return;
        };
        let chosen =
            tag.as_str().and_then(|tag| tagged.variants.iter().find(|(word, _)| *word == tag));
        if let Some((_, record)) = chosen {
            self.record(place, record, node);
            return;
        }
        let message = format!(
            "`{}` must be {}, found {}",
            tagged.tag,
            either(words().map(|word| format!("`{word}`"))),
            found(tag)
        );
        let mut diagnostic = Diagnostic::error(place.span(tag), message);
        diagnostic.help = tag.as_str().and_then(|tag| did_you_mean(tag, words()));
        self.report(diagnostic);
    }

    fn record(&mut self, place: &Place, record: &'static RecordShape, node: &YamlNode) {
        let Some(entries) = node.as_mapping() else {
            let message = format!("{} must be a mapping, found {}", place.title, found(node));
            let mut diagnostic = Diagnostic::error(place.span(node), message);
            if node.as_str().is_some() && record.key("shell").is_some() {
                diagnostic.help = Some("write `shell: …` or `claude: …`".to_owned());
            }
            self.report(diagnostic);
            return;
        };
        let mut seen: Vec<(&'static str, &str)> = Vec::new();
        let mut meant = Vec::new();
        for (key, value) in entries {
            if record.key(&key.text).is_some() {
                self.entry(record, node, key, value, &mut seen);
            } else {
                meant.extend(self.unknown(record, key));
            }
        }
        let owner = entries.first().map_or(place.owner, |(key, _)| key.span);
        // A list element has no key of its own, so its first key stands for it.
        let owner = if place.owner == node.span { owner } else { place.owner };
        for key in record
            .keys()
            .filter(|key| key.required && !seen.iter().any(|(name, _)| *name == key.name))
        {
            // A misspelled key is one mistake, not two.
            let excused = meant.contains(&key.name) || (is_root(record) && !self.complete);
            if !excused {
                let message = format!("{} needs `{}`", record.title, key.name);
                let value = if let Shape::Word(words) = key.shape { words.last() } else { None };
                let help = format!("add `{}: {}`", key.name, value.unwrap_or(&"…"));
                self.report(Diagnostic::error(owner, message).help(help));
            }
        }
        if let Some(choice) = record.choice {
            let excused = meant
                .iter()
                .any(|name| choice.alternatives.iter().any(|names| names.contains(name)));
            self.choice(record, choice, excused, owner, node);
        }
        if let Some(rule) = record.rule {
            rule(node, self.diagnostics);
        }
    }

    /// Reports an unknown key and returns the one that was meant.
    fn unknown(&mut self, record: &'static RecordShape, key: &YamlKey) -> Option<&'static str> {
        let message = format!("unknown key `{}` in {}", shortened(&key.text), record.title);
        let mut diagnostic = Diagnostic::error(key.span, message);
        let meant = suggest::meant(&key.text, record);
        let meant_so = meant.map(|name| format!("did you mean `{name}`?"));
        diagnostic.help = meant_so.or_else(|| suggest::able(&key.text, record)).or_else(|| {
            let home = suggest::home(&key.text, record, &self.enclosing);
            let belongs = home.map(|home| format!("`{}` belongs in {home}", key.text));
            belongs.or_else(|| suggest::known(record))
        });
        self.report(diagnostic);
        meant
    }

    fn entry<'n>(
        &mut self,
        record: &'static RecordShape,
        node: &'n YamlNode,
        key: &'n YamlKey,
        value: &YamlNode,
        seen: &mut Vec<(&'static str, &'n str)>,
    ) {
        let Some(shape) = record.key(&key.text) else {
            return;
        };
        let other = seen.iter().find(|(name, _)| *name == shape.name);
        if let Some((_, other)) = other {
            let message = format!("`{other}` and `{}` mean the same", key.text);
            self.report(
                Diagnostic::error(key.span, message).help(format!("keep `{}`", shape.name)),
            );
        }
        seen.push((shape.name, &key.text));
        self.company(record, shape, node, key);
        if let Some(instead) = shape.deprecated {
            let message = format!("`{}` is deprecated", key.text);
            self.report(Diagnostic::warning(key.span, message).help(instead));
        }
        self.enclosing.push(record);
        self.value(&Place::key(key), &shape.shape, value);
        self.enclosing.pop();
    }

    /// Reports a key that means nothing without another one.
    fn company(
        &mut self,
        record: &'static RecordShape,
        shape: &KeyShape,
        node: &YamlNode,
        key: &YamlKey,
    ) {
        if shape.beside.is_empty() || shape.beside.iter().any(|name| node.get(name).is_some()) {
            return;
        }
        let names = either(shape.beside.iter().map(|name| format!("`{name}`")));
        let message = format!("`{}` has no effect without {names} in {}", key.text, record.title);
        let mut diagnostic = Diagnostic::error(key.span, message);
        if shape.name == "max_attempts" {
            diagnostic = diagnostic.help("`retry: {attempts: …}` tries a step again");
        }
        self.report(diagnostic);
    }

    fn choice(
        &mut self,
        record: &RecordShape,
        choice: Choice,
        excused: bool,
        owner: Span,
        node: &YamlNode,
    ) {
        let entries = node.as_mapping().unwrap_or_default();
        let alternative_of = |name: &str| {
            choice.alternatives.iter().position(|alternative| alternative.contains(&name))
        };
        let mut present = entries
            .iter()
            .filter_map(|(key, _)| alternative_of(&key.text).map(|alternative| (key, alternative)));
        let Some((first, chosen)) = present.next() else {
            if choice.required && !excused {
                let names = choice.alternatives.iter().flat_map(|names| names.iter());
                let help = format!("add {}", either(names.map(|name| format!("`{name}`"))));
                let message =
                    format!("{} needs a {}", record.title, choice.what).replace(" a a", " an a");
                self.report(Diagnostic::error(owner, message).help(help));
            }
            return;
        };
        for (key, _) in present.filter(|(_, alternative)| *alternative != chosen) {
            let message = format!(
                "{} has one {}, found `{}` and `{}`",
                record.title, choice.what, first.text, key.text
            );
            let mut diagnostic = Diagnostic::error(key.span, message);
            if record.name == "step" {
                diagnostic = diagnostic.help("make it a step of its own");
            }
            self.report(diagnostic);
        }
    }
}

fn is_root(record: &RecordShape) -> bool {
    ["workflow", "mapreduce", "map"].contains(&record.name)
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;
    use crate::{
        diagnostic::{Severity, Sources},
        yaml,
    };

    /// Checks a file and shows all that is wrong with it.
    fn report(text: &str) -> String {
        let mut sources = Sources::default();
        let file = sources.add("f.yml", text);
        let node = yaml::parse(text, file).unwrap();
        let mut diagnostics = Vec::new();
        check(&node, &mut diagnostics);
        let mut out = String::new();
        for diagnostic in diagnostics {
            let (line, column) = sources.position(diagnostic.span).unwrap();
            let severity = match diagnostic.severity {
                Severity::Warning => "warning: ",
                Severity::Error => "",
            };
            writeln!(out, "{line}:{column}: {severity}{}", diagnostic.message).unwrap();
            if let Some(help) = diagnostic.help {
                writeln!(out, "  help: {help}").unwrap();
            }
        }
        out
    }

    fn table(cases: &[&str]) -> String {
        let mut out = String::new();
        for text in cases {
            write!(out, "{text:?}\n{}", report(text)).unwrap();
        }
        out
    }

    const MAP: &str =
        "mode: mapreduce\nmap:\n  input: items.json\n  agent_template:\n  - shell: x\n";

    #[test]
    fn a_step_needs_exactly_one_action() {
        insta::assert_snapshot!(table(&[
            "just text\n",
            "[]\n",
            "- cargo test\n",
            "- shell:\n",
            "- shell: ''\n",
            "- shell: [a, b]\n",
            "- {}\n",
            "- timeout: 5\n",
            "- shell: a\n  claude: b\n",
            "- shell: a\n  foreach: {input: [1], do: [{shell: b}]}\n",
        ]), @r#"
        "just text\n"
        1:1: a workflow is a list of steps or a mapping, found `just text`
          help: write `- shell: …`, or `mode: mapreduce` with `map:`
        "[]\n"
        1:1: there are no steps
        "- cargo test\n"
        1:3: a step must be a mapping, found `cargo test`
          help: write `shell: …` or `claude: …`
        "- shell:\n"
        1:3: `shell` has no value
          help: expected a command
        "- shell: ''\n"
        1:10: `shell` must be a command, found empty text
        "- shell: [a, b]\n"
        1:10: `shell` must be a command, found a list
        "- {}\n"
        1:3: a step needs an action
          help: add `shell`, `claude`, `codex`, `agent`, `write_file` or `foreach`
        "- timeout: 5\n"
        1:3: a step needs an action
          help: add `shell`, `claude`, `codex`, `agent`, `write_file` or `foreach`
        "- shell: a\n  claude: b\n"
        2:3: a step has one action, found `shell` and `claude`
          help: make it a step of its own
        "- shell: a\n  foreach: {input: [1], do: [{shell: b}]}\n"
        2:3: a step has one action, found `shell` and `foreach`
          help: make it a step of its own
        "#);
    }

    #[test]
    fn mistakes_in_steps_are_explained() {
        insta::assert_snapshot!(table(&[
            "- shel: a\n",
            "- shell: a\n  timeot: 5\n",
            "- Shell: a\n",
            "- shell: a\n  working-dir: b\n",
            "- shell: a\n  completely_unknown: b\n",
            "- shell: a\n  timeout: -5\n",
            "- shell: a\n  timeout: [5]\n",
            "- shell: a\n  commit_required: yes\n",
            "- shell: a\n  commit_required: 'true'\n",
            "- shell: a\n  capture: {x: {format: jsn}}\n",
            "- shell: a\n  capture: {1x: {format: json}}\n",
            "- shell: a\n  capture: x\n  capture_output: y\n",
            "- shell: a\n  capture_format: json\n",
            "- shell: a\n  model: opus\n",
            "- claude: a\n  shell_program: bash\n",
            "- claude: a\n  permission_mode: byपass\n",
            "- shell: a\n  on_exit_code: {0: {shell: b}, x: {shell: c}, 3: shell}\n",
            "- shell: a\n  env: [A=1]\n",
            "- shell: a\n  env: {A: , B: [1]}\n",
        ]), @r#"
        "- shel: a\n"
        1:3: unknown key `shel` in a step
          help: did you mean `shell`?
        "- shell: a\n  timeot: 5\n"
        2:3: unknown key `timeot` in a step
          help: did you mean `timeout`?
        "- Shell: a\n"
        1:3: unknown key `Shell` in a step
          help: did you mean `shell`?
        "- shell: a\n  working-dir: b\n"
        2:3: unknown key `working-dir` in a step
          help: did you mean `working_dir`?
        "- shell: a\n  completely_unknown: b\n"
        2:3: unknown key `completely_unknown` in a step
        "- shell: a\n  timeout: -5\n"
        2:12: `timeout` must be a duration such as `30s`, or seconds, found `-5`
        "- shell: a\n  timeout: [5]\n"
        2:12: `timeout` must be a duration such as `30s`, or seconds, found a list
        "- shell: a\n  commit_required: yes\n"
        2:20: `commit_required` must be `true` or `false`, found `yes`
          help: write `true`
        "- shell: a\n  commit_required: 'true'\n"
        2:20: `commit_required` must be `true` or `false`, found the text `true`
          help: write it without quotes
        "- shell: a\n  capture: {x: {format: jsn}}\n"
        2:25: `format` must be `string`, `number`, `json`, `lines` or `boolean`, found `jsn`
          help: did you mean `json`?
        "- shell: a\n  capture: {1x: {format: json}}\n"
        2:13: `1x` cannot be the name of a variable: only letters, digits and `_`, no digit first
        "- shell: a\n  capture: x\n  capture_output: y\n"
        3:3: warning: `capture_output` is deprecated
          help: write `capture: NAME`
        3:3: `capture` and `capture_output` mean the same
          help: keep `capture`
        "- shell: a\n  capture_format: json\n"
        2:3: `capture_format` has no effect without `capture` or `capture_output` in a step
        "- shell: a\n  model: opus\n"
        2:3: `model` has no effect without `claude`, `codex` or `agent` in a step
        "- claude: a\n  shell_program: bash\n"
        2:3: `shell_program` has no effect without `shell` in a step
        "- claude: a\n  permission_mode: byपass\n"
        2:20: `permission_mode` must be `default`, `acceptEdits`, `plan` or `bypass`, found `byपass`
          help: did you mean `bypass`?
        "- shell: a\n  on_exit_code: {0: {shell: b}, x: {shell: c}, 3: shell}\n"
        2:18: `0` is not an exit code from 1 to 255
        2:33: `x` is not an exit code from 1 to 255
        2:51: `3` must be a mapping, found `shell`
          help: write `shell: …` or `claude: …`
        "- shell: a\n  env: [A=1]\n"
        2:8: `env` must be a mapping, found a list
        "- shell: a\n  env: {A: , B: [1]}\n"
        2:9: `A` has no value
          help: write `""` for empty text
        2:17: `B` must be text, found a list
        "#);
    }

    #[test]
    fn mistakes_in_parts_of_steps_are_explained() {
        insta::assert_snapshot!(table(&[
            "- agent: {use: x}\n",
            "- agent: x\n",
            "- write_file: {path: a, contents: b}\n",
            "- write_file: {path: a, content: b, format: toml}\n",
            "- foreach: {input: 'ls', parallel: 0, do: []}\n",
            "- foreach:\n    input: [1]\n    do:\n    - shel: a\n",
            "- shell: a\n  retry: {attempts: 0, backoff: expo, retry_on: [timeouts]}\n",
            "- shell: a\n  retry: {attempts: '3', backoff: {type: linear, delay: 1s}}\n",
            "- shell: a\n  retry: {max_attempts: 3}\n",
            "- shell: a\n  validate: {threshold: 101, result_file: r.json}\n",
            "- shell: a\n  validate: {shell: x, on_incomplete: {claude: y, commit_required: true}}\n",
        ]), @r#"
        "- agent: {use: x}\n"
        1:3: `agent` needs `prompt`
          help: add `prompt: …`
        "- agent: x\n"
        1:10: `agent` must be a mapping, found `x`
        "- write_file: {path: a, contents: b}\n"
        1:25: unknown key `contents` in `write_file`
          help: did you mean `content`?
        "- write_file: {path: a, content: b, format: toml}\n"
        1:45: `format` must be `text`, `json` or `yaml`, found `toml`
          help: did you mean `yaml`?
        "- foreach: {input: 'ls', parallel: 0, do: []}\n"
        1:36: `parallel` must be a whole number from 1 to 1024, found `0`
        1:43: `do` is empty
        "- foreach:\n    input: [1]\n    do:\n    - shel: a\n"
        4:7: unknown key `shel` in a step
          help: did you mean `shell`?
        "- shell: a\n  retry: {attempts: 0, backoff: expo, retry_on: [timeouts]}\n"
        2:21: `attempts` must be a whole number from 1, found `0`
        2:33: `backoff` must be `fixed`, `linear`, `exponential`, `fibonacci` or a mapping, found `expo`
          help: did you mean `exponential`?
        2:50: each element of `retry_on` must be a reason code such as `timeout`, found `timeouts`
          help: did you mean `timeout`?
        "- shell: a\n  retry: {attempts: '3', backoff: {type: linear, delay: 1s}}\n"
        2:21: `attempts` must be a whole number from 1, found the text `3`
          help: write the number without quotes
        2:50: unknown key `delay` in `backoff` of type `linear`
          help: `delay` belongs in `backoff` of type `fixed`
        "- shell: a\n  retry: {max_attempts: 3}\n"
        2:11: unknown key `max_attempts` in `retry`
          help: did you mean `attempts`?
        "- shell: a\n  validate: {threshold: 101, result_file: r.json}\n"
        2:3: `validate` needs a way to judge
          help: add `shell`, `claude` or `commands`
        2:25: `threshold` must be a number from 0 to 100, found `101`
        "- shell: a\n  validate: {shell: x, on_incomplete: {claude: y, commit_required: true}}\n"
        2:51: unknown key `commit_required` in `on_incomplete`
          help: `commit_required` belongs in a step
        "#);
    }

    #[test]
    fn mistakes_in_handlers_are_explained() {
        insta::assert_snapshot!(table(&[
            "- shell: a\n  on_failure: false\n",
            "- shell: a\n  on_failure: []\n",
            "- shell: a\n  on_failure: [b, {shel: c}]\n",
            "- shell: a\n  on_failure: {strategy: recover, claude: b}\n",
            "- shell: a\n  on_failure: {shell: b, commands: [{shell: c}]}\n",
            "- shell: a\n  on_failure: {max_attempts: 2, max_retries: 3, shell: b}\n",
            "- shell: a\n  on_failure: {shell: b, max_attempts: 2}\n  max_attempts: 3\n",
            "- shell: a\n  max_attempts: 3\n",
            "- shell: a\n  fail_workflow: true\n",
            "- shell: a\n  on_failure: {shell: b, retry_original: true, max_retries: 3}\n",
            "- shell: a\n  capture_output: true\n",
            "- shell: a\n  on_success: {shell: b, claude: c, codex: d}\n",
            "- shell: a\n  on_success: done\n",
        ]), @r#"
        "- shell: a\n  on_failure: false\n"
        "- shell: a\n  on_failure: []\n"
        2:15: `on_failure` is empty
        "- shell: a\n  on_failure: [b, {shel: c}]\n"
        2:20: unknown key `shel` in a step
          help: did you mean `shell`?
        "- shell: a\n  on_failure: {strategy: recover, claude: b}\n"
        2:26: `strategy` must be `recovery`, `fallback`, `cleanup` or `custom`, found `recover`
          help: did you mean `recovery`?
        "- shell: a\n  on_failure: {shell: b, commands: [{shell: c}]}\n"
        2:26: `on_failure` has one way to name commands, found `shell` and `commands`
        "- shell: a\n  on_failure: {max_attempts: 2, max_retries: 3, shell: b}\n"
        2:33: `max_attempts` and `max_retries` mean the same
          help: keep `max_attempts`
        "- shell: a\n  on_failure: {shell: b, max_attempts: 2}\n  max_attempts: 3\n"
        3:3: `max_attempts` stands here and in `on_failure`
          help: keep the one in `on_failure`
        "- shell: a\n  max_attempts: 3\n"
        2:3: `max_attempts` has no effect without `on_failure` in a step
          help: `retry: {attempts: …}` tries a step again
        "- shell: a\n  fail_workflow: true\n"
        2:3: `fail_workflow` has no effect without `on_failure` in a step
        "- shell: a\n  on_failure: {shell: b, retry_original: true, max_retries: 3}\n"
        2:26: warning: `retry_original` is deprecated
          help: set `max_attempts` above 1: that tries the original again
        "- shell: a\n  capture_output: true\n"
        2:3: warning: `capture_output` is deprecated
          help: write `capture: NAME`
        "- shell: a\n  on_success: {shell: b, claude: c, codex: d}\n"
        2:37: a step has one action, found `shell` and `codex`
        "- shell: a\n  on_success: done\n"
        2:15: `on_success` must be a mapping, found `done`
          help: write `shell: …` or `claude: …`
        "#);
    }

    #[test]
    fn mistakes_at_the_top_of_a_file_are_explained() {
        insta::assert_snapshot!(table(&[
            "name: x\n",
            "name: x\nsteps:\n",
            "steps: {shell: a}\n",
            "steps: [{shell: a}]\ncommands: [{shell: b}]\n",
            "mode: parallel\nsteps: [{shell: a}]\n",
            "steps: [{shell: a}]\nagent_template: []\n",
            "steps: [{shell: a}]\nmax_parallel: 3\n",
            "mode: mapreduce\n",
            "map: {input: a.json, agent_template: [{shell: a}]}\n",
            "error_policy: {max_failures: 3}\n",
            "mode: mapreduce\nmap: {}\n",
            "mode: mapreduce\nsteps: []\nmap: {input: a, agent_template: [{shell: a}]}\n",
            "mode: mapreduce\nagent_template: []\nmap: {input: a}\n",
            "mode: mapreduce\nmap: {input: {fil: a}, max_parallel: 99999, agent_template: {commands: [{shell: a}]}}\n",
            "mode: mapreduce\nmap: {input: {file: a, glob: b}, reduce: [], agent_timeout: 5, agent_timeout_secs: 5, agent_template: [{shell: a}]}\n",
        ]), @r#"
        "name: x\n"
        1:1: a sequential workflow needs `steps`
          help: add `steps: …`
        "name: x\nsteps:\n"
        2:1: `steps` has no value
          help: expected a list
        "steps: {shell: a}\n"
        1:8: `steps` must be a list, found a mapping
        "steps: [{shell: a}]\ncommands: [{shell: b}]\n"
        2:1: `steps` and `commands` mean the same
          help: keep `steps`
        "mode: parallel\nsteps: [{shell: a}]\n"
        1:7: `mode` must be `sequential` or `mapreduce`, found `parallel`
        "steps: [{shell: a}]\nagent_template: []\n"
        2:1: unknown key `agent_template` in a sequential workflow
          help: `agent_template` belongs in `map`
        "steps: [{shell: a}]\nmax_parallel: 3\n"
        2:1: unknown key `max_parallel` in a sequential workflow
          help: `max_parallel` belongs in `map`
        "mode: mapreduce\n"
        1:1: a MapReduce workflow needs `map`
          help: add `map: …`
        "map: {input: a.json, agent_template: [{shell: a}]}\n"
        1:1: a MapReduce workflow needs `mode`
          help: add `mode: mapreduce`
        "error_policy: {max_failures: 3}\n"
        1:1: a MapReduce workflow needs `mode`
          help: add `mode: mapreduce`
        1:1: a MapReduce workflow needs `map`
          help: add `map: …`
        "mode: mapreduce\nmap: {}\n"
        2:1: `map` needs `input`
          help: add `input: …`
        2:1: `map` needs `agent_template`
          help: add `agent_template: …`
        "mode: mapreduce\nsteps: []\nmap: {input: a, agent_template: [{shell: a}]}\n"
        2:1: unknown key `steps` in a MapReduce workflow
          help: `steps` belongs in a sequential workflow
        "mode: mapreduce\nagent_template: []\nmap: {input: a}\n"
        2:1: unknown key `agent_template` in a MapReduce workflow
          help: `agent_template` belongs in `map`
        3:1: `map` needs `agent_template`
          help: add `agent_template: …`
        "mode: mapreduce\nmap: {input: {fil: a}, max_parallel: 99999, agent_template: {commands: [{shell: a}]}}\n"
        2:15: unknown key `fil` in `input`
          help: did you mean `file`?
        2:38: `max_parallel` must be a whole number from 1 to 1024, found `99999`
        2:62: warning: `commands` is deprecated
          help: put the steps directly under `agent_template`
        "mode: mapreduce\nmap: {input: {file: a, glob: b}, reduce: [], agent_timeout: 5, agent_timeout_secs: 5, agent_template: [{shell: a}]}\n"
        2:24: `input` has one source, found `file` and `glob`
        2:34: unknown key `reduce` in `map`
          help: `reduce` belongs in a MapReduce workflow
        2:64: `agent_timeout` and `agent_timeout_secs` mean the same
          help: keep `agent_timeout_secs`
        "#);
    }

    #[test]
    fn mistakes_in_error_policies_are_explained() {
        insta::assert_snapshot!(table(&[
            &format!("{MAP}max_failures: 5\nerror_policy: {{max_failures: 3}}\n"),
            &format!("{MAP}error_policy: {{failure_threshold: 20, error_collection: batched:0}}\n"),
            &format!("{MAP}error_collection: {{batched: {{sise: 10}}}}\n"),
            &format!("{MAP}circuit_breaker: {{failure_threshold: 0, timeout: 30s, half_open: 3}}\n"),
            &format!("{MAP}retry_config: {{max_attempts: 3, backoff: exponential}}\n"),
            &format!("{MAP}retry_config: {{backoff: {{type: expnential}}}}\n"),
            &format!("{MAP}retry_config: {{backoff: {{initial: 1s}}}}\n"),
            &format!("{MAP}reduce: {{commands: [{{shell: a}}]}}\n"),
        ]), @r#"
        "mode: mapreduce\nmap:\n  input: items.json\n  agent_template:\n  - shell: x\nmax_failures: 5\nerror_policy: {max_failures: 3}\n"
        6:1: `max_failures` stands here and in `error_policy`
          help: keep the one in `error_policy`
        "mode: mapreduce\nmap:\n  input: items.json\n  agent_template:\n  - shell: x\nerror_policy: {failure_threshold: 20, error_collection: batched:0}\n"
        6:35: `failure_threshold` must be a number from 0 to 1, found `20`
        6:57: `error_collection` must be `aggregate`, `immediate`, `batched`, `batched:N` or a mapping, found `batched:0`
          help: did you mean `batched`?
        "mode: mapreduce\nmap:\n  input: items.json\n  agent_template:\n  - shell: x\nerror_collection: {batched: {sise: 10}}\n"
        6:30: unknown key `sise` in `batched`
          help: did you mean `size`?
        "mode: mapreduce\nmap:\n  input: items.json\n  agent_template:\n  - shell: x\ncircuit_breaker: {failure_threshold: 0, timeout: 30s, half_open: 3}\n"
        6:38: `failure_threshold` must be a whole number from 1, found `0`
        6:55: unknown key `half_open` in `circuit_breaker`
          help: did you mean `half_open_requests`?
        "mode: mapreduce\nmap:\n  input: items.json\n  agent_template:\n  - shell: x\nretry_config: {max_attempts: 3, backoff: exponential}\n"
        6:33: `backoff` must be a mapping with `type: fixed`, `type: linear`, `type: exponential` or `type: fibonacci`, found `exponential`
        "mode: mapreduce\nmap:\n  input: items.json\n  agent_template:\n  - shell: x\nretry_config: {backoff: {type: expnential}}\n"
        6:32: `type` must be `fixed`, `linear`, `exponential` or `fibonacci`, found `expnential`
          help: did you mean `exponential`?
        "mode: mapreduce\nmap:\n  input: items.json\n  agent_template:\n  - shell: x\nretry_config: {backoff: {initial: 1s}}\n"
        6:16: `backoff` needs `type: fixed`, `type: linear`, `type: exponential` or `type: fibonacci`
        "mode: mapreduce\nmap:\n  input: items.json\n  agent_template:\n  - shell: x\nreduce: {commands: [{shell: a}]}\n"
        6:10: warning: `commands` is not needed here
          help: put the steps directly under `reduce`
        "#);
    }

    #[test]
    fn mistakes_in_settings_are_explained() {
        insta::assert_snapshot!(table(&[
            &format!("{MAP}setup: {{commands: [{{shell: a}}], timeout: 5, capture_outputs: {{x: -1, y: {{format: json}}}}}}\n"),
            "steps: [{shell: a}]\nsecrets: {A: x, B: {}, C: {env: X, file: Y}}\n",
            "steps: [{shell: a}]\nagents: {a: {command: [x]}, b: {type: comand}, c: {type: command, comand: [x]}, d: x}\n",
            "steps: [{shell: a}]\nagents: {s: {type: simulated, rules: [{fault: crsh, probability: 2, edits: [{content: x}]}]}}\n",
            "steps: [{shell: a}]\nparameters: {p: {type: int, enum: []}}\n",
            "steps: [{shell: a}]\nbudget: {on_exceeded: stop}\nquota: {throttle_at: 90}\n",
            "steps: [{shell: a}]\ntemplate: {with: {a: 1}}\n",
            "extends: base.yml\nname: é\nmap: {max_parallel: many}\n",
        ]), @r#"
        "mode: mapreduce\nmap:\n  input: items.json\n  agent_template:\n  - shell: x\nsetup: {commands: [{shell: a}], timeout: 5, capture_outputs: {x: -1, y: {format: json}}}\n"
        6:66: `x` must be a whole number from 0 or a mapping, found `-1`
        6:70: a captured output needs `command_index`
          help: add `command_index: …`
        "steps: [{shell: a}]\nsecrets: {A: x, B: {}, C: {env: X, file: Y}}\n"
        2:14: `A` must be a mapping, found `x`
        2:17: a secret needs a source
          help: add `env`, `file` or `command`
        2:36: a secret has one source, found `env` and `file`
        "steps: [{shell: a}]\nagents: {a: {command: [x]}, b: {type: comand}, c: {type: command, comand: [x]}, d: x}\n"
        2:10: `a` needs `type: claude`, `type: codex`, `type: command` or `type: simulated`
        2:39: `type` must be `claude`, `codex`, `command` or `simulated`, found `comand`
          help: did you mean `command`?
        2:67: unknown key `comand` in an agent of type `command`
          help: did you mean `command`?
        2:81: `d` must be a mapping with `type: claude`, `type: codex`, `type: command` or `type: simulated`, found `x`
        "steps: [{shell: a}]\nagents: {s: {type: simulated, rules: [{fault: crsh, probability: 2, edits: [{content: x}]}]}}\n"
        2:47: `fault` must be `crash`, `hang`, `lie`, `error`, `permission_denied`, `denied_worked_around`, `rate_limited`, `overloaded`, `server_error`, `auth_failed`, `usage_limit`, `out_of_credits`, `refusal`, `max_turns`, `over_budget`, `garbage`, `zero_turns`, `partial`, `no_commit`, `conflict`, `schema_mismatch`, `not_satisfied`, `slow` or `huge`, found `crsh`
          help: did you mean `crash`?
        2:66: `probability` must be a number from 0 to 1, found `2`
        2:78: an edit needs `path`
          help: add `path: …`
        "steps: [{shell: a}]\nparameters: {p: {type: int, enum: []}}\n"
        2:24: `type` must be `string`, `number`, `boolean`, `array` or `object`, found `int`
        2:35: `enum` is empty
        "steps: [{shell: a}]\nbudget: {on_exceeded: stop}\nquota: {throttle_at: 90}\n"
        2:1: `budget` needs a limit
          help: add `item_usd`, `job_usd` or `day_usd`
        3:22: `throttle_at` must be a number from 0 to 1, found `90`
        "steps: [{shell: a}]\ntemplate: {with: {a: 1}}\n"
        2:1: `template` needs `source`
          help: add `source: …`
        "extends: base.yml\nname: é\nmap: {max_parallel: many}\n"
        3:21: `max_parallel` must be a whole number from 1 to 1024, found `many`
        "#);
    }

    #[test]
    fn positions_are_right_behind_other_alphabets() {
        insta::assert_snapshot!(report("- shell: \"日本 é\"\n  capture: {名: {format: jso}}\n  timeot: 1\n"), @"
        2:13: `名` cannot be the name of a variable: only letters, digits and `_`, no digit first
        2:25: `format` must be `string`, `number`, `json`, `lines` or `boolean`, found `jso`
          help: did you mean `json`?
        3:3: unknown key `timeot` in a step
          help: did you mean `timeout`?
        ");
    }

    #[test]
    fn every_documented_shape_is_accepted() {
        let files = [
            include_str!("accepted/sequential.yml"),
            include_str!("accepted/mapreduce.yml"),
            include_str!("accepted/convenience.yml"),
            "- shell: true\n",
            r#"{"name": "json", "steps": [{"shell": "echo \"a\"", "timeout": 1.5}]}"#,
            "extends: base.yml\n",
        ];
        for file in files {
            assert_eq!(report(file), "");
        }
    }

    #[test]
    fn old_shapes_are_accepted_with_a_warning() {
        insta::assert_snapshot!(report(include_str!("accepted/deprecated.yml")), @"
        5:5: warning: `commands` is deprecated
          help: put the steps directly under `agent_template`
        7:7: warning: `capture_output` is deprecated
          help: write `capture: NAME`
        8:36: warning: `retry_original` is deprecated
          help: set `max_attempts` above 1: that tries the original again
        10:3: warning: `commands` is not needed here
          help: put the steps directly under `reduce`
        ");
    }

    #[test]
    fn a_thousand_steps_are_checked_at_once() {
        let step = format!("- shell: {}\n  timeout: 5\n", "x".repeat(1_100));
        let text = step.repeat(1_000);
        assert!(text.len() > 1 << 20);
        assert_eq!(report(&text), "");
        let wrong = "- shel: x\n".repeat(2_000);
        let node = yaml::parse(&wrong, 0).unwrap();
        let mut diagnostics = Vec::new();
        check(&node, &mut diagnostics);
        assert_eq!(diagnostics.len(), MAX_DIAGNOSTICS + 1);
        insta::assert_snapshot!(diagnostics.last().unwrap().message, @"more than 1000 mistakes; the rest is not listed");
    }
}
