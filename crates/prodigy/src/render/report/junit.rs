//! A run as JUnit XML, which every CI system can show.

use std::{
    collections::HashMap,
    io::{self, SeekFrom, Write},
    path::Path,
};

use prodigy_core::{
    event::{Event, EventRecord, JobMode, StepFailureDecision, StepStatus, is_top_level},
    failure::Failure,
    ids::{ItemId, JobId},
    job::{ItemStage, Job, JobOutcome},
};
use prodigy_engine::store::{self, JournalReader, Layout};

use super::xml::{attribute, text};
use crate::render::output_file::{self, OutputFileError};

/// The room that is kept for the numbers at the beginning, which are known at the end.
const ROOM: usize = 160;

/// The reason that the report could not be written.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Error {
    /// The file cannot be written.
    #[error("there is no JUnit report")]
    Write(#[from] OutputFileError),
    /// The journal cannot be read.
    #[error("cannot read the journal for the JUnit report")]
    Journal(#[source] store::Error),
}

/// An error while the report was written.
#[derive(Debug)]
enum JunitErrorCause {
    Write(io::Error),
    Read(store::Error),
}

impl From<io::Error> for JunitErrorCause {
    fn from(error: io::Error) -> Self {
        Self::Write(error)
    }
}

/// Writes a job to a file: a test case for each item, or for each step if it has no items.
///
/// The journal is read once and nothing is gathered, so a job may have any number of items.
pub(crate) fn write(path: &Path, layout: &Layout, id: &JobId, job: &Job) -> Result<(), Error> {
    let records = JournalReader::open(layout, id).map_err(Error::Journal)?;
    output_file::write(path, |file| {
        JunitWriter::new(file, job).write(records).map_err(|cause| match cause {
            JunitErrorCause::Write(source) => OutputFileError::new(path, source).into(),
            JunitErrorCause::Read(source) => Error::Journal(source),
        })
    })
}

/// A report that is being written.
struct JunitWriter<'a, W> {
    out: W,
    job: &'a Job,
    class: String,
    tests: u64,
    failures: u64,
    skipped: u64,
    millis: u64,
    /// The time that the attempts of unfinished items took, and the names of steps.
    under_way: HashMap<String, u64>,
    names: HashMap<String, String>,
    /// The number of replays of each item so far.
    replays: HashMap<ItemId, u32>,
    /// Remarks on test cases that have not ended.
    remarks: HashMap<String, String>,
}

/// The result of a test case.
enum JunitOutcome<'a> {
    Passed,
    Failed(&'a Failure),
    Skipped(&'a str),
}

impl<'a, W: Write + io::Seek> JunitWriter<'a, W> {
    fn new(out: W, job: &'a Job) -> Self {
        let started = job.started.as_ref();
        let class = started.map(|started| {
            started.workflow_name.clone().unwrap_or_else(|| started.workflow_file.clone())
        });
        Self {
            out,
            job,
            class: class.unwrap_or_default(),
            tests: 0,
            failures: 0,
            skipped: 0,
            millis: 0,
            under_way: HashMap::new(),
            names: HashMap::new(),
            replays: HashMap::new(),
            remarks: HashMap::new(),
        }
    }

    /// Writes everything; the numbers at the beginning come last.
    fn write(
        mut self,
        records: impl Iterator<Item = Result<EventRecord, store::Error>>,
    ) -> Result<(), JunitErrorCause> {
        self.begin()?;
        for record in records {
            let record = record.map_err(JunitErrorCause::Read)?;
            match (&record.item_id, self.job.mode()) {
                (Some(item), _) => self.item(item, &record)?,
                (None, JobMode::Sequential) => self.step(&record)?,
                (None, JobMode::Mapreduce) => {}
            }
        }
        self.write_unfinished()?;
        self.out.write_all(b"  </testsuite>\n</testsuites>\n")?;
        self.out.seek(SeekFrom::Start(0))?;
        self.begin()?;
        self.out.flush()?;
        Ok(())
    }

    /// Writes the beginning, always in the same number of bytes.
    fn begin(&mut self) -> io::Result<()> {
        let numbers = format!(
            r#"tests="{}" failures="{}" errors="0" skipped="{}" time="{}""#,
            self.tests,
            self.failures,
            self.skipped,
            seconds(self.millis)
        );
        let at = self.job.started_at.map(|at| at.strftime("%Y-%m-%dT%H:%M:%S").to_string());
        writeln!(self.out, r#"<?xml version="1.0" encoding="UTF-8"?>"#)?;
        writeln!(self.out, "<testsuites>")?;
        writeln!(
            self.out,
            r#"  <testsuite name="{}" timestamp="{}" {numbers:<ROOM$}>"#,
            attribute(&self.class),
            at.unwrap_or_default()
        )
    }

    fn item(&mut self, item: &ItemId, record: &EventRecord) -> io::Result<()> {
        let id = item.as_str();
        match &record.event {
            Event::AgentCompleted(done) => {
                self.add(id, done.duration_ms);
                self.set_remark(id, done.failed_steps());
                if !done.has_commits() {
                    self.write_case(id, &JunitOutcome::Passed)?;
                }
            }
            Event::AgentFailed(failed) => self.add(id, failed.duration_ms),
            Event::ResolutionCompleted { duration_ms, .. }
            | Event::ResolutionFailed { duration_ms, .. } => self.add(id, *duration_ms),
            Event::WorktreeMerged { .. } => self.write_case(id, &JunitOutcome::Passed)?,
            // One that is replayed later has come to no end yet.
            Event::ItemDeadLettered { .. } if self.is_replayed_later(item) => {}
            Event::ItemDeadLettered { failure, .. } => {
                self.write_case(id, &JunitOutcome::Failed(failure))?;
            }
            Event::ReplayStarted { replay, .. } => {
                self.replays.insert(item.clone(), *replay);
            }
            Event::ItemSkipped { reason, .. } => {
                self.write_case(id, &JunitOutcome::Skipped(reason))?;
            }
            Event::JobStarted(_)
            | Event::JobResumed { .. }
            | Event::JobPaused { .. }
            | Event::JobCompleted { .. }
            | Event::JobFailed { .. }
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::ItemsSelected { .. }
            | Event::ItemQueued {}
            | Event::AgentStarted { .. }
            | Event::AgentRetrying { .. }
            | prodigy_core::circuit_news!()
            | Event::StepStarted { .. }
            | Event::StepCompleted(_)
            | Event::StepFailed { .. }
            | Event::StepSkipped { .. }
            | Event::AgentUsage { .. }
            | prodigy_core::agent_news!()
            | Event::AgentReleased { .. }
            | prodigy_core::spending_news!()
            | Event::WorktreeCreated { .. }
            | Event::WorktreePreserved { .. }
            | Event::WorktreeCleaned { .. }
            | Event::WorkKept(_)
            | Event::MergeConflict { .. }
            | Event::HandlerRestarted { .. }
            | Event::ResolutionStarted { .. }
            | Event::GitTampering { .. }
            | Event::CheckoutUpdateStarted(_)
            | prodigy_core::checkout_news!()
            | Event::DlqItemRemoved { .. }
            | Event::DlqItemUpdated { .. }
            | prodigy_core::approval_news!()
            | prodigy_core::effect_news!()
            | Event::JournalEndLost { .. }
            | Event::CheckpointCreated { .. } => {}
        }
        Ok(())
    }

    /// Returns whether there are more replays of an item than those so far.
    fn is_replayed_later(&self, item: &ItemId) -> bool {
        let found = self.job.map.as_ref().and_then(|map| map.find(item));
        let in_all = found.map_or(0, |(_, item)| item.replays);
        self.replays.get(item).copied().unwrap_or_default() < in_all
    }

    fn step(&mut self, record: &EventRecord) -> io::Result<()> {
        match &record.event {
            Event::StepStarted { step, name, .. } if is_top_level(step) => {
                self.names.insert(step.clone(), name.clone());
            }
            Event::StepCompleted(done) if is_top_level(&done.step) => {
                let name = self.take_step_name(&done.step);
                self.add(&name, done.duration_ms);
                let remark = match done.status {
                    StepStatus::Success | StepStatus::Skipped => None,
                    StepStatus::Recovered => Some("recovered"),
                    StepStatus::Failed => Some("failed and ignored"),
                };
                self.set_remark(&name, remark.map(str::to_owned));
                self.write_case(&name, &JunitOutcome::Passed)?;
            }
            Event::StepFailed { step, then: StepFailureDecision::Stop, duration_ms, .. }
                if is_top_level(step) =>
            {
                let name = self.names.get(step).map(|name| format!("{step} {name}"));
                self.add(name.as_ref().unwrap_or(step), *duration_ms);
            }
            Event::StepSkipped { step, name, when, .. } if is_top_level(step) => {
                let reason = format!("`{when}` is false");
                self.write_case(&format!("{step} {name}"), &JunitOutcome::Skipped(&reason))?;
            }
            Event::JobStarted(_)
            | Event::JobResumed { .. }
            | Event::JobPaused { .. }
            | Event::JobCompleted { .. }
            | Event::JobFailed { .. }
            | Event::PhaseStarted { .. }
            | Event::PhaseCompleted { .. }
            | Event::ItemsSelected { .. }
            | Event::ItemQueued {}
            | Event::AgentStarted { .. }
            | Event::AgentCompleted(_)
            | Event::AgentFailed(_)
            | Event::AgentRetrying { .. }
            | Event::ItemSkipped { .. }
            | Event::ItemDeadLettered { .. }
            | prodigy_core::circuit_news!()
            | Event::StepStarted { .. }
            | Event::StepCompleted(_)
            | Event::StepFailed { .. }
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
            | prodigy_core::resolution_news!()
            | Event::GitTampering { .. }
            | Event::CheckoutUpdateStarted(_)
            | prodigy_core::checkout_news!()
            | Event::ReplayStarted { .. }
            | Event::DlqItemRemoved { .. }
            | Event::DlqItemUpdated { .. }
            | prodigy_core::approval_news!()
            | prodigy_core::effect_news!()
            | Event::JournalEndLost { .. }
            | Event::CheckpointCreated { .. } => {}
        }
        Ok(())
    }

    /// Writes what did not come to its end: items that wait, and the step that ended the job.
    fn write_unfinished(&mut self) -> io::Result<()> {
        let map = self.job.map.as_ref();
        for item in map.iter().flat_map(|map| &map.items) {
            match item.stage {
                ItemStage::Successful | ItemStage::DeadLettered | ItemStage::Skipped => {}
                ItemStage::Pending
                | ItemStage::Waiting { .. }
                | ItemStage::Running { .. }
                | ItemStage::Handling { .. }
                | ItemStage::Unhandled(_)
                | ItemStage::Merging(_)
                | ItemStage::Conflicted(_)
                | ItemStage::Resolving { .. } => {
                    self.write_case(
                        item.id.as_str(),
                        &JunitOutcome::Skipped("the job stopped before it"),
                    )?;
                }
            }
        }
        if let Some(JobOutcome::Failed { step, failure }) = &self.job.end {
            let name = self.take_step_name(step);
            self.write_case(&name, &JunitOutcome::Failed(failure))?;
        }
        Ok(())
    }

    /// Returns what a step is called, and forgets it.
    fn take_step_name(&mut self, step: &str) -> String {
        match self.names.remove(step) {
            Some(name) => format!("{step} {name}"),
            None => step.to_owned(),
        }
    }

    /// Sets the remark on a test case, or removes it.
    fn set_remark(&mut self, name: &str, remark: Option<String>) {
        match remark {
            Some(remark) => self.remarks.insert(name.to_owned(), remark),
            None => self.remarks.remove(name),
        };
    }

    /// Adds to the duration of a test case.
    fn add(&mut self, name: &str, millis: u64) {
        *self.under_way.entry(name.to_owned()).or_default() += millis;
    }

    fn write_case(&mut self, case: &str, verdict: &JunitOutcome<'_>) -> io::Result<()> {
        let millis = self.under_way.remove(case).unwrap_or(0);
        self.millis += millis;
        self.tests += 1;
        let (name, class, time) = (attribute(case), attribute(&self.class), seconds(millis));
        write!(self.out, r#"    <testcase name="{name}" classname="{class}" time="{time}""#)?;
        let remark = self.remarks.remove(case);
        match verdict {
            JunitOutcome::Passed => match remark {
                None => writeln!(self.out, "/>"),
                Some(remark) => {
                    let remark = text(&remark);
                    writeln!(self.out, "><system-out>{remark}</system-out></testcase>")
                }
            },
            JunitOutcome::Skipped(reason) => {
                self.skipped += 1;
                let reason = attribute(reason);
                writeln!(self.out, r#"><skipped message="{reason}"/></testcase>"#)
            }
            JunitOutcome::Failed(failure) => {
                self.failures += 1;
                let (kind, message) = (failure.kind.code(), attribute(&failure.message));
                let output = text(&failure.output_tail);
                writeln!(
                    self.out,
                    r#"><failure type="{kind}" message="{message}">{output}</failure></testcase>"#
                )
            }
        }
    }
}

/// Returns milliseconds as seconds.
fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use prodigy_core::failure::ReasonCode;
    use serde_json::json;

    use super::*;
    use crate::progress::job_fixture::JobFixture;

    fn xml(told: &JobFixture) -> String {
        let mut out = Cursor::new(Vec::new());
        let report = JunitWriter::new(&mut out, &told.job);
        report.write(told.records.iter().cloned().map(Ok)).unwrap();
        let xml = String::from_utf8(out.into_inner()).unwrap();
        one_space(&xml)
    }

    /// Takes the room behind the numbers away.
    fn one_space(xml: &str) -> String {
        xml.lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect::<Vec<_>>()
            .join("\n")
    }

    #[test]
    fn every_item_is_a_test_case() {
        let mut told = JobFixture::new(5);
        told.start(1, 1, 1);
        told.complete(1, 1, "c0", 0);
        told.start(2, 1, 1);
        told.fail(2, 1, "retry", "exit code 7");
        told.start(2, 1, 2);
        told.complete(2, 1, "c1", 0);
        told.merge(2);
        told.start(3, 1, 1);
        told.fail(3, 1, "dead_letter", "\"quoted\" <b> & \u{1b}[31m\nsecond line");
        told.start(4, 1, 1);
        told.fail(4, 1, "skip", "exit code 8");
        told.emit(json!({
            "event_type": "job_paused", "reason": "policy", "message": "too many failures",
        }));
        insta::assert_snapshot!(xml(&told), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites>
        <testsuite name="fix" timestamp="2026-01-02T03:04:05" tests="5" failures="1" errors="0" skipped="2" time="0.800" >
        <testcase name="item-001" classname="fix" time="0.250"/>
        <testcase name="item-002" classname="fix" time="0.350"/>
        <testcase name="item-003" classname="fix" time="0.100"><failure type="command_failed" message="&quot;quoted&quot; &lt;b&gt; &amp; �[31m&#10;second line">last words</failure></testcase>
        <testcase name="item-004" classname="fix" time="0.100"><skipped message="`on_item_failure` is `skip`"/></testcase>
        <testcase name="item-005" classname="fix" time="0.000"><skipped message="the job stopped before it"/></testcase>
        </testsuite>
        </testsuites>
        "#);
    }

    #[test]
    fn the_step_that_ended_the_job_is_a_test_case_too() {
        let mut told = JobFixture::new(0);
        let failure = json!({"kind": "timeout", "message": "took longer than 5s"});
        told.emit(json!({"event_type": "job_failed", "step": "reduce.1", "failure": failure}));
        insta::assert_snapshot!(xml(&told), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites>
        <testsuite name="fix" timestamp="2026-01-02T03:04:05" tests="1" failures="1" errors="0" skipped="0" time="0.000" >
        <testcase name="reduce.1" classname="fix" time="0.000"><failure type="timeout" message="took longer than 5s"></failure></testcase>
        </testsuite>
        </testsuites>
        "#);
    }

    #[test]
    fn nothing_breaks_out_of_the_xml() {
        let all: String =
            (0..=0xff_u8).map(char::from).chain("\u{fffe}\u{ffff}]]>".chars()).collect();
        let attribute = attribute(&all);
        let text = text(&all);
        let is_allowed = |c: char| !c.is_control() && !"<>\u{fffe}\u{ffff}".contains(c);
        assert!(attribute.chars().all(|c| is_allowed(c) && c != '"'), "{attribute:?}");
        assert!(text.chars().all(|c| is_allowed(c) || "\n\t".contains(c)), "{text:?}");
        assert_eq!(super::attribute("plain"), "plain");
        assert_eq!(
            super::attribute("a\n\t\"b\" & <c>\r"),
            "a&#10;&#9;&quot;b&quot; &amp; &lt;c&gt;&#13;"
        );
        assert_eq!(super::text("a\n\t\"b\"\u{0}"), "a\n\t\"b\"\u{fffd}");
    }

    #[test]
    fn the_numbers_always_fit_into_their_room() {
        let told = JobFixture::new(0);
        let mut report = JunitWriter::new(Cursor::new(Vec::new()), &told.job);
        report.begin().unwrap();
        let before = report.out.position();
        (report.tests, report.failures, report.skipped, report.millis) =
            (u64::MAX, u64::MAX, u64::MAX, u64::MAX);
        report.begin().unwrap();
        assert_eq!(report.out.position(), 2 * before);
    }

    #[test]
    fn a_failure_has_its_reason_code() {
        let failure = Failure::new(ReasonCode::NoCommit, "no commit");
        let told = JobFixture::new(0);
        let mut report = JunitWriter::new(Cursor::new(Vec::new()), &told.job);
        report.write_case("item-1", &JunitOutcome::Failed(&failure)).unwrap();
        let xml = String::from_utf8(report.out.into_inner()).unwrap();
        insta::assert_snapshot!(xml, @r#"    <testcase name="item-1" classname="fix" time="0.000"><failure type="no_commit" message="no commit"></failure></testcase>"#);
    }
}
