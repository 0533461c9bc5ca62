//! Checking a value against the rules of a schema.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    SchemaViolation,
    number::{canonical, is_integer, is_multiple, is_within},
    parse,
    rule::{JsonType, NumberBound, SchemaConstraint, SchemaRule},
};

/// The most violations that are reported.
const MOST_VIOLATIONS: usize = 20;
/// The maximum depth of a check. JSON is read no deeper than 128; references add to it.
const DEEPEST: usize = 300;
/// The maximum number of schemas checked in all. Alternatives within alternatives could
/// otherwise take forever.
pub(super) const MOST_STEPS: usize = 5_000_000;
/// The maximum number of characters of the allowed values in a message.
const SHOWN: usize = 120;

/// Checks a value in a number of steps.
pub(super) fn check(
    rules: &[SchemaRule],
    value: &Value,
    steps: usize,
) -> Result<(), Vec<SchemaViolation>> {
    let mut check = SchemaValidator { rules, steps, given_up: None };
    let mut found = ViolationList { violations: Vec::new(), most: MOST_VIOLATIONS };
    check.rule(0, value, &mut InstancePath { path: String::new(), depth: 0 }, &mut found);
    if let Some(message) = check.given_up {
        return Err(vec![SchemaViolation { path: String::new(), message: message.to_owned() }]);
    }
    if found.violations.is_empty() { Ok(()) } else { Err(found.violations) }
}

/// A check under way.
struct SchemaValidator<'s> {
    rules: &'s [SchemaRule],
    /// The number of steps left.
    steps: usize,
    given_up: Option<&'static str>,
}

/// Where a check is.
struct InstancePath {
    path: String,
    depth: usize,
}

/// The violations that a check has found.
struct ViolationList {
    violations: Vec<SchemaViolation>,
    most: usize,
}

impl ViolationList {
    fn add(&mut self, place: &InstancePath, message: impl Into<String>) {
        if !self.is_full() {
            self.violations
                .push(SchemaViolation { path: place.path.clone(), message: message.into() });
        }
    }

    fn is_full(&self) -> bool {
        self.violations.len() >= self.most
    }
}

impl SchemaValidator<'_> {
    fn rule(
        &mut self,
        rule: usize,
        value: &Value,
        place: &mut InstancePath,
        found: &mut ViolationList,
    ) {
        self.steps = self.steps.saturating_sub(1);
        if self.steps == 0 {
            self.given_up = Some("takes too long to check against this schema");
        } else if place.depth > DEEPEST {
            self.given_up = Some("is nested too deeply to be checked against this schema");
        }
        if self.given_up.is_some() {
            return;
        }
        let rules = self.rules;
        place.depth += 1;
        match rules.get(rule) {
            Some(SchemaRule::Never) => found.add(place, "is not allowed"),
            Some(SchemaRule::Each(demands)) => {
                for demand in demands {
                    if found.is_full() {
                        break;
                    }
                    self.demand(demand, value, place, found);
                }
            }
            None => {}
        }
        place.depth -= 1;
    }

    /// Checks a part of a value, under its name.
    fn part(
        &mut self,
        rule: usize,
        name: &str,
        value: &Value,
        place: &mut InstancePath,
        found: &mut ViolationList,
    ) {
        let length = place.path.len();
        parse::push(&mut place.path, name);
        self.rule(rule, value, place, found);
        place.path.truncate(length);
    }

    /// Returns true if a value has no violation.
    fn passes(&mut self, rule: usize, value: &Value, place: &mut InstancePath) -> bool {
        let mut found = ViolationList { violations: Vec::new(), most: 1 };
        self.rule(rule, value, place, &mut found);
        found.violations.is_empty()
    }

    fn demand(
        &mut self,
        demand: &SchemaConstraint,
        value: &Value,
        place: &mut InstancePath,
        found: &mut ViolationList,
    ) {
        match demand {
            SchemaConstraint::Properties { .. } | SchemaConstraint::Elements { .. } => {
                self.inside(demand, value, place, found);
            }
            SchemaConstraint::All(_)
            | SchemaConstraint::Any(_)
            | SchemaConstraint::One(_)
            | SchemaConstraint::Not(_)
            | SchemaConstraint::Condition { .. } => self.combined(demand, value, place, found),
            SchemaConstraint::Types(_)
            | SchemaConstraint::Among(_)
            | SchemaConstraint::Required(_)
            | SchemaConstraint::Unique
            | SchemaConstraint::Least(..)
            | SchemaConstraint::Most(..)
            | SchemaConstraint::Pattern(_)
            | SchemaConstraint::Bound(..)
            | SchemaConstraint::MultipleOf(_) => {
                if let Some(message) = simple(demand, value) {
                    found.add(place, message);
                }
            }
        }
    }

    /// Checks the parts of a value.
    fn inside(
        &mut self,
        demand: &SchemaConstraint,
        value: &Value,
        place: &mut InstancePath,
        found: &mut ViolationList,
    ) {
        if let (SchemaConstraint::Elements { first, others }, Value::Array(elements)) =
            (demand, value)
        {
            for (number, element) in elements.iter().enumerate() {
                if let Some(rule) = first.get(number).or(others.as_ref()) {
                    self.part(*rule, &number.to_string(), element, place, found);
                }
            }
        }
        let (SchemaConstraint::Properties { named, patterns, others }, Value::Object(fields)) =
            (demand, value)
        else {
            return;
        };
        for (name, field) in fields {
            let by_name = named.get(name).copied();
            let by_pattern = patterns.iter().filter(|(pattern, _)| pattern.is_match(name));
            let mut rules: Vec<usize> =
                by_name.into_iter().chain(by_pattern.map(|(_, rule)| *rule)).collect();
            if rules.is_empty() {
                rules.extend(*others);
            }
            for rule in rules {
                self.part(rule, name, field, place, found);
            }
        }
    }

    /// Asks other schemas about the same value.
    fn combined(
        &mut self,
        demand: &SchemaConstraint,
        value: &Value,
        place: &mut InstancePath,
        found: &mut ViolationList,
    ) {
        match demand {
            SchemaConstraint::All(rules) => {
                for rule in rules {
                    self.rule(*rule, value, place, found);
                }
            }
            SchemaConstraint::Any(rules) => {
                if !rules.iter().any(|rule| self.passes(*rule, value, place)) {
                    found
                        .add(place, format!("fits none of the {} schemas of `anyOf`", rules.len()));
                }
            }
            SchemaConstraint::One(rules) => {
                let fits = rules.iter().filter(|rule| self.passes(**rule, value, place)).count();
                if fits != 1 {
                    let all = rules.len();
                    found.add(
                        place,
                        format!("must fit one of the {all} schemas of `oneOf`, and fits {fits}"),
                    );
                }
            }
            SchemaConstraint::Not(rule) => {
                if self.passes(*rule, value, place) {
                    found.add(place, "fits the schema of `not`");
                }
            }
            SchemaConstraint::Condition { test, then, otherwise } => {
                let chosen = if self.passes(*test, value, place) { then } else { otherwise };
                if let Some(rule) = chosen {
                    self.rule(*rule, value, place, found);
                }
            }
            SchemaConstraint::Types(_)
            | SchemaConstraint::Among(_)
            | SchemaConstraint::Required(_)
            | SchemaConstraint::Properties { .. }
            | SchemaConstraint::Elements { .. }
            | SchemaConstraint::Unique
            | SchemaConstraint::Least(..)
            | SchemaConstraint::Most(..)
            | SchemaConstraint::Pattern(_)
            | SchemaConstraint::Bound(..)
            | SchemaConstraint::MultipleOf(_) => {}
        }
    }
}

/// Returns what is wrong with a value, for demands that need no other schema.
fn simple(demand: &SchemaConstraint, value: &Value) -> Option<String> {
    match demand {
        SchemaConstraint::Types(types) => (!has_type(types, value)).then(|| {
            let names: Vec<String> =
                types.iter().map(|wanted| format!("`{}`", wanted.name())).collect();
            format!("must be {}, found `{}`", names.join(" or "), JsonType::of(value).name())
        }),
        SchemaConstraint::Among(values) => (!values.contains(&canonical(value))).then(|| {
            let all = values.join(", ");
            let shown: String = all.chars().take(SHOWN).collect();
            let more = if shown.len() < all.len() { "…" } else { "" };
            let start = if values.len() == 1 { "must be" } else { "must be one of" };
            format!("{start} `{shown}{more}`")
        }),
        SchemaConstraint::Required(names) => missing(names, value.as_object()?),
        SchemaConstraint::Unique => {
            let mut seen = BTreeSet::new();
            let mut elements = value.as_array()?.iter().map(canonical);
            let repeated = elements.position(|element| !seen.insert(element))?;
            Some(format!("has the element {repeated} (counted from 0) twice"))
        }
        SchemaConstraint::Least(measure, least) => {
            measure.of(value).filter(|count| count < least).map(|count| {
                format!("must have at least {}, and has {count}", measure.counted(*least))
            })
        }
        SchemaConstraint::Most(measure, most) => measure
            .of(value)
            .filter(|count| count > most)
            .map(|count| format!("must have at most {}, and has {count}", measure.counted(*most))),
        SchemaConstraint::Pattern(pattern) => (!pattern.is_match(value.as_str()?))
            .then(|| format!("does not match the pattern `{pattern}`")),
        SchemaConstraint::Bound(bound, limit) => {
            let Value::Number(number) = value else { return None };
            let side = match bound {
                NumberBound::Minimum => "at least",
                NumberBound::Maximum => "at most",
                NumberBound::Above => "more than",
                NumberBound::Below => "less than",
            };
            (!is_within(number, *bound, limit))
                .then(|| format!("must be {side} {limit}, found {number}"))
        }
        SchemaConstraint::MultipleOf(of) => {
            let Value::Number(number) = value else { return None };
            (!is_multiple(number, of))
                .then(|| format!("must be a multiple of {of}, found {number}"))
        }
        SchemaConstraint::Properties { .. }
        | SchemaConstraint::Elements { .. }
        | SchemaConstraint::All(_)
        | SchemaConstraint::Any(_)
        | SchemaConstraint::One(_)
        | SchemaConstraint::Not(_)
        | SchemaConstraint::Condition { .. } => None,
    }
}

fn has_type(types: &[JsonType], value: &Value) -> bool {
    types.iter().any(|wanted| match (wanted, value) {
        (JsonType::Integer, Value::Number(number)) => is_integer(number),
        (wanted, value) => *wanted == JsonType::of(value),
    })
}

fn missing(names: &[String], fields: &Map<String, Value>) -> Option<String> {
    let missing: Vec<String> = names
        .iter()
        .filter(|name| !fields.contains_key(*name))
        .map(|name| format!("`{}`", name.escape_debug()))
        .collect();
    (!missing.is_empty()).then(|| format!("must have {}", missing.join(", ")))
}
