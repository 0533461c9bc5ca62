//! Schemas that ask themselves.

use super::rule::SchemaRule;

/// Returns a schema that is asked about a value in order to decide about the same
/// value, if there is one. Going into the value ends every other loop.
pub(super) fn find(rules: &[SchemaRule]) -> Option<usize> {
    let mut forth = vec![Vec::new(); rules.len()];
    let mut back = vec![Vec::new(); rules.len()];
    for (from, rule) in rules.iter().enumerate() {
        let SchemaRule::Each(demands) = rule else { continue };
        for to in demands.iter().flat_map(super::rule::SchemaConstraint::in_place) {
            if let (Some(out), Some(into)) = (forth.get_mut(from), back.get_mut(to)) {
                out.push(to);
                into.push(from);
            }
        }
    }
    let mut left = vec![true; rules.len()];
    // What nothing leads to, or what leads nowhere, is in no loop; nor is what
    // only such lead to.
    peel(&forth, &back, &mut left);
    peel(&back, &forth, &mut left);
    left.iter().position(|left| *left)
}

/// Takes away, again and again, whatever nothing that is left leads to.
fn peel(forth: &[Vec<usize>], back: &[Vec<usize>], left: &mut [bool]) {
    let is_left = |left: &[bool], rule: usize| left.get(rule).copied().unwrap_or_default();
    let count =
        |left: &[bool], rules: &[usize]| rules.iter().filter(|r| is_left(left, **r)).count();
    let mut leading: Vec<usize> = back.iter().map(|rules| count(left, rules)).collect();
    let mut free: Vec<usize> = (0..left.len())
        .filter(|rule| is_left(left, *rule) && leading.get(*rule) == Some(&0))
        .collect();
    while let Some(rule) = free.pop() {
        if let Some(left) = left.get_mut(rule) {
            *left = false;
        }
        for next in forth.get(rule).into_iter().flatten() {
            let Some(leading) = leading.get_mut(*next) else { continue };
            *leading = leading.saturating_sub(1);
            if *leading == 0 && is_left(left, *next) {
                free.push(*next);
            }
        }
    }
}
