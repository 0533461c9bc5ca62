//! Paths, whatever is thrown at them.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{STORE, raw};
use crate::json_path::JsonPath;

/// Returns the expected result of a path, computed on a tree with none of the code above.
fn simple(document: &Value, hops: &[String]) -> Vec<Value> {
    let Some((hop, rest)) = hops.split_first() else { return vec![document.clone()] };
    let next: Vec<&Value> = match (hop.as_str(), document) {
        ("[*]", Value::Array(values)) => values.iter().collect(),
        ("[*]", Value::Object(fields)) => fields.values().collect(),
        ("[0]", Value::Array(values)) => values.first().into_iter().collect(),
        ("[-1]", Value::Array(values)) => values.last().into_iter().collect(),
        ("[1:]", Value::Array(values)) => values.iter().skip(1).collect(),
        (name, Value::Object(fields)) => {
            fields.get(name.trim_start_matches('.')).into_iter().collect()
        }
        _ => Vec::new(),
    };
    next.into_iter().flat_map(|value| simple(value, rest)).collect()
}

fn documents() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "\\PC{0,5}".prop_map(Value::from)
    ];
    leaf.prop_recursive(5, 60, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("[abc]", inner, 0..4)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn paths_agree_with_a_simple_walk(document in documents(), hops in prop::collection::vec("\\.[abc]|\\[\\*\\]|\\[0\\]|\\[-1\\]|\\[1:\\]", 0..5)) {
        let path = JsonPath::parse(&format!("${}", hops.concat())).unwrap();
        let text = raw(&serde_json::to_string_pretty(&document).unwrap());
        let parts: Vec<Value> = path.select(&text).unwrap().iter().map(|part| serde_json::from_str(part.get()).unwrap()).collect();
        if path.is_singular() {
            prop_assert!(parts.len() <= 1);
        }
        prop_assert_eq!(parts, simple(&document, &hops));
    }

    #[test]
    fn everything_below_is_found_once(document in documents()) {
        fn count(value: &Value) -> usize {
            match value {
                Value::Array(values) => values.iter().map(|value| 1 + count(value)).sum(),
                Value::Object(fields) => fields.values().map(|value| 1 + count(value)).sum(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
            }
        }
        let text = raw(&document.to_string());
        prop_assert_eq!(JsonPath::parse("$..*").unwrap().select(&text).unwrap().len(), count(&document));
    }

    #[test]
    fn any_text_is_read_or_has_a_fault_inside_it(path in "\\$?[\\$@.\\[\\]?*:'\"()!=<>&|0-9a-c\\\\ é-]{0,24}") {
        match JsonPath::parse(&path) {
            Ok(read) => {
                let document = raw(STORE);
                prop_assert!(read.select(&document).is_ok());
                prop_assert_eq!(read.source(), path);
            }
            Err(fault) => prop_assert!(path.get(fault.range).is_some()),
        }
    }
}
