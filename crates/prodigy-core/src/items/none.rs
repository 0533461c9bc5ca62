//! Reasons of a selection without items.

use super::{
    Error, RawItems, Selection,
    select::{extract, filter, make_distinct},
};

/// Returns why a selection leaves no item of an input; `from` is what the input is called.
///
/// A job that does nothing looks like one that is done, so somebody has to say which
/// part of the selection let nothing through.
pub fn explain_empty_selection(
    input: RawItems<'_>,
    selection: &Selection,
    from: &str,
) -> Result<String, Error> {
    let values = extract(input, selection.json_path.as_ref())?;
    let found = values.len();
    if found == 0 {
        return Ok(match &selection.json_path {
            Some(path) => format!("`{}` matches nothing in {from}", path.source()),
            None => format!("{from} holds none"),
        });
    }
    let mut candidates = filter(values, selection)?;
    if selection.distinct.is_some() {
        make_distinct(&mut candidates);
    }
    let left = candidates.len();
    let how = if selection.distinct.is_some() { " distinct items" } else { "" };
    Ok(match &selection.filter {
        Some(filter) if left == 0 => {
            format!("`filter: {}` leaves none of the {found} in {from}", filter.source())
        }
        Some(_) | None if selection.max_items == Some(0) => "`max_items` is 0".to_owned(),
        Some(_) | None => {
            format!("`offset: {}` passes over all of the {left}{how} in {from}", selection.offset)
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        expr::Expr,
        items::{InputFormat, read_items, select},
        json_path::JsonPath,
    };

    fn why(input: &str, selection: &Selection) -> String {
        let items = || read_items(input.as_bytes(), InputFormat::Json).unwrap();
        assert!(select(items(), selection).unwrap().is_empty());
        explain_empty_selection(items(), selection, "`a.json`").unwrap()
    }

    #[test]
    fn the_part_of_the_selection_that_let_nothing_through_is_named() {
        let all = Selection::default();
        let path = Selection { json_path: Some(JsonPath::parse("$.x[*]").unwrap()), ..all.clone() };
        let filter = Selection {
            filter: Some(Expr::parse("item.n > 5", crate::expr::ExprContext::Item).unwrap()),
            ..all.clone()
        };
        let offset = Selection { offset: 7, ..all.clone() };
        let told = [
            why("[]", &all),
            why("{\"x\": []}", &path),
            why("[{\"n\": 1}, {\"n\": 2}]", &filter),
            why("[1, 2]", &offset),
        ];
        insta::assert_snapshot!(told.join("\n"), @"
        `a.json` holds none
        `$.x[*]` matches nothing in `a.json`
        `filter: item.n > 5` leaves none of the 2 in `a.json`
        `offset: 7` passes over all of the 2 in `a.json`
        ");
    }
}
