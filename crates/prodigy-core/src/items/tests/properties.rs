//! Items, whatever is thrown at the selection.

use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::vars::Vars;

/// Items with few different values, so that they are often alike.
fn values() -> impl Strategy<Value = Vec<Value>> {
    let leaf = prop_oneof![
        Just(Value::Null),
        (0..3_i32).prop_map(Value::from),
        (0..3_i32).prop_map(|number| f64::from(number).into()),
        "[ab \n\"\\\\]{0,2}".prop_map(Value::from),
    ];
    let nested = prop::collection::vec(leaf.clone(), 0..3).prop_map(Value::from);
    let field = prop_oneof![leaf.clone(), nested];
    let object =
        prop::collection::btree_map("[abc]", field, 0..4).prop_map(|map| map.into_iter().collect());
    prop::collection::vec(prop_oneof![4 => object, 1 => leaf], 0..12)
}

fn selections() -> impl Strategy<Value = Selection> {
    let filter = prop::option::of(prop::sample::select(vec![
        "a == 1",
        "item.b",
        "a[1] > 0 || exists(c)",
        "length(a) > 1",
        "item == 2",
        "is_object(item)",
        "c[0] == null && !b",
    ]));
    let sort = prop::option::of(prop::sample::select(vec![
        "a",
        "a DESC, b",
        "b[0] NULLS FIRST",
        "length(c) DESC, item",
    ]));
    let distinct = prop::option::of(prop::sample::select(vec!["a", "item", "b[1]", "is_null(c)"]));
    (filter, sort, distinct, 0..4_usize, prop::option::of(0..8_usize)).prop_map(
        |(filter, sort, distinct, offset, max_items)| Selection {
            json_path: None,
            filter: filter.map(expr),
            sort_by: sort.map(|source| SortBy::parse(source).unwrap()),
            distinct: distinct.map(expr),
            offset,
            max_items,
            item_key: None,
        },
    )
}

fn chosen(values: &[Value], selection: &Selection) -> Vec<Value> {
    let text = serde_json::to_string_pretty(values).unwrap();
    let items = select(read_items(text.as_bytes(), InputFormat::Json).unwrap(), selection).unwrap();
    items.iter().map(|item| serde_json::from_str(item.data.get()).unwrap()).collect()
}

/// Returns the expected result of a selection, computed on whole values.
fn simple(values: &[Value], selection: &Selection) -> Vec<Value> {
    let vars = |value: &Value| {
        let mut vars = Vars::default();
        vars.set("item", value.clone());
        vars
    };
    let mut values = values.to_vec();
    if let Some(filter) = &selection.filter {
        values.retain(|value| filter.is_true(&vars(value)));
    }
    if let Some(sort_by) = &selection.sort_by {
        values.sort_by(|a, b| sort_by.compare(&sort_by.key(&vars(a)), &sort_by.key(&vars(b))));
    }
    if let Some(distinct) = &selection.distinct {
        let mut seen: Vec<Value> = Vec::new();
        values.retain(|value| {
            let value = distinct.evaluate(&vars(value));
            let new = !seen.iter().any(|other| crate::json_value::total_cmp(other, &value).is_eq());
            seen.push(value);
            new
        });
    }
    values
        .into_iter()
        .skip(selection.offset)
        .take(selection.max_items.unwrap_or(usize::MAX))
        .collect()
}

fn texts(values: &[Value]) -> Vec<String> {
    let mut texts: Vec<String> = values.iter().map(Value::to_string).collect();
    texts.sort();
    texts
}

proptest! {
    #[test]
    fn a_selection_does_what_its_parts_say(values in values(), selection in selections()) {
        prop_assert_eq!(chosen(&values, &selection), simple(&values, &selection));
    }

    #[test]
    fn nothing_is_lost_and_nothing_is_made_up(values in values(), selection in selections()) {
        let keep = Selection { filter: None, distinct: None, offset: 0, max_items: None, ..selection.clone() };
        prop_assert_eq!(texts(&chosen(&values, &keep)), texts(&values));
        if let Some(filter) = &selection.filter {
            let rest = expr(&format!("!({})", filter.source()));
            let kept = chosen(&values, &Selection { filter: selection.filter.clone(), ..keep.clone() });
            let left = chosen(&values, &Selection { filter: Some(rest), ..keep.clone() });
            prop_assert_eq!(texts(&[kept, left].concat()), texts(&values));
        }
        let pages: Vec<Value> = (0..4).flat_map(|page| {
            chosen(&values, &Selection { offset: page * 3, max_items: Some(3), ..keep.clone() })
        }).collect();
        prop_assert_eq!(pages, chosen(&values, &keep));
    }

    #[test]
    fn choosing_twice_changes_nothing(values in values(), selection in selections()) {
        let selection = Selection { offset: 0, ..selection };
        let once = chosen(&values, &selection);
        prop_assert_eq!(chosen(&once, &selection), once);
    }

    #[test]
    fn ids_are_unique_and_count_up(values in values(), selection in selections()) {
        let items = select(RawItems::from_values(values).unwrap(), &selection).unwrap();
        let ids: BTreeSet<_> = items.iter().map(|item| item.id.clone()).collect();
        prop_assert_eq!(ids.len(), items.len());
        prop_assert!(items.iter().map(|item| &item.id).is_sorted());
        prop_assert!(items.iter().enumerate().all(|(index, item)| item.index == index + 1));
    }

    #[test]
    fn keys_give_unique_ids(keys in prop::collection::hash_set("\\PC{1,6}|[a-zA-Z0-9/.-]{1,100}", 0..20)) {
        let values = keys.iter().map(|key| json!({"key": key})).collect();
        let selection = Selection { item_key: Some(expr("key")), ..Selection::default() };
        let items = select(RawItems::from_values(values).unwrap(), &selection).unwrap();
        let ids: BTreeSet<_> = items.iter().map(|item| item.id.as_str().to_ascii_lowercase()).collect();
        prop_assert_eq!(ids.len(), keys.len());
    }

    #[test]
    fn a_table_is_read_as_it_was_written(rows in prop::collection::vec(prop::collection::vec("[ab,\"\n\r é]{0,4}", 3), 0..6), crlf: bool) {
        let end = if crlf { "\r\n" } else { "\n" };
        let quoted = |field: &String| format!("\"{}\"", field.replace('"', "\"\""));
        let line = |row: &Vec<String>| row.iter().map(quoted).collect::<Vec<_>>().join(",") + end;
        let input = format!("x,y,z{end}{}", rows.iter().map(line).collect::<String>());
        let items = select(read_items(input.as_bytes(), InputFormat::Csv).unwrap(), &Selection::default()).unwrap();
        let read: Vec<Value> = items.iter().map(|item| serde_json::from_str(item.data.get()).unwrap()).collect();
        let written: Vec<Value> = rows.iter().map(|row| json!({"x": row[0], "y": row[1], "z": row[2]})).collect();
        prop_assert_eq!(read, written);
    }

    #[test]
    fn any_input_gives_items_or_an_error(input in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(b"[]{},:\"\n\r\\ 1a\t".to_vec())], 0..40)) {
        for kind in [InputFormat::Json, InputFormat::JsonLines, InputFormat::Csv, InputFormat::Tsv, InputFormat::Lines, InputFormat::Output] {
            if let Ok(items) = read_items(&input, kind).and_then(|items| select(items, &Selection::default())) {
                for item in items {
                    prop_assert!(serde_json::from_str::<Value>(item.data.get()).is_ok());
                    prop_assert!(!item.data.get().contains(['\n', '\r']));
                }
            }
        }
    }
}
