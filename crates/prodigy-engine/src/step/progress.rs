//! The progress of an item or a step: the actions in it that finished, so that work which a limit
//! cuts off goes on from there.
//!
//! A restart runs the same steps from the first one on. An action that finished before is not
//! carried out again: its result is recalled, and so variables, loops, judges and handlers come to
//! where they were when the work was cut off.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use prodigy_core::{
    event::{Event, WorktreeSnapshot},
    failure::Failure,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;

use super::{
    StepScope,
    output::{ActionFailure, ActionOutput},
    saved_output::SavedOutput,
};
use crate::git::UncommittedFile;

/// The progress of work that was cut off, as it is stored.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SavedProgress {
    /// The worktree as it was left.
    pub snapshot: Option<WorktreeSnapshot>,
    /// The commit that an item began from.
    pub base: String,
    /// The paths that belong to the worktree and not to the work.
    pub kept: Vec<String>,
    /// The places whose files are those of the worktree: sessions that ended there may be resumed.
    places: Vec<String>,
    /// The results of finished actions, by their keys.
    finished: BTreeMap<String, Value>,
    /// The actions that were under way, by their keys.
    begun: BTreeMap<String, StartedAction>,
    /// The number of records of each kind that were written about a step.
    told: BTreeMap<String, u32>,
    /// The files that were uncommitted when steps began that were under way, by their paths.
    pub(super) uncommitted: BTreeMap<String, Vec<UncommittedFile>>,
}

/// An action that was begun and has not finished.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct StartedAction {
    /// The commit that was checked out before it.
    pub(super) head: Option<String>,
    /// Set if an agent changed the worktree before it was cut off.
    #[serde(default)]
    pub(super) has_changes: bool,
}

/// An action that finished.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct FinishedAction {
    output: SavedOutput,
    failure: Option<Failure>,
    has_begun: bool,
    captures: BTreeMap<String, Value>,
}

impl FinishedAction {
    /// Stores the result of an action and what it captured.
    pub(super) fn of(
        acted: &Result<ActionOutput, Box<ActionFailure>>,
        captures: BTreeMap<String, Value>,
    ) -> Self {
        match acted {
            Ok(output) => {
                let output = SavedOutput::of(output);
                Self { output, failure: None, has_begun: true, captures }
            }
            Err(failed) => Self {
                output: SavedOutput::of(&failed.output),
                failure: Some(failed.failure.clone()),
                has_begun: failed.has_begun,
                captures,
            },
        }
    }

    /// Returns the result, and captures once more what was captured.
    pub(super) fn restore(self, scope: &mut StepScope) -> Result<ActionOutput, Box<ActionFailure>> {
        let Self { output, failure, has_begun, captures } = self;
        for (name, value) in captures {
            scope.capture(&name, value);
        }
        let output = output.restore();
        match failure {
            None => Ok(output),
            Some(failure) => Err(Box::new(ActionFailure { failure, output, has_begun })),
        }
    }
}

/// The progress of an item or a step that is under way.
#[derive(Debug)]
pub struct WorkProgress {
    /// The name of this run of the work; sessions are told by it where they ended.
    place: String,
    is_resumed: bool,
    state: Mutex<WorkProgressState>,
}

#[derive(Debug, Default)]
struct WorkProgressState {
    /// All that is known, with what an earlier run of the work left.
    known: SavedProgress,
    /// The number of times that each action was reached in this run.
    reached: BTreeMap<String, u32>,
    /// The number of records of each kind that came up in this run, those left out included.
    told: BTreeMap<String, u32>,
    is_served: bool,
}

impl Default for WorkProgress {
    fn default() -> Self {
        Self::new(None)
    }
}

impl WorkProgress {
    /// Begins anew, or where an earlier run was cut off.
    pub fn new(saved: Option<SavedProgress>) -> Self {
        let place = getrandom::u64().unwrap_or_default();
        let is_resumed = saved.is_some();
        let known = saved.unwrap_or_default();
        let state = Mutex::new(WorkProgressState { known, ..WorkProgressState::default() });
        Self { place: format!("{place:016x}"), is_resumed, state }
    }

    /// Forgets where sessions ended: the worktree is not as they left it.
    #[must_use]
    pub fn without_sessions(self) -> Self {
        self.state().known.places.clear();
        self
    }

    fn state(&self) -> MutexGuard<'_, WorkProgressState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the name of this run of the work.
    pub(super) fn run_name(&self) -> &str {
        &self.place
    }

    /// Returns whether the files are those that a session left which ended at `place`.
    pub(super) fn has_files_of(&self, place: &str) -> bool {
        place == self.place || self.state().known.places.iter().any(|known| known == place)
    }

    /// Returns whether the work goes on where an earlier run was cut off.
    pub(super) fn is_resumed(&self) -> bool {
        self.is_resumed
    }

    /// Returns the key of an action that is come to now. The same step may be come to several
    /// times: a handler runs before each new try, a judge after each.
    pub(super) fn next_key(&self, kind: &str, path: &str, attempt: u32) -> String {
        let action = format!("{kind} {path} {attempt}");
        let mut state = self.state();
        let reached = state.reached.entry(action.clone()).or_default();
        *reached += 1;
        format!("{action} {reached}")
    }

    /// Returns what was remembered of an action.
    pub(super) fn restore_result<T: DeserializeOwned>(&self, key: &str) -> Option<T> {
        let value = self.state().known.finished.get(key).cloned()?;
        serde_json::from_value(value).ok()
    }

    /// Remembers the result of an action that finished.
    pub(super) fn save_result<T: Serialize>(&self, key: String, result: &T) {
        let mut state = self.state();
        state.known.begun.remove(&key);
        // What cannot be written is carried out once more.
        if let Ok(value) = serde_json::to_value(result) {
            state.known.finished.insert(key, value);
        }
    }

    /// Notes that an action begins; returns what is known of it if it was begun before.
    pub(super) fn begin(&self, key: &str) -> Option<StartedAction> {
        let mut state = self.state();
        let before = state.known.begun.get(key).cloned();
        state.known.begun.entry(key.to_owned()).or_default();
        before
    }

    /// Notes the commit that was checked out before an action.
    pub(super) fn note_head(&self, key: &str, head: &str) {
        self.state().known.begun.entry(key.to_owned()).or_default().head = Some(head.to_owned());
    }

    /// Notes that an agent changed the worktree before it was cut off.
    pub(super) fn note_changes(&self, key: &str) {
        self.state().known.begun.entry(key.to_owned()).or_default().has_changes = true;
    }

    /// Returns whether a try of a step was begun or finished in an earlier run.
    pub(super) fn was_started(&self, path: &str, attempt: u32) -> bool {
        let prefix = format!("act {path} {attempt} ");
        let state = self.state();
        let SavedProgress { finished, begun, .. } = &state.known;
        let is_it = |key: &String| key.starts_with(&prefix);
        finished.keys().any(is_it) || begun.keys().any(is_it)
    }

    /// Notes that an agent was at work.
    pub(super) fn note_served(&self) {
        self.state().is_served = true;
    }

    /// Returns whether an agent was at work in this run.
    pub fn is_served(&self) -> bool {
        self.state().is_served
    }

    /// Returns whether a step finished or an agent was at work.
    pub fn has_progress(&self) -> bool {
        let state = self.state();
        state.is_served || !state.known.finished.is_empty()
    }

    /// Returns the number of steps that finished well.
    pub fn finished_steps(&self) -> u32 {
        let state = self.state();
        let is_step = |key: &str| key.starts_with("act ");
        let is_well = |value: &Value| value.get("failure").is_none_or(Value::is_null);
        let finished = state.known.finished.iter();
        let count = finished.filter(|(key, value)| is_step(key) && is_well(value)).count();
        u32::try_from(count).unwrap_or(u32::MAX)
    }

    /// Returns whether an event about a step was not recorded by an earlier run.
    pub(super) fn is_unrecorded(&self, event: &Event) -> bool {
        let Some(kind) = event_kind(event) else { return true };
        let mut state = self.state();
        let told = state.told.entry(kind.clone()).or_default();
        *told += 1;
        let told = *told;
        state.known.told.get(&kind).is_none_or(|before| told > *before)
    }

    /// Returns what is stored of it.
    pub(super) fn to_saved(&self) -> SavedProgress {
        let state = self.state();
        let mut saved = state.known.clone();
        saved.places.push(self.place.clone());
        for (kind, count) in &state.told {
            let before = saved.told.entry(kind.clone()).or_default();
            *before = (*before).max(*count);
        }
        // A step that was under way starts once more.
        let ended = |step: &str| saved.told.get(&format!("ended {step}")).copied();
        let counts = saved.told.iter().map(|(kind, count)| match kind.strip_prefix("started ") {
            Some(step) => (kind.clone(), ended(step).unwrap_or_default().min(*count)),
            None => (kind.clone(), *count),
        });
        let told = counts.collect();
        saved.told = told;
        saved
    }
}

/// Returns the kind of a record about a step, if it is told once in each run of the work.
fn event_kind(event: &Event) -> Option<String> {
    if let Event::StepStarted { step, .. } = event {
        Some(format!("started {step}"))
    } else if let Event::StepFailed { step, .. } = event {
        Some(format!("ended {step}"))
    } else if let Event::StepCompleted(done) = event {
        Some(format!("ended {}", done.step))
    } else if let Event::StepSkipped { step, .. } = event {
        Some(format!("skipped {step}"))
    } else if let Event::AgentWarned { step, message, .. } = event {
        Some(format!("warned {step} {message}"))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(step: &str) -> Event {
        let (step, name) = (step.to_owned(), String::new());
        Event::StepStarted { step, name, attempt: 1, identity: None }
    }

    fn skipped(step: &str) -> Event {
        let (step, name, when) = (step.to_owned(), String::new(), String::new());
        Event::StepSkipped { step, id: None, name, when }
    }

    #[test]
    fn an_action_that_is_come_to_again_has_a_key_of_its_own() {
        let progress = WorkProgress::default();
        let keys = [progress.next_key("act", "1", 1), progress.next_key("act", "1", 1)];
        assert_eq!(keys, ["act 1 1 1", "act 1 1 2"]);
        progress.save_result(keys[0].clone(), &7);
        let again = WorkProgress::new(Some(progress.to_saved()));
        assert_eq!(again.restore_result::<i32>(&again.next_key("act", "1", 1)), Some(7));
        assert_eq!(again.restore_result::<i32>(&again.next_key("act", "1", 1)), None);
    }

    #[test]
    fn a_record_is_written_once_however_often_work_is_cut_off() {
        let first = WorkProgress::default();
        assert!(first.is_unrecorded(&started("1")) && first.is_unrecorded(&skipped("2")));
        let second = WorkProgress::new(Some(first.to_saved()));
        assert!(second.is_unrecorded(&started("1")), "it had not ended");
        assert!(!second.is_unrecorded(&skipped("2")));
        assert!(second.is_unrecorded(&skipped("2")), "it is another one");
        let third = WorkProgress::new(Some(second.to_saved()));
        assert!(!third.is_unrecorded(&skipped("2")) && !third.is_unrecorded(&skipped("2")));
    }

    #[test]
    fn sessions_are_resumed_on_the_files_that_they_left() {
        let first = WorkProgress::default();
        let second = WorkProgress::new(Some(first.to_saved()));
        let third = WorkProgress::new(Some(second.to_saved()));
        assert!(third.has_files_of(first.run_name()) && third.has_files_of(second.run_name()));
        assert!(!WorkProgress::new(Some(first.to_saved())).has_files_of(second.run_name()));
        assert!(
            !WorkProgress::new(Some(first.to_saved()))
                .without_sessions()
                .has_files_of(first.run_name())
        );
    }
}
