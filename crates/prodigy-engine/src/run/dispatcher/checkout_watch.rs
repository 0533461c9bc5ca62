//! Watching the user's checkout while a job runs.

use std::path::PathBuf;

use prodigy_core::{
    event::{CheckoutChange, CheckoutUpdate, Event, NewEvent, PhaseName},
    ids::JobId,
};

use crate::{
    git::{self, CheckoutBaseline},
    run::{Dispatcher, Error, RunSettings},
    store::{read_bounded, write_atomic},
};

/// The largest record of a checkout that is read back.
const LIMIT: u64 = 256 * 1024 * 1024;

impl Dispatcher {
    /// Begins to watch the user's checkout.
    ///
    /// If the process of an earlier run died, what changed since that began is told now.
    pub(crate) fn start_checkout_watch(&mut self) -> Result<(), Error> {
        let repo = &self.parts.settings.repo;
        let stored = read_bounded(&self.watch_file(), LIMIT)?;
        // One that cannot be read is only a chance missed to tell something.
        let stored = stored.and_then(|text| {
            CheckoutBaseline::from_json(repo, &String::from_utf8_lossy(&text)).ok()
        });
        if let Some(tripwire) = stored {
            self.parts.tripwire = Some(tripwire);
            // The merge was under way, and nobody recorded what came of it.
            if self.job.phase == Some(PhaseName::Merge)
                && let Some(target) = self.target()
            {
                self.expect_merge(&target);
            }
            let told = self.check_checkout();
            return self.append(told.into_iter().collect());
        }
        match CheckoutBaseline::capture(repo) {
            Ok(tripwire) => {
                self.parts.tripwire = Some(tripwire);
                self.save_checkout_watch();
            }
            Err(error) => self.disable_checkout_watch(&error),
        }
        Ok(())
    }

    /// Returns what has to be written before some facts are, if they end a phase or the run
    /// and the user's checkout changed meanwhile.
    pub(crate) fn checkout_changes_before(&mut self, facts: &[NewEvent]) -> Option<NewEvent> {
        let mut is_end = false;
        for fact in facts.iter().filter(|fact| fact.item_id.is_none()) {
            if let Event::WorktreeMerged { target, .. } = &fact.event {
                self.expect_merge(target);
            }
            is_end |= is_check_point(&fact.event);
        }
        is_end.then(|| self.check_checkout()).flatten().map(NewEvent::from)
    }

    /// Takes over what the job's own merge has made of the checkout.
    fn expect_merge(&mut self, target: &str) {
        let Some(tripwire) = &mut self.parts.tripwire else { return };
        if let Err(error) = tripwire.expect_merge(target) {
            self.disable_checkout_watch(&error);
        }
    }

    /// Looks whether the user's checkout changed since the last look.
    fn check_checkout(&mut self) -> Option<Event> {
        let changes = match self.parts.tripwire.as_mut()?.take_changes() {
            Ok(changes) => changes,
            Err(error) => {
                self.disable_checkout_watch(&error);
                return None;
            }
        };
        if changes.is_empty() {
            return None;
        }
        self.save_checkout_watch();
        let mask = |value: Option<String>| value.map(|value| self.parts.mask.mask_str(&value));
        let masked = |change: CheckoutChange| CheckoutChange {
            what: change.what,
            before: mask(change.before),
            after: mask(change.after),
        };
        let changes = changes.into_iter().map(masked).collect();
        Some(Event::CheckoutChanged { changes })
    }

    /// Stops watching: that something cannot be looked at is no reason to lose the job.
    fn disable_checkout_watch(&mut self, error: &git::Error) {
        self.parts.tripwire = None;
        self.parts.note(&format!("warning: your checkout is not watched: {error}"));
    }

    /// Keeps what was seen for a run that takes up the job should this one die.
    fn save_checkout_watch(&mut self) {
        let Some(tripwire) = &self.parts.tripwire else { return };
        // Without it such a run tells less.
        if let Ok(json) = tripwire.to_json() {
            write_atomic(&self.watch_file(), json.as_bytes()).ok();
        }
    }

    fn watch_file(&self) -> PathBuf {
        watch_file(&self.parts.settings, self.id())
    }

    fn target(&self) -> Option<String> {
        self.job.started.as_ref().and_then(|started| started.target_branch.clone())
    }
}

/// Finishes or undoes an update of the user's checkout that was cut off.
pub(crate) fn recover_checkout(
    settings: &mut RunSettings,
    job: &JobId,
    recorded: Option<&CheckoutUpdate>,
) -> Result<(), Error> {
    let branch = super::actions::job_branch(job);
    if let Some(message) = settings.repo.recover_checkout(&branch, recorded)?.message() {
        settings.reporter.note(&message);
    }
    Ok(())
}

/// Stops watching: until the job goes on the checkout is the user's alone.
pub(crate) fn delete_watch_state(settings: &RunSettings, job: &JobId) {
    // If it stays, the next run tells more than happened while it ran; it says so.
    std::fs::remove_file(watch_file(settings, job)).ok();
}

fn watch_file(settings: &RunSettings, job: &JobId) -> PathBuf {
    settings.layout.state_dir(job).join("checkout.json")
}

/// Returns whether an event ends a phase or the run. The merge is not among the phases: the
/// end of the run comes right after it.
fn is_check_point(event: &Event) -> bool {
    if let Event::PhaseCompleted { phase } = event {
        return *phase != PhaseName::Merge;
    }
    matches!(event, Event::JobPaused { .. } | Event::JobCompleted { .. } | Event::JobFailed { .. })
}
