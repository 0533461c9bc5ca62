//! "Did you mean …": the known name that is closest to a misspelled one.

/// Returns the candidate closest to `word`, if one is close enough to be meant.
///
/// A third of the letters may differ; beyond that a guess confuses more than it helps.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let limit = word.chars().count() / 3;
    candidates
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, _)| *distance <= limit)
        .min()
        .map(|(_, candidate)| candidate)
}

/// Returns how many letters must be added, removed, changed or swapped with
/// their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let left: Vec<char> = left.to_lowercase().chars().collect();
    let right: Vec<char> = right.to_lowercase().chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=right.len()).collect();
    for (row, l) in left.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, r) in right.iter().enumerate() {
            let at =
                |line: &[usize], column: usize| line.get(column).copied().unwrap_or(usize::MAX);
            let mut best = (at(&above, column) + usize::from(l != r))
                .min(at(&above, column + 1) + 1)
                .min(at(&current, column) + 1);
            let swapped = row > 0
                && column > 0
                && left.get(row - 1) == Some(r)
                && right.get(column - 1) == Some(l);
            if swapped {
                best = best.min(at(&before, column - 1) + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut above, current);
    }
    above.last().copied().unwrap_or(left.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_is_recognised() {
        let names = ["item", "item_id", "steps", "map"];
        assert_eq!(nearest("itme", names), Some("item"));
        assert_eq!(nearest("step", names), Some("steps"));
        assert_eq!(nearest("Item", names), Some("item"));
        assert_eq!(nearest("mop", names), Some("map"));
    }

    #[test]
    fn a_different_word_is_not_guessed_at() {
        assert_eq!(nearest("HOME", ["item", "steps", "map"]), None);
        assert_eq!(nearest("", ["item"]), None);
        assert_eq!(nearest("a", ["n", "b"]), None);
    }
}
