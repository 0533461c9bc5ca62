//! A run in plain lines, at a bounded rate.

use std::{
    io::{self, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use jiff::tz::TimeZone;
use prodigy_core::{
    Timestamp,
    event::{Event, EventRecord},
    job::Job,
};
use prodigy_engine::{clock, run::Reporter};

use super::{
    constraint::RunConstraint,
    item_reporter::ItemReporter,
    line::{ActiveSteps, LinePriority, LineSign, ProgressLine, format_record, plural},
    ticker::Ticker,
    totals::{time_until, totals_line},
};
use crate::render::console::{escape_controls, one_line};

/// So many steps or items are shown one by one.
const ALWAYS_SHOWN: u32 = 50;

/// The least time between two routine lines of a longer workflow.
const ROUTINE_EVERY: Duration = Duration::from_millis(100);

/// The least time between two lines of totals.
const TOTALS_EVERY: Duration = Duration::from_secs(2);

/// The time between two lines that say how long a wait still takes.
const REMIND_EVERY: Duration = Duration::from_secs(5 * 60);

/// Shows a run in plain lines.
pub(crate) struct PlainReporter {
    color: bool,
    lines: Arc<Mutex<LineThrottle>>,
    /// Says from time to time how long a wait still takes.
    _ticker: Ticker,
}

impl PlainReporter {
    pub(crate) fn new(teller: ItemReporter, color: bool) -> Self {
        let lines = Arc::new(Mutex::new(LineThrottle::new(teller)));
        let shared = Arc::clone(&lines);
        let ticker = Ticker::start(Duration::from_secs(1), move || {
            if let Some(line) = lock(&shared).reminder(clock::now()) {
                show(&line, color);
            }
        });
        Self { color, lines, _ticker: ticker }
    }
}

fn lock(lines: &Mutex<LineThrottle>) -> MutexGuard<'_, LineThrottle> {
    lines.lock().unwrap_or_else(PoisonError::into_inner)
}

fn show(line: &ProgressLine, color: bool) {
    print(&format!("{} {}", line.sign.show(color), one_line(&line.text)));
}

impl Reporter for PlainReporter {
    fn record(&mut self, record: &EventRecord, job: &Job) {
        for line in lock(&self.lines).lines_for(record, job) {
            show(&line, self.color);
        }
    }

    fn note(&mut self, note: &str) {
        print(&escape_controls(note));
    }
}

fn print(text: &str) {
    // A reader that went away must not stop the work.
    writeln!(io::stderr(), "{text}").ok();
}

/// Chooses the lines. The time is that of the records, so the same records give the same lines.
struct LineThrottle {
    names: ActiveSteps,
    teller: ItemReporter,
    /// When the last line was shown.
    last: Option<Timestamp>,
    /// When the totals were shown last.
    totals: Option<Timestamp>,
    /// When it was last said what keeps the job.
    reminded: Option<Timestamp>,
    left_out: u32,
}

impl LineThrottle {
    fn new(teller: ItemReporter) -> Self {
        Self {
            names: ActiveSteps::default(),
            teller,
            last: None,
            totals: None,
            reminded: None,
            left_out: 0,
        }
    }

    /// Returns what keeps the job waiting, if that was not said for a while.
    fn reminder(&mut self, now: Timestamp) -> Option<ProgressLine> {
        let hold = self.teller.hold.filter(|hold| matches!(hold, RunConstraint::Waiting { .. }))?;
        let last = self.reminded?;
        if time_until(now, last) < REMIND_EVERY {
            return None;
        }
        self.reminded = Some(now);
        let text = hold.show(now, &TimeZone::system());
        Some(ProgressLine { weight: LinePriority::Important, sign: LineSign::Dot, text })
    }

    /// Returns the lines for a record.
    fn lines_for(&mut self, record: &EventRecord, job: &Job) -> Vec<ProgressLine> {
        self.reminded = Some(record.timestamp);
        if let Some(mut lines) = self.teller.handle_record(record, job) {
            self.limit_items(&mut lines, record.timestamp);
            return lines;
        }
        self.names.record(record);
        let found = format_record(record, job, &self.names);
        self.names.forget(record);
        let Some(line) = found else { return Vec::new() };
        if line.weight == LinePriority::Routine && is_inner(record) {
            // `prodigy events` tells about the steps inside other steps.
            return Vec::new();
        }
        if line.weight == LinePriority::Routine && self.exceeds_rate(record.timestamp, job) {
            self.left_out += 1;
            return Vec::new();
        }
        self.last = Some(record.timestamp);
        let more = std::mem::take(&mut self.left_out);
        let more = (more > 0).then(|| format!("{} more", plural(more, "step")));
        let more = more.map(|text| ProgressLine {
            weight: LinePriority::Important,
            sign: LineSign::Dot,
            text,
        });
        more.into_iter().chain([line]).collect()
    }

    /// Shows totals from time to time instead of each of many items.
    fn limit_items(&mut self, lines: &mut Vec<ProgressLine>, now: Timestamp) {
        let Some(items) = self.teller.items.as_ref().filter(|items| items.total > ALWAYS_SHOWN)
        else {
            return;
        };
        lines.retain(|line| line.weight == LinePriority::Important);
        let last = *self.totals.get_or_insert(now);
        let is_due = time_until(now, last) >= TOTALS_EVERY || now < last;
        if is_due && items.counts.finished() < items.total {
            self.totals = Some(now);
            let text = totals_line(items, &self.teller, now, &TimeZone::system());
            lines.push(ProgressLine { weight: LinePriority::Important, sign: LineSign::Dot, text });
        }
    }

    /// Returns whether a routine line has to be left out to keep the rate bounded.
    ///
    /// That is so for most of a long workflow that runs fast; the last step is always shown.
    fn exceeds_rate(&self, now: Timestamp, job: &Job) -> bool {
        let many = job.total_steps() > ALWAYS_SHOWN;
        let soon = self.last.is_some_and(|last| time_until(now, last) < ROUTINE_EVERY);
        many && soon && job.done < job.total_steps()
    }
}

/// Returns whether a record is about a step inside another one.
fn is_inner(record: &EventRecord) -> bool {
    let Event::StepCompleted(step) = &record.event else { return false };
    !step.is_top_level() && !step.step.starts_with("merge.")
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use prodigy_core::workflow::ErrorCollection;
    use serde_json::json;

    use super::*;
    use crate::progress::job_fixture::JobFixture;

    /// Returns the lines for all records of a job.
    fn shown(told: &JobFixture, errors: ErrorCollection) -> String {
        let mut lines = LineThrottle::new(ItemReporter::new(errors, 2));
        let mut job = Job::default();
        let mut shown = Vec::new();
        for record in &told.records {
            job.apply(record).unwrap();
            let lines = lines.lines_for(record, &job);
            shown.extend(
                lines
                    .iter()
                    .map(|line| format!("{} {}", line.sign.show(false), one_line(&line.text))),
            );
        }
        shown.join("\n")
    }

    /// Returns a job in which everything happens that can happen to items.
    fn eventful() -> JobFixture {
        let mut told = JobFixture::new(5);
        told.start(1, 1, 1);
        told.start(2, 2, 1);
        told.wait(250);
        told.complete(1, 1, "c1", 0);
        told.complete(2, 2, "c0", 0);
        told.merge(1);
        told.start(3, 1, 1);
        told.start(4, 2, 1);
        told.fail(3, 1, "retry", "exit code 7");
        told.fail(4, 2, "skip", "exit code 8");
        told.start(5, 2, 1);
        told.fail(5, 2, "dead_letter", "exit code 9\nforged");
        let until = crate::progress::job_fixture::timestamp_at(30_250);
        told.emit(json!({"event_type": "circuit_open", "failures": 3, "until": until}));
        told.wait(30_000);
        told.emit(json!({"event_type": "circuit_half_open"}));
        told.start(3, 1, 2);
        told.complete(3, 1, "c2", 1);
        told.emit(json!({"event_type": "circuit_closed"}));
        told.merge(3);
        told.emit(json!({"event_type": "phase_completed", "phase": "map"}));
        told
    }

    #[test]
    fn a_wait_for_a_limit_is_told_and_recalled_from_time_to_time() {
        let mut told = JobFixture::new(2);
        told.start(1, 1, 1);
        let limit = json!({"kind": "usage", "message": "5-hour limit reached"});
        let until = crate::progress::job_fixture::timestamp_at(2_520_000);
        let released = json!({"event_type": "agent_released", "reason": "limit", "duration_ms": 1});
        told.emit_for_item(1, Some(1), released);
        told.emit(json!({"event_type": "quota_paused", "limit": limit, "paused_until": until}));
        let mut lines = LineThrottle::new(ItemReporter::new(ErrorCollection::Immediate, 2));
        let mut job = Job::default();
        let mut shown = Vec::new();
        for record in &told.records {
            job.apply(record).unwrap();
            shown = lines.lines_for(record, &job);
        }
        let [line] = &shown[..] else { panic!("{shown:?}") };
        // In between is the time by the clock on the wall.
        assert!(line.text.starts_with("5-hour limit reached; it is tried again at "), "{line:?}");
        assert!(line.text.ends_with(" (in 42m 00s)"), "{line:?}");
        let mut recalled = |minutes: i64| {
            let line = lines.reminder(crate::progress::job_fixture::timestamp_at(minutes * 60_000));
            line.map(|line| line.text.split('(').nth(1).unwrap_or_default().to_owned())
        };
        assert_eq!(recalled(4), None);
        assert_eq!(recalled(5).unwrap(), "in 37m 00s)");
        assert_eq!(recalled(6), None);
        assert_eq!(recalled(20).unwrap(), "in 22m 00s)");
        told.wait(2_520_000);
        told.start(1, 1, 1);
        told.emit(json!({"event_type": "quota_resumed"}));
        let mut shown = Vec::new();
        for record in told
            .records
            .iter()
            .skip_while(|record| record.seq <= job.seq)
            .cloned()
            .collect::<Vec<_>>()
        {
            job.apply(&record).unwrap();
            shown.extend(lines.lines_for(&record, &job).into_iter().map(|line| line.text));
        }
        assert_eq!(shown, ["trying with one agent", "agents are served again"]);
        assert_eq!(lines.reminder(crate::progress::job_fixture::timestamp_at(9_000_000)), None);
    }

    #[test]
    fn a_few_items_have_a_line_each_and_failures_are_told_as_they_happen() {
        insta::assert_snapshot!(shown(&eventful(), ErrorCollection::Immediate), @r#"
        · job job · fix · mapreduce
        · 5 items
        ✓ item-002  250ms
        ✓ item-001  250ms · 1 commit
        ~ item-003 at step 1: exit code 7; attempt 2 follows
        ✗ item-004 at step 1: exit code 8; left out
        ✗ item-005 at step 1: exit code 9\nforged; in the DLQ after 1 attempt
        ✗ circuit open: 3 attempts in a row failed; the next may start in 30s
        · circuit half open: a few attempts are let through
        ✓ circuit closed
        ✓ item-003  250ms · 1 commit
        ~ map: 3/5 done · 2 failed · 1 in DLQ  30.3s
        "#);
    }

    #[test]
    fn failures_are_told_some_at_a_time_or_only_in_the_summary() {
        let size = NonZeroU32::new(2).unwrap();
        let failures = |errors| {
            let shown = shown(&eventful(), errors);
            shown
                .lines()
                .filter(|line| line.contains("step 1"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(failures(ErrorCollection::Aggregate), [""; 0]);
        assert_eq!(failures(ErrorCollection::Immediate).len(), 3);
        insta::assert_snapshot!(shown(&eventful(), ErrorCollection::Batched { size }), @r#"
        · job job · fix · mapreduce
        · 5 items
        ✓ item-002  250ms
        ✓ item-001  250ms · 1 commit
        ✗ item-004 at step 1: exit code 8; left out
        ✗ item-005 at step 1: exit code 9\nforged; in the DLQ after 1 attempt
        ✗ circuit open: 3 attempts in a row failed; the next may start in 30s
        · circuit half open: a few attempts are let through
        ✓ circuit closed
        ✓ item-003  250ms · 1 commit
        ~ map: 3/5 done · 2 failed · 1 in DLQ  30.3s
        "#);
        let size = NonZeroU32::new(10).unwrap();
        let late = shown(&eventful(), ErrorCollection::Batched { size });
        let tail: Vec<_> = late.lines().rev().take(3).collect();
        insta::assert_snapshot!(tail.join("\n"), @r#"
        ~ map: 3/5 done · 2 failed · 1 in DLQ  30.3s
        ✗ item-005 at step 1: exit code 9\nforged; in the DLQ after 1 attempt
        ✗ item-004 at step 1: exit code 8; left out
        "#);
    }

    #[test]
    fn many_items_are_told_as_totals_at_a_bounded_rate() {
        let mut told = JobFixture::new(1_000);
        for item in 1..=1_000 {
            told.start(item, 1, 1);
            told.wait(10);
            if item % 400 == 0 {
                told.fail(item, 1, "dead_letter", "exit code 1");
            } else {
                told.complete(item, 1, "c0", 0);
            }
        }
        told.emit(json!({"event_type": "phase_completed", "phase": "map"}));
        insta::assert_snapshot!(shown(&told, ErrorCollection::Immediate), @"
        · job job · fix · mapreduce
        · 1000 items
        · 200/1000 done · 100/s · about 8s left
        · 399/1000 done · 100/s · about 6s left
        ✗ item-400 at step 1: exit code 1; in the DLQ after 1 attempt
        · 599/1000 done · 1 failed · 1 in DLQ · 100/s · about 4s left
        · 798/1000 done · 1 failed · 1 in DLQ · 100/s · about 2s left
        ✗ item-800 at step 1: exit code 1; in the DLQ after 1 attempt
        ~ map: 998/1000 done · 2 failed · 2 in DLQ  10s
        ");
    }

    #[test]
    fn a_resumed_job_counts_what_was_done_before() {
        let mut told = JobFixture::new(60);
        for item in 1..=20 {
            told.start(item, 1, 1);
            told.complete(item, 1, "c0", 0);
        }
        told.start(21, 1, 1);
        let mut job = told.job.clone();
        let before = told.records.len();
        told.wait(60_000);
        told.emit(json!({"event_type": "job_resumed", "version": "0.1.0"}));
        for item in 21..=40 {
            told.start(item, 1, 1);
            told.wait(200);
            told.complete(item, 1, "c0", 0);
        }
        let mut lines = LineThrottle::new(ItemReporter::new(ErrorCollection::Aggregate, 2));
        let mut shown = Vec::new();
        for record in &told.records[before..] {
            job.apply(record).unwrap();
            shown.extend(lines.lines_for(record, &job).into_iter().map(|line| line.text));
        }
        insta::assert_snapshot!(shown.join("\n"), @"
        job job resumed · 20 of 60 items done
        30/60 done · 5.0/s · about 6s left
        40/60 done · 5.0/s · about 4s left
        ");
    }

    /// `cargo test --release -p prodigy -- --ignored --nocapture a_record_costs`
    #[test]
    #[ignore = "measures; wants an optimised build"]
    fn a_record_costs_next_to_nothing() {
        let mut told = JobFixture::new(20_000);
        for item in 1..=20_000 {
            told.start(item, 1, 1);
            told.wait(1);
            told.complete(item, 1, "c0", 0);
        }
        let mut lines = LineThrottle::new(ItemReporter::new(ErrorCollection::Aggregate, 2));
        let begun = std::time::Instant::now();
        let mut shown = 0;
        for record in &told.records {
            shown += lines.lines_for(record, &told.job).len();
        }
        let each = begun.elapsed() / u32::try_from(told.records.len()).unwrap();
        println!("{} records, {shown} lines, {each:?} each", told.records.len());
        assert!(each < Duration::from_micros(2));
    }
}
