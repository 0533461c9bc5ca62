//! Conflict markers in files.

use std::collections::BTreeSet;

/// The least number of repetitions of a marker's sign.
const SIGNS: usize = 7;

/// Returns the lines of a file that look like conflict markers.
pub(crate) fn conflict_markers(content: &[u8]) -> BTreeSet<&[u8]> {
    let lines = content.split(|byte| *byte == b'\n');
    lines
        .map(|line| line.strip_suffix(b"\r").unwrap_or(line))
        .filter(|line| is_marker(line))
        .collect()
}

/// Returns whether a line looks like a conflict marker.
///
/// The middle one is common in texts, as what underlines a heading; it is one only if it has
/// exactly the usual length.
fn is_marker(line: &[u8]) -> bool {
    let Some(sign) = line.first() else { return false };
    let signs = line.iter().take_while(|byte| *byte == sign).count();
    let rest = line.get(signs..).unwrap_or_default();
    match sign {
        b'<' | b'>' | b'|' => signs >= SIGNS && matches!(rest.first(), None | Some(b' ')),
        b'=' => signs == SIGNS && rest.is_empty(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_git_writes_are_markers_and_others_are_not() {
        for line in [
            "<<<<<<< item",
            ">>>>>>> job",
            "||||||| 1234567",
            "=======",
            "<<<<<<<",
            "<<<<<<<<<<<< item",
            ">>>>>>> job\r",
        ] {
            assert_eq!(conflict_markers(format!("a\n{line}\nb").as_bytes()).len(), 1, "{line}");
        }
        for line in [
            "",
            "<<<<<< item",
            " <<<<<<< item",
            "<<<<<<<item",
            "========",
            "======= x",
            "->>>>>>> job",
            "cat <<<<<<< item",
        ] {
            assert!(conflict_markers(format!("a\n{line}\nb").as_bytes()).is_empty(), "{line}");
        }
    }
}
