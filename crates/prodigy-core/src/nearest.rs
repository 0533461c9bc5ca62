//! "Did you mean": the known word that is closest to an unknown one.

/// Returns a sentence that names the nearest candidate, if one is near enough to be meant.
pub(crate) fn did_you_mean<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    nearest(word, candidates).map(|candidate| format!("did you mean `{candidate}`?"))
}

/// Returns the nearest candidate, if it is near enough.
pub(crate) fn nearest<'a>(
    word: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let word = &word.to_lowercase();
    let length = word.chars().count();
    // In short words two changes leave nothing of the word.
    let allowed = if length <= 3 { 1 } else { (length / 3).max(2) };
    let cost = |candidate: &str| {
        let distance = distance(word, &candidate.to_lowercase());
        let near = distance <= allowed && distance < candidate.chars().count();
        // Half a word, or a word with more behind it, is what people write from memory.
        let part = length > 3 && (candidate.starts_with(word) || word.starts_with(candidate));
        (near || part).then_some((!near, distance))
    };
    let known = candidates.into_iter().filter_map(|word| Some((cost(word)?, word)));
    known.min_by_key(|(cost, _)| *cost).map(|(_, candidate)| candidate)
}

/// Counts the letters to add, remove, replace or swap with their neighbour.
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut two_up: Vec<usize> = Vec::new();
    let mut up: Vec<usize> = (0..=right.len()).collect();
    let mut before_left = None;
    for (row, letter) in left.chars().enumerate() {
        let mut line = vec![row + 1];
        let mut before_right = None;
        for (column, &other) in right.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX);
            let replaced = at(&up, column).saturating_add(usize::from(letter != other));
            let removed = at(&up, column + 1).saturating_add(1);
            let added = at(&line, column).saturating_add(1);
            let mut best = replaced.min(removed).min(added);
            if before_left == Some(other) && before_right == Some(letter) {
                best = best.min(at(&two_up, column.wrapping_sub(1)).saturating_add(1));
            }
            line.push(best);
            before_right = Some(other);
        }
        before_left = Some(letter);
        two_up = std::mem::replace(&mut up, line);
    }
    up.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_count_single_changes() {
        let pairs =
            [("", "abc"), ("abc", "abc"), ("abc", "acb"), ("timeot", "timeout"), ("x", "yz")];
        assert_eq!(pairs.map(|(left, right)| distance(left, right)), [3, 0, 1, 1, 2]);
    }

    #[test]
    fn only_near_words_are_offered() {
        let words = ["timeout", "id", "max_parallel"];
        assert_eq!(
            ["timout", "tiemout", "if", "max_paralel", "max_", "banana", "xyz"]
                .map(|word| nearest(word, words)),
            [
                Some("timeout"),
                Some("timeout"),
                Some("id"),
                Some("max_parallel"),
                Some("max_parallel"),
                None,
                None
            ]
        );
    }
}
