//! Checking a value against the rules of a schema.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

use super::{
    Violation,
    number::{canonical, is_integer, is_multiple, is_within},
    pointer,
    rule::{Bound, Demand, Rule, Type},
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
pub(super) fn check(rules: &[Rule], value: &Value, steps: usize) -> Result<(), Vec<Violation>> {
    let mut check = Check { rules, steps, given_up: None };
    let mut found = Found { violations: Vec::new(), most: MOST_VIOLATIONS };
    check.rule(0, value, &mut Place { path: String::new(), depth: 0 }, &mut found);
    if let Some(message) = check.given_up {
        return Err(vec![Violation { path: String::new(), message: message.to_owned() }]);
    }
    if found.violations.is_empty() { Ok(()) } else { Err(found.violations) }
}

/// A check under way.
struct Check<'s> {
    rules: &'s [Rule],
    /// The number of steps left.
    steps: usize,
    given_up: Option<&'static str>,
}

/// Where a check is.
struct Place {
    path: String,
    depth: usize,
}

/// The violations that a check has found.
struct Found {
    violations: Vec<Violation>,
    most: usize,
}

impl Found {
    fn add(&mut self, place: &Place, message: impl Into<String>) {
        if !self.is_full() {
            self.violations.push(Violation { path: place.path.clone(), message: message.into() });
        }
    }

    fn is_full(&self) -> bool {
        self.violations.len() >= self.most
    }
}

impl Check<'_> {
    fn rule(&mut self, rule: usize, value: &Value, place: &mut Place, found: &mut Found) {
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
            Some(Rule::Never) => found.add(place, "is not allowed"),
            Some(Rule::Each(demands)) => {
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
        place: &mut Place,
        found: &mut Found,
    ) {
        let length = place.path.len();
        pointer::push(&mut place.path, name);
        self.rule(rule, value, place, found);
        place.path.truncate(length);
    }

    /// Returns true if a value has no violation.
    fn passes(&mut self, rule: usize, value: &Value, place: &mut Place) -> bool {
        let mut found = Found { violations: Vec::new(), most: 1 };
        self.rule(rule, value, place, &mut found);
        found.violations.is_empty()
    }

    fn demand(&mut self, demand: &Demand, value: &Value, place: &mut Place, found: &mut Found) {
        match demand {
            Demand::Properties { .. } | Demand::Elements { .. } => {
                self.inside(demand, value, place, found);
            }
            Demand::All(_)
            | Demand::Any(_)
            | Demand::One(_)
            | Demand::Not(_)
            | Demand::Condition { .. } => self.combined(demand, value, place, found),
            Demand::Types(_)
            | Demand::Among(_)
            | Demand::Required(_)
            | Demand::Unique
            | Demand::Least(..)
            | Demand::Most(..)
            | Demand::Pattern(_)
            | Demand::Bound(..)
            | Demand::MultipleOf(_) => {
                if let Some(message) = simple(demand, value) {
                    found.add(place, message);
                }
            }
        }
    }

    /// Checks the parts of a value.
    fn inside(&mut self, demand: &Demand, value: &Value, place: &mut Place, found: &mut Found) {
        if let (Demand::Elements { first, others }, Value::Array(elements)) = (demand, value) {
            for (number, element) in elements.iter().enumerate() {
                if let Some(rule) = first.get(number).or(others.as_ref()) {
                    self.part(*rule, &number.to_string(), element, place, found);
                }
            }
        }
        let (Demand::Properties { named, patterns, others }, Value::Object(fields)) =
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
    fn combined(&mut self, demand: &Demand, value: &Value, place: &mut Place, found: &mut Found) {
        match demand {
            Demand::All(rules) => {
                for rule in rules {
                    self.rule(*rule, value, place, found);
                }
            }
            Demand::Any(rules) => {
                if !rules.iter().any(|rule| self.passes(*rule, value, place)) {
                    found
                        .add(place, format!("fits none of the {} schemas of `anyOf`", rules.len()));
                }
            }
            Demand::One(rules) => {
                let fits = rules.iter().filter(|rule| self.passes(**rule, value, place)).count();
                if fits != 1 {
                    let all = rules.len();
                    found.add(
                        place,
                        format!("must fit one of the {all} schemas of `oneOf`, and fits {fits}"),
                    );
                }
            }
            Demand::Not(rule) => {
                if self.passes(*rule, value, place) {
                    found.add(place, "fits the schema of `not`");
                }
            }
            Demand::Condition { test, then, otherwise } => {
                let chosen = if self.passes(*test, value, place) { then } else { otherwise };
                if let Some(rule) = chosen {
                    self.rule(*rule, value, place, found);
                }
            }
            Demand::Types(_)
            | Demand::Among(_)
            | Demand::Required(_)
            | Demand::Properties { .. }
            | Demand::Elements { .. }
            | Demand::Unique
            | Demand::Least(..)
            | Demand::Most(..)
            | Demand::Pattern(_)
            | Demand::Bound(..)
            | Demand::MultipleOf(_) => {}
        }
    }
}

/// Returns what is wrong with a value, for demands that need no other schema.
fn simple(demand: &Demand, value: &Value) -> Option<String> {
    match demand {
        Demand::Types(types) => (!has_type(types, value)).then(|| {
            let names: Vec<String> =
                types.iter().map(|wanted| format!("`{}`", wanted.name())).collect();
            format!("must be {}, found `{}`", names.join(" or "), Type::of(value).name())
        }),
        Demand::Among(values) => (!values.contains(&canonical(value))).then(|| {
            let all = values.join(", ");
            let shown: String = all.chars().take(SHOWN).collect();
            let more = if shown.len() < all.len() { "…" } else { "" };
            let start = if values.len() == 1 { "must be" } else { "must be one of" };
            format!("{start} `{shown}{more}`")
        }),
        Demand::Required(names) => missing(names, value.as_object()?),
        Demand::Unique => {
            let mut seen = BTreeSet::new();
            let mut elements = value.as_array()?.iter().map(canonical);
            let repeated = elements.position(|element| !seen.insert(element))?;
            Some(format!("has the element {repeated} (counted from 0) twice"))
        }
        Demand::Least(measure, least) => {
            measure.of(value).filter(|count| count < least).map(|count| {
                format!("must have at least {}, and has {count}", measure.counted(*least))
            })
        }
        Demand::Most(measure, most) => measure
            .of(value)
            .filter(|count| count > most)
            .map(|count| format!("must have at most {}, and has {count}", measure.counted(*most))),
        Demand::Pattern(pattern) => (!pattern.is_match(value.as_str()?))
            .then(|| format!("does not match the pattern `{pattern}`")),
        Demand::Bound(bound, limit) => {
            let Value::Number(number) = value else { return None };
            let side = match bound {
                Bound::Minimum => "at least",
                Bound::Maximum => "at most",
                Bound::Above => "more than",
                Bound::Below => "less than",
            };
            (!is_within(number, *bound, limit))
                .then(|| format!("must be {side} {limit}, found {number}"))
        }
        Demand::MultipleOf(of) => {
            let Value::Number(number) = value else { return None };
            (!is_multiple(number, of))
                .then(|| format!("must be a multiple of {of}, found {number}"))
        }
        Demand::Properties { .. }
        | Demand::Elements { .. }
        | Demand::All(_)
        | Demand::Any(_)
        | Demand::One(_)
        | Demand::Not(_)
        | Demand::Condition { .. } => None,
    }
}

fn has_type(types: &[Type], value: &Value) -> bool {
    types.iter().any(|wanted| match (wanted, value) {
        (Type::Integer, Value::Number(number)) => is_integer(number),
        (wanted, value) => *wanted == Type::of(value),
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
