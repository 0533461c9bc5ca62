//! The words of policy files, and what they stand for.

use crate::{
    failure::ReasonClass,
    replay::{IdentityKind, ReplayAction, ReplayRole},
};

/// The words for what a rule may want done.
pub(crate) const ACTIONS: &[(&str, ReplayAction)] = &[
    ("auto_replay", ReplayAction::AutoReplay),
    ("check_then_replay", ReplayAction::CheckThenReplay),
    ("require_approval", ReplayAction::RequireApproval),
    ("manual_review", ReplayAction::ManualReview),
    ("quarantine", ReplayAction::Quarantine),
    ("never", ReplayAction::Never),
    ("adopt", ReplayAction::Adopt),
];

/// The words for the classes of reason codes.
pub(crate) const CLASSES: &[(&str, ReasonClass)] = &[
    ("transient", ReasonClass::Transient),
    ("resource", ReasonClass::Resource),
    ("poison", ReasonClass::Poison),
    ("agent", ReasonClass::Agent),
    ("integration", ReasonClass::Integration),
    ("policy", ReasonClass::Policy),
    ("commit", ReasonClass::Commit),
    ("control", ReasonClass::Control),
    ("internal", ReasonClass::Internal),
];

/// The words for those with a part in a replay.
pub(crate) const PARTIES: &[(&str, ReplayRole)] =
    &[("submitter", ReplayRole::Submitter), ("replayer", ReplayRole::Replayer)];

/// The words for how a person shows who they are.
pub(crate) const IDENTITIES: &[(&str, IdentityKind)] =
    &[("asserted", IdentityKind::Asserted), ("signed", IdentityKind::Signed)];

/// The words of such a table.
pub(crate) const fn words<T, const N: usize>(
    table: &'static [(&'static str, T)],
) -> [&'static str; N] {
    let mut words = [""; N];
    let mut rest = table;
    let mut at = 0;
    while let ([first, more @ ..], true) = (rest, at < N) {
        let (word, _) = first;
        // Both bounds are known: this runs in the compiler.
        if let Some(place) = words.as_mut_slice().split_at_mut(at).1.first_mut() {
            *place = *word;
        }
        rest = more;
        at += 1;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_of_the_tables_are_those_that_are_written() {
        for (word, action) in ACTIONS {
            assert_eq!(action.as_str(), *word);
            assert_eq!(serde_json::to_value(action).unwrap(), *word);
        }
        for (word, class) in CLASSES {
            assert_eq!(serde_json::to_value(class).unwrap(), *word);
        }
        for (word, party) in PARTIES {
            assert_eq!(serde_json::to_value(party).unwrap(), *word);
        }
        for (word, identity) in IDENTITIES {
            assert_eq!(serde_json::to_value(identity).unwrap(), *word);
        }
    }
}
