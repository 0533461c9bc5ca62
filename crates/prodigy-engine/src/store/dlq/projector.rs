//! Writing dead letters beside the work of a run.
//!
//! A record of the journal makes an item a dead letter; its file is only a view of that
//! record. So it is written by a thread of its own, where it keeps nobody waiting, and one
//! that cannot be written is a warning and no failure.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Sender, channel},
    },
    thread::{self, JoinHandle},
};

use prodigy_core::{
    dlq::{DeadLetterState, RunFingerprint},
    event::{Event, EventRecord},
    ids::JobId,
    mask::Mask,
};

use super::{
    Error,
    cache::DeadLetterCache,
    projector_thread::{ProjectorThread, prior_runs},
    writer::DeadLetterWriter,
};
use crate::store::{Layout, Spool};

/// Writes the dead letters of a run.
pub struct DeadLetterProjector {
    orders: Option<Sender<ProjectorCommand>>,
    problem: Arc<Mutex<Option<String>>>,
    thread: Option<JoinHandle<()>>,
}

/// A command to the writer thread.
pub(crate) enum ProjectorCommand {
    Record(Box<EventRecord>, Option<usize>),
    Settle(Sender<()>),
    Finish(u64),
}

impl DeadLetterProjector {
    /// Starts the thread. The caller holds the job's lock; `before` is the last record of the
    /// runs before, 0 if there were none.
    pub fn start(
        layout: Layout,
        job: JobId,
        run: RunFingerprint,
        before: u64,
        mask: Mask,
        spool: Spool,
    ) -> std::io::Result<Self> {
        let (orders, received) = channel();
        let problem = Arc::<Mutex<Option<String>>>::default();
        let found = Arc::clone(&problem);
        let thread = thread::Builder::new().name("letters".to_owned()).spawn(move || {
            let projection = DeadLetterWriter::new(&layout, &job, mask, Some(spool.clone()));
            let mut writer = ProjectorThread {
                past: prior_runs(&layout, &job, before, &found),
                letters: DeadLetterCache::new(layout.state_dir(&job)),
                layout,
                job,
                run,
                before,
                projection,
                spool,
                begun: HashMap::new(),
                due: HashMap::new(),
                order: VecDeque::new(),
                is_incomplete: false,
                problem: found,
            };
            writer.run(&received);
        })?;
        Ok(Self { orders: Some(orders), problem, thread: Some(thread) })
    }

    /// Passes on a record about an item, and the item's place.
    pub fn apply(&self, record: &EventRecord, place: Option<usize>) {
        if !DeadLetterState::is_relevant(&record.event) {
            return;
        }
        let mut record = record.clone();
        if let Event::AgentCompleted(done) = &mut record.event {
            // It may be long, and no letter has it.
            done.result = serde_json::Value::Null;
        }
        self.order(ProjectorCommand::Record(Box::new(record), place));
    }

    /// Waits until everything that was passed on is written or has failed.
    pub fn flush(&self) {
        let (done, wait) = channel();
        self.order(ProjectorCommand::Settle(done));
        // A thread that is gone has nothing to write.
        wait.recv().ok();
    }

    /// Returns what went wrong for the first time, once.
    pub fn take_first_error(&self) -> Option<String> {
        let mut problem = self.problem.lock().unwrap_or_else(PoisonError::into_inner);
        problem.take_if(|problem| !problem.is_empty()).inspect(|_| *problem = Some(String::new()))
    }

    /// Waits until all files are written that can be, up to the last record of the run.
    pub fn finish(&mut self, last: u64) {
        self.order(ProjectorCommand::Finish(last));
        self.end();
    }

    fn order(&self, order: ProjectorCommand) {
        if let Some(orders) = &self.orders {
            // A thread that is gone was ended by us, or could not even begin.
            orders.send(order).ok();
        }
    }

    fn end(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // What it had to say it has said.
            thread.join().ok();
        }
    }
}

impl Drop for DeadLetterProjector {
    fn drop(&mut self) {
        self.end();
    }
}

/// Remembers the first problem.
pub(crate) fn set_first_error(problem: &Mutex<Option<String>>, error: &Error) {
    let mut problem = problem.lock().unwrap_or_else(PoisonError::into_inner);
    if problem.is_none() {
        let mut said = error.to_string();
        let mut cause = std::error::Error::source(error);
        while let Some(source) = cause {
            said = format!("{said}: {source}");
            cause = source.source();
        }
        *problem = Some(said);
    }
}
