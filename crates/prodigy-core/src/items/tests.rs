//! Items from every kind of input.

mod inputs;
mod properties;

use std::fmt::Write as _;

use super::*;
use crate::{
    expr::{Expr, ExprContext, SortBy},
    json_path::JsonPath,
};

fn expr(source: &str) -> Expr {
    Expr::parse(source, ExprContext::Item).unwrap()
}

/// Reads an input and shows what comes out: the items, or the error.
fn shown(input: impl AsRef<[u8]>, kind: InputFormat, selection: &Selection) -> String {
    let items = read_items(input.as_ref(), kind).and_then(|items| select(items, selection));
    match items {
        Ok(items) => items.iter().fold(String::new(), |mut text, item| {
            writeln!(text, "{} {} {}", item.index, item.id, item.data).unwrap();
            text
        }),
        Err(error) => format!("error: {error}"),
    }
}

fn all(input: impl AsRef<[u8]>, kind: InputFormat) -> String {
    shown(input, kind, &Selection::default())
}

fn at(path: &str) -> Selection {
    Selection { json_path: Some(JsonPath::parse(path).unwrap()), ..Selection::default() }
}

/// Shows one line for each case.
fn table(cases: &[&str], show: impl Fn(&str) -> String) -> String {
    let rows = cases.iter().map(|case| {
        let shown = show(case);
        format!("{:<28} => {}", format!("{case:?}"), shown.trim_end().replace('\n', " | "))
    });
    rows.collect::<Vec<_>>().join("\n")
}

const PEOPLE: &str = r#"[
    {"name": "eve", "age": 30, "team": "b"}, {"name": "bob", "age": null, "team": "a"}, {"name": "ada", "age": 36, "team": "a"},
    {"name": "dan", "age": 30.0, "team": "c"}, {"name": "cyd", "team": "b"}, {"name": "Fay", "age": "30", "team": "a"}
]"#;

fn people(selection: &Selection) -> String {
    match select(read_items(PEOPLE.as_bytes(), InputFormat::Json).unwrap(), selection) {
        Ok(items) => {
            let name = |item: &Item| {
                let item = serde_json::from_str::<Value>(item.data.get()).unwrap();
                item["name"].as_str().unwrap().to_owned()
            };
            items.iter().map(name).collect::<Vec<_>>().join(" ")
        }
        Err(error) => format!("error: {error}"),
    }
}

#[test]
fn items_are_filtered_sorted_made_distinct_and_cut_in_this_order() {
    let none = Selection::default();
    let filter = |source: &str| Selection { filter: Some(expr(source)), ..Selection::default() };
    let sort = |source: &str| Selection {
        sort_by: Some(SortBy::parse(source).unwrap()),
        ..Selection::default()
    };
    let distinct =
        |source: &str| Selection { distinct: Some(expr(source)), ..Selection::default() };
    let cases = [
        (none.clone(), "eve bob ada dan cyd Fay"),
        (filter("item.age >= 30 && team != 'c'"), "eve ada Fay"),
        (filter("exists(age) && age == null"), "bob"),
        (sort("item.age"), "eve dan ada Fay bob cyd"),
        (sort("age DESC"), "Fay ada eve dan bob cyd"),
        (sort("age NULLS FIRST"), "bob cyd eve dan ada Fay"),
        (sort("team, name DESC"), "bob ada Fay eve cyd dan"),
        (distinct("item.team"), "eve bob dan"),
        (distinct("age"), "eve bob ada Fay"),
        (Selection { offset: 4, ..none.clone() }, "cyd Fay"),
        (Selection { offset: 9, ..none.clone() }, ""),
        (Selection { max_items: Some(0), ..none.clone() }, ""),
        (Selection { offset: 1, max_items: Some(2), ..none }, "bob ada"),
        // The first of each team in the sorted order, not in the order of the input.
        (Selection { distinct: Some(expr("team")), ..sort("name") }, "Fay cyd dan"),
        (
            Selection {
                offset: 1,
                max_items: Some(1),
                distinct: Some(expr("team")),
                filter: Some(expr("name != 'Fay'")),
                ..sort("name DESC")
            },
            "dan",
        ),
    ];
    for (selection, expected) in cases {
        assert_eq!(people(&selection), expected, "{selection:?}");
    }
}

#[test]
fn a_key_names_its_item() {
    let key = |source: &str| Selection { item_key: Some(expr(source)), ..Selection::default() };
    let inputs = [
        r#"[{"k": "a"}, {"k": 7}, {"k": true}, {"k": "src/a b.rs"}, {"k": [1]}]"#,
        r#"[{"k": "a"}, {"x": 1}]"#,
        r#"[{"k": null}]"#,
        r#"[{"k": ""}]"#,
        r#"[{"k": 1}, {"k": "x"}, {"k": "1"}]"#,
        r#"["k"]"#,
    ];
    insta::assert_snapshot!(table(&inputs, |input| shown(input, InputFormat::Json, &key("item.k"))), @r#"
    "[{\"k\": \"a\"}, {\"k\": 7}, {\"k\": true}, {\"k\": \"src/a b.rs\"}, {\"k\": [1]}]" => 1 a {"k":"a"} | 2 7 {"k":7} | 3 true {"k":true} | 4 src-a-b-rs.6fb7bacc941e44a163d2dbb1b6e5edfe {"k":"src/a b.rs"} | 5 1.080a9ed428559ef602668b4c00f114f1 {"k":[1]}
    "[{\"k\": \"a\"}, {\"x\": 1}]" => error: item 2 of the input has no `item.k`, and `item_key` is to name every item
    "[{\"k\": null}]"            => error: item 1 of the input has no `item.k`, and `item_key` is to name every item
    "[{\"k\": \"\"}]"            => error: item 1 of the input has no `item.k`, and `item_key` is to name every item
    "[{\"k\": 1}, {\"k\": \"x\"}, {\"k\": \"1\"}]" => error: the items 1 and 3 of the input have the same key `1`
    "[\"k\"]"                    => error: item 1 of the input has no `item.k`, and `item_key` is to name every item
    "#);
    assert_eq!(people(&key("upper(name)")), "eve bob ada dan cyd Fay");
    assert_eq!(
        people(&Selection { sort_by: Some(SortBy::parse("name DESC").unwrap()), ..key("team") }),
        "error: the items 1 and 5 of the input have the same key `b`"
    );
    // Items that were not chosen need no key.
    assert_eq!(people(&Selection { filter: Some(expr("age == 36")), ..key("age") }), "ada");
}

#[test]
fn ids_are_as_wide_as_the_last_one() {
    let ids = |count: usize| {
        let items =
            select(RawItems::from_texts(vec!["x"; count]).unwrap(), &Selection::default()).unwrap();
        format!("{} {}", items[0].id, items[count - 1].id)
    };
    assert_eq!(ids(999), "item-001 item-999");
    assert_eq!(ids(1000), "item-0001 item-1000");
}

#[test]
fn an_item_that_has_no_value_is_named_by_its_position() {
    let deep = format!("[1, {}{}]", "[".repeat(300), "]".repeat(300));
    let cases = [r#"[1, "\ud800"]"#, r#"[1, {"\udc00": 1}]"#, "[1, 1e999]", deep.as_str()];
    let errors = |selection: &Selection| {
        let errors = cases.iter().map(|case| shown(case, InputFormat::Json, selection));
        errors.collect::<Vec<_>>().join("\n")
    };
    insta::assert_snapshot!(errors(&Selection::default()), @"
    error: item 2 of the input cannot be used: unexpected end of hex escape at line 1 column 8
    error: item 2 of the input cannot be used: lone leading surrogate in hex escape at line 1 column 8
    error: item 2 of the input cannot be used: number out of range at line 1 column 5
    error: item 2 of the input cannot be used: recursion limit exceeded at line 1 column 128
    ");
    let filter = Selection { filter: Some(expr("item.a == 1")), ..Selection::default() };
    assert_eq!(errors(&filter), errors(&Selection::default()));
}

#[test]
fn an_item_is_on_one_line_whatever_the_input_looks_like() {
    let input = "[{\r\n\t\"a b\" : [ 1 ,\n 2 ] ,\n \"q\": \"x \\\" \\\\\" , \"é\" : 1.50 } , \" \\\\\\\" \"]";
    insta::assert_snapshot!(all(input, InputFormat::Json), @r#"
    1 item-001 {"a b":[1,2],"q":"x \" \\","é":1.50}
    2 item-002 " \\\" "
    "#);
}

#[test]
#[ignore = "takes long without optimisation; run with --release"]
#[expect(clippy::disallowed_methods, reason = "the time it takes is what is tested")]
fn a_hundred_thousand_items_are_chosen_in_two_seconds() {
    let mut input = String::from("{\"items\": [");
    for index in 0..100_000_u32 {
        let mixed = index.wrapping_mul(2_654_435_761);
        let body = "lorem ipsum \\\"dolor\\\" sit amet ".repeat(28);
        write!(
            input,
            "{}\n  {{\"id\": \"t-{index}\", \"score\": {}, \"group\": {}, \"tags\": [1, 2.5, \"x\"], \"body\": \"{body}\"}}",
            if index == 0 { "" } else { "," },
            mixed % 100,
            mixed % 90_000
        )
        .unwrap();
    }
    input.push_str("]}");
    let selection = Selection {
        filter: Some(expr("score >= 5 && !contains(id, 'zzz')")),
        sort_by: Some(SortBy::parse("score DESC, id").unwrap()),
        distinct: Some(expr("group")),
        item_key: Some(expr("id")),
        ..at("$.items[*]")
    };
    let start = std::time::Instant::now();
    let items = read_items(input.as_bytes(), InputFormat::Json).unwrap();
    let read = start.elapsed();
    let chosen = select(items, &selection).unwrap();
    let took = start.elapsed();
    println!("{} MB, {} items: read in {read:?}, all in {took:?}", input.len() >> 20, chosen.len());
    assert!(took < std::time::Duration::from_secs(2), "{took:?}");
}
