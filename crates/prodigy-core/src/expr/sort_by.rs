//! Putting items in order.

use std::cmp::Ordering;

use serde_json::Value;

use super::{ExprContext, Term, eval, lexer::Token, parser::ExprParser};
use crate::{
    diagnostic::ParseError,
    json_value,
    vars::{VarPath, Vars},
};

/// The keys that items are put in order by: `item.priority DESC NULLS LAST, item.path`.
///
/// Without `DESC`, smaller comes first. Values of different types have an order, too: false,
/// true, numbers, texts, lists, mappings. Items for which a key is missing or `null`
/// come last, whichever way the others go, unless `NULLS FIRST` is written.
#[derive(Clone, Debug, PartialEq)]
pub struct SortBy {
    source: String,
    keys: Vec<SortTerm>,
    paths: Vec<VarPath>,
}

/// The sort key of one item.
///
/// It is worked out once for each item, not for each comparison, and the item itself is
/// not needed any more.
#[derive(Clone, Debug)]
pub struct SortKey(Vec<Value>);

/// One key.
#[derive(Clone, Debug, PartialEq)]
struct SortTerm {
    term: Term,
    descending: bool,
    nulls_first: bool,
}

impl SortBy {
    /// Reads a list of sort keys.
    pub fn parse(source: &str) -> Result<Self, ParseError> {
        let mut parser = ExprParser::new(source, ExprContext::Item)?;
        let mut keys = Vec::new();
        loop {
            keys.push(key(&mut parser)?);
            if !parser.take_symbol(",")? {
                break;
            }
        }
        if parser.token != Token::End {
            return Err(parser.expected("`ASC`, `DESC`, `NULLS` or `,`"));
        }
        let paths = parser.references.into_iter().map(|(path, _)| path).collect();
        Ok(Self { source: source.to_owned(), keys, paths })
    }

    /// Returns the keys as written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Returns the variables that the keys read, in order.
    pub fn references(&self) -> &[VarPath] {
        &self.paths
    }

    /// Returns what an item is put in order by.
    pub fn key(&self, vars: &Vars) -> SortKey {
        SortKey(self.keys.iter().map(|key| eval::evaluate(&key.term, vars).into_owned()).collect())
    }

    /// Returns which of two items comes first; equal items keep their order in a stable sort.
    pub fn compare(&self, a: &SortKey, b: &SortKey) -> Ordering {
        let mut orders = self.keys.iter().zip(a.0.iter().zip(&b.0));
        let differ = orders.find_map(|(key, (a, b))| {
            let order = key.compare(a, b);
            order.is_ne().then_some(order)
        });
        differ.unwrap_or(Ordering::Equal)
    }
}

impl SortTerm {
    fn compare(&self, a: &Value, b: &Value) -> Ordering {
        match (a.is_null(), b.is_null()) {
            (true, true) => Ordering::Equal,
            (true, false) if self.nulls_first => Ordering::Less,
            (true, false) => Ordering::Greater,
            (false, true) if self.nulls_first => Ordering::Greater,
            (false, true) => Ordering::Less,
            (false, false) if self.descending => json_value::total_cmp(b, a),
            (false, false) => json_value::total_cmp(a, b),
        }
    }
}

fn key(parser: &mut ExprParser<'_>) -> Result<SortTerm, ParseError> {
    let term = parser.expression()?;
    let descending = parser.take_word("desc")?;
    if !descending {
        parser.take_word("asc")?;
    }
    let mut nulls_first = false;
    if parser.take_word("nulls")? {
        nulls_first = parser.take_word("first")?;
        if !nulls_first && !parser.take_word("last")? {
            return Err(parser.expected("`FIRST` or `LAST`"));
        }
    }
    Ok(SortTerm { term, descending, nulls_first })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::expr::tests::item_vars;

    fn sorted(keys: &str, items: &[Value]) -> String {
        let sort = SortBy::parse(keys).unwrap();
        assert_eq!(sort.source(), keys);
        let mut items: Vec<Vars> = items.iter().cloned().map(item_vars).collect();
        items.sort_by(|a, b| sort.compare(&sort.key(a), &sort.key(b)));
        let shown: Vec<String> =
            items.iter().map(|vars| vars.root("item").unwrap().to_string()).collect();
        shown.join(" ")
    }

    #[test]
    fn items_are_put_in_order() {
        let items = [
            json!({"p": 2, "n": "b"}),
            json!({"n": "x"}),
            json!({"p": 10, "n": "a"}),
            json!({"p": 2, "n": "a"}),
        ];
        insta::assert_snapshot!(sorted("p", &items), @r#"{"p":2,"n":"b"} {"p":2,"n":"a"} {"p":10,"n":"a"} {"n":"x"}"#);
        insta::assert_snapshot!(sorted("item.p DESC", &items), @r#"{"p":10,"n":"a"} {"p":2,"n":"b"} {"p":2,"n":"a"} {"n":"x"}"#);
        insta::assert_snapshot!(sorted("item.p desc nulls first, item.n ASC", &items), @r#"{"n":"x"} {"p":10,"n":"a"} {"p":2,"n":"a"} {"p":2,"n":"b"}"#);
        insta::assert_snapshot!(sorted("p ASC NULLS LAST, n DESC", &items), @r#"{"p":2,"n":"b"} {"p":2,"n":"a"} {"p":10,"n":"a"} {"n":"x"}"#);
        insta::assert_snapshot!(sorted("length(n), n == 'a' DESC, p", &items), @r#"{"p":2,"n":"a"} {"p":10,"n":"a"} {"p":2,"n":"b"} {"n":"x"}"#);
    }

    #[test]
    fn values_of_every_type_have_an_order() {
        let items = [
            json!({"a": 2}),
            json!([2]),
            json!("10"),
            json!(3),
            json!(null),
            json!(true),
            json!("9"),
            json!(2.5),
            json!(false),
            json!([1, 2]),
            json!({"a": 1, "b": 0}),
            json!(-1),
            json!([]),
            json!({}),
        ];
        insta::assert_snapshot!(sorted("item", &items), @r#"false true -1 2.5 3 "10" "9" [] [1,2] [2] {} {"a":1,"b":0} {"a":2} null"#);
        insta::assert_snapshot!(sorted("item DESC", &items), @r#"{"a":2} {"a":1,"b":0} {} [2] [1,2] [] "9" "10" 3 2.5 -1 true false null"#);
    }

    #[test]
    fn bad_sort_keys_are_refused() {
        let shown: Vec<String> =
            ["", "a,", "a DESC b", "a NULLS", "a NULLS MIDDLE", "DESC DESC DESC", "${a}"]
                .iter()
                .map(|source| {
                    let fault = SortBy::parse(source).unwrap_err();
                    format!("{source:<15} {:?}: {}", fault.range, fault.message)
                })
                .collect();
        insta::assert_snapshot!(shown.join("\n"), @"
                        0..0: the expression is empty
        a,              2..2: expected a value, found the end
        a DESC b        7..8: expected `ASC`, `DESC`, `NULLS` or `,`, found `b`
        a NULLS         7..7: expected `FIRST` or `LAST`, found the end
        a NULLS MIDDLE  8..14: expected `FIRST` or `LAST`, found `MIDDLE`
        DESC DESC DESC  10..14: expected `ASC`, `DESC`, `NULLS` or `,`, found `DESC`
        ${a}            0..4: `${…}` can only be used in `when`
        ");
    }
}
