//! The expression language, whatever is thrown at it.

use std::cmp::Ordering;

use proptest::prelude::*;
use regex::Regex;
use serde_json::json;

use super::example;
use crate::{
    expr::{Comparison, Expr, ExprContext, Function, RegexPattern, SortBy, Term, Value, VarPath},
    json_value,
    vars::{PathSegment, Vars},
};

/// Writes a tree so that reading it gives the same tree.
fn print(term: &Term) -> String {
    let list =
        |terms: &[Term], between: &str| terms.iter().map(print).collect::<Vec<_>>().join(between);
    match term {
        Term::Literal(Value::String(text)) => quoted(text),
        Term::Literal(value) => value.to_string(),
        Term::Variable(path, None) => path_text(path),
        Term::Variable(path, Some(default)) => format!("${{{path}:-{default}}}"),
        Term::List(terms) => format!("[{}]", list(terms, ", ")),
        Term::Not(term) => format!("!({})", print(term)),
        Term::All(terms) => format!("({})", list(terms, " && ")),
        Term::Any(terms) => format!("({})", list(terms, " || ")),
        Term::Compare(comparison, a, b) => {
            let symbol = match comparison {
                Comparison::Equal => "==",
                Comparison::NotEqual => "!=",
                Comparison::Less => "<",
                Comparison::AtMost => "<=",
                Comparison::Greater => ">",
                Comparison::AtLeast => ">=",
                Comparison::In => "in",
            };
            format!("({} {symbol} {})", print(a), print(b))
        }
        Term::Matches(term, pattern) => {
            format!("matches({}, {})", print(term), quoted(pattern.0.as_str()))
        }
        Term::Call(function, terms) => {
            let (name, ..) = Function::ALL.iter().find(|(_, known, _)| known == function).unwrap();
            format!("{name}({})", list(terms, ", "))
        }
        Term::Exists(path) => format!("exists({})", path_text(path)),
    }
}

fn quoted(text: &str) -> String {
    let text = text.replace('\\', "\\\\").replace('\'', "\\'").replace("${", "$${");
    format!("'{text}'")
}

fn path_text(path: &VarPath) -> String {
    let segments = path.rest.iter().map(|segment| match segment {
        PathSegment::Field(name) => format!("[{}]", quoted(name)),
        PathSegment::Index(index) => format!("[{index}]"),
    });
    path.root.clone() + &segments.collect::<String>()
}

fn paths() -> impl Strategy<Value = VarPath> {
    let segment = prop_oneof![
        "\\PC{0,4}".prop_map(PathSegment::Field),
        (0_usize..9).prop_map(PathSegment::Index),
    ];
    ("(item|count|quote|x[a-z]{0,2})", prop::collection::vec(segment, 0..3))
        .prop_map(|(root, rest)| VarPath { root, rest })
}

fn trees() -> impl Strategy<Value = Term> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(|value| Term::Literal(value.into())),
        any::<i64>().prop_map(|value| Term::Literal(value.into())),
        (-1e6..1e6_f64).prop_map(|value| Term::Literal(value.into())),
        "\\PC{0,6}|\\$\\{x\\}|\\$\\$\\{".prop_map(|text| Term::Literal(text.into())),
        Just(Term::Literal(Value::Null)),
        paths().prop_map(|path| Term::Variable(path, None)),
        paths().prop_map(Term::Exists),
        "[a-z ]{0,5}".prop_map(|text| {
            Term::Variable(VarPath { root: "y".to_owned(), rest: vec![] }, Some(text))
        }),
    ];
    let comparison = prop_oneof![
        Just(Comparison::Equal),
        Just(Comparison::NotEqual),
        Just(Comparison::Less),
        Just(Comparison::AtMost),
        Just(Comparison::Greater),
        Just(Comparison::AtLeast),
    ];
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let several = prop::collection::vec(inner.clone(), 2..4);
        let boxed = inner.clone().prop_map(Box::new);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Term::List),
            boxed.clone().prop_map(Term::Not),
            several.clone().prop_map(Term::All),
            several.prop_map(Term::Any),
            (comparison.clone(), boxed.clone(), boxed.clone())
                .prop_map(|(comparison, a, b)| Term::Compare(comparison, a, b)),
            (boxed.clone(), prop::collection::vec(inner.clone(), 0..3)).prop_map(|(a, list)| {
                Term::Compare(Comparison::In, a, Box::new(Term::List(list)))
            }),
            (boxed, "[a-z.*]{0,5}").prop_filter_map("a pattern", |(term, pattern)| {
                Some(Term::Matches(term, RegexPattern(Regex::new(&pattern).ok()?)))
            }),
            (0..Function::ALL.len(), inner.clone(), inner).prop_map(|(n, a, b)| {
                let (_, function, count) = Function::ALL[n];
                Term::Call(function, [a, b].into_iter().take(count).collect())
            }),
        ]
    })
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3..3_i64).prop_map(Value::from),
        Just(json!(9_007_199_254_740_993_i64)),
        Just(json!(9_007_199_254_740_992.0)),
        Just(json!(u64::MAX)),
        Just(json!(1e300)),
        Just(json!(-0.0)),
        (-3.0..3.0_f64).prop_map(Value::from),
        "[a-c]{0,2}|[0-9]|true".prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            prop::collection::vec(("[a-c]", inner), 0..3)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_text_is_read_or_refused(source in "\\PC{0,60}") {
        for place in [ExprContext::When, ExprContext::Item] {
            match Expr::parse(&source, place) {
                Ok(expr) => {
                    expr.is_true(&example());
                }
                Err(fault) => prop_assert!(source.get(fault.range.clone()).is_some(), "{fault:?}"),
            }
        }
        SortBy::parse(&source).ok();
    }

    #[test]
    fn text_made_of_our_own_tokens_is_read_or_refused(
        tokens in prop::collection::vec(
            prop::sample::select(vec![
                "item", "a", ".", "[", "]", "0", "-1.5", "'t'", "\"${a}\"", "${a:-b}", "==", "=", "<", ">=", "!",
                "&&", "||", "and", "NOT", "in", "matches", "contains", "(", ")", ",", "length", "exists", "null",
                "DESC", "NULLS", "FIRST", "$", "{", "\\", "'", "é",
            ]),
            0..14,
        ),
        between in prop::sample::select(vec!["", " "]),
    ) {
        let source = tokens.join(between);
        for place in [ExprContext::When, ExprContext::Item] {
            match Expr::parse(&source, place) {
                Ok(expr) => {
                    let printed = print(&expr.term);
                    let again = Expr::parse(&printed, ExprContext::When)
                        .map_err(|fault| TestCaseError::fail(format!("{printed}: {fault:?}")))?;
                    prop_assert_eq!(again.term, expr.term);
                }
                Err(fault) => prop_assert!(source.get(fault.range.clone()).is_some(), "{fault:?}"),
            }
        }
        SortBy::parse(&source).ok();
    }

    #[test]
    fn what_is_written_is_what_is_read(tree in trees()) {
        let source = print(&tree);
        let expr = Expr::parse(&source, ExprContext::When)
            .map_err(|fault| TestCaseError::fail(format!("{source}: {fault:?}")))?;
        prop_assert_eq!(expr.term, tree);
    }

    #[test]
    fn logic_obeys_its_laws(a in trees(), b in trees()) {
        let vars = example();
        let test = |source: String| Expr::parse(&source, ExprContext::When).unwrap().is_true(&vars);
        let (a, b) = (print(&a), print(&b));
        prop_assert_eq!(test(format!("!!({a})")), test(a.clone()));
        prop_assert_eq!(test(format!("not ({a})")), !test(a.clone()));
        prop_assert_eq!(test(format!("!({a} && {b})")), test(format!("!({a}) || !({b})")));
        prop_assert_eq!(test(format!("({a}) != ({b})")), !test(format!("({a}) == ({b})")));
        prop_assert_eq!(test(format!("({a}) < ({b})")), test(format!("({b}) > ({a})")));
        prop_assert_eq!(test(format!("({a}) in [{b}]")), test(format!("({a}) == ({b})")));
    }

    #[test]
    fn the_order_of_values_is_total(a in values(), b in values(), c in values()) {
        prop_assert_eq!(json_value::total_cmp(&a, &a), Ordering::Equal);
        prop_assert_eq!(json_value::total_cmp(&a, &b), json_value::total_cmp(&b, &a).reverse());
        if json_value::total_cmp(&a, &b).is_le() && json_value::total_cmp(&b, &c).is_le() {
            prop_assert!(json_value::total_cmp(&a, &c).is_le());
        }
        prop_assert_eq!(json_value::loosely_equal(&a, &b), json_value::loosely_equal(&b, &a));
    }

    #[test]
    fn what_a_variable_holds_never_changes_the_question(held in "\\PC{0,30}") {
        let mut vars = Vars::default();
        vars.set("x", held.clone());
        let expr = Expr::parse("'${x}' == 'wanted'", ExprContext::When).unwrap();
        prop_assert_eq!(expr.is_true(&vars), held == "wanted");
    }
}
