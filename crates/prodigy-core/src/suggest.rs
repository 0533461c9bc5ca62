//! "Did you mean …": the known word closest to a misspelled one.

/// Returns the known word that was probably meant.
///
/// A third of the letters may be wrong; upper and lower case do not matter. Beyond
/// that, a guess would confuse more than it helps.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let most = (word.chars().count() / 3).max(1);
    known
        .into_iter()
        .map(|known| (distance(word, known), known))
        .filter(|(distance, _)| *distance <= most)
        .min()
        .map(|(_, known)| known)
}

/// Returns how many letters must be changed, added, taken away or swapped with the next.
fn distance(from: &str, to: &str) -> usize {
    let from: Vec<char> = from.to_lowercase().chars().collect();
    let to: Vec<char> = to.to_lowercase().chars().collect();
    let at = |row: &[usize], column: usize| row.get(column).copied().unwrap_or(usize::MAX - 1);
    let mut earlier: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=to.len()).collect();
    for (row, left) in from.iter().enumerate() {
        let mut current = vec![row + 1];
        for (column, right) in to.iter().enumerate() {
            let changed = at(&above, column) + usize::from(left != right);
            let moved = (at(&above, column + 1) + 1).min(at(&current, column) + 1);
            let crossed = row.checked_sub(1).and_then(|row| from.get(row)) == Some(right)
                && column.checked_sub(1).and_then(|column| to.get(column)) == Some(left);
            let swapped =
                if crossed { at(&earlier, column.saturating_sub(1)) + 1 } else { usize::MAX };
            current.push(changed.min(moved).min(swapped));
        }
        earlier = std::mem::replace(&mut above, current);
    }
    above.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_recognised_and_other_words_are_not() {
        let known = ["length", "lower", "is_null", "grace"];
        let meant = |word| nearest(word, known).unwrap_or("-");
        let words = ["lenght", "Length", "lengt", "lowerr", "isnull", "grcae", "size", "", "upper"];
        insta::assert_snapshot!(words.map(meant).join(" "), @"length length length lower is_null grace - - -");
    }

    #[test]
    fn the_distance_counts_slips() {
        let distances =
            [("", ""), ("a", ""), ("", "ab"), ("ab", "ba"), ("abc", "axc"), ("abcd", "bcd")];
        assert_eq!(distances.map(|(from, to)| distance(from, to)), [0, 1, 2, 1, 1, 1]);
    }
}
