//! "Did you mean": the known word nearest to a mistyped one.

/// Returns a sentence that names the nearest candidate, if one is near enough to be meant.
pub(in crate::workflow) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let allowed = (word.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= allowed)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| format!("did you mean `{candidate}`?"))
}

/// Counts the letters to add, remove, replace or swap with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    let mut previous = None;
    for (row, letter) in left.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, other) in right.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX);
            let replaced = at(&above, column) + usize::from(letter != *other);
            let mut best = replaced.min(at(&above, column + 1) + 1).min(at(&current, column) + 1);
            let swapped =
                column > 0 && previous == Some(*other) && right.get(column - 1) == Some(&letter);
            if swapped && let Some(start) = before.get(column - 1) {
                best = best.min(start + 1);
            }
            current.push(best);
        }
        previous = Some(letter);
        before = std::mem::replace(&mut above, current);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_offered_and_a_strange_one_is_not() {
        let words = ["timeout", "stalled", "no_commit"];
        insta::assert_debug_snapshot!(
            ["timeot", "tmieout", "no-commit", "banana", ""].map(|word| did_you_mean(word, words)),
            @r#"
        [
            Some(
                "did you mean `timeout`?",
            ),
            Some(
                "did you mean `timeout`?",
            ),
            Some(
                "did you mean `no_commit`?",
            ),
            None,
            None,
        ]
        "#,
        );
    }
}
