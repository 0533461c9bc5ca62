//! Shell variables that bash evaluates when they get a value.
//!
//! Bash runs a command hidden in `a[$(command)]` when it assigns to an integer,
//! and one hidden in `($(command))` when `declare` gives a list a value. Whether
//! a variable is one of those may be said anywhere in the script, so this is
//! decided at its end.

use std::{collections::BTreeSet, ops::Range};

use super::found::Refusal;

/// What a script says about its variables.
#[derive(Debug, Default)]
pub(super) struct Variables {
    lists: BTreeSet<String>,
    evaluated: BTreeSet<String>,
    assigned: Vec<(String, Range<usize>)>,
    declared: Vec<(String, Range<usize>)>,
}

impl Variables {
    /// Notes that a variable is a list.
    pub(super) fn note_list(&mut self, name: &str) {
        self.lists.insert(name.to_owned());
    }

    /// Notes that a variable is an integer or stands for another one.
    pub(super) fn note_evaluated(&mut self, name: &str) {
        self.evaluated.insert(name.to_owned());
    }

    /// Notes that a variable gets what stands in a stretch of the script.
    pub(super) fn note_assigned(&mut self, name: &str, range: Range<usize>) {
        self.assigned.push((name.to_owned(), range));
    }

    /// Notes that a variable gets a value in `declare` or its like.
    pub(super) fn note_declared(&mut self, name: &str, range: Range<usize>) {
        self.declared.push((name.to_owned(), range));
    }

    /// Returns the stretches whose values bash would evaluate.
    pub(super) fn evaluated(self) -> Vec<Range<usize>> {
        let assigned = self.assigned.into_iter().filter(|(name, _)| self.evaluated.contains(name));
        let declared = self.declared.into_iter().filter(|(name, _)| self.lists.contains(name));
        assigned.chain(declared).map(|(_, range)| range).collect()
    }
}

pub(super) const EVALUATED: Refusal<'static> = Refusal {
    reason: "is assigned to a variable that bash evaluates: an integer, a list or a name reference",
    help: "use a plain variable of another name: `value=${x}`",
};
