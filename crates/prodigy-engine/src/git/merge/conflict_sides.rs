//! The sides of a path in conflict, and whether a resolution kept what both did.

use std::collections::{BTreeMap, BTreeSet};

use super::conflict::{OpenMerge, TreeEntry};
use crate::git::{Error, WorktreeSlot, command::display_path};

/// The content of a path on both sides of a merge, and the one they began with.
#[derive(Clone, Debug, Default)]
pub(crate) struct ConflictSides {
    base: Option<TreeEntry>,
    ours: Option<TreeEntry>,
    theirs: Option<TreeEntry>,
}

/// The changes of sides that a resolution has not kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DroppedChanges {
    /// The paths where both could have been kept, by whose changes are gone.
    avoidable: BTreeMap<&'static str, Vec<String>>,
    /// The paths where only one can be: somebody deleted the file, or it is no text.
    unavoidable: BTreeMap<&'static str, Vec<String>>,
}

impl ConflictSides {
    /// Takes a stage of the path in the index.
    pub(crate) fn set(&mut self, number: u8, entry: TreeEntry) {
        match number {
            1 => self.base = Some(entry),
            2 => self.ours = Some(entry),
            _ => self.theirs = Some(entry),
        }
    }

    /// Returns the side that a path is not like, and whose it is, if it is exactly like the other.
    fn dropped_side(&self, now: Option<&TreeEntry>) -> Option<(&'static str, Option<&TreeEntry>)> {
        let (ours, theirs) = (self.ours.as_ref(), self.theirs.as_ref());
        let object = |entry: Option<&TreeEntry>| entry.map(|entry| entry.object.clone());
        if object(ours) == object(theirs) {
            return None;
        }
        if object(now) == object(ours) {
            return Some(("the job's", theirs));
        }
        (object(now) == object(theirs)).then_some(("the item's", ours))
    }
}

impl DroppedChanges {
    /// Says which changes are gone that could have been kept.
    pub(crate) fn avoidable(&self) -> Option<String> {
        describe_paths(&self.avoidable)
    }

    /// Says which changes are gone that could not be kept beside those of the other side.
    pub(crate) fn unavoidable(&self) -> Option<String> {
        describe_paths(&self.unavoidable)
    }
}

impl WorktreeSlot {
    /// Looks for paths in conflict that a tree has exactly as one side has them.
    pub(crate) fn find_dropped_changes(
        &self,
        merge: &OpenMerge,
        tree: &str,
    ) -> Result<DroppedChanges, Error> {
        let mut dropped = DroppedChanges::default();
        for (path, sides) in &merge.sides {
            let now = self.entry(tree, path)?;
            let Some((whose, other)) = sides.dropped_side(now.as_ref()) else {
                if self.is_emptied(sides, now.as_ref())? {
                    let paths = dropped.avoidable.entry("both sides'").or_default();
                    paths.push(format!("`{}`", display_path(path)));
                }
                continue;
            };
            let paths = match self.has_lines(sides.base.as_ref(), now.as_ref(), other)? {
                Some(true) => continue,
                Some(false) => &mut dropped.avoidable,
                None => &mut dropped.unavoidable,
            };
            paths.entry(whose).or_default().push(format!("`{}`", display_path(path)));
        }
        Ok(dropped)
    }

    /// Returns whether a text has no lines that had some on both sides: an agent whose command
    /// failed half way leaves such a file.
    fn is_emptied(&self, sides: &ConflictSides, now: Option<&TreeEntry>) -> Result<bool, Error> {
        let is_blank = |entry: Option<&TreeEntry>| match entry {
            Some(entry) if entry.is_file() => Ok(lines(&self.content(entry)?).is_empty()),
            Some(_) | None => Ok(false),
        };
        let had_lines = |entry: Option<&TreeEntry>| -> Result<bool, Error> {
            Ok(entry.is_some() && !is_blank(entry)?)
        };
        let sides = (sides.ours.as_ref(), sides.theirs.as_ref());
        Ok(is_blank(now)? && had_lines(sides.0)? && had_lines(sides.1)?)
    }

    /// Returns whether a text has what another one changed: its new lines, and none of those that
    /// it took away. `None` if they are not all texts.
    fn has_lines(
        &self,
        base: Option<&TreeEntry>,
        now: Option<&TreeEntry>,
        other: Option<&TreeEntry>,
    ) -> Result<Option<bool>, Error> {
        let (Some(now), Some(other)) = (now, other) else { return Ok(None) };
        let entries = [Some(now), Some(other), base];
        if !entries.into_iter().flatten().all(TreeEntry::is_file) {
            return Ok(None);
        }
        let base = base.map(|entry| self.content(entry)).transpose()?.unwrap_or_default();
        let (now, other) = (self.content(now)?, self.content(other)?);
        if [&base, &now, &other].iter().any(|content| content.contains(&0)) {
            return Ok(None);
        }
        Ok(Some(is_contained(&base, &now, &other)))
    }
}

/// Returns whether a text has what another one changed of what both began with.
fn is_contained(base: &[u8], now: &[u8], other: &[u8]) -> bool {
    let [base, now, other] = [base, now, other].map(lines);
    other.difference(&base).all(|added| now.contains(added))
        && !base.difference(&other).any(|removed| now.contains(removed))
}

/// Returns the lines of a text that are not blank, however they are indented.
fn lines(text: &[u8]) -> BTreeSet<&[u8]> {
    let lines = text.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    lines.filter(|line| !line.is_empty()).collect()
}

fn describe_paths(paths: &BTreeMap<&'static str, Vec<String>>) -> Option<String> {
    let one = |(whose, paths): (&&str, &Vec<String>)| {
        format!("{whose} changes of {} are gone", paths.join(", "))
    };
    let all: Vec<String> = paths.iter().map(one).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_what_another_one_changed_if_it_has_its_lines() {
        let cases = [
            // What both began with, what there is now, what the other side had.
            ("", "ours\n", "theirs\n", false),
            ("", "ours\ntheirs\n", "theirs\n", true),
            ("", "ours\n  theirs\n", "theirs", true),
            ("a\nb\n", "a\nb\nours\n", "a\n", false),
            ("a\nb\n", "a\nours\n", "a\n", true),
            ("x = 1\n", "x = 2\n", "x = 3\n", false),
            ("a\n", "b\n", "a\n\n", true),
        ];
        for (base, now, other, expected) in cases {
            let found = is_contained(base.as_bytes(), now.as_bytes(), other.as_bytes());
            assert_eq!(found, expected, "{base:?} {now:?} {other:?}");
        }
    }
}
