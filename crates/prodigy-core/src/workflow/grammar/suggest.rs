//! "Did you mean": what an unknown key or word was meant to be.

use super::{
    agents::AGENT,
    file::{MAPREDUCE, WORKFLOW},
    shape::{RecordShape, Shape},
    step::STEP,
};
use crate::{
    nearest::nearest,
    workflow::{Ability, AgentKind},
};

/// Returns the key of a record that an unknown key was meant to be.
pub(super) fn meant(key: &str, record: &'static RecordShape) -> Option<&'static str> {
    let spelling = key.to_lowercase().replace('-', "_");
    let names = record.keys().flat_map(|key| std::iter::once(&key.name).chain(key.aliases));
    nearest(&spelling, names.copied())
}

/// Returns which agents can do what an unknown key asks, if it stands on one that cannot.
pub(super) fn able(key: &str, record: &'static RecordShape) -> Option<String> {
    let (word, _) = AGENT.variants.iter().find(|(_, variant)| variant.name == record.name)?;
    let kind = AgentKind::ALL.iter().find(|kind| kind.as_str() == *word)?;
    let ability = Ability::all().find(|ability| ability.key() == Some(key))?;
    if kind.supports(ability) {
        return None;
    }
    let able = ability.supported_by().iter().filter(|able| **able != AgentKind::Simulated);
    let able: Vec<String> = able.map(|able| format!("`{}`", able.as_str())).collect();
    Some(format!("only an agent of type {} can honour it", able.join(" or ")))
}

/// Names the keys of a record, if they are few enough to be read.
pub(super) fn known(record: &'static RecordShape) -> Option<String> {
    const FEW: usize = 12;
    let current = record.keys().filter(|key| key.deprecated.is_none());
    let names: Vec<String> = current.map(|key| format!("`{}`", key.name)).collect();
    match names.as_slice() {
        [only] => Some(format!("its only key is {only}")),
        [first @ .., last] if names.len() <= FEW => {
            Some(format!("its keys are {} and {last}", first.join(", ")))
        }
        _ => None,
    }
}

/// Returns the other record that an unknown key belongs in, as messages call it.
///
/// `enclosing` are the records around it, the outermost first.
pub(super) fn home(
    key: &str,
    record: &'static RecordShape,
    enclosing: &[&'static RecordShape],
) -> Option<&'static str> {
    let children = |record: &'static RecordShape| record.keys().flat_map(|key| records(key.shape));
    let around = enclosing.iter().rev().copied();
    let siblings = enclosing.iter().rev().copied().flat_map(children);
    let outermost = enclosing.first().map_or(record.name, |record| record.name);
    let of_workflows = [&WORKFLOW, &MAPREDUCE];
    // A list of steps is a workflow, too. Other files have nothing that belongs in one.
    let is_workflow = of_workflows.iter().map(|root| root.name).chain([STEP.name]);
    let roots = if { is_workflow }.any(|name| name == outermost) { &of_workflows[..] } else { &[] };
    let roots = roots.iter().copied();
    let mut candidates = around
        .chain(children(record))
        .chain(siblings)
        .chain(roots.clone())
        .chain(roots.flat_map(children));
    let home = candidates
        .find(|candidate| candidate.name != record.name && candidate.key(key).is_some())?;
    Some(home.title)
}

/// Returns the records that a value of this shape may be or hold directly.
fn records(shape: Shape) -> Vec<&'static RecordShape> {
    match shape {
        Shape::Record(record) => vec![record],
        Shape::List(element) | Shape::NonEmptyList(element) => records(*element),
        Shape::OneOf(shapes) => shapes.iter().flat_map(|shape| records(*shape)).collect(),
        Shape::Tagged(tagged) => tagged.variants.iter().map(|(_, record)| *record).collect(),
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
        | Shape::WordOr { .. }
        | Shape::Table { .. }
        | Shape::Any => Vec::new(),
    }
}
