//! A job with as many dead letters as one likes.

use std::{fs, path::Path};

use prodigy_core::{
    Timestamp,
    dlq::RunFingerprint,
    event::{Event, EventRecord, NewEvent},
    ids::{ItemId, JobId},
    items::Item,
    mask::Mask,
};
use prodigy_engine::store::{
    Durability, JobLock, JournalReader, JournalWriter, Layout, Spool, dlq::DeadLetterProjector,
};
use prodigy_testkit::TestEnv;
use serde_json::value::RawValue;

use crate::{bench::timing::time_ending_with, error::Error};

/// The job whose records are the pattern for all others.
const PATTERN: &str = "pattern";

/// The exit code of a job none of whose items succeeded.
const NO_SUCCESS: i32 = 1;

/// The approximate number of records that are appended to the journal at once.
const BATCH: u32 = 1000;

/// Items fail for as long as there is no file `mended` beside the repository.
const WORKFLOW: &str = "name: dead
mode: mapreduce
map:
  input: {items: [{n: 0, path: src/module-0/lib.rs}]}
  max_parallel: 10
  isolation: shared
  agent_template:
    - shell: test -e MENDED
";

/// A job whose items die one after the other.
pub(crate) struct DlqGenerator {
    world: TestEnv,
    layout: Layout,
    job: JobId,
    journal: JournalWriter,
    letters: DeadLetterProjector,
    /// The records of one item that fails.
    death: Vec<EventRecord>,
    /// The events after all items are dead-lettered.
    end: Vec<Event>,
    entries: u32,
    dead: u32,
    last_seq: u64,
    _lock: JobLock,
}

/// A job with dead letters, and nothing else to do.
pub(crate) struct DlqFixture {
    /// Where it is.
    pub(crate) world: TestEnv,
    /// Its name.
    pub(crate) job: String,
    /// The number of dead letters.
    pub(crate) entries: u32,
}

impl DlqGenerator {
    /// Makes a job with so many items, of which none is dead yet.
    pub(crate) fn begin(binary: &Path, entries: u32) -> Result<Self, Error> {
        let world = TestEnv::with_repo(binary);
        let mended = world.root().join("mended");
        world.write("dead.yml", WORKFLOW.replace("MENDED", &mended.to_string_lossy()));
        world.commit_all("workflow");
        let args = ["run", "dead.yml", "-y", "--job-id", PATTERN];
        time_ending_with(NO_SUCCESS, &mut world.prodigy_command(&args))?;
        let layout = Layout::new(world.home(), "repo".parse().map_err(incomplete)?);
        let pattern: JobId = PATTERN.parse().map_err(incomplete)?;
        let records = JournalReader::open(&layout, &pattern).map_err(incomplete)?;
        let records = records.collect::<Result<Vec<_>, _>>().map_err(incomplete)?;
        let job: JobId = format!("dead-{entries}").parse().map_err(incomplete)?;
        copy_state(&layout.state_dir(&pattern), &layout.state_dir(&job))?;
        let lock = JobLock::take(&layout, &job).map_err(incomplete)?;
        let items = items(entries)?;
        let spool = Spool::write(&layout.items_file(&job), items.iter()).map_err(incomplete)?;
        let letters = DeadLetterProjector::start(
            layout.clone(),
            job.clone(),
            run_facts(&records),
            0,
            Mask::default(),
            spool.clone(),
        );
        let mut many = Self {
            journal: JournalWriter::create(&layout, &job, Durability::Relaxed)
                .map_err(incomplete)?,
            letters: letters.map_err(incomplete)?,
            world,
            layout,
            job,
            death: Vec::new(),
            end: Vec::new(),
            entries,
            dead: 0,
            last_seq: 0,
            _lock: lock,
        };
        many.open(records, &items, spool.sha256())?;
        Ok(many)
    }

    /// Writes what happens before the first item dies, and keeps the rest of the pattern.
    fn open(
        &mut self,
        records: Vec<EventRecord>,
        items: &[Item],
        sha256: &str,
    ) -> Result<(), Error> {
        let mut begin = Vec::new();
        for record in records {
            if let Event::ItemQueued {} = record.event {
                begin.extend(items.iter().map(|item| NewEvent {
                    agent_id: None,
                    item_id: Some(item.id.clone()),
                    event: Event::ItemQueued {},
                }));
            } else if record.item_id.is_some() {
                self.death.push(record);
            } else if let Event::ItemsSelected { .. } = record.event {
                let (total, sha256) = (self.entries, sha256.to_owned());
                begin.push(Event::ItemsSelected { total, sha256 }.into());
            } else if self.death.is_empty() {
                begin.push(record.event.into());
            } else {
                self.end.push(record.event);
            }
        }
        self.append(begin).map(drop)
    }

    fn append(&mut self, facts: Vec<NewEvent>) -> Result<Vec<EventRecord>, Error> {
        let records = self.journal.append(facts, Timestamp::now()).map_err(incomplete)?;
        self.last_seq = records.last().map_or(self.last_seq, |record| record.seq);
        Ok(records)
    }

    /// Lets items die until so many are dead.
    pub(crate) fn fail_until(&mut self, dead: u32) -> Result<(), Error> {
        while self.dead < dead {
            let number = BATCH.min(dead - self.dead);
            for (record, place) in self.fail_items(number)? {
                self.letters.apply(&record, Some(place));
            }
        }
        self.letters.flush();
        Ok(())
    }

    /// Lets items die in the journal, and returns the records and whose they are.
    pub(crate) fn fail_items(&mut self, number: u32) -> Result<Vec<(EventRecord, usize)>, Error> {
        let mut facts = Vec::new();
        let mut places = Vec::new();
        for at in self.dead..self.dead + number {
            let id = item_id(at, self.entries)?;
            for record in &self.death {
                let (agent_id, event) = (record.agent_id, record.event.clone());
                facts.push(NewEvent { agent_id, item_id: Some(id.clone()), event });
                places.push(usize::try_from(at).unwrap_or(usize::MAX));
            }
        }
        self.dead += number;
        Ok(self.append(facts)?.into_iter().zip(places).collect())
    }

    /// Returns who writes the dead letters.
    pub(crate) fn dead_letter_writer(&self) -> &DeadLetterProjector {
        &self.letters
    }

    /// Returns the file of the newest dead letter.
    pub(crate) fn newest_entry(&self) -> Result<std::path::PathBuf, Error> {
        let id = item_id(self.dead.saturating_sub(1), self.entries)?;
        Ok(self.layout.dlq_item(&self.job, &id))
    }

    /// Lets the other items die and ends the job.
    pub(crate) fn finish(mut self) -> Result<DlqFixture, Error> {
        self.fail_until(self.entries)?;
        let end = std::mem::take(&mut self.end).into_iter().map(NewEvent::from).collect();
        self.append(end)?;
        self.letters.finish(self.last_seq);
        let Self { world, job, entries, .. } = self;
        let path = world.root().join("mended");
        fs::write(&path, "").map_err(|source| Error::File { path, source })?;
        Ok(DlqFixture { world, job: job.to_string(), entries })
    }
}

fn run_facts(records: &[EventRecord]) -> RunFingerprint {
    let mut facts = RunFingerprint::default();
    for record in records {
        facts.apply(&record.event);
    }
    facts
}

fn items(number: u32) -> Result<Vec<Item>, Error> {
    let item = |at: u32| {
        let data = format!("{{\"n\":{at},\"path\":\"src/module-{at}/lib.rs\"}}");
        let index = usize::try_from(at).unwrap_or(usize::MAX).saturating_add(1);
        let data = RawValue::from_string(data).map_err(incomplete)?;
        Ok(Item { id: item_id(at, number)?, index, data })
    };
    (0..number).map(item).collect()
}

/// Returns the name of an item, from 0.
fn item_id(at: u32, number: u32) -> Result<ItemId, Error> {
    let width = number.to_string().len().max(3);
    format!("item-{:0width$}", at + 1).parse().map_err(incomplete)
}

/// Copies what a job needs to be taken up again, except for its items.
fn copy_state(from: &Path, to: &Path) -> Result<(), Error> {
    let failed = |source| Error::File { path: to.to_owned(), source };
    fs::create_dir_all(to).map_err(failed)?;
    for name in ["workflow.yml", "sources.json"] {
        fs::copy(from.join(name), to.join(name)).map_err(failed)?;
    }
    Ok(())
}

pub(crate) fn incomplete(error: impl std::fmt::Display) -> Error {
    Error::Incomplete(format!("no job could be made: {error}"))
}
