//! The name of the item itself, which differs in every message about one cause.

use crate::ids::ItemId;

/// The shortest name that is looked for: shorter ones are parts of any sentence.
const SHORTEST: usize = 3;

/// Puts `<item>` where a text names an item.
pub(crate) fn replace_item_id(text: &str, item: &ItemId) -> String {
    let name = item.as_str();
    if name.len() < SHORTEST {
        return text.to_owned();
    }
    let mut left = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(name) {
        let (before, from) = rest.split_at(at);
        let behind = from.get(name.len()..).unwrap_or_default();
        left.push_str(before);
        let ends = |letter: Option<char>| !letter.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let is_whole = ends(left.chars().next_back()) && ends(behind.chars().next());
        left.push_str(if is_whole { "<item>" } else { name });
        rest = behind;
    }
    left.push_str(rest);
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_taken_out_where_it_is_named_and_nowhere_else() {
        let without = |text: &str, item: &str| replace_item_id(text, &item.parse().unwrap());
        assert_eq!(without("no schema for billing", "billing"), "no schema for <item>");
        assert_eq!(without("billing: rebilling billing2", "billing"), "<item>: rebilling billing2");
        assert_eq!(without("src/billing.rs, billing", "billing"), "src/<item>.rs, <item>");
        assert_eq!(without("a is not a word", "a"), "a is not a word");
        assert_eq!(without("äbilling billingä", "billing"), "äbilling billingä");
        assert_eq!(without("", "billing"), "");
    }
}
