//! Items from every kind of input.

mod properties;

use std::fmt::Write as _;

use super::*;
use crate::{
    expr::{Expr, Place, SortBy},
    json_path::JsonPath,
};

fn expr(source: &str) -> Expr {
    Expr::parse(source, Place::Item).unwrap()
}

/// Reads an input and shows what comes out: the items, or the error.
fn shown(input: impl AsRef<[u8]>, kind: InputKind, selection: &Selection) -> String {
    let items = read(input.as_ref(), kind).and_then(|items| select(items, selection));
    match items {
        Ok(items) => items.iter().fold(String::new(), |mut text, item| {
            writeln!(text, "{} {} {}", item.index, item.id, item.data).unwrap();
            text
        }),
        Err(error) => format!("error: {error}"),
    }
}

fn all(input: impl AsRef<[u8]>, kind: InputKind) -> String {
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

#[test]
fn the_name_of_a_file_says_how_it_is_written() {
    let kinds = [
        "a.json",
        "a.JSON",
        "a.jsonl",
        "a.ndjson",
        "b/a.csv",
        "a.tsv",
        "a.txt",
        "json",
        ".json",
        "a.json.bak",
    ];
    let kinds: Vec<_> = kinds
        .iter()
        .map(|name| format!("{name} {:?}", InputKind::of_path(Path::new(name))))
        .collect();
    insta::assert_snapshot!(kinds.join("\n"), @"
    a.json Json
    a.JSON Json
    a.jsonl JsonLines
    a.ndjson JsonLines
    b/a.csv Csv
    a.tsv Tsv
    a.txt Lines
    json Lines
    .json Lines
    a.json.bak Lines
    ");
}

#[test]
fn json_is_a_list_of_items_or_one_item() {
    let cases = [
        "[]",
        "[1, \"two\", {\"a\": [3]}, null]",
        "{\"a\": 1}",
        "{}",
        "7",
        "\"text\"",
        "\u{feff}[1]\r\n",
        "",
        "  ",
        "[1,",
        "[1,]",
        "[1] 2",
        "{\"a\": 1,\n \"é\" 2}",
        "[\n\n  tru]",
        "['a']",
        "[NaN]",
    ];
    insta::assert_snapshot!(table(&cases, |case| all(case, InputKind::Json)), @r#"
    "[]"                         => 
    "[1, \"two\", {\"a\": [3]}, null]" => 1 item-001 1 | 2 item-002 "two" | 3 item-003 {"a":[3]} | 4 item-004 null
    "{\"a\": 1}"                 => 1 item-001 {"a":1}
    "{}"                         => 1 item-001 {}
    "7"                          => 1 item-001 7
    "\"text\""                   => 1 item-001 "text"
    "\u{feff}[1]\r\n"            => 1 item-001 1
    ""                           => error: line 1, column 1: EOF while parsing a value
    "  "                         => error: line 1, column 2: EOF while parsing a value
    "[1,"                        => error: line 1, column 3: EOF while parsing a value
    "[1,]"                       => error: line 1, column 4: expected value
    "[1] 2"                      => error: line 1, column 5: trailing characters
    "{\"a\": 1,\n \"é\" 2}"      => error: line 2, column 6: expected `:`
    "[\n\n  tru]"                => error: line 3, column 6: expected ident
    "['a']"                      => error: line 1, column 2: expected value
    "[NaN]"                      => error: line 1, column 2: expected value
    "#);
}

#[test]
fn json_lines_are_one_item_each() {
    let cases = [
        "",
        "\n\n",
        "{\"a\": 1}\n{\"a\": 2}\n",
        "1\r\n\r\n[2, 3]\r\n\"x\"",
        "{\"a\": 1}\n{\"a\": 2",
        "{\"a\": 1}\n{\"é\"; 2}\n3",
        "{\"a\":\n1}",
        "1 2",
    ];
    insta::assert_snapshot!(table(&cases, |case| all(case, InputKind::JsonLines)), @r#"
    ""                           => 
    "\n\n"                       => 
    "{\"a\": 1}\n{\"a\": 2}\n"   => 1 item-001 {"a":1} | 2 item-002 {"a":2}
    "1\r\n\r\n[2, 3]\r\n\"x\""   => 1 item-001 1 | 2 item-002 [2,3] | 3 item-003 "x"
    "{\"a\": 1}\n{\"a\": 2"      => error: line 2, column 7: EOF while parsing an object
    "{\"a\": 1}\n{\"é\"; 2}\n3"  => error: line 2, column 5: expected `:`
    "{\"a\":\n1}"                => error: line 1, column 5: EOF while parsing a value
    "1 2"                        => error: line 1, column 3: trailing characters
    "#);
}

#[test]
fn rows_become_objects() {
    let cases = [
        "",
        "a,b\n",
        "a,b\n1,2\n3,4",
        "a,b\r\n1,2\r\n\r\n3,4\r\n",
        "\na\n\n1\n\"\"\n",
        "a,b\n,\n",
        "a,b\n\"x,y\",\"q\"\"q\"\n",
        "a,b\n\"two\nlines\",\"cr\r\nlf\"\n1,2",
        "a,\"b c\",\n1, 2 ,é\n",
        "a\n5\" pipe\n",
        "a\tb\n1\t2",
        "a\n\u{feff}x",
        "a,b\n1\n",
        "a,b\n\"x\ny\",2\n1,2,3\n",
        "a,b\n1,\"open\n\n",
        "a,b\n1,\"x\"y\n",
        "a,b\n1,\"x\" \n",
        "a,b,a\n1,2,3",
    ];
    insta::assert_snapshot!(table(&cases, |case| all(case, InputKind::Csv)), @r#"
    ""                           => 
    "a,b\n"                      => 
    "a,b\n1,2\n3,4"              => 1 item-001 {"a":"1","b":"2"} | 2 item-002 {"a":"3","b":"4"}
    "a,b\r\n1,2\r\n\r\n3,4\r\n"  => 1 item-001 {"a":"1","b":"2"} | 2 item-002 {"a":"3","b":"4"}
    "\na\n\n1\n\"\"\n"           => 1 item-001 {"a":"1"} | 2 item-002 {"a":""}
    "a,b\n,\n"                   => 1 item-001 {"a":"","b":""}
    "a,b\n\"x,y\",\"q\"\"q\"\n"  => 1 item-001 {"a":"x,y","b":"q\"q"}
    "a,b\n\"two\nlines\",\"cr\r\nlf\"\n1,2" => 1 item-001 {"a":"two\nlines","b":"cr\r\nlf"} | 2 item-002 {"a":"1","b":"2"}
    "a,\"b c\",\n1, 2 ,é\n"      => 1 item-001 {"a":"1","b c":" 2 ","":"é"}
    "a\n5\" pipe\n"              => 1 item-001 {"a":"5\" pipe"}
    "a\tb\n1\t2"                 => 1 item-001 {"a\tb":"1\t2"}
    "a\n\u{feff}x"               => 1 item-001 {"a":"﻿x"}
    "a,b\n1\n"                   => error: line 2: this row has 1 fields, but the header has 2
    "a,b\n\"x\ny\",2\n1,2,3\n"   => error: line 4: this row has 3 fields, but the header has 2
    "a,b\n1,\"open\n\n"          => error: line 2, column 3: this quote is never closed
    "a,b\n1,\"x\"y\n"            => error: line 2, column 6: expected the end of the field after its closing quote; inside quotes, `""` stands for a quote
    "a,b\n1,\"x\" \n"            => error: line 2, column 6: expected the end of the field after its closing quote; inside quotes, `""` stands for a quote
    "a,b,a\n1,2,3"               => error: line 1: the columns 1 and 3 are both called `a`
    "#);
    let tabs = ["a\tb\n1,5\t\"x\ty\"\n", "a\tb\n1"];
    insta::assert_snapshot!(table(&tabs, |case| all(case, InputKind::Tsv)), @r#"
    "a\tb\n1,5\t\"x\ty\"\n"      => 1 item-001 {"a":"1,5","b":"x\ty"}
    "a\tb\n1"                    => error: line 2: this row has 1 fields, but the header has 2
    "#);
}

#[test]
fn lines_are_texts() {
    let cases = ["", "\n \n", "a b\n\n  c  \r\nd", "[1]\n{\"a\": 1}", "a\"b\\c"];
    insta::assert_snapshot!(table(&cases, |case| all(case, InputKind::Lines)), @r#"
    ""                           => 
    "\n \n"                      => 
    "a b\n\n  c  \r\nd"          => 1 item-001 "a b" | 2 item-002 "  c  " | 3 item-003 "d"
    "[1]\n{\"a\": 1}"            => 1 item-001 "[1]" | 2 item-002 "{\"a\": 1}"
    "a\"b\\c"                    => 1 item-001 "a\"b\\c"
    "#);
}

#[test]
fn output_is_json_if_it_looks_like_that() {
    let cases = [
        "",
        "a.rs\nb.rs\n",
        "[1, 2]\n",
        "{\"a\": 1}\n",
        "{\"a\": 1}\n{\"a\": 2}\n",
        "{\n  \"a\": 1\n}\n{\n  \"a\": 2\n}",
        "[1]\n[2, 3]",
        "[]",
        "[",
        "[ null ]",
        "[slug]/page.tsx\n[...all].tsx",
        "[null-check].rs",
        "[info] starting",
        "{a: 1}",
        "[{\"a\": 1}",
        "[1]\nnot json",
    ];
    insta::assert_snapshot!(table(&cases, |case| all(case, InputKind::Output)), @r#"
    ""                           => 
    "a.rs\nb.rs\n"               => 1 item-001 "a.rs" | 2 item-002 "b.rs"
    "[1, 2]\n"                   => 1 item-001 1 | 2 item-002 2
    "{\"a\": 1}\n"               => 1 item-001 {"a":1}
    "{\"a\": 1}\n{\"a\": 2}\n"   => 1 item-001 {"a":1} | 2 item-002 {"a":2}
    "{\n  \"a\": 1\n}\n{\n  \"a\": 2\n}" => 1 item-001 {"a":1} | 2 item-002 {"a":2}
    "[1]\n[2, 3]"                => 1 item-001 1 | 2 item-002 2 | 3 item-003 3
    "[]"                         => 
    "["                          => error: line 1, column 1: EOF while parsing a list
    "[ null ]"                   => 1 item-001 null
    "[slug]/page.tsx\n[...all].tsx" => 1 item-001 "[slug]/page.tsx" | 2 item-002 "[...all].tsx"
    "[null-check].rs"            => 1 item-001 "[null-check].rs"
    "[info] starting"            => 1 item-001 "[info] starting"
    "{a: 1}"                     => error: line 1, column 2: key must be a string
    "[{\"a\": 1}"                => error: line 1, column 9: EOF while parsing a list
    "[1]\nnot json"              => error: line 2, column 2: expected ident
    "#);
}

#[test]
fn input_that_is_not_text_is_refused() {
    for kind in [InputKind::Json, InputKind::Csv, InputKind::Lines, InputKind::Output] {
        assert_eq!(
            all(b"a\n\xc3\xa9\xff", kind),
            "error: line 2, column 2: the input is not UTF-8"
        );
    }
}

#[test]
fn a_path_leads_to_the_items() {
    let document = r#"{"items": [{"id": 1, "f": ["a"]}, {"id": 2, "f": ["b", "c"]}], "one": {"x": 1}, "n": 5}"#;
    let paths = [
        "$",
        "$.items",
        "$.items[*]",
        "$.items[*].f",
        "$.items[*].f[*]",
        "$.items[?@.id > 1]",
        "$..id",
        "$.one",
        "$.n",
        "$.missing",
        "$.items[0].f",
    ];
    insta::assert_snapshot!(table(&paths, |path| shown(document, InputKind::Json, &at(path))), @r#"
    "$"                          => 1 item-001 {"items":[{"id":1,"f":["a"]},{"id":2,"f":["b","c"]}],"one":{"x":1},"n":5}
    "$.items"                    => 1 item-001 {"id":1,"f":["a"]} | 2 item-002 {"id":2,"f":["b","c"]}
    "$.items[*]"                 => 1 item-001 {"id":1,"f":["a"]} | 2 item-002 {"id":2,"f":["b","c"]}
    "$.items[*].f"               => 1 item-001 ["a"] | 2 item-002 ["b","c"]
    "$.items[*].f[*]"            => 1 item-001 "a" | 2 item-002 "b" | 3 item-003 "c"
    "$.items[?@.id > 1]"         => 1 item-001 {"id":2,"f":["b","c"]}
    "$..id"                      => 1 item-001 1 | 2 item-002 2
    "$.one"                      => 1 item-001 {"x":1}
    "$.n"                        => 1 item-001 5
    "$.missing"                  => 
    "$.items[0].f"               => 1 item-001 "a"
    "#);
}

#[test]
fn a_path_leads_into_every_document_but_not_into_text() {
    let lines = "{\"f\": [1, 2]}\n{\"f\": [3]}\n[4]\n";
    insta::assert_snapshot!(shown(lines, InputKind::JsonLines, &at("$.f[*]")), @"
    1 item-001 1
    2 item-002 2
    3 item-003 3
    ");
    insta::assert_snapshot!(shown(lines, InputKind::Output, &at("$.f")), @"
    1 item-001 1
    2 item-002 2
    3 item-003 3
    ");
    for kind in [InputKind::Csv, InputKind::Lines] {
        let error = shown("a\nb", kind, &at("$.f"));
        assert_eq!(error, "error: `json_path` leads into JSON, and this input is not JSON");
    }
    let values = || Items::of_values(vec![1.into(), serde_json::json!({"f": 2})]).unwrap();
    assert_eq!(select(values(), &Selection::default()).unwrap().len(), 2);
    let found = select(values(), &at("$[*].f")).unwrap();
    assert_eq!(found.iter().map(|item| item.data.get()).collect::<Vec<_>>(), ["2"]);
}

const PEOPLE: &str = r#"[
    {"name": "eve", "age": 30, "team": "b"}, {"name": "bob", "age": null, "team": "a"}, {"name": "ada", "age": 36, "team": "a"},
    {"name": "dan", "age": 30.0, "team": "c"}, {"name": "cyd", "team": "b"}, {"name": "Fay", "age": "30", "team": "a"}
]"#;

fn people(selection: &Selection) -> String {
    match select(read(PEOPLE.as_bytes(), InputKind::Json).unwrap(), selection) {
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
        (Selection { offset: 1, max_items: Some(2), ..none.clone() }, "bob ada"),
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
    insta::assert_snapshot!(table(&inputs, |input| shown(input, InputKind::Json, &key("item.k"))), @r#"
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
            select(Items::of_texts(vec!["x"; count]).unwrap(), &Selection::default()).unwrap();
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
        let errors = cases.iter().map(|case| shown(case, InputKind::Json, selection));
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
    insta::assert_snapshot!(all(input, InputKind::Json), @r#"
    1 item-001 {"a b":[1,2],"q":"x \" \\","é":1.50}
    2 item-002 " \\\" "
    "#);
}

#[test]
#[ignore = "takes long without optimisation; run with --release"]
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
    let items = read(input.as_bytes(), InputKind::Json).unwrap();
    let read = start.elapsed();
    let chosen = select(items, &selection).unwrap();
    let took = start.elapsed();
    println!("{} MB, {} items: read in {read:?}, all in {took:?}", input.len() >> 20, chosen.len());
    assert!(took < std::time::Duration::from_secs(2), "{took:?}");
}
