//! Paths that are refused.

use crate::json_path::JsonPath;

/// Paths that cannot be read.
const MISTAKES: &[&str] = &[
    "",
    "items[*]",
    ".a",
    "[0]",
    " $",
    "$ ",
    "@.a",
    "$.",
    "$..",
    "$. a",
    "$.1",
    "$.a-b",
    "$.a.b-c-d e",
    "$a",
    "$[]",
    "$[a]",
    "$['a'",
    "$['a",
    r"$['\x']",
    r"$['\ud800']",
    r"$['\u12']",
    "$['\t']",
    "$[01]",
    "$[-0]",
    "$[-]",
    "$[1.5]",
    "$[9007199254740992]",
    "$[0 2]",
    "$[1:2:3:4]",
    "$[?]",
    "$[?a == 1]",
    "$[?@.a = 1]",
    "$[?@.a ==]",
    "$[?1]",
    "$[?true]",
    "$[?length(@)]",
    "$[?!@.a == 1]",
    "$[?@.* == 1]",
    "$[?@..a < 1]",
    "$[?match(@, 'a') == true]",
    "$[?match(@)]",
    "$[?count(1) == 1]",
    "$[?length(@.*) == 1]",
    "$[?lenght(@) == 1]",
    "$[?count (@.*) == 1]",
    "$[?match(@, '(')]",
    "$[?match(@, 'a{9999}{9999}')]",
    "$[?(@.a]",
    "$[?@.a && ]",
    "$[?1 == 01]",
    "$[?1 == 1e999]",
    "$.a[?@.b == 1 && (@.c == 2]",
    "$[?@ == [1]]",
];

#[test]
fn mistakes_have_a_place_and_often_a_way_out() {
    let shown: Vec<String> = MISTAKES
        .iter()
        .map(|path| {
            let fault = JsonPath::parse(path).expect_err(path);
            let help = fault.help.map(|help| format!("\n{:31}{help}", "")).unwrap_or_default();
            format!("{path:<30?} {:?}: {}{help}", fault.range, fault.message)
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r#"
    "" 0..0: expected `$` at the start of the path, found the end
    "items[*]" 0..1: expected `$` at the start of the path, found `i`
                                   write `$.items[*]`
    ".a" 0..1: expected `$` at the start of the path, found `.`
                                   write `$.a`
    "[0]" 0..1: expected `$` at the start of the path, found `[`
                                   write `$[0]`
    " $" 0..1: expected `$` at the start of the path, found a blank
    "$ " 1..2: expected `.`, `[` or the end, found a blank
    "@.a" 0..1: expected `$` at the start of the path, found `@`
    "$." 2..2: expected a name or `*` after the dot, found the end
    "$.." 3..3: expected a name or `*` after the dot, found the end
    "$. a" 2..3: expected a name or `*` after the dot, found a blank
    "$.1" 2..3: expected a name or `*` after the dot, found `1`
                                   write `[0]` for the first value of a list
    "$.a-b" 3..4: expected `.`, `[` or the end, found `-`
                                   write `['a-b']` for a name with other characters
    "$.a.b-c-d e" 5..6: expected `.`, `[` or the end, found `-`
                                   write `['b-c-d']` for a name with other characters
    "$a" 1..2: expected `.`, `[` or the end, found `a`
    "$[]" 2..3: expected a name in quotes, a number, a slice, `*` or `?`, found `]`
    "$[a]" 2..3: a name in brackets needs quotes
                                   write `['a']`
    "$['a'" 5..5: expected `,` or `]`, found the end
    "$['a" 2..4: this text has no closing quote
    "$['\\x']" 3..5: `\x` is no escape
                                   write `\\` for a backslash
    "$['\\ud800']" 3..9: `\ud800` is no character
    "$['\\u12']" 3..5: `\u` is no character
    "$['\t']" 3..4: a text has no control characters
                                   write `\t`
    "$[01]" 2..4: a whole number has no leading zero
    "$[-0]" 2..4: a whole number has no leading zero
    "$[-]" 3..4: expected a digit, found `]`
    "$[1.5]" 3..4: expected `,` or `]`, found `.`
    "$[9007199254740992]" 2..18: `9007199254740992` is too large
    "$[0 2]" 4..5: expected `,` or `]`, found `2`
    "$[1:2:3:4]" 7..8: expected `,` or `]`, found `:`
    "$[?]" 3..4: expected a path, a value or a function, found `]`
    "$[?a == 1]" 3..4: `a` is no path and no value
                                   write `@.a` for a field, `'a'` for a text
    "$[?@.a = 1]" 7..8: `=` compares nothing
                                   write `==`
    "$[?@.a ==]" 9..10: expected a path, a value or a function, found `]`
    "$[?1]" 3..4: a value is no test
                                   compare it with something
    "$[?true]" 3..7: a value is no test
                                   compare it with something
    "$[?length(@)]" 3..12: a value is no test
                                   compare it with something
    "$[?!@.a == 1]" 3..10: `!` cannot stand before a comparison
                                   write `!(a == b)`, or `a != b`
    "$[?@.* == 1]" 3..6: this path can lead to more than one value
                                   compare `count(…)` or `value(…)` of it
    "$[?@..a < 1]" 3..7: this path can lead to more than one value
                                   compare `count(…)` or `value(…)` of it
    "$[?match(@, 'a') == true]" 3..16: a test has no value
    "$[?match(@)]" 3..11: `match` takes 2 values, not 1
    "$[?count(1) == 1]" 9..10: `count` takes a path
    "$[?length(@.*) == 1]" 10..13: this path can lead to more than one value
                                   compare `count(…)` or `value(…)` of it
    "$[?lenght(@) == 1]" 3..9: there is no function `lenght`
                                   did you mean `length`?
    "$[?count (@.*) == 1]" 3..8: `count` is a function
                                   write `count(…)`, with nothing before the `(`
    "$[?match(@, '(')]" 12..15: the pattern cannot be used: unclosed group
    "$[?match(@, 'a{9999}{9999}')]" 12..27: the pattern cannot be used: it is too large
    "$[?(@.a]" 7..8: expected `&&`, `||` or `)`, found `]`
    "$[?@.a && ]" 10..11: expected a path, a value or a function, found `]`
    "$[?1 == 01]" 8..10: `01` is not a number
    "$[?1 == 1e999]" 8..13: `1e999` is not a number
    "$.a[?@.b == 1 && (@.c == 2]" 26..27: expected `&&`, `||` or `)`, found `]`
    "$[?@ == [1]]" 8..9: expected a path, a value or a function, found `[`
    "#);
}

#[test]
fn paths_have_limits() {
    let fault = |path: String| JsonPath::parse(&path).unwrap_err().message;
    assert_eq!(
        fault(format!("$[?{}@{}]", "(".repeat(99), ")".repeat(99))),
        "the path is nested more than 64 levels deep"
    );
    assert_eq!(
        fault(format!("${}", "[?@".repeat(99))),
        "the path is nested more than 64 levels deep"
    );
    assert_eq!(
        fault(format!("$[?{}", "length(".repeat(99))),
        "the path is nested more than 64 levels deep"
    );
    assert_eq!(fault(format!("${}", ".a".repeat(40_000))), "the path is longer than 64 KiB");
    let patterns = vec!["match(@, 'a')"; 33].join("&&");
    assert_eq!(fault(format!("$[?{patterns}]")), "a path can have at most 32 patterns");
}
