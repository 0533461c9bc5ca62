//! Paths, case by case.

mod parse_errors;
mod properties;

use serde_json::json;

use super::*;

fn raw(document: &str) -> Box<RawValue> {
    RawValue::from_string(document.to_owned()).unwrap()
}

fn found(path: &str, document: &str) -> String {
    let path = JsonPath::parse(path).unwrap_or_else(|fault| panic!("{path}: {fault:?}"));
    let document = raw(document);
    match path.select(&document) {
        Ok(parts) => parts.iter().map(|part| part.get()).collect::<Vec<_>>().join(" "),
        Err(error) => format!("error: {error}"),
    }
}

fn check(document: &str, cases: &[(&str, &str)]) {
    for (path, expected) in cases {
        assert_eq!(found(path, document), *expected, "{path}");
    }
}

const STORE: &str = r#"{"store":{"book":[{"category":"reference","author":"Rees","title":"Sayings","price":8.95},{"category":"fiction","author":"Waugh","title":"Sword","price":12.99},{"category":"fiction","author":"Melville","title":"Moby","isbn":"0-553","price":8.99},{"category":"fiction","author":"Tolkien","title":"Lord","isbn":"0-395","price":22.99}],"bicycle":{"color":"red","price":399}}}"#;

#[test]
fn the_book_store_of_the_standard() {
    check(
        STORE,
        &[
            ("$.store.book[*].author", r#""Rees" "Waugh" "Melville" "Tolkien""#),
            ("$..author", r#""Rees" "Waugh" "Melville" "Tolkien""#),
            ("$.store..price", "8.95 12.99 8.99 22.99 399"),
            ("$..book[2].author", r#""Melville""#),
            ("$..book[2].publisher", ""),
            ("$..book[-1].title", r#""Lord""#),
            ("$..book[0,1].title", r#""Sayings" "Sword""#),
            ("$..book[:2].title", r#""Sayings" "Sword""#),
            ("$..book[?@.isbn].title", r#""Moby" "Lord""#),
            ("$..book[?@.price<10].title", r#""Sayings" "Moby""#),
            ("$.store.bicycle.*", r#""red" 399"#),
            ("$.store.book[?@.category=='reference' || @.price > 20].title", r#""Sayings" "Lord""#),
        ],
    );
}

#[test]
fn names_and_wildcards() {
    check(
        r#"{"o": {"j j": {"k.k": 3}}, "'": {"@": 2}, "a": [5, 3], "☺": 1, "_x1": 0}"#,
        &[
            ("$.o['j j']", r#"{"k.k": 3}"#),
            ("$.o['j j']['k.k']", "3"),
            (r#"$.o["j j"]["k.k"]"#, "3"),
            (r#"$["'"]["@"]"#, "2"),
            (r"$['\'']['@']", "2"),
            ("$.☺", "1"),
            (r"$['\u263a']", "1"),
            ("$._x1", "0"),
            ("$.a[*]", "5 3"),
            ("$.a.*", "5 3"),
            ("$.a.length", ""),
            ("$.a['0']", ""),
            ("$.o[0]", ""),
            ("$.missing.further", ""),
            ("$['o', 'a', 'o'].*", r#"{"k.k": 3} 5 3 {"k.k": 3}"#),
        ],
    );
    check(
        r#"{"o": {"j": 1, "k": 2}, "a": [5, 3]}"#,
        &[
            ("$[*]", r#"{"j": 1, "k": 2} [5, 3]"#),
            ("$.o[*, *]", "1 2 1 2"),
            ("$", r#"{"o": {"j": 1, "k": 2}, "a": [5, 3]}"#),
            ("$ .a [ 0 , 1 ]", "5 3"),
        ],
    );
    check(
        r#"{"\ud83d\ude00": 1, "a\n": 2, "b": 1, "b": 2}"#,
        &[(r"$['\uD83D\uDE00']", "1"), (r"$['a\n']", "2"), ("$.b", "2")],
    );
}

#[test]
fn indexes_and_slices() {
    check(
        r#"["a", "b", "c", "d", "e", "f", "g"]"#,
        &[
            ("$[1]", r#""b""#),
            ("$[-2]", r#""f""#),
            ("$[7]", ""),
            ("$[-8]", ""),
            ("$[1:3]", r#""b" "c""#),
            ("$[5:]", r#""f" "g""#),
            ("$[1:5:2]", r#""b" "d""#),
            ("$[5:1:-2]", r#""f" "d""#),
            ("$[::-1]", r#""g" "f" "e" "d" "c" "b" "a""#),
            ("$[:]", r#""a" "b" "c" "d" "e" "f" "g""#),
            ("$[ 1 : 5 : 3 ]", r#""b" "e""#),
            ("$[-3:-1]", r#""e" "f""#),
            ("$[1:5:0]", ""),
            ("$[10:20]", ""),
            ("$[20:10:-1]", ""),
            ("$[-9007199254740991:9007199254740991:9007199254740991]", r#""a""#),
            ("$[0:3, 5]", r#""a" "b" "c" "f""#),
            ("$[0, 0]", r#""a" "a""#),
        ],
    );
    check("[]", &[("$[::-1]", ""), ("$[-1]", ""), ("$[*]", "")]);
    check(r#"{"0": 1}"#, &[("$[0]", ""), ("$[:]", "")]);
}

#[test]
fn everything_below() {
    check(
        r#"{"o": {"j": 1, "k": 2}, "a": [5, 3, [{"j": 4}, {"k": 6}]]}"#,
        &[
            ("$..j", "1 4"),
            ("$..[0]", r#"5 {"j": 4}"#),
            ("$..o", r#"{"j": 1, "k": 2}"#),
            ("$.o..[*, *]", "1 2 1 2"),
            ("$.a..[0, 1]", r#"5 3 {"j": 4} {"k": 6}"#),
            ("$.o..*", "1 2"),
            ("$..[?@.j > 2]", r#"{"j": 4}"#),
            ("$..j..x", ""),
        ],
    );
}

#[test]
fn filters() {
    check(
        r#"{"obj": {"x": "y"}, "arr": [2, 3], "n": null, "e": [3, 5, 1, 2, 4, 6, {"b": "j"}, {"b": "k"}, {"b": {}}, {"b": "kilo"}]}"#,
        &[
            ("$.e[?@.b == 'kilo']", r#"{"b": "kilo"}"#),
            ("$.e[?(@.b == 'kilo')]", r#"{"b": "kilo"}"#),
            ("$.e[?@>3.5]", "5 4 6"),
            ("$.e[?@.b]", r#"{"b": "j"} {"b": "k"} {"b": {}} {"b": "kilo"}"#),
            ("$.e[?@<2 || @.b == \"k\"]", r#"1 {"b": "k"}"#),
            ("$.e[?@>1 && @<4]", "3 2"),
            ("$.e[?!(@>1) && !@.b]", "1"),
            ("$.e[?!@.b && @ >= 5]", "5 6"),
            ("$.e[?match(@.b, '[jk]')]", r#"{"b": "j"} {"b": "k"}"#),
            ("$.e[?search(@.b, '[jk]')]", r#"{"b": "j"} {"b": "k"} {"b": "kilo"}"#),
            ("$.e[?@ == $.arr[1]]", "3"),
            ("$.e[?@.b == $.obj]", ""),
            ("$.e[?@.b == $.missing.x, 0]", "3 5 1 2 4 6 3"),
            ("$[?@ == null]", "null"),
            ("$[?length(@) == 2]", "[2, 3]"),
            ("$[?count(@.*) == 1].x", r#""y""#),
            ("$[?value(@..x) == 'y']", r#"{"x": "y"}"#),
            ("$.e[?length(@.b) > 1]", r#"{"b": "kilo"}"#),
            (
                "$[?@[?@ == 2]]",
                r#"[2, 3] [3, 5, 1, 2, 4, 6, {"b": "j"}, {"b": "k"}, {"b": {}}, {"b": "kilo"}]"#,
            ),
            ("$.missing[?@]", ""),
            ("$.n[?@]", ""),
        ],
    );
}

/// The table of comparisons of the standard; each is true for the one part that it tests, or not.
#[test]
fn comparisons() {
    let document = r#"{"obj": {"x": "y"}, "arr": [2, 3], "one": [0]}"#;
    let cases = [
        ("$.absent1 == $.absent2", true),
        ("$.absent1 <= $.absent2", true),
        ("$.absent == 'g'", false),
        ("$.absent1 != $.absent2", false),
        ("$.absent != 'g'", true),
        ("1 <= 2", true),
        ("1 > 2", false),
        ("13 == '13'", false),
        ("'a' <= 'b'", true),
        ("'a' > 'b'", false),
        ("$.obj == $.arr", false),
        ("$.obj != $.arr", true),
        ("$.obj == $.obj", true),
        ("$.obj != $.obj", false),
        ("$.arr == $.arr", true),
        ("$.arr != $.arr", false),
        ("$.obj == 17", false),
        ("$.obj != 17", true),
        ("$.obj <= $.arr", false),
        ("$.obj < $.arr", false),
        ("$.obj <= $.obj", true),
        ("$.arr <= $.arr", true),
        ("1 <= $.arr", false),
        ("1 >= $.arr", false),
        ("1 > $.arr", false),
        ("1 < $.arr", false),
        ("true <= true", true),
        ("true > true", false),
        ("null == null", true),
        ("false < true", false),
        ("1 == 1.0", true),
        ("-0 == 0", true),
        ("1e2 == 100", true),
        ("1.5E-1 < 0.2", true),
        (r"'\u00e9' == 'é'", true),
        ("\"a'b\" == 'a\\'b'", true),
    ];
    for (test, expected) in cases {
        let expected = if expected { "0" } else { "" };
        assert_eq!(found(&format!("$.one[?{test}]"), document), expected, "{test}");
        assert_eq!(
            found(&format!("$.one[? {} ]", test.replace(' ', "\t")), document),
            expected,
            "{test}"
        );
    }
}

#[test]
fn patterns() {
    let document = r#"{"p": "b.?b", "bad": "(", "v": ["bab", "xbabx", "a.c", "abc", "a\rc", "Ж", "ж", "^&~", 7, null]}"#;
    check(
        document,
        &[
            ("$.v[?match(@, $.p)]", r#""bab""#),
            ("$.v[?search(@, $.p)]", r#""bab" "xbabx""#),
            ("$.v[?match(@, $.bad)]", ""),
            ("$.v[?match(@, $.v)]", ""),
            ("$.v[?match(@, 1)]", ""),
            ("$.v[?match(@, 'a.c')]", r#""a.c" "abc""#),
            ("$.v[?match(@, 'a[.]c')]", r#""a.c""#),
            (r"$.v[?match(@, 'a\\.c')]", r#""a.c""#),
            (r"$.v[?match(@, '\\p{Lu}')]", r#""Ж""#),
            ("$.v[?match(@, '[&&~~^x]+')]", r#""^&~""#),
            ("$.v[?!match(@, '.*')]", r#""a\rc" 7 null"#),
            ("$.v[?match(@, 'ab|bc')]", ""),
            ("$.v[?search(@, '^a.*c$')]", r#""a.c" "abc""#),
        ],
    );
}

#[test]
fn numbers_and_texts_are_given_back_as_they_are_written() {
    check(
        r#"{"a": [ 1.10, 123456789012345678901234567890, "\u0041" ]}"#,
        &[("$.a[*]", r#"1.10 123456789012345678901234567890 "\u0041""#)],
    );
}

#[test]
fn a_path_gives_one_value_or_a_list_of_all() {
    let document = raw(r#"{"a": {"b": 1}, "l": [1, 2]}"#);
    let value = |path: &str| JsonPath::parse(path).unwrap().select_value(&document).unwrap();
    assert_eq!(value("$.a.b"), Some(json!(1)));
    assert_eq!(value("$.l"), Some(json!([1, 2])));
    assert_eq!(value("$.l[*]"), Some(json!([1, 2])));
    assert_eq!(value("$.a.missing"), None);
    assert_eq!(value("$.a.*.missing"), Some(json!([])));
}

#[test]
fn damage_in_a_document_is_an_error() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    assert_eq!(found("$..x", &deep), "error: the document is nested more than 128 levels deep");
    insta::assert_snapshot!(found("$[?@ == 1]", &format!("[{deep}]")), @"error: the document cannot be read: recursion limit exceeded at line 1 column 128");
    insta::assert_snapshot!(found("$.x", r#"{"\ud800": 1}"#), @"error: the document cannot be read: unexpected end of hex escape at line 1 column 9");
    insta::assert_snapshot!(found("$[?@ == 'x']", r#"["\ud800"]"#), @"error: the document cannot be read: unexpected end of hex escape at line 1 column 8");
}
