//! Making the views of a job again that are lost or out of date.

use prodigy_core::{
    ids::JobId,
    job::{Job, checkpoint::Checkpoint},
};

use crate::{
    clock,
    run::RunSettings,
    store::{JobLock, dlq::DeadLetterStore, last_segment, load_checkpoint, save_checkpoint},
};

/// Writes the checkpoint and the dead letters of a job that is over, if they do not say what its
/// journal says. Whatever cannot be written is told.
pub(crate) fn restore_views(settings: &mut RunSettings, id: &JobId, job: &Job, lock: &JobLock) {
    let stored = load_checkpoint::<Checkpoint>(&settings.layout, id).ok().flatten();
    if stored.is_none_or(|stored| !stored.is_readable() || stored.covers() != job.seq) {
        let segment = last_segment(&settings.layout, id);
        let checkpoint = Checkpoint::new(id, job, segment, clock::now());
        if let Err(error) = save_checkpoint(&settings.layout, id, &checkpoint) {
            settings.reporter.note(&format!("warning: the checkpoint was not written: {error}"));
        }
    }
    let opened = DeadLetterStore::open_locked(&settings.layout, id, lock);
    let problem = match &opened {
        Ok(queue) => queue.read_error().or(queue.stale_reason()),
        Err(error) => Some(error),
    };
    if let Some(error) = problem {
        let note = format!("warning: the files of the dead letters are not complete: {error}");
        settings.reporter.note(&note);
    }
}
