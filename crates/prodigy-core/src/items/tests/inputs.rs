//! Reading every kind of input, and finding the items in it.

use super::*;

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
        "a.list",
        "a.json.bak",
        "a.yml",
        "notes.MD",
    ];
    let kinds: Vec<_> = kinds
        .iter()
        .map(|name| match InputFormat::from_path(Path::new(name)) {
            Ok(kind) => format!("{name} {kind:?}"),
            Err(error) => format!("{name} {error}"),
        })
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
    a.list Lines
    a.json.bak files that end in `.bak` are not read; items can be in `.json`, `.jsonl`, `.ndjson`, `.csv` and `.tsv`, and one per line in `.txt`, `.list` and files without an ending
    a.yml files that end in `.yml` are not read; items can be in `.json`, `.jsonl`, `.ndjson`, `.csv` and `.tsv`, and one per line in `.txt`, `.list` and files without an ending
    notes.MD files that end in `.MD` are not read; items can be in `.json`, `.jsonl`, `.ndjson`, `.csv` and `.tsv`, and one per line in `.txt`, `.list` and files without an ending
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
    insta::assert_snapshot!(table(&cases, |case| all(case, InputFormat::Json)), @r#"
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
    insta::assert_snapshot!(table(&cases, |case| all(case, InputFormat::JsonLines)), @r#"
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
    insta::assert_snapshot!(table(&cases, |case| all(case, InputFormat::Csv)), @r#"
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
    insta::assert_snapshot!(table(&tabs, |case| all(case, InputFormat::Tsv)), @r#"
    "a\tb\n1,5\t\"x\ty\"\n"      => 1 item-001 {"a":"1,5","b":"x\ty"}
    "a\tb\n1"                    => error: line 2: this row has 1 fields, but the header has 2
    "#);
}

#[test]
fn lines_are_texts() {
    let cases = ["", "\n \n", "a b\n\n  c  \r\nd", "[1]\n{\"a\": 1}", "a\"b\\c"];
    insta::assert_snapshot!(table(&cases, |case| all(case, InputFormat::Lines)), @r#"
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
    insta::assert_snapshot!(table(&cases, |case| all(case, InputFormat::Output)), @r#"
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
    for kind in [InputFormat::Json, InputFormat::Csv, InputFormat::Lines, InputFormat::Output] {
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
    insta::assert_snapshot!(table(&paths, |path| shown(document, InputFormat::Json, &at(path))), @r#"
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
    insta::assert_snapshot!(shown(lines, InputFormat::JsonLines, &at("$.f[*]")), @"
    1 item-001 1
    2 item-002 2
    3 item-003 3
    ");
    insta::assert_snapshot!(shown(lines, InputFormat::Output, &at("$.f")), @"
    1 item-001 1
    2 item-002 2
    3 item-003 3
    ");
    for kind in [InputFormat::Csv, InputFormat::Lines] {
        let error = shown("a\nb", kind, &at("$.f"));
        assert_eq!(error, "error: `json_path` leads into JSON, and this input is not JSON");
    }
    let values = || RawItems::from_values(vec![1.into(), serde_json::json!({"f": 2})]).unwrap();
    assert_eq!(select(values(), &Selection::default()).unwrap().len(), 2);
    let found = select(values(), &at("$[*].f")).unwrap();
    assert_eq!(found.iter().map(|item| item.data.get()).collect::<Vec<_>>(), ["2"]);
}
