//! The identity of a step: the same wherever the step stands in its list.
//!
//! A step is known by its `id`, else by its text as it is written, with its number among equal
//! steps of the list. Steps inside another one are known below it: by the handler, or by the
//! value of the loop. Positions are for people; what was changed outside is found by identity.

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::{Body, Foreach, ForeachInput, ForeachValue, Step, StepAction, Workflow};
use crate::{effect::Effect, ids::hex, template::Template};

/// The mark before a hash, and before a number among equal names. No id contains it.
const MARK: char = '~';

/// The digits of a hash that are used.
const DIGITS: usize = 12;

/// The place of a step: its path, by position, and its identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepAddress {
    path: String,
    identity: String,
}

impl StepAddress {
    /// Names a list of steps, or a step that stands in no list.
    ///
    /// `name` is empty for the steps of an item, or of a workflow without items.
    pub fn named(name: impl Into<String>) -> Self {
        let path = name.into();
        Self { identity: path.clone(), path }
    }

    /// Returns the place of a step of the list, from 0.
    #[must_use]
    pub fn step(&self, steps: &[Step], index: usize) -> Self {
        let identity = join(&self.identity, &name_of(steps, index));
        Self { path: join(&self.path, &(index + 1).to_string()), identity }
    }

    /// Returns the place of a list of steps inside the step, such as `on_failure`.
    #[must_use]
    pub fn part(&self, name: &str) -> Self {
        Self { path: join(&self.path, name), identity: join(&self.identity, name) }
    }

    /// Returns the place of the steps for one value of the loop; `index` is from 0.
    #[must_use]
    pub fn round(&self, index: usize, name: &str) -> Self {
        let Self { path, identity } = self.part("foreach");
        Self { path: join(&path, &(index + 1).to_string()), identity: join(&identity, name) }
    }

    /// Returns the position, for records and people.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the identity.
    pub fn identity(&self) -> &str {
        &self.identity
    }
}

fn join(outer: &str, inner: &str) -> String {
    // Behind a round of the whole workflow stands a colon.
    if outer.is_empty() || outer.ends_with(':') {
        format!("{outer}{inner}")
    } else {
        format!("{outer}.{inner}")
    }
}

/// Returns what a step is called in its list.
fn name_of(steps: &[Step], index: usize) -> String {
    let Some(step) = steps.get(index) else { return String::new() };
    let before = steps.get(..index).unwrap_or_default();
    match &step.id {
        Some(id) => {
            numbered(id, before.iter().filter(|other| other.id.as_ref() == Some(id)).count())
        }
        None => text_name(step, before),
    }
}

/// Returns what a step is called by its text.
fn text_name(step: &Step, before: &[Step]) -> String {
    let text = written(step);
    let is_equal = |other: &&Step| is_alike(other, step) && written(other) == text;
    numbered(&hashed(&text), before.iter().filter(is_equal).count())
}

/// Adds the number among equal ones; the first has none.
fn numbered(name: &str, before: usize) -> String {
    if before == 0 { name.to_owned() } else { format!("{name}{MARK}{}", before + 1) }
}

fn hashed(text: &str) -> String {
    let digits: String = hex(&Sha256::digest(text)).chars().take(DIGITS).collect();
    format!("{MARK}{digits}")
}

/// Returns whether two steps can have the same text, which is quickly said.
fn is_alike(one: &Step, other: &Step) -> bool {
    match (&one.action, &other.action) {
        (StepAction::Shell { script: one, .. }, StepAction::Shell { script: other, .. }) => {
            one.source() == other.source()
        }
        (StepAction::Agent { prompt: one, .. }, StepAction::Agent { prompt: other, .. }) => {
            one.source() == other.source()
        }
        (one, other) => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

/// Returns what a step does, as it is written: nothing is filled in.
///
/// When it runs, how long, what follows and how its effect is looked at can be changed
/// without making it another step.
fn written(step: &Step) -> String {
    let action = match &step.action {
        StepAction::Shell { script, program } => json!(["shell", program, script.source()]),
        StepAction::Agent { agent, prompt, .. } => json!(["agent", agent, prompt.source()]),
        StepAction::WriteFile { path, content, .. } => {
            json!(["write_file", path.source(), content.source()])
        }
        StepAction::Foreach(each) => match &each.input {
            ForeachInput::Command(script) => json!(["foreach", script.source()]),
            ForeachInput::Values(values) => {
                json!(["foreach", values.iter().map(written_value).collect::<Vec<_>>()])
            }
        },
    };
    let env: Vec<_> = step.env.iter().map(|var| json!([var.name, var.value.source()])).collect();
    let directory = step.working_dir.as_ref().map(Template::source);
    json!([action, env, directory, step.external_effect().is_some()]).to_string()
}

fn written_value(value: &ForeachValue) -> Value {
    match value {
        ForeachValue::Text(text) => json!([text.source()]),
        ForeachValue::Value(value) => value.clone(),
    }
}

impl Foreach {
    /// Returns what the rounds of the loop are called, for the values that it came to.
    ///
    /// A value that stands in the file is known by how it is written there.
    pub fn round_names(&self, values: &[Value]) -> Vec<String> {
        let texts: Vec<String> = match &self.input {
            ForeachInput::Values(written) => {
                written.iter().map(|value| written_value(value).to_string()).collect()
            }
            ForeachInput::Command(_) => values.iter().map(Value::to_string).collect(),
        };
        let mut seen = std::collections::BTreeMap::<String, usize>::new();
        let mut names = Vec::with_capacity(values.len());
        for text in texts.into_iter().take(values.len()) {
            let before = seen.entry(text.clone()).or_default();
            names.push(numbered(&hashed(&text), *before));
            *before += 1;
        }
        names
    }
}

/// The step that an effect belongs to, in a workflow that may be another than the effect was
/// recorded with.
#[derive(Clone, Debug, PartialEq)]
pub enum Counterpart<'w> {
    /// There is one.
    Step {
        /// Its identity; missing if that depends on a value which was not recorded.
        identity: Option<String>,
        /// The step.
        step: &'w Step,
    },
    /// The record does not tell which step it was.
    Unknown,
    /// There is none any more.
    Missing,
}

impl Workflow {
    /// Returns whether all steps are written as those of another workflow, at any depth: what
    /// finished with the one has finished with the other.
    pub fn has_same_steps(&self, other: &Self) -> bool {
        let steps = |workflow: &Self| {
            let mut steps = Vec::new();
            workflow.visit_steps(&mut |step| {
                let inner = match &step.action {
                    StepAction::Foreach(each) => each.steps.len(),
                    StepAction::Shell { .. }
                    | StepAction::Agent { .. }
                    | StepAction::WriteFile { .. } => 0,
                };
                let judged = step.validate.as_ref();
                let judged = judged.map(|it| (it.steps.len(), it.on_incomplete.len()));
                let handled = step.on_failure.as_ref().map(|handler| handler.steps.len());
                let after = (step.on_success.len(), step.on_exit_code.len());
                steps.push((step.id.clone(), written(step), inner, judged, handled, after));
            });
            steps
        };
        steps(self) == steps(other)
    }

    /// Returns the step that an effect belongs to.
    ///
    /// `of_item` says whose effect it is; `recorded` is the workflow that the effect was
    /// recorded with, which is needed for records that name a step by its position alone.
    pub fn counterpart(
        &self,
        effect: &Effect,
        of_item: bool,
        recorded: Option<&Self>,
    ) -> Counterpart<'_> {
        let (identity, is_exact) = match (&effect.identity, recorded) {
            (Some(identity), _) if identity.is_empty() => return Counterpart::Unknown,
            (Some(identity), _) => (identity.clone(), true),
            (None, None) => return Counterpart::Unknown,
            (None, Some(recorded)) => match recorded.identity_at(&effect.step, of_item) {
                Some(found) => found,
                None => return Counterpart::Missing,
            },
        };
        match self.step_of(&identity, of_item) {
            Some((identity, step)) if step.external_effect().is_some() => {
                Counterpart::Step { identity: is_exact.then_some(identity), step }
            }
            Some(_) | None => Counterpart::Missing,
        }
    }

    /// Returns the step with an identity, perhaps from before it had an id, and its identity now.
    pub fn step_of(&self, identity: &str, of_item: bool) -> Option<(String, &Step)> {
        self.lists(of_item)
            .into_iter()
            .find_map(|(name, steps)| by_identity(steps, &name, below(identity, &name)?))
    }

    /// Returns the identity of the step at a path, and whether nothing of it had to be guessed.
    pub fn identity_at(&self, path: &str, of_item: bool) -> Option<(String, bool)> {
        self.lists(of_item)
            .into_iter()
            .find_map(|(name, steps)| by_path(steps, &name, below(path, &name)?))
    }

    /// Returns the lists of steps that effects can belong to, each with its name.
    fn lists(&self, of_item: bool) -> Vec<(String, &[Step])> {
        let mut lists: Vec<(String, &[Step])> = Vec::new();
        match (&self.body, of_item) {
            (Body::Sequential { steps, .. }, false) => lists.push((String::new(), steps)),
            (Body::Sequential { .. }, true) => {}
            (Body::MapReduce(job), true) => {
                let handlers = job.error_policy.handlers.iter();
                lists.extend(handlers.map(|(name, steps)| (format!("handler.{name}"), &**steps)));
                lists.push((String::new(), &job.map.steps));
            }
            (Body::MapReduce(job), false) => {
                let setup = job.setup.as_ref().map(|setup| &setup.phase);
                let phases = [("setup", setup), ("reduce", job.reduce.as_ref())];
                lists.extend(
                    phases.into_iter().filter_map(|(name, phase)| {
                        Some((name.to_owned(), phase?.steps.as_slice()))
                    }),
                );
            }
        }
        if let Some(merge) = self.merge.as_ref().filter(|_| !of_item) {
            lists.push(("merge".to_owned(), &merge.steps));
        }
        lists
    }
}

/// Returns what stands below a list in a path or an identity.
fn below<'t>(text: &'t str, list: &str) -> Option<&'t str> {
    if list.is_empty() { Some(text) } else { text.strip_prefix(list)?.strip_prefix('.') }
}

/// Returns the first part and what follows it.
fn split(text: &str) -> (&str, Option<&str>) {
    text.split_once('.').map_or((text, None), |(first, rest)| (first, Some(rest)))
}

fn by_identity<'w>(steps: &'w [Step], outer: &str, rest: &str) -> Option<(String, &'w Step)> {
    let (name, rest) = split(rest);
    let mut places = 0..steps.len();
    let index = places.clone().find(|at| name_of(steps, *at) == name).or_else(|| {
        // It may have had no id then.
        places.find(|at| {
            let before = steps.get(..*at).unwrap_or_default();
            steps.get(*at).is_some_and(|step| text_name(step, before) == name)
        })
    })?;
    let step = steps.get(index)?;
    let identity = join(outer, &name_of(steps, index));
    let Some(rest) = rest else { return Some((identity, step)) };
    let Inside { steps, part, rest } = inside(step, rest)?;
    by_identity(steps, &join(&identity, part), rest)
}

fn by_path(steps: &[Step], outer: &str, rest: &str) -> Option<(String, bool)> {
    let (number, rest) = split(rest);
    let index = number.parse::<usize>().ok()?.checked_sub(1)?;
    let step = steps.get(index)?;
    let identity = join(outer, &name_of(steps, index));
    let Some(rest) = rest else { return Some((identity, true)) };
    let Inside { steps, part, rest } = inside(step, rest)?;
    let (part, is_exact) = match &step.action {
        StepAction::Foreach(each) if part.starts_with("foreach.") => round_at(each, part)?,
        StepAction::Shell { .. }
        | StepAction::Agent { .. }
        | StepAction::WriteFile { .. }
        | StepAction::Foreach(_) => (part.to_owned(), true),
    };
    let (identity, is_known) = by_path(steps, &join(&identity, &part), rest)?;
    Some((identity, is_known && is_exact))
}

/// Returns the name of a round from its number, if the value stands in the file.
fn round_at(each: &Foreach, part: &str) -> Option<(String, bool)> {
    let index = part.rsplit('.').next()?.parse::<usize>().ok()?.checked_sub(1)?;
    let written = match &each.input {
        ForeachInput::Values(values) => vec![Value::Null; values.len()],
        ForeachInput::Command(_) => Vec::new(),
    };
    let name = each.round_names(&written).get(index).cloned();
    let is_exact = name.is_some();
    Some((format!("foreach.{}", name.unwrap_or_else(|| "?".to_owned())), is_exact))
}

/// A list of steps inside a step.
struct Inside<'w, 't> {
    steps: &'w [Step],
    /// The prefix that leads to it: `on_failure`, or `foreach` with the round.
    part: &'t str,
    /// The rest of the path or identity, below it.
    rest: &'t str,
}

/// Returns the list of steps inside a step that a path or an identity leads to.
fn inside<'w, 't>(step: &'w Step, text: &'t str) -> Option<Inside<'w, 't>> {
    let (kind, behind) = text.split_once('.')?;
    let with_number = || {
        let (number, rest) = behind.split_once('.')?;
        Some((text.get(..kind.len() + 1 + number.len())?, number, rest))
    };
    let (steps, part, rest): (&[Step], &str, &str) = match kind {
        "foreach" => {
            let StepAction::Foreach(each) = &step.action else { return None };
            let (part, _, rest) = with_number()?;
            (&each.steps, part, rest)
        }
        "on_failure" => (&step.on_failure.as_ref()?.steps, kind, behind),
        "on_success" => (&step.on_success, kind, behind),
        "on_exit_code" => {
            let (part, code, rest) = with_number()?;
            (step.on_exit_code.get(&code.parse().ok()?)?, part, rest)
        }
        "validate" => (&step.validate.as_ref()?.steps, kind, behind),
        "on_incomplete" => {
            let (part, _, rest) = with_number()?;
            (&step.validate.as_ref()?.on_incomplete, part, rest)
        }
        _ => return None,
    };
    Some(Inside { steps, part, rest })
}
