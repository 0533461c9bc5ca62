//! The selection of items: filter, order, distinct values, limit and names.

use std::{
    borrow::Cow,
    cmp::Ordering,
    collections::{BTreeSet, HashMap},
};

use serde_json::{Value, value::RawValue};

use super::{Error, RawItems, RawItemsKind, projection::FieldProjection};
use crate::{
    expr::{Expr, SortBy, SortKey},
    ids::ItemId,
    json_path::JsonPath,
    json_value,
    vars::{VarPath, value_text},
    workflow::Map,
};

/// Which items are wanted. What is done first stands first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Selection {
    /// Where in a JSON input the items are.
    pub json_path: Option<JsonPath>,
    /// Which of them.
    pub filter: Option<Expr>,
    /// In which order.
    pub sort_by: Option<SortBy>,
    /// Only the first for each value of this.
    pub distinct: Option<Expr>,
    /// The number of items to skip.
    pub offset: usize,
    /// The maximum number of items.
    pub max_items: Option<usize>,
    /// The expression that names an item; without it, its position does.
    pub item_key: Option<Expr>,
}

impl From<&Map> for Selection {
    fn from(map: &Map) -> Self {
        Self {
            json_path: map.json_path.clone(),
            filter: map.filter.clone(),
            sort_by: map.sort_by.clone(),
            distinct: map.distinct.clone(),
            offset: map.offset,
            max_items: map.max_items,
            item_key: map.item_key.clone(),
        }
    }
}

/// One item of a job.
#[derive(Clone, Debug)]
pub struct Item {
    /// Its name.
    pub id: ItemId,
    /// Its position in the selection, from 1.
    pub index: usize,
    /// The item itself, on one line.
    pub data: Box<RawValue>,
}

/// An item that may be chosen.
pub(super) struct ItemCandidate<'a> {
    /// Its position in the input, from 1.
    position: usize,
    data: Cow<'a, RawValue>,
    sort_key: Option<SortKey>,
    identity: Option<DistinctKey>,
}

/// Chooses items: extract, filter, sort, make distinct, pass over some, take some, name them.
///
/// `null` is a value like any other for `distinct`, as for the rest of the language.
pub fn select(input: RawItems<'_>, selection: &Selection) -> Result<Vec<Item>, Error> {
    let values = extract(input, selection.json_path.as_ref())?;
    let mut candidates = filter(values, selection)?;
    if let Some(sort_by) = &selection.sort_by {
        // Every candidate has a key now; the sort is stable.
        candidates.sort_by(|a, b| match (&a.sort_key, &b.sort_key) {
            (Some(a), Some(b)) => sort_by.compare(a, b),
            (a, b) => a.is_some().cmp(&b.is_some()),
        });
    }
    if selection.distinct.is_some() {
        make_distinct(&mut candidates);
    }
    let most = selection.max_items.unwrap_or(usize::MAX);
    let chosen: Vec<_> = candidates.into_iter().skip(selection.offset).take(most).collect();
    name(chosen, selection.item_key.as_ref())
}

/// Keeps the first of those that are the same.
pub(super) fn make_distinct(candidates: &mut Vec<ItemCandidate<'_>>) {
    let mut seen = BTreeSet::new();
    candidates.retain_mut(|candidate| seen.insert(candidate.identity.take()));
}

/// Finds the items in an input.
///
/// Without a path, a document that is a list holds its items, and any other is one. A path that can
/// lead to one part only is the same from there on; else each part is an item.
pub(super) fn extract<'a>(
    input: RawItems<'a>,
    path: Option<&JsonPath>,
) -> Result<Vec<Cow<'a, RawValue>>, Error> {
    let root = JsonPath::root();
    let path = match (input.form, path) {
        (RawItemsKind::Plain, Some(_)) => return Err(Error::PathWithoutJson),
        (RawItemsKind::Plain | RawItemsKind::Records, None) => return Ok(input.values),
        (RawItemsKind::Documents, None) => &root,
        (RawItemsKind::Documents | RawItemsKind::Records, Some(path)) => path,
    };
    let mut items = Vec::new();
    for document in &input.values {
        match document {
            Cow::Borrowed(document) => {
                items.extend(path.select_items(document)?.into_iter().map(Cow::Borrowed));
            }
            Cow::Owned(document) => {
                let parts = path.select_items(document)?.into_iter();
                items.extend(parts.map(|part| Cow::Owned(part.to_owned())));
            }
        }
    }
    Ok(items)
}

/// Keeps the items that pass the filter, with what they will be sorted and told apart by.
pub(super) fn filter<'a>(
    values: Vec<Cow<'a, RawValue>>,
    selection: &Selection,
) -> Result<Vec<ItemCandidate<'a>>, Error> {
    let Selection { filter, sort_by, distinct, .. } = selection;
    let expressions = filter.iter().chain(distinct);
    let mut paths: Vec<VarPath> =
        expressions.flat_map(Expr::references).map(|(path, _)| path).collect();
    paths.extend(sort_by.iter().flat_map(SortBy::references).cloned());
    let wanted = FieldProjection::for_paths(&paths);
    let mut candidates = Vec::new();
    for (index, data) in values.into_iter().enumerate() {
        let position = index + 1;
        let vars = wanted.read_vars(data.get());
        let vars = vars.map_err(|source| Error::BadItem { position, source })?;
        if filter.as_ref().is_none_or(|filter| filter.is_true(&vars)) {
            let sort_key = sort_by.as_ref().map(|keys| keys.key(&vars));
            let identity = distinct.as_ref().map(|distinct| DistinctKey(distinct.evaluate(&vars)));
            candidates.push(ItemCandidate { position, data, sort_key, identity });
        }
    }
    Ok(candidates)
}

/// Gives the chosen items their names.
fn name(chosen: Vec<ItemCandidate<'_>>, item_key: Option<&Expr>) -> Result<Vec<Item>, Error> {
    let total = chosen.len();
    let mut items = Vec::with_capacity(total);
    let mut keys = ItemKeys::new(item_key);
    for (index, candidate) in chosen.into_iter().enumerate() {
        let id = match &mut keys {
            Some(keys) => keys.id(&candidate)?,
            None => ItemId::from_position(index + 1, total),
        };
        items.push(Item { id, index: index + 1, data: on_one_line(candidate.data)? });
    }
    Ok(items)
}

/// The keys of the items so far.
struct ItemKeys<'e> {
    expression: &'e Expr,
    wanted: FieldProjection,
    positions: HashMap<String, usize>,
}

impl<'e> ItemKeys<'e> {
    fn new(expression: Option<&'e Expr>) -> Option<Self> {
        let expression = expression?;
        let references = expression.references();
        let wanted = FieldProjection::for_paths(references.iter().map(|(path, _)| path));
        Some(Self { expression, wanted, positions: HashMap::new() })
    }

    fn id(&mut self, candidate: &ItemCandidate<'_>) -> Result<ItemId, Error> {
        let position = candidate.position;
        let vars = self.wanted.read_vars(candidate.data.get());
        let vars = vars.map_err(|source| Error::BadItem { position, source })?;
        let key = value_text(&self.expression.evaluate(&vars));
        if key.is_empty() {
            let item_key = self.expression.source().to_owned();
            return Err(Error::NoKey { position, item_key });
        }
        let id = ItemId::from_key(&key);
        match self.positions.insert(key.clone(), position) {
            None => Ok(id),
            Some(other) => {
                let (first, second) = (other.min(position), other.max(position));
                Err(Error::SameKey { key, first, second })
            }
        }
    }
}

/// Leaves out the blanks between the tokens of an item.
///
/// Items are stored one to a line, and a line break in the input must not cut one in two.
fn on_one_line(item: Cow<'_, RawValue>) -> Result<Box<RawValue>, Error> {
    let text = item.get();
    let mut compact = String::with_capacity(text.len());
    let mut rest = text;
    let (mut quoted, mut escaped) = (false, false);
    while let Some(at) = rest.find(|c: char| {
        let blank = !quoted && matches!(c, ' ' | '\t' | '\n' | '\r');
        quoted = if c == '"' && !escaped { !quoted } else { quoted };
        escaped = c == '\\' && !escaped;
        blank
    }) {
        let (before, after) = rest.split_at(at);
        compact.push_str(before);
        rest = after.get(1..).unwrap_or_default();
    }
    if rest.len() == text.len() {
        return Ok(item.into_owned());
    }
    compact.push_str(rest);
    RawValue::from_string(compact).map_err(Error::Unwritable)
}

/// A value by which items are told apart: `5` and `5.0` are the same, `5` and `'5'` are not.
struct DistinctKey(Value);

impl Ord for DistinctKey {
    fn cmp(&self, other: &Self) -> Ordering {
        json_value::total_cmp(&self.0, &other.0)
    }
}

impl PartialOrd for DistinctKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for DistinctKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for DistinctKey {}

/// Returns why a selection leaves no item of an input; `from` is what the input is called.
///
/// A job that does nothing looks like one that is done, so somebody has to say which
/// part of the selection let nothing through.
pub fn explain_empty_selection(
    input: RawItems<'_>,
    selection: &Selection,
    from: &str,
) -> Result<String, Error> {
    let values = extract(input, selection.json_path.as_ref())?;
    let found = values.len();
    if found == 0 {
        return Ok(match &selection.json_path {
            Some(path) => format!("`{}` matches nothing in {from}", path.source()),
            None => format!("{from} holds none"),
        });
    }
    let mut candidates = filter(values, selection)?;
    if selection.distinct.is_some() {
        make_distinct(&mut candidates);
    }
    let left = candidates.len();
    let how = if selection.distinct.is_some() { " distinct items" } else { "" };
    Ok(match &selection.filter {
        Some(filter) if left == 0 => {
            format!("`filter: {}` leaves none of the {found} in {from}", filter.source())
        }
        Some(_) | None if selection.max_items == Some(0) => "`max_items` is 0".to_owned(),
        Some(_) | None => {
            format!("`offset: {}` passes over all of the {left}{how} in {from}", selection.offset)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        expr::Expr,
        items::{InputFormat, read_items, select},
        json_path::JsonPath,
    };

    fn why(input: &str, selection: &Selection) -> String {
        let items = || read_items(input.as_bytes(), InputFormat::Json).unwrap();
        assert!(select(items(), selection).unwrap().is_empty());
        explain_empty_selection(items(), selection, "`a.json`").unwrap()
    }

    #[test]
    fn the_part_of_the_selection_that_let_nothing_through_is_named() {
        let all = Selection::default();
        let path = Selection { json_path: Some(JsonPath::parse("$.x[*]").unwrap()), ..all.clone() };
        let filter = Selection {
            filter: Some(Expr::parse("item.n > 5", crate::expr::ExprContext::Item).unwrap()),
            ..all.clone()
        };
        let offset = Selection { offset: 7, ..all.clone() };
        let told = [
            why("[]", &all),
            why("{\"x\": []}", &path),
            why("[{\"n\": 1}, {\"n\": 2}]", &filter),
            why("[1, 2]", &offset),
        ];
        insta::assert_snapshot!(told.join("\n"), @"
        `a.json` holds none
        `$.x[*]` matches nothing in `a.json`
        `filter: item.n > 5` leaves none of the 2 in `a.json`
        `offset: 7` passes over all of the 2 in `a.json`
        ");
    }
}
