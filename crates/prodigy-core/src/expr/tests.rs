//! The expression language, case by case.

mod properties;

use serde_json::json;

use super::*;

pub(super) fn item_vars(item: Value) -> Vars {
    let mut vars = Vars::default();
    vars.set("item", item);
    vars
}

pub(super) fn example() -> Vars {
    let mut vars = item_vars(json!({
        "score": 5, "price": 2.5, "name": "Ada", "path": "src/a b.rs", "tags": ["x", "y", 3],
        "empty": "", "none": null, "yes": true, "no": false, "zero": 0, "nested": {"deep": [{"a": 1}]},
        "odd name": "odd", "in": "keyword", "kebab-case": "k", "text5": "5", "big": 9_007_199_254_740_993_u64,
    }));
    vars.set("count", "42");
    vars.set("blank", "");
    vars.set("flag", "false");
    vars.set("quote", "' == '' || '1'=='1");
    vars.set("build", json!({"target": "release", "exit_code": 0}));
    vars.set("steps", json!({"unit-tests": {"exit_code": 3}}));
    vars
}

fn check(place: ExprContext, cases: &[(&str, bool)]) {
    let vars = example();
    for (source, expected) in cases {
        let expr = Expr::parse(source, place).unwrap_or_else(|fault| panic!("{source}: {fault:?}"));
        assert_eq!(expr.is_true(&vars), *expected, "{source}");
        assert_eq!(expr.source(), *source);
    }
}

/// Tests of the item in [`example`].
const ITEM_TESTS: &[(&str, bool)] = &[
    // Paths.
    ("item.score >= 5", true),
    ("score >= 5", true),
    ("score > 5", false),
    ("item.nested.deep[0].a == 1", true),
    ("nested.deep[1].a == null", true),
    ("item['odd name'] == 'odd'", true),
    ("item.in == 'keyword'", true),
    ("kebab-case == 'k'", true),
    ("item == null", false),
    ("missing.further[7].still == null", true),
    // Numbers compare as numbers, exactly.
    ("score == 5.0", true),
    ("score = 5", true),
    ("score != 5", false),
    ("price < 3", true),
    ("price >= 2.5", true),
    ("score > -1e3", true),
    ("big == 9007199254740993", true),
    ("big == 9007199254740992.0", false),
    ("big > 9007199254740992.0", true),
    ("text5 == 5", true),
    ("text5 < 10", true),
    ("'10' < '9'", true),
    ("'10' < 9", false),
    ("name == 5", false),
    // Nothing is less or greater than nothing.
    ("none == null", true),
    ("missing == null", true),
    ("missing == none", true),
    ("missing < 1", false),
    ("missing >= 1", false),
    ("none <= null", false),
    ("yes < 1", false),
    ("tags < 1", false),
    // Text.
    ("name == 'Ada'", true),
    ("name == \"Ada\"", true),
    ("name < 'Bob'", true),
    ("name == 'ada'", false),
    ("lower(name) == 'ada'", true),
    ("upper(name) == 'ADA'", true),
    ("'it\\'s' == \"it's\"", true),
    ("'a\\\\b' == 'a\\b'", true),
    ("'$${x}' == '$${' ", false),
    // Logic, and what binds tighter.
    ("yes && !no", true),
    ("yes AND NOT no", true),
    ("yes and no Or yes", true),
    ("no && no || yes", true),
    ("yes || no && no", true),
    ("(yes || no) && no", false),
    ("!(yes && no)", true),
    ("!!yes", true),
    ("not score == 6", true),
    ("!score == false", true),
    ("NOT no AND NOT no", true),
    // Truth of a value on its own.
    ("yes", true),
    ("no", false),
    ("zero", false),
    ("score", true),
    ("name", true),
    ("empty", false),
    ("none", false),
    ("missing", false),
    ("tags", true),
    ("[]", true),
    ("'false'", false),
    ("true", true),
    ("FALSE", false),
    // Lists.
    ("score in [1, 5, 9]", true),
    ("score in [1, '5']", true),
    ("score not in [1, 9]", true),
    ("name in ['Ada', 'Bob',]", true),
    ("'y' in tags", true),
    ("'z' in tags", false),
    ("'z' in missing", false),
    ("tags == ['x', 'y', 3.0]", true),
    ("score in [price, score]", true),
    // Patterns.
    ("path matches '\\.rs$'", true),
    ("path matches '^\\w+/'", true),
    ("matches(path, '^lib/')", false),
    ("score matches '^\\d$'", true),
    ("missing matches '.*'", false),
    // Functions.
    ("path contains 'a b'", true),
    ("contains(path, 'x')", false),
    ("tags contains 3", true),
    ("contains(nested, 'deep')", true),
    ("missing contains 'a'", false),
    ("starts_with(path, 'src/')", true),
    ("ends_with(path, '.rs')", true),
    ("ends_with(path, '.py')", false),
    ("length(name) == 3", true),
    ("length(tags) == 3", true),
    ("length(nested) == 1", true),
    ("length('äöü') == 3", true),
    ("length(missing) == null", true),
    ("exists(score)", true),
    ("exists(none)", true),
    ("exists(item.none)", true),
    ("exists(missing)", false),
    ("exists(nested.deep[0].b)", false),
    ("is_null(none)", true),
    ("is_null(missing)", true),
    ("is_not_null(score)", true),
    ("is_number(score)", true),
    ("is_number(text5)", false),
    ("is_string(name)", true),
    ("is_bool(no)", true),
    ("is_array(tags)", true),
    ("is_object(nested)", true),
    ("is_object(tags)", false),
];

#[test]
fn items_are_tested() {
    check(ExprContext::Item, ITEM_TESTS);
}

#[test]
fn variables_are_tested() {
    check(
        ExprContext::When,
        &[
            ("${build.target} == 'release'", true),
            ("\"${build.target}\" == 'release'", true),
            ("'${build.target}' == 'debug'", false),
            ("build.target == 'release'", true),
            ("${item.score} > 4", true),
            ("item.score > 4", true),
            ("${item.nested.deep[0].a} == 1", true),
            ("${steps.unit-tests.exit_code} == 3", true),
            ("${count} > 5", true),
            ("${count} == 42.0", true),
            ("${count}", true),
            ("${flag}", false),
            ("${flag} == false", true),
            ("!${flag}", true),
            ("${missing}", false),
            ("${missing:-7} == 7", true),
            ("${blank:-x} == 'x'", true),
            ("${count:-7} == 42", true),
            ("${missing:-} == ''", true),
            ("score == null", true),
            // What a variable holds is never read as part of the expression.
            ("${quote} == ''", false),
            ("'${quote}' == ''", false),
            ("${quote} contains '||'", true),
        ],
    );
}

#[test]
fn an_expression_has_a_value() {
    let values: Vec<String> = [
        "item.tags",
        "nested.deep[0]",
        "lower(name)",
        "length(path)",
        "score > 4",
        "x",
        "[1, 'a', name]",
    ]
    .iter()
    .map(|source| Expr::parse(source, ExprContext::Item).unwrap().evaluate(&example()).to_string())
    .collect();
    insta::assert_snapshot!(values.join("\n"), @r#"
    ["x","y",3]
    {"a":1}
    "ada"
    10
    true
    null
    [1,"a","Ada"]
    "#);
}

#[test]
fn an_expression_names_its_variables() {
    let show = |source: &str, place| {
        let expr = Expr::parse(source, place).unwrap();
        let shown: Vec<String> = expr
            .references()
            .into_iter()
            .map(|(path, range)| format!("{path} at `{}`", &source[range]))
            .collect();
        shown.join("\n")
    };
    insta::assert_snapshot!(
        show("'${build.target}' == \"x\" && steps.a.output[2] contains ${x:-y} || exists(q)", ExprContext::When),
        @"
        build.target at `'${build.target}'`
        steps.a.output[2] at `steps.a.output[2]`
        x at `${x:-y}`
        q at `q`
        ",
    );
    insta::assert_snapshot!(show("score > 1 && item . a [0] in b.c", ExprContext::Item), @"
    item.score at `score`
    item.a[0] at `item . a [0]`
    item.b.c at `b.c`
    ");
}

#[test]
fn a_bad_expression_says_what_is_wrong_and_where() {
    let deep = "(".repeat(70);
    let patterns = vec!["a matches 'b'"; 40].join(" || ");
    let cases = [
        (ExprContext::Item, ""),
        (ExprContext::Item, "  "),
        (ExprContext::Item, "score >"),
        (ExprContext::Item, "> 5"),
        (ExprContext::Item, "score 5"),
        (ExprContext::Item, "(score"),
        (ExprContext::Item, "score)"),
        (ExprContext::Item, "a < b < c"),
        (ExprContext::Item, "a == b in [c]"),
        (ExprContext::Item, "a & b"),
        (ExprContext::Item, "a + 1 == 2"),
        (ExprContext::Item, "a == 'open"),
        (ExprContext::Item, "a == 007"),
        (ExprContext::Item, "a == 1.2.3"),
        (ExprContext::Item, "item.0"),
        (ExprContext::Item, "item[-1]"),
        (ExprContext::Item, "item[a]"),
        (ExprContext::Item, "item."),
        (ExprContext::Item, "lenght(a)"),
        (ExprContext::Item, "Length(a)"),
        (ExprContext::Item, "frobnicate(a)"),
        (ExprContext::Item, "length()"),
        (ExprContext::Item, "contains(a)"),
        (ExprContext::Item, "exists(1)"),
        (ExprContext::Item, "a matches '('"),
        (ExprContext::Item, "a matches '\\w{10000}'"),
        (ExprContext::Item, "a matches b"),
        (ExprContext::Item, "a in 5"),
        (ExprContext::Item, "a not b"),
        (ExprContext::Item, "a == and"),
        (ExprContext::Item, "${score} > 5"),
        (ExprContext::Item, "name == '${item.name}'"),
        (ExprContext::Item, &deep),
        (ExprContext::Item, &patterns),
        (ExprContext::When, "${a"),
        (ExprContext::When, "${} == 1"),
        (ExprContext::When, "${a|json} == 1"),
        (ExprContext::When, "${a b}"),
        (ExprContext::When, "$a == 1"),
        (ExprContext::When, "'v${a}' == 'v1'"),
        (ExprContext::When, "'${a}${b}' == 'v1'"),
        (ExprContext::When, "a matches '${b}'"),
    ];
    let shown: Vec<String> = cases
        .iter()
        .map(|(place, source)| {
            let fault = Expr::parse(source, *place).unwrap_err();
            let short: String = source.chars().take(30).collect();
            let help = fault.help.map_or(String::new(), |help| format!(" ({help})"));
            format!("{short:<30} {:>3?}: {}{help}", fault.range, fault.message)
        })
        .collect();
    insta::assert_snapshot!(shown.join("\n"), @r"
                                     0..  0: the expression is empty
                                     0..  2: the expression is empty
    score >                          7..  7: expected a value, found the end
    > 5                              0..  1: expected a value, found `>`
    score 5                          6..  7: expected an operator, found `5`
    (score                           6..  6: expected `)`, found the end
    score)                           5..  6: expected an operator, found `)`
    a < b < c                        2..  7: comparisons cannot be chained (use parentheses, or `a < b && b < c`)
    a == b in [c]                    2..  9: comparisons cannot be chained (use parentheses, or `a < b && b < c`)
    a & b                            2..  3: unexpected `&` (write `&&`)
    a + 1 == 2                       2..  3: unexpected `+` (expressions compare values but do not calculate)
    a == 'open                       5.. 10: the text that starts here has no closing `'`
    a == 007                         5..  8: `007` is not a number (put text in quotes)
    a == 1.2.3                       5.. 10: `1.2.3` is not a number (put text in quotes)
    item.0                           5..  6: expected a name after `.`, found `0` (write `[0]` for the first value of a list)
    item[-1]                         5..  7: expected a number from 0 or a name in quotes, found `-1`
    item[a]                          5..  6: expected a number from 0 or a name in quotes, found `a`
    item.                            5..  5: expected a name after `.`, found the end
    lenght(a)                        0..  6: there is no function `lenght` (did you mean `length`?)
    Length(a)                        0..  6: there is no function `Length` (did you mean `length`?)
    frobnicate(a)                    0.. 10: there is no function `frobnicate`
    length()                         0..  8: `length` takes 1 value, not 0
    contains(a)                      0.. 11: `contains` takes 2 values, not 1
    exists(1)                        0..  9: `exists` takes one path
    a matches '('                   10.. 13: the pattern cannot be used: unclosed group
    a matches '\w{10000}'           10.. 21: the pattern cannot be used: it is too large
    a matches b                     10.. 11: expected a pattern in quotes, found `b`
    a in 5                           5..  6: `in` needs a list (write `x in ['a', 'b']`)
    a not b                          6..  7: expected `in`, found `b`
    a == and                         5..  8: expected a value, found `and`
    ${score} > 5                     0..  8: `${…}` can only be used in `when` (write `item.score`)
    name == '${item.name}'           8.. 22: `${…}` can only be used in `when` (write `item.name`)
    ((((((((((((((((((((((((((((((  64.. 65: the expression is nested more than 64 levels deep
    a matches 'b' || a matches 'b' 554..557: an expression can have at most 32 patterns
    ${a                              0..  2: `${` has no closing `}`
    ${} == 1                         0..  3: `` is not the path of a variable (write `${name}`, `${name.field}` or `${name:-default}`)
    ${a|json} == 1                   0..  9: `a|json` is not the path of a variable (write `${name}`, `${name.field}` or `${name:-default}`)
    ${a b}                           0..  6: `a b` is not the path of a variable (write `${name}`, `${name.field}` or `${name:-default}`)
    $a == 1                          0..  1: unexpected `$` (write `${name}` for a variable)
    'v${a}' == 'v1'                  2..  6: a text in an expression cannot be put together from variables (compare the variable itself; `$${` stands for a plain `${`)
    '${a}${b}' == 'v1'               5..  9: a text in an expression cannot be put together from variables (compare the variable itself; `$${` stands for a plain `${`)
    a matches '${b}'                10.. 16: expected a pattern in quotes, found `${b}`
    ");
}

#[test]
fn long_and_deep_expressions_are_refused_before_they_hurt() {
    let long = "a || ".repeat(13_000) + "a";
    assert!(long.len() < 65_536);
    assert!(!Expr::parse(&long, ExprContext::Item).unwrap().is_true(&example()));
    let longer = "a || ".repeat(14_000) + "a";
    insta::assert_snapshot!(Expr::parse(&longer, ExprContext::Item).unwrap_err().message, @"the expression is longer than 64 KiB");
    for nested in ["!", "not ", "(", "[", "length("] {
        let message = Expr::parse(&nested.repeat(5_000), ExprContext::Item).unwrap_err().message;
        assert_eq!(message, "the expression is nested more than 64 levels deep", "{nested}");
    }
}
