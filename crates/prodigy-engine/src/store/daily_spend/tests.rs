#![expect(clippy::disallowed_methods, reason = "the test plays whoever damages the files")]
#![expect(clippy::float_cmp, reason = "halves and quarters add up exactly")]

use std::fs;

use serde_json::json;

use super::*;
use crate::store::{
    Durability, JournalWriter,
    fixture::{TestHome, at, files_in},
};

/// The seconds until the next day begins.
const MIDNIGHT: i64 = 21 * 3600;

/// Returns what an agent says when it is done.
fn usage(cost_usd: f64) -> Event {
    let event = json!({
        "event_type": "agent_usage", "step": "1", "agent": "claude", "cost_usd": cost_usd,
        "tokens": {"input_tokens": 3, "output_tokens": 4},
    });
    serde_json::from_value(event).unwrap()
}

fn started() -> Event {
    let event = json!({
        "event_type": "job_started", "version": "0", "workflow_file": "w.yml",
        "workflow_hash": "", "repository": "/r", "target_branch": null, "base_commit": "c0",
        "steps": 1, "rounds": 1, "yes": true,
    });
    serde_json::from_value(event).unwrap()
}

/// A job that spends, with its journal and its fold.
struct Spender {
    home: TestHome,
    journal: JournalWriter,
    fold: Job,
}

impl Spender {
    fn new() -> Self {
        let home = TestHome::new();
        let journal = JournalWriter::create(&home.layout, &home.job, Durability::Relaxed).unwrap();
        let mut spender = Self { home, journal, fold: Job::default() };
        spender.record(started(), 0);
        spender
    }

    fn record(&mut self, event: Event, seconds: i64) -> EventRecord {
        let record = self.journal.append(vec![event], at(seconds)).unwrap().remove(0);
        self.fold.apply(&record).unwrap();
        record
    }

    fn book(&self) -> DailySpend {
        DailySpend::new(&self.home.layout, &self.home.job)
    }

    fn directory(&self) -> PathBuf {
        Layout::spending_dir(self.home.layout.home())
    }

    /// Returns all that was noted, a file after the other.
    fn noted(&self) -> String {
        let files = files_in(&self.directory());
        let files = files
            .into_iter()
            .map(|(name, text)| format!("{name}\n{}", String::from_utf8(text).unwrap()));
        files.collect()
    }
}

#[test]
fn what_jobs_spend_is_noted_under_the_day_and_added_up() {
    let mut spender = Spender::new();
    let mut book = spender.book();
    assert_eq!(book.today_usd(at(0), 0.0).unwrap(), 0.0);
    let other_layout = Layout::new(spender.home.layout.home().into(), "other".parse().unwrap());
    let mut other = DailySpend::new(&other_layout, &"job-1".parse().unwrap());
    for (seconds, cost_usd) in [(1, 0.5), (2, 0.0), (3, 0.25), (MIDNIGHT, 1.0)] {
        let record = spender.record(usage(cost_usd), seconds);
        book.record(&record).unwrap();
        other.record(&record).unwrap();
    }
    insta::assert_snapshot!(spender.noted(), @r#"
    2026-01-02.jsonl
    {"at":"2026-01-02T03:04:06Z","repo":"repo","job_id":"job-1","cost_usd":0.5,"input_tokens":3,"output_tokens":4,"total_usd":0.5}
    {"at":"2026-01-02T03:04:06Z","repo":"other","job_id":"job-1","cost_usd":0.5,"input_tokens":3,"output_tokens":4,"total_usd":0.5}
    {"at":"2026-01-02T03:04:08Z","repo":"repo","job_id":"job-1","cost_usd":0.25,"input_tokens":3,"output_tokens":4,"total_usd":0.75}
    {"at":"2026-01-02T03:04:08Z","repo":"other","job_id":"job-1","cost_usd":0.25,"input_tokens":3,"output_tokens":4,"total_usd":0.75}
    2026-01-03.jsonl
    {"at":"2026-01-03T00:04:05Z","repo":"repo","job_id":"job-1","cost_usd":1.0,"input_tokens":3,"output_tokens":4,"total_usd":1.75}
    {"at":"2026-01-03T00:04:05Z","repo":"other","job_id":"job-1","cost_usd":1.0,"input_tokens":3,"output_tokens":4,"total_usd":1.75}
    "#);
    assert_eq!(book.today_usd(at(9), 1.75).unwrap(), 1.5);
    assert_eq!(book.today_usd(at(MIDNIGHT), 1.75).unwrap(), 2.0);
    let dates = list_days(&spender.directory()).unwrap();
    assert_eq!(
        dates.iter().map(ToString::to_string).collect::<Vec<_>>(),
        ["2026-01-02", "2026-01-03"]
    );
}

#[test]
fn what_is_in_the_journal_and_not_noted_yet_counts() {
    let spender = Spender::new();
    assert_eq!(spender.book().today_usd(at(0), 0.5).unwrap(), 0.5);
}

#[test]
fn only_what_is_new_is_read() {
    let mut spender = Spender::new();
    let (mut book, mut reader) = (spender.book(), spender.book());
    book.record(&spender.record(usage(0.5), 1)).unwrap();
    assert_eq!(reader.today_usd(at(2), 0.0).unwrap(), 0.5);
    let path = spender.directory().join("2026-01-02.jsonl");
    // What was read already is not looked at again.
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("0.5", "9.5")).unwrap();
    book.record(&spender.record(usage(0.25), 3)).unwrap();
    assert_eq!(reader.today_usd(at(4), 0.0).unwrap(), 0.75);
    // A file that is shorter is another one.
    fs::write(&path, "").unwrap();
    assert_eq!(reader.today_usd(at(4), 0.0).unwrap(), 0.0);
}

#[test]
fn a_line_that_is_cut_off_or_strange_spoils_no_other() {
    let mut spender = Spender::new();
    let mut book = spender.book();
    let record = spender.record(usage(0.5), 1);
    book.record(&record).unwrap();
    let path = spender.directory().join("2026-01-02.jsonl");
    let whole = fs::read_to_string(&path).unwrap();
    let strange = "{}\n\n\u{0}\n{\"cost_usd\":7}\n".to_owned() + &"x".repeat(200_000) + "\n";
    for end in [whole.len() - 1, whole.len() / 2, 1] {
        let torn = whole.get(..end).unwrap();
        fs::write(&path, format!("{strange}{torn}")).unwrap();
        assert_eq!(spender.book().today_usd(at(2), 0.0).unwrap(), 0.0);
        let mut another = spender.book();
        another.record(&record).unwrap();
        assert_eq!(spender.book().today_usd(at(2), 0.0).unwrap(), 0.5, "cut off at {end}");
    }
}

#[test]
fn what_a_crash_cut_off_is_noted_under_its_own_day() {
    let mut spender = Spender::new();
    let mut book = spender.book();
    book.record(&spender.record(usage(0.5), 1)).unwrap();
    spender.record(usage(0.25), 2);
    spender.record(usage(1.0), MIDNIGHT);
    let mut resumed = spender.book();
    resumed.catch_up(&spender.home.layout, &spender.fold).unwrap();
    assert_eq!(resumed.today_usd(at(2), 1.75).unwrap(), 0.75);
    assert_eq!(resumed.today_usd(at(MIDNIGHT), 1.75).unwrap(), 1.0);
    let noted = spender.noted();
    spender.book().catch_up(&spender.home.layout, &spender.fold).unwrap();
    assert_eq!(spender.noted(), noted, "it is noted once");
    resumed.record(&spender.record(usage(0.25), MIDNIGHT + 1)).unwrap();
    assert_eq!(resumed.today_usd(at(MIDNIGHT), 2.0).unwrap(), 1.25);
    fs::remove_dir_all(spender.directory()).unwrap();
    spender.book().catch_up(&spender.home.layout, &spender.fold).unwrap();
    assert_eq!(spender.book().today_usd(at(2), 0.0).unwrap(), 0.75);
}

#[test]
fn money_that_the_journal_lost_stays_spent() {
    let mut spender = Spender::new();
    let mut book = spender.book();
    let record = spender.record(usage(0.5), 1);
    book.record(&record).unwrap();
    // The journal was not synced: nothing of it survived.
    let mut resumed = spender.book();
    resumed.catch_up(&spender.home.layout, &Job::default()).unwrap();
    assert_eq!(resumed.today_usd(at(2), 0.0).unwrap(), 0.5);
    resumed.record(&record).unwrap();
    assert_eq!(resumed.today_usd(at(2), 0.5).unwrap(), 1.0);
}

#[test]
fn what_could_not_be_written_is_noted_with_the_next() {
    let mut spender = Spender::new();
    let mut book = spender.book();
    fs::write(spender.directory(), "in the way").unwrap();
    let error = book.record(&spender.record(usage(0.5), 1)).unwrap_err();
    assert_eq!(spender.home.show(error), "cannot open `$HOME/spending/2026-01-02.jsonl`");
    book.today_usd(at(2), 0.5).unwrap_err();
    fs::remove_file(spender.directory()).unwrap();
    assert_eq!(book.today_usd(at(2), 0.5).unwrap(), 0.5, "it counts all the same");
    book.record(&spender.record(usage(0.25), 3)).unwrap();
    assert_eq!(book.today_usd(at(4), 0.75).unwrap(), 0.75);
    insta::assert_snapshot!(spender.noted(), @r#"
    2026-01-02.jsonl
    {"at":"2026-01-02T03:04:08Z","repo":"repo","job_id":"job-1","cost_usd":0.75,"input_tokens":6,"output_tokens":8,"total_usd":0.75}
    "#);
}
