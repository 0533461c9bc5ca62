//! The check that the output of every finished step is where its record says.

use std::{collections::HashMap, fs};

use prodigy_core::{
    Timestamp,
    event::{Event, EventRecord, LogRange},
    ids::{ItemId, JobId},
};
use prodigy_engine::store::{Layout, LogFile, PurgeKind, PurgeRecord};

use super::journal_check::plural;

/// Looks at log files while records are read, so that many records need no memory.
pub(crate) struct OutputChecks<'a> {
    layout: &'a Layout,
    job: &'a JobId,
    /// The attempts that are under way.
    attempts: HashMap<ItemId, u32>,
    found: u64,
    wrong: Option<String>,
    /// When the logs were purged, if they were.
    purged_at: Option<Timestamp>,
}

impl<'a> OutputChecks<'a> {
    /// Begins with no record read.
    pub(crate) fn new(layout: &'a Layout, job: &'a JobId) -> Self {
        // A record that cannot be read explains nothing.
        let record = PurgeRecord::read(layout, job).ok().flatten();
        let purged_at = record.and_then(|it| it.part(PurgeKind::Logs).map(|part| part.at));
        Self { layout, job, attempts: HashMap::new(), found: 0, wrong: None, purged_at }
    }

    /// Takes notice of a record.
    pub(crate) fn observe(&mut self, record: &EventRecord) {
        let item = record.item_id.as_ref();
        let (step, log) = match &record.event {
            Event::StepCompleted(step) => (&step.step, &step.log),
            Event::StepFailed { step, log, .. } => (step, log),
            Event::AgentStarted { attempt, .. }
            | Event::HandlerRestarted { attempt, .. }
            | Event::ResolutionStarted { attempt, .. } => {
                self.attempts.extend(item.map(|item| (item.clone(), *attempt)));
                return;
            }
            Event::AgentCompleted(_)
            | Event::ResolutionCompleted { .. }
            | Event::ResolutionFailed { .. }
            | Event::ItemSkipped { .. }
            | Event::ItemDeadLettered { .. } => {
                item.map(|item| self.attempts.remove(item));
                return;
            }
            Event::JobStarted(_)
            | Event::JobResumed { .. }
            | Event::JobPaused { .. }
            | Event::JobCompleted { .. }
            | Event::JobFailed { .. }
            | Event::ItemsSelected { .. }
            | Event::ItemQueued {}
            | Event::AgentFailed(_)
            | Event::AgentRetrying { .. }
            | prodigy_core::circuit_news!()
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::StepStarted { .. }
            | Event::StepSkipped { .. }
            | Event::AgentUsage { .. }
            | prodigy_core::agent_news!()
            | Event::AgentReleased { .. }
            | prodigy_core::spending_news!()
            | Event::WorktreeCreated { .. }
            | Event::WorktreeMerged { .. }
            | Event::WorktreePreserved { .. }
            | Event::WorktreeCleaned { .. }
            | Event::WorkKept(_)
            | Event::MergeConflict { .. }
            | Event::GitTampering { .. }
            | Event::CheckoutUpdateStarted(_)
            | prodigy_core::checkout_news!()
            | Event::ReplayStarted { .. }
            | Event::DlqItemRemoved { .. }
            | Event::DlqItemUpdated { .. }
            | prodigy_core::approval_news!()
            | prodigy_core::effect_news!()
            | Event::JournalEndLost { .. }
            | Event::CheckpointCreated { .. } => return,
        };
        if let Some(log) = log {
            self.found += 1;
            if self.wrong.is_none() {
                self.wrong = self.check(item, step, log).err();
            }
        }
    }

    /// Checks that a log file holds what a step printed.
    fn check(&self, item: Option<&ItemId>, step: &str, log: &LogRange) -> Result<(), String> {
        let attempt = item.and_then(|item| self.attempts.get(item)).copied().unwrap_or(1);
        let who = item.map(|item| format!(" of `{item}`")).unwrap_or_default();
        let parts = [
            (LogFile::output(log.transcript), log.stdout_at, log.stdout_len),
            (LogFile::Errors, log.stderr_at, log.stderr_len),
        ];
        for (file, at, length) in parts {
            let path = self.layout.log_file(self.job, item, attempt, log.slot, file);
            let end = at.checked_add(length).ok_or_else(|| {
                format!("step {step}{who} printed up to no possible byte of {}", path.display())
            })?;
            // A file that is not there holds as much as an empty one.
            let size = fs::symlink_metadata(&path).map_or(0, |meta| meta.len());
            if end > size {
                return Err(format!(
                    "step {step}{who} printed up to byte {end} of {}, which has {size}",
                    path.display()
                ));
            }
        }
        Ok(())
    }

    /// Returns what was found.
    pub(crate) fn result(self) -> Result<String, String> {
        match self.wrong {
            Some(_) if self.purged_at.is_some() => {
                let at = self.purged_at.unwrap_or_default();
                Ok(format!("they were purged at {at}"))
            }
            Some(wrong) => Err(wrong),
            None => Ok(format!(
                "{} of finished steps, all in their files",
                plural(self.found, "output")
            )),
        }
    }
}
