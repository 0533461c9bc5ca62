//! From a schema as written to its rules.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Map, Value};

use super::{
    Error,
    rule::{ANNOTATIONS, HOLDERS, SIMPLE, SchemaConstraint, SchemaRule, demand, pattern, text},
};
use crate::nearest::did_you_mean;

/// Reads all the schemas of a schema.
///
/// They wait in a queue instead of being read within each other, so no nesting
/// and no chain of references is too deep.
pub(super) fn rules(source: &Value) -> Result<Vec<SchemaRule>, Vec<Error>> {
    let mut parse = SchemaParser { source, ..SchemaParser::default() };
    parse.schema(String::new(), source);
    while let Some((number, pointer, value)) = parse.waiting.pop_front() {
        let rule = parse.rule(&pointer, value);
        if let Some(place) = parse.rules.get_mut(number) {
            *place = rule;
        }
    }
    if let Some(rule) = find(&parse.rules).filter(|_| parse.errors.is_empty()) {
        let found = parse.known.iter().find(|(_, number)| **number == rule);
        let pointer = found.map(|(pointer, _)| pointer.clone()).unwrap_or_default();
        let message = "this schema refers to itself without going into the value, so it has no end";
        parse.errors.push(Error { pointer, message: message.to_owned(), help: None });
    }
    if parse.errors.is_empty() { Ok(parse.rules) } else { Err(parse.errors) }
}

/// Reading under way.
#[derive(Default)]
struct SchemaParser<'v> {
    source: &'v Value,
    rules: Vec<SchemaRule>,
    /// The numbers of the schemas, by where they stand.
    known: BTreeMap<String, usize>,
    waiting: VecDeque<(usize, String, &'v Value)>,
    errors: Vec<Error>,
}

impl<'v> SchemaParser<'v> {
    fn error(&mut self, pointer: &str, message: impl Into<String>, help: Option<String>) {
        self.errors.push(Error { pointer: pointer.to_owned(), message: message.into(), help });
    }

    /// Returns the number of a schema, which is read in its turn.
    fn schema(&mut self, pointer: String, value: &'v Value) -> usize {
        if let Some(number) = self.known.get(&pointer) {
            return *number;
        }
        let number = self.rules.len();
        self.rules.push(SchemaRule::Never);
        self.known.insert(pointer.clone(), number);
        self.waiting.push_back((number, pointer, value));
        number
    }

    fn rule(&mut self, pointer: &str, value: &'v Value) -> SchemaRule {
        match value {
            Value::Bool(true) => SchemaRule::Each(Vec::new()),
            Value::Bool(false) => SchemaRule::Never,
            Value::Object(fields) => SchemaRule::Each(self.demands(pointer, fields)),
            Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                let what = title(pointer);
                self.error(
                    pointer,
                    format!("{what} must be a schema: a mapping, `true` or `false`"),
                    None,
                );
                SchemaRule::Never
            }
        }
    }

    fn demands(&mut self, pointer: &str, fields: &'v Map<String, Value>) -> Vec<SchemaConstraint> {
        let mut demands = Vec::new();
        for (keyword, value) in fields {
            let at = join(pointer, keyword);
            match demand(keyword, value) {
                Some(Ok(demand)) => demands.push(demand),
                Some(Err(problem)) => self.error(&at, format!("`{keyword}` {problem}"), None),
                None => self.keyword(pointer, &at, keyword),
            }
        }
        demands.extend(self.reference(pointer, fields));
        demands.extend(self.elements(pointer, fields));
        demands.extend(self.properties(pointer, fields));
        for keyword in ["$defs", "definitions"] {
            self.named(pointer, keyword, fields);
        }
        for (keyword, make) in [
            ("allOf", SchemaConstraint::All as fn(_) -> _),
            ("anyOf", SchemaConstraint::Any),
            ("oneOf", SchemaConstraint::One),
        ] {
            let schemas = self.list(pointer, keyword, fields);
            if fields.contains_key(keyword) && schemas.is_empty() {
                let message = format!("`{keyword}` must be a list with at least one schema");
                self.error(&join(pointer, keyword), message, None);
            } else if !schemas.is_empty() {
                demands.push(make(schemas));
            }
        }
        demands.extend(self.one(pointer, "not", fields).map(SchemaConstraint::Not));
        demands.extend(self.condition(pointer, fields));
        demands
    }

    /// Reports a keyword that cannot be used; the others are read in their turn.
    fn keyword(&mut self, pointer: &str, at: &str, keyword: &str) {
        if keyword == "$id" && !pointer.is_empty() {
            self.error(at, "`$id` can only stand at the top of a schema", None);
        } else if !ANNOTATIONS.contains(&keyword) && !HOLDERS.contains(&keyword) {
            let known = [SIMPLE, HOLDERS, ANNOTATIONS].concat();
            let help = did_you_mean(keyword, known)
                .unwrap_or_else(|| "what it demands would not be checked; leave it out".to_owned());
            let message =
                format!("`{}` is no keyword that can be checked here", keyword.escape_debug());
            self.error(at, message, Some(help));
        }
    }

    fn one(
        &mut self,
        pointer: &str,
        keyword: &str,
        fields: &'v Map<String, Value>,
    ) -> Option<usize> {
        fields.get(keyword).map(|value| self.schema(join(pointer, keyword), value))
    }

    fn list(&mut self, pointer: &str, keyword: &str, fields: &'v Map<String, Value>) -> Vec<usize> {
        let Some(value) = fields.get(keyword) else { return Vec::new() };
        let at = join(pointer, keyword);
        let elements = value.as_array().into_iter().flatten().enumerate();
        elements.map(|(number, value)| self.schema(join(&at, &number.to_string()), value)).collect()
    }

    fn named(
        &mut self,
        pointer: &str,
        keyword: &str,
        fields: &'v Map<String, Value>,
    ) -> Vec<(&'v String, usize)> {
        let Some(value) = fields.get(keyword) else { return Vec::new() };
        let at = join(pointer, keyword);
        let Value::Object(schemas) = value else {
            self.error(&at, format!("`{keyword}` must be a mapping of schemas"), None);
            return Vec::new();
        };
        schemas.iter().map(|(name, value)| (name, self.schema(join(&at, name), value))).collect()
    }

    fn elements(
        &mut self,
        pointer: &str,
        fields: &'v Map<String, Value>,
    ) -> Option<SchemaConstraint> {
        if fields.get("items").is_some_and(Value::is_array) {
            let help = "write `prefixItems` for one schema per element".to_owned();
            self.error(&join(pointer, "items"), "`items` must be one schema", Some(help));
            return None;
        }
        let first = self.list(pointer, "prefixItems", fields);
        if first.is_empty() && fields.contains_key("prefixItems") {
            let message = "`prefixItems` must be a list with at least one schema";
            self.error(&join(pointer, "prefixItems"), message, None);
        }
        let others = self.one(pointer, "items", fields);
        (!first.is_empty() || others.is_some())
            .then_some(SchemaConstraint::Elements { first, others })
    }

    fn properties(
        &mut self,
        pointer: &str,
        fields: &'v Map<String, Value>,
    ) -> Option<SchemaConstraint> {
        let named = self.named(pointer, "properties", fields);
        let mut patterns = Vec::new();
        for (name, number) in self.named(pointer, "patternProperties", fields) {
            match pattern(name) {
                Ok(pattern) => patterns.push((pattern, number)),
                Err(problem) => {
                    let at = join(&join(pointer, "patternProperties"), name);
                    self.error(&at, format!("`{}` {problem}", name.escape_debug()), None);
                }
            }
        }
        let others = self.one(pointer, "additionalProperties", fields);
        let named: BTreeMap<String, usize> =
            named.into_iter().map(|(name, number)| (name.clone(), number)).collect();
        let is_any = !named.is_empty() || !patterns.is_empty() || others.is_some();
        is_any.then_some(SchemaConstraint::Properties { named, patterns, others })
    }

    fn condition(
        &mut self,
        pointer: &str,
        fields: &'v Map<String, Value>,
    ) -> Option<SchemaConstraint> {
        let test = self.one(pointer, "if", fields);
        let then = self.one(pointer, "then", fields);
        let otherwise = self.one(pointer, "else", fields);
        if test.is_none() {
            for keyword in ["then", "else"].into_iter().filter(|name| fields.contains_key(*name)) {
                self.error(
                    &join(pointer, keyword),
                    format!("`{keyword}` means nothing without `if`"),
                    None,
                );
            }
        }
        test.map(|test| SchemaConstraint::Condition { test, then, otherwise })
    }

    fn reference(
        &mut self,
        pointer: &str,
        fields: &'v Map<String, Value>,
    ) -> Option<SchemaConstraint> {
        let at = join(pointer, "$ref");
        let reference = match text(fields.get("$ref")?) {
            Ok(reference) => reference,
            Err(problem) => {
                self.error(&at, format!("`$ref` {problem}"), None);
                return None;
            }
        };
        let shown = reference.escape_debug();
        let fragment =
            reference.strip_prefix('#').filter(|rest| rest.is_empty() || rest.starts_with('/'));
        let Some(fragment) = fragment else {
            let message = format!("`{shown}` is outside of this schema, and nothing is fetched");
            let help = "put it into `$defs` and write `#/$defs/NAME`".to_owned();
            self.error(&at, message, Some(help));
            return None;
        };
        let Some((target, value)) = follow(self.source, fragment) else {
            self.error(&at, format!("there is nothing at `{shown}`"), None);
            return None;
        };
        Some(SchemaConstraint::All(vec![self.schema(target, value)]))
    }
}

/// Returns what a schema is called where it stands.
fn title(pointer: &str) -> String {
    let mut names = pointer.rsplit('/').map(|name| name.replace("~1", "/").replace("~0", "~"));
    match (names.next(), names.next()) {
        (Some(number), Some(list)) if number.parse::<usize>().is_ok() => {
            format!("each element of `{}`", list.escape_debug())
        }
        (Some(name), Some(_)) => format!("`{}`", name.escape_debug()),
        (Some(_) | None, _) => "this".to_owned(),
    }
}

/// Adds a name to a pointer.
pub(super) fn push(pointer: &mut String, name: &str) {
    pointer.push('/');
    pointer.push_str(&name.replace('~', "~0").replace('/', "~1"));
}

/// Returns a pointer with a name added.
pub(super) fn join(pointer: &str, name: &str) -> String {
    let mut joined = pointer.to_owned();
    push(&mut joined, name);
    joined
}

/// Follows the part of a reference behind its `#`; returns the pointer as it is
/// written everywhere else, and what it leads to.
pub(super) fn follow<'v>(root: &'v Value, fragment: &str) -> Option<(String, &'v Value)> {
    let mut pointer = String::new();
    let mut value = root;
    for part in fragment.split('/').skip(1) {
        let name = percent_decoded(part)?.replace("~1", "/").replace("~0", "~");
        value = match value {
            Value::Object(fields) => fields.get(&name)?,
            Value::Array(elements) => elements.get(name.parse::<usize>().ok()?)?,
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => return None,
        };
        push(&mut pointer, &name);
    }
    Some((pointer, value))
}

/// Undoes `%20`, which references may contain because they are addresses.
fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        let (digits, after) = after.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).ok()
}

/// Returns a schema that is asked about a value in order to decide about the same
/// value, if there is one. Going into the value ends every other loop.
pub(super) fn find(rules: &[SchemaRule]) -> Option<usize> {
    let mut forth = vec![Vec::new(); rules.len()];
    let mut back = vec![Vec::new(); rules.len()];
    for (from, rule) in rules.iter().enumerate() {
        let SchemaRule::Each(demands) = rule else { continue };
        for to in demands.iter().flat_map(super::rule::SchemaConstraint::in_place) {
            if let (Some(out), Some(into)) = (forth.get_mut(from), back.get_mut(to)) {
                out.push(to);
                into.push(from);
            }
        }
    }
    let mut left = vec![true; rules.len()];
    // What nothing leads to, or what leads nowhere, is in no loop; nor is what
    // only such lead to.
    peel(&forth, &back, &mut left);
    peel(&back, &forth, &mut left);
    left.iter().position(|left| *left)
}

/// Takes away, again and again, whatever nothing that is left leads to.
fn peel(forth: &[Vec<usize>], back: &[Vec<usize>], left: &mut [bool]) {
    let is_left = |left: &[bool], rule: usize| left.get(rule).copied().unwrap_or_default();
    let count =
        |left: &[bool], rules: &[usize]| rules.iter().filter(|r| is_left(left, **r)).count();
    let mut leading: Vec<usize> = back.iter().map(|rules| count(left, rules)).collect();
    let mut free: Vec<usize> = (0..left.len())
        .filter(|rule| is_left(left, *rule) && leading.get(*rule) == Some(&0))
        .collect();
    while let Some(rule) = free.pop() {
        if let Some(left) = left.get_mut(rule) {
            *left = false;
        }
        for next in forth.get(rule).into_iter().flatten() {
            let Some(leading) = leading.get_mut(*next) else { continue };
            *leading = leading.saturating_sub(1);
            if *leading == 0 && is_left(left, *next) {
                free.push(*next);
            }
        }
    }
}
