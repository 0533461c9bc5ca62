//! Side effects: the changes that steps make outside their worktree.
//!
//! Once the process is gone, it cannot be seen from here if such a change was made. So it is
//! recorded before a step may begin with it and again when it is done. An effect with a beginning
//! and no end may or may not have been made; neither is assumed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    dlq::CommitState,
    event::{Event, RenamedSteps},
    ids::JobId,
    workflow::StepAddress,
};

/// Returns the name of a step's effect towards the outside: the same for every attempt.
///
/// `item` is the item's id, or the name that stands for the job's own steps.
pub fn idempotency_key(job: &JobId, item: &str, step: &str) -> String {
    format!("{job}:{item}:{step}")
}

/// A change that a step makes outside its worktree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// Its name towards the outside: the same for every attempt.
    pub key: String,
    /// The path of the step that makes it.
    pub step: String,
    /// The identity of that step. Records of older versions have none: their key is made of the
    /// path. Empty if the path belongs to a workflow that is not known any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity: Option<String>,
    /// The display name of that step.
    pub name: String,
    /// The SHA-256 of what the step was about to do.
    pub intent_hash: String,
    /// The attempt that began it last.
    pub attempt: u32,
    /// The state of the effect.
    pub state: EffectState,
    /// The receipt that the step, or its check, returned once the effect was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub receipt: Option<String>,
    /// Set if the step has a command that checks the effect.
    #[serde(default, skip_serializing_if = "is_false")]
    pub can_check: bool,
    /// Set if the step has a command that undoes the effect.
    #[serde(default, skip_serializing_if = "is_false")]
    pub can_compensate: bool,
    /// Set if the effect may be made twice without harm.
    #[serde(default, skip_serializing_if = "is_false")]
    pub idempotent: bool,
    /// Set if the phase of its step was run anew since: the effect may have to be made once more.
    /// Only the fold of a job's own effects sets it; dead letters never have it.
    #[serde(default, skip_serializing_if = "is_false")]
    #[schemars(skip)]
    pub is_earlier: bool,
}

impl Effect {
    /// Returns whether it is known to be made.
    pub fn is_made(&self) -> bool {
        self.state == EffectState::Committed
    }

    /// Returns whether the handler of a failure made it.
    pub fn is_from_handler(&self) -> bool {
        let handlers = ["handler", "on_failure", "on_exit_code"];
        self.step.split('.').any(|part| handlers.contains(&part))
    }
}

/// The state of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectState {
    /// It was about to be made; whether it was is not known.
    Prepared,
    /// It was made.
    Committed,
    /// Somebody looked, and it was not made.
    Absent,
    /// Somebody looked, and a part of it was made.
    Partial,
    /// Somebody looked and could not tell.
    Indeterminate,
    /// It was made and has been undone.
    Compensated,
}

impl EffectState {
    /// Returns the word for it, as records and people write it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Prepared => "prepared",
            Self::Committed => "committed",
            Self::Absent => "absent",
            Self::Partial => "partial",
            Self::Indeterminate => "indeterminate",
            Self::Compensated => "compensated",
        }
    }

    /// Returns whether it may have been made, as far as anybody knows.
    pub fn is_open(self) -> bool {
        match self {
            Self::Prepared | Self::Partial | Self::Indeterminate => true,
            Self::Committed | Self::Absent | Self::Compensated => false,
        }
    }
}

/// The finding of a check of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EffectFinding {
    /// It was made.
    Committed,
    /// It was not made.
    Absent,
    /// A part of it was made.
    Partial,
    /// It cannot be told.
    Indeterminate,
}

impl EffectFinding {
    /// Returns what the exit code of a check means.
    pub fn from_exit_code(code: Option<i32>) -> Self {
        match code {
            Some(0) => Self::Committed,
            Some(1) => Self::Absent,
            Some(2) => Self::Partial,
            Some(_) | None => Self::Indeterminate,
        }
    }
}

impl From<EffectFinding> for EffectState {
    fn from(finding: EffectFinding) -> Self {
        match finding {
            EffectFinding::Committed => Self::Committed,
            EffectFinding::Absent => Self::Absent,
            EffectFinding::Partial => Self::Partial,
            EffectFinding::Indeterminate => Self::Indeterminate,
        }
    }
}

/// The effects of one item, or of the steps of the job itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct EffectLedger {
    effects: Vec<Effect>,
    /// Set if the end of the job's journal was lost once.
    #[serde(skip)]
    end_lost: bool,
}

impl EffectLedger {
    /// Goes on from effects that were stored.
    pub fn from_effects(effects: Vec<Effect>) -> Self {
        Self { effects, end_lost: false }
    }

    /// Returns the same for a job whose journal lost its end, or did not: what was never begun
    /// may have been made by records that are gone.
    #[must_use]
    pub fn with_lost_end(self, end_lost: bool) -> Self {
        Self { end_lost, ..self }
    }

    /// Returns whether effects that were never begun may have been made.
    pub fn is_end_lost(&self) -> bool {
        self.end_lost
    }

    /// Applies the loss of records: effects that were not made before may have been made since.
    pub(crate) fn mark_end_lost(&mut self) {
        for effect in &mut self.effects {
            if matches!(effect.state, EffectState::Absent | EffectState::Compensated) {
                effect.state = EffectState::Indeterminate;
            }
        }
    }

    /// Returns whether no effect was ever begun.
    pub fn is_empty(&self) -> bool {
        self.effects.is_empty()
    }

    /// Returns all effects, in the order in which they were first begun.
    pub fn effects(&self) -> &[Effect] {
        &self.effects
    }

    /// Returns what is known of an effect, if it was ever begun.
    pub fn get(&self, key: &str) -> Option<&Effect> {
        self.effects.iter().find(|effect| effect.key == key)
    }

    /// Returns what is known of the effect of a step, if it was ever begun.
    ///
    /// A record that names no identity is found by the path of the step, as long as the
    /// workflow is the same, and by its intent afterwards.
    pub fn find_by_step(&self, address: &StepAddress, intent_hash: &str) -> Option<&Effect> {
        let find = |is_it: &dyn Fn(&&Effect) -> bool| self.effects.iter().find(is_it);
        find(&|effect| effect.identity.as_deref() == Some(address.identity()))
            .or_else(|| find(&|effect| effect.identity.is_none() && effect.step == address.path()))
            .or_else(|| {
                find(&|effect| {
                    effect.identity.as_deref() == Some("") && effect.intent_hash == intent_hash
                })
            })
    }

    /// Updates the identities of the steps after a change of the workflow.
    pub(crate) fn rename(&mut self, renamed: &RenamedSteps) {
        for effect in &mut self.effects {
            let now = match &effect.identity {
                None => Some(renamed.paths.get(&effect.step).cloned().unwrap_or_default()),
                Some(identity) => renamed.identities.get(identity).cloned(),
            };
            effect.identity = now.or(effect.identity.take());
        }
    }

    /// Returns true if a side effect may have been made, but is not confirmed.
    ///
    /// Idempotent effects do not count: they can be made again without harm.
    pub fn is_open(&self) -> bool {
        self.open().next().is_some()
    }

    /// Returns the effects of which nobody knows whether they were made.
    pub fn open(&self) -> impl Iterator<Item = &Effect> {
        self.effects.iter().filter(|effect| effect.state.is_open() && !effect.idempotent)
    }

    /// Applies an event about an effect; returns true if it was one.
    pub fn apply(&mut self, event: &Event) -> bool {
        if let Event::EffectPrepared(effect) = event {
            self.effects.retain(|known| known.key != effect.key);
            self.effects.push((**effect).clone());
            return true;
        }
        let (key, state, receipt) = if let Event::EffectCommitted { key, receipt } = event {
            (key, EffectState::Committed, receipt)
        } else if let Event::EffectReconciled { key, finding, receipt, .. } = event {
            (key, EffectState::from(*finding), receipt)
        } else if let Event::EffectCompensated { key, .. } = event {
            (key, EffectState::Compensated, &None)
        } else {
            return false;
        };
        if let Some(effect) = self.effects.iter_mut().find(|effect| effect.key == *key) {
            effect.state = state;
            effect.is_earlier = false;
            effect.receipt.clone_from(receipt);
        }
        true
    }

    /// Marks the effects of a phase that runs once more as earlier ones.
    pub(crate) fn reopen_phase(&mut self, phase: &str) {
        for effect in &mut self.effects {
            let rest = effect.step.strip_prefix(phase);
            effect.is_earlier |= rest.is_some_and(|rest| rest.starts_with('.'));
        }
    }

    /// Returns whether a step, or one inside it, may have changed something outside.
    pub fn is_open_at(&self, address: &StepAddress) -> bool {
        let is_at = |name: &str, step: &str| {
            let rest = name.strip_prefix(step);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.open().any(|effect| match &effect.identity {
            Some(identity) => is_at(identity, address.identity()),
            None => is_at(&effect.step, address.path()),
        })
    }

    /// Returns the extent of an item's changes; `is_done` says if its attempts left
    /// nothing to do.
    ///
    /// Effects of a failure handler are not part of the item's work.
    pub fn commit_state(&self, began: bool, is_done: bool) -> CommitState {
        let is_its = |effect: &Effect| effect.is_made() && !effect.is_from_handler();
        if self.is_open() {
            CommitState::Unknown
        } else if !self.effects.iter().any(is_its) {
            if began { CommitState::Local } else { CommitState::None }
        } else if is_done {
            CommitState::Committed
        } else {
            CommitState::Mixed
        }
    }
}

/// Returns whether a flag need not be written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(step: &str, idempotent: bool) -> Event {
        Event::EffectPrepared(Box::new(Effect {
            key: format!("job:item:{step}"),
            step: step.to_owned(),
            identity: Some(step.to_owned()),
            name: "open-pr".to_owned(),
            intent_hash: "ab".to_owned(),
            attempt: 1,
            state: EffectState::Prepared,
            receipt: None,
            can_check: true,
            can_compensate: false,
            idempotent,
            is_earlier: false,
        }))
    }

    fn committed(step: &str) -> Event {
        Event::EffectCommitted { key: format!("job:item:{step}"), receipt: Some("17".to_owned()) }
    }

    fn found(step: &str, finding: EffectFinding) -> Event {
        let (key, by) = (format!("job:item:{step}"), "ann".to_owned());
        Event::EffectReconciled { key, finding, receipt: None, by }
    }

    fn ledger(events: &[Event]) -> EffectLedger {
        let mut ledger = EffectLedger::default();
        for event in events {
            assert!(ledger.apply(event));
        }
        ledger
    }

    #[test]
    fn what_was_begun_and_not_ended_is_unknown_until_somebody_looks() {
        let state = |events: &[Event]| ledger(events).commit_state(true, false);
        let table = [
            (vec![], CommitState::Local),
            (vec![prepared("2", false)], CommitState::Unknown),
            (vec![prepared("2", true)], CommitState::Local),
            (vec![prepared("2", false), found("2", EffectFinding::Absent)], CommitState::Local),
            (vec![prepared("2", false), found("2", EffectFinding::Partial)], CommitState::Unknown),
            (
                vec![prepared("2", false), found("2", EffectFinding::Indeterminate)],
                CommitState::Unknown,
            ),
            (vec![prepared("2", false), committed("2")], CommitState::Mixed),
            (vec![prepared("2", false), found("2", EffectFinding::Committed)], CommitState::Mixed),
            (
                vec![prepared("2", false), committed("2"), prepared("4", false)],
                CommitState::Unknown,
            ),
            (
                vec![prepared("2", false), committed("2"), prepared("4", false), committed("4")],
                CommitState::Mixed,
            ),
            // A handler's notice is not the item's work.
            (
                vec![prepared("handler.tell.1", false), committed("handler.tell.1")],
                CommitState::Local,
            ),
            (
                vec![prepared("2.on_failure.1", false), committed("2.on_failure.1")],
                CommitState::Local,
            ),
            // What is begun once more is unknown once more.
            (
                vec![prepared("2", false), found("2", EffectFinding::Absent), prepared("2", false)],
                CommitState::Unknown,
            ),
        ];
        for (events, expected) in table {
            assert_eq!(state(&events), expected, "{events:?}");
        }
        assert_eq!(EffectLedger::default().commit_state(false, false), CommitState::None);
        let all = ledger(&[prepared("2", false), committed("2")]);
        assert_eq!(all.commit_state(true, true), CommitState::Committed);
    }

    #[test]
    fn an_effect_is_known_by_its_key_and_keeps_its_receipt() {
        let ledger = ledger(&[prepared("2", false), committed("2")]);
        let effect = ledger.get("job:item:2").unwrap();
        assert_eq!((effect.state, effect.receipt.as_deref()), (EffectState::Committed, Some("17")));
        assert!(ledger.get("job:item:3").is_none());
        assert!(!ledger.is_open());
        let undone =
            Event::EffectCompensated { key: "job:item:2".to_owned(), by: "ann".to_owned() };
        let mut ledger = ledger;
        ledger.apply(&undone);
        assert_eq!(ledger.effects()[0].state, EffectState::Compensated);
        assert!(!ledger.apply(&Event::ItemQueued {}));
    }

    #[test]
    fn the_exit_code_of_a_check_says_what_was_found() {
        let findings =
            [Some(0), Some(1), Some(2), Some(3), None].map(EffectFinding::from_exit_code);
        let expected = [
            EffectFinding::Committed,
            EffectFinding::Absent,
            EffectFinding::Partial,
            EffectFinding::Indeterminate,
            EffectFinding::Indeterminate,
        ];
        assert_eq!(findings, expected);
    }
}
