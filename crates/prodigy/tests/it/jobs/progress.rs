//! What people see of a job with items.

use std::fs;

use insta::assert_snapshot;
use prodigy_core::{
    event::{Event, NewEvent},
    ids::JobId,
};
use prodigy_engine::store::{Durability, JournalWriter, Layout};
use prodigy_testkit::TestEnv;
use regex::Regex;
use serde_json::{Value, json};

use crate::{
    fixture::{
        journal::{at, hold, layout, started},
        workflow::{run, run_with, stable, world},
    },
    security::hostile_values::on_a_terminal_of,
};

/// Returns a world with a workflow of items, one at a time so that the order is known.
fn items(items: &[&str], rest: &str) -> TestEnv {
    parallel_items(1, items, rest)
}

fn parallel_items(parallel: u32, items: &[&str], rest: &str) -> TestEnv {
    let world = world(&format!(
        "name: fix\nmode: mapreduce\nmap:\n  input: items.json\n  max_parallel: {parallel}\n{rest}"
    ));
    world.write("items.json", serde_json::to_string(items).unwrap());
    world.commit_all("Add the items");
    world
}

const TROUBLED: &str = r#"
  agent_template:
    - shell: |
        echo "${item}" > "${item}.txt"; echo more > left
        case "${item}" in
          bad) echo "last words of ${item}"; exit 7;;
          worse) exit 8;;
          again) test -e ../seen || { touch ../seen; exit 9; };;
        esac
    - shell: git add "${item}.txt" && git commit --quiet --message "${item}"
reduce:
  - shell: ls
error_policy:
  error_collection: immediate
  retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 0s }, retry_on: [command_failed] }
"#;

#[test]
fn items_are_told_one_by_one_and_summed_up() {
    let world = items(&["good", "bad", "worse", "again"], TROUBLED);
    assert_snapshot!(sorted(&run(&world)), @r#"
        ----- stderr -----
        · job job · fix · mapreduce
        · 4 items
        ✓ item-001  [time] · 1 commit
        ~ item-002 at step 1: `echo "${item}" > "${item}.txt"; echo more > left` failed with exit code 7: last words of bad; attempt 2 follows
        ✗ item-002 at step 1: `echo "${item}" > "${item}.txt"; echo more > left` failed with exit code 7: last words of bad; in the DLQ after 2 attempts
        ~ item-003 at step 1: `echo "${item}" > "${item}.txt"; echo more > left` failed with exit code 8; attempt 2 follows
        ✗ item-003 at step 1: `echo "${item}" > "${item}.txt"; echo more > left` failed with exit code 8; in the DLQ after 2 attempts
        ✓ item-004  [time] · 1 commit
        ~ item-004 at step 1: `echo "${item}" > "${item}.txt"; echo more > left` failed with exit code 9; attempt 2 follows
        ~ map: 2/4 done · 2 failed · 2 in DLQ  [time]
        ✓ reduce.1 shell: ls  [time]

        completed with failures · 2 of 4 items done · [time]
        items: 2 successful, 2 in the DLQ, 3 tried more than once
        failures:
          command_failed: `echo "${item}" > "${item}.txt"; echo more > left` failed with exit code 7: last words of bad  item-002
          command_failed: `echo "${item}" > "${item}.txt"; echo more > left` failed with exit code 8  item-003
        merged into main at [commit]
        kept: 1 uncommitted file of item-001; `git cherry-pick --no-commit refs/prodigy/job/kept/item-001` applies it
        kept: 1 uncommitted file of item-004; `git cherry-pick --no-commit refs/prodigy/job/kept/item-004` applies it
        kept: $ROOT/home/worktrees/repo/job/item-002
        kept: $ROOT/home/worktrees/repo/job/item-003
        dead letters: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items
        next: prodigy dlq show job
        "#);
    assert_snapshot!(dated(&world, &["jobs", "show", "job"]), @"
        job         job
        status      completed with failures
        workflow    fix
        repository  $ROOT/repo
        steps       1 of 1 done
        items       2 of 4 done, 2 in the DLQ, 3 tried again
        failures    2 × CommandFailed
        started     [date]
        last event  [date]
        took        [time]
        branch      prodigy/job/job
        merged      [commit] into main
        kept        1 uncommitted file of item-001; `git cherry-pick --no-commit refs/prodigy/job/kept/item-001` applies it
        kept        1 uncommitted file of item-004; `git cherry-pick --no-commit refs/prodigy/job/kept/item-004` applies it
        ");
    assert_snapshot!(dated(&world, &["jobs"]), @"
        JOB  STATUS                   WORKFLOW  STEPS  ITEMS  STARTED           TOOK
        job  completed with failures  fix       1/1    2/4    [date]  [time]
        ");
}

#[test]
fn failures_that_come_back_are_shown_as_a_pattern_with_advice() {
    let names: Vec<String> = (1..=60).map(|n| format!("n{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let world = parallel_items(
        4,
        &names,
        "  isolation: shared\n  agent_template:\n    - shell: 'case ${item} in n1*) exit 3;; esac'\n",
    );
    let seen = run(&world);
    let seen = Regex::new(r"· \d+/60 done .*\n").unwrap().replace_all(&seen, "");
    assert_snapshot!(seen, @"
        ----- stderr -----
        · job job · fix · mapreduce
        · 60 items
        ~ map: 49/60 done · 11 failed · 11 in DLQ  [time]

        completed with failures · 49 of 60 items done · [time]
        items: 49 successful, 11 in the DLQ
        failures:
          11 × CommandFailed, e.g. case ${item} in n<n>*) exit <n>;; esac failed with exit code <n>
              Review error logs for more details
        nothing to merge: the steps made no commit
        dead letters: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items
        next: prodigy dlq show job
        ");
    assert_snapshot!(dated(&world, &["jobs", "show", "job"]), @"
        job         job
        status      completed with failures
        workflow    fix
        repository  $ROOT/repo
        items       49 of 60 done, 11 in the DLQ
        failures    11 × CommandFailed, e.g. case ${item} in n<n>*) exit <n>;; esac failed with exit code <n> (Review error logs for more details)
        started     [date]
        last event  [date]
        took        [time]
        branch      prodigy/job/job
        ");
}

const STOPS: &str = "  isolation: shared\n  agent_template:\n    - shell: test ${item} != bad\nerror_policy: { max_failures: 1 }\n";

#[test]
fn a_job_that_its_policy_stopped_says_why_and_how_to_go_on() {
    let world = items(&["good", "bad", "waits", "waits too"], STOPS);
    assert_snapshot!(run(&world), @"
        ----- stderr -----
        · job job · fix · mapreduce
        · 4 items
        ✓ item-001  [time]

        stopped by the error policy: 1 item failed, and `max_failures` is 1 · 1 of 4 items done · [time]
        items: 1 successful, 1 in the DLQ, 2 waiting
        failures:
          command_failed: `test ${item} != bad` failed with exit code 1  item-002
        worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
        dead letters: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items
        see: prodigy dlq show job
        next: prodigy resume job
        [exit 5]
        ");
    assert_snapshot!(dated(&world, &["jobs", "show", "job"]), @"
        job         job
        status      paused
        workflow    fix
        repository  $ROOT/repo
        items       1 of 4 done, 1 in the DLQ, 2 waiting
        failures    1 × CommandFailed
        started     [date]
        last event  [date]
        took        [time]
        branch      prodigy/job/job
        worktree    $ROOT/home/worktrees/repo/job/job
        paused      1 item failed, and `max_failures` is 1
        ----- stderr -----

        next: `prodigy resume job` goes on
        ");
    assert_snapshot!(stable(&world.prodigy(&["resume", "job"])), @"
        ----- stderr -----
        · job job resumed · 1 of 4 items done
        ✓ item-003  [time]
        ✓ item-004  [time]
        ~ map: 3/4 done · 1 failed · 1 in DLQ  [time]

        completed with failures · 3 of 4 items done · [time]
        items: 3 successful, 1 in the DLQ, 1 tried more than once
        replayed: 0 resolved, 1 back in the DLQ
        failures:
          command_failed: `test ${item} != bad` failed with exit code 1  item-002
        nothing to merge: the steps made no commit
        dead letters: $ROOT/home/dlq/repo/job/mapreduce/dlq/job/items
        next: prodigy dlq show job
        ");
}

#[test]
fn a_job_without_items_says_so() {
    let world = items(&[], STOPS);
    assert_snapshot!(run_with(&world, &["--no-items", "fail"]), @"
        ----- stderr -----
        · job job · fix · mapreduce
        no items were selected: `items.json` holds none

        no items were selected · [time]
        worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
        next: prodigy plan workflow.yml
        [exit 4]
        ");
    assert_snapshot!(stable(&world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "other"])), @"
        ----- stderr -----
        · job other · fix · mapreduce
        no items were selected: `items.json` holds none
        · 0 items
        ✓ map: 0/0 done  [time]

        completed · 0 of 0 items done · [time]
        nothing to merge: the steps made no commit
        next: prodigy events other
        ");
}

#[test]
fn a_junit_report_and_a_step_summary_are_written() {
    let world = items(&["good", "bad", "waits"], STOPS);
    let page = world.root().join("page.md");
    let world = world.env("GITHUB_STEP_SUMMARY", page.to_str().unwrap());
    fs::write(&page, "before\n").unwrap();
    let report = world.root().join("report.xml");
    run_with(&world, &["--junit", report.to_str().unwrap()]);
    assert_snapshot!(times(&fs::read_to_string(&report).unwrap()), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites>
          <testsuite name="fix" timestamp="…" tests="3" failures="1" errors="0" skipped="1" time="…">
            <testcase name="item-001" classname="fix" time="…"/>
            <testcase name="item-002" classname="fix" time="…"><failure type="command_failed" message="`test ${item} != bad` failed with exit code 1"></failure></testcase>
            <testcase name="item-003" classname="fix" time="…"><skipped message="the job stopped before it"/></testcase>
          </testsuite>
        </testsuites>
        "#);
    assert_snapshot!(times(&fs::read_to_string(&page).unwrap()), @"
        before
        ## prodigy: `fix` was stopped by its error policy

        | | |
        |---|---:|
        | Items | 3 |
        | Successful | 1 |
        | Recovered from a failed step | 0 |
        | In the dead letter queue | 1 |
        | Left out | 0 |
        | Waiting | 1 |
        | Tried more than once | 0 |
        | Cost | $0.00 |
        | Duration | … |

        `` 1 item failed, and `max_failures` is 1 ``

        ### Failed items

        - `item-002` `command_failed`: `` `test ${item} != bad` failed with exit code 1 `` (in the dead letter queue after 1 attempt)
        ");
    let resumed =
        world.prodigy(&["resume", "job", "--no-dlq", "--junit", report.to_str().unwrap()]);
    assert_eq!(resumed.code, Some(0), "{resumed}");
    assert_snapshot!(times(&fs::read_to_string(&report).unwrap()), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites>
          <testsuite name="fix" timestamp="…" tests="3" failures="1" errors="0" skipped="0" time="…">
            <testcase name="item-001" classname="fix" time="…"/>
            <testcase name="item-002" classname="fix" time="…"><failure type="command_failed" message="`test ${item} != bad` failed with exit code 1"></failure></testcase>
            <testcase name="item-003" classname="fix" time="…"/>
          </testsuite>
        </testsuites>
        "#);
    let left: Vec<_> =
        fs::read_dir(world.root()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(!left.iter().any(|name| name.to_string_lossy().starts_with('.')), "{left:?}");
}

#[test]
fn steps_are_in_the_reports_if_there_are_no_items() {
    let world = world(
        "- shell: 'true'\n- shell: 'true'\n  when: 'false'\n- shell: 'echo \"<last> & \\`words\" >&2; exit 4'\n",
    );
    let page = world.root().join("page.md");
    let world = world.env("GITHUB_STEP_SUMMARY", page.to_str().unwrap());
    run_with(&world, &["--junit", "report.xml"]);
    assert_snapshot!(times(&world.read("report.xml")), @r#"
        <?xml version="1.0" encoding="UTF-8"?>
        <testsuites>
          <testsuite name="workflow.yml" timestamp="…" tests="3" failures="1" errors="0" skipped="1" time="…">
            <testcase name="1 shell: true" classname="workflow.yml" time="…"/>
            <testcase name="2 shell: true" classname="workflow.yml" time="…"><skipped message="`false` is false"/></testcase>
            <testcase name="3 shell: echo &quot;&lt;last&gt; &amp; \`words&quot; &gt;&amp;2; exit 4" classname="workflow.yml" time="…"><failure type="command_failed" message="exit code 4">&lt;last&gt; &amp; `words</failure></testcase>
          </testsuite>
        </testsuites>
        "#);
    assert_snapshot!(times(&fs::read_to_string(&page).unwrap()), @"
        ## prodigy: `workflow.yml` failed

        | | |
        |---|---:|
        | Steps | 3 |
        | Done | 2 |
        | Failed | 1 |
        | Cost | $0.00 |
        | Duration | … |

        Failed at step `3`: `command_failed`: `exit code 4`
        ");
}

#[test]
fn a_report_that_cannot_be_written_is_refused() {
    let world = items(&["good"], STOPS);
    assert_snapshot!(run_with(&world, &["--junit", "nowhere/report.xml"]), @"
        ----- stderr -----
        error: cannot write `nowhere/report.xml`
          caused by: No such file or directory (os error 2)

        hint: nothing was done; name a file that can be written
        [exit 2]
        ");
}

#[test]
fn a_step_summary_that_cannot_be_written_is_a_warning() {
    let world = items(&["good"], STOPS).env("GITHUB_STEP_SUMMARY", "/nowhere/at/all");
    assert_snapshot!(run_with(&world, &[]), @"
        ----- stderr -----
        · job job · fix · mapreduce
        · 1 item
        ✓ item-001  [time]
        ✓ map: 1/1 done  [time]

        completed · 1 of 1 item done · [time]
        items: 1 successful
        nothing to merge: the steps made no commit
        next: prodigy events job
        warning: the GitHub step summary was not written: No such file or directory (os error 2)
        ");
}

/// Returns text with the lines about items in the order of the items: merges take their time.
fn sorted(text: &str) -> String {
    let is_item = |line: &&str| line.contains(" item-") && !line.starts_with(' ');
    let mut items: Vec<&str> = text.lines().filter(is_item).collect();
    items.sort_by_key(|line| line.chars().skip(2).collect::<String>());
    let mut items = items.into_iter();
    let lines = text.lines().map(|line| if is_item(&line) { items.next().unwrap() } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

/// Returns what a person sees, without dates, times and commits.
fn dated(world: &TestEnv, args: &[&str]) -> String {
    let text = stable(&world.prodigy(args));
    let text = Regex::new(r"\d{4}-\d\d-\d\d[T ][\d:]+Z?").unwrap().replace_all(&text, "[date]");
    Regex::new(r"\b[0-9a-f]{40}\b").unwrap().replace_all(&text, "[commit]").into_owned()
}

/// Takes out what differs from run to run.
fn times(text: &str) -> String {
    let text = Regex::new(r#"(time|timestamp)="[^"]*""#).unwrap().replace_all(text, "$1=\"…\"");
    let text = Regex::new(r"Duration \| [^|]*").unwrap().replace_all(&text, "Duration | … ");
    Regex::new(r" +>").unwrap().replace_all(&text, ">").into_owned()
}

/// A terminal that understands what prodigy sends, and nothing else.
#[derive(Default)]
struct TerminalEmulator {
    rows: Vec<Vec<char>>,
    row: usize,
    column: usize,
    /// The most rows that were drawn below the lines that stay.
    highest: usize,
}

impl TerminalEmulator {
    fn show(text: &str, width: usize) -> Self {
        let mut terminal = Self { rows: vec![Vec::new()], ..Self::default() };
        let mut rest = text;
        let up = Regex::new(r"^\x1b\[(\d+)A").unwrap();
        while let Some(c) = rest.chars().next() {
            let column = terminal.column;
            if let Some(found) = up.captures(rest) {
                let rows: usize = found.get(1).unwrap().as_str().parse().unwrap();
                terminal.highest = terminal.highest.max(rows + 1);
                terminal.row = terminal.row.checked_sub(rows).unwrap();
                rest = rest.get(found.get_match().len()..).unwrap();
            } else if let Some(after) = rest.strip_prefix("\x1b[K") {
                terminal.line().truncate(column);
                rest = after;
            } else if let Some(after) = rest.strip_prefix("\x1b[J") {
                terminal.rows.truncate(terminal.row + 1);
                terminal.line().truncate(column);
                rest = after;
            } else {
                terminal.put(c, width);
                rest = rest.get(c.len_utf8()..).unwrap();
            }
        }
        terminal
    }

    fn put(&mut self, c: char, width: usize) {
        match c {
            '\r' => self.column = 0,
            '\n' => self.down(),
            c => {
                assert!(!c.is_control(), "{c:?}");
                if self.column == width {
                    self.column = 0;
                    self.down();
                }
                let column = self.column;
                let row = self.line();
                row.resize(row.len().max(column + 1), ' ');
                *row.get_mut(column).unwrap() = c;
                self.column += 1;
            }
        }
    }

    fn line(&mut self) -> &mut Vec<char> {
        self.rows.get_mut(self.row).unwrap()
    }

    fn down(&mut self) {
        self.row += 1;
        if self.row == self.rows.len() {
            self.rows.push(Vec::new());
        }
    }

    fn text(&self) -> String {
        let rows = self.rows.iter().map(|row| row.iter().collect::<String>());
        let rows: Vec<String> = rows.map(|row| row.trim_end().to_owned()).collect();
        let text = rows.join("\n");
        Regex::new(r"\b\d+(\.\d+)?(ms|s)\b").unwrap().replace_all(&text, "[time]").into_owned()
    }
}

#[test]
fn a_terminal_shows_totals_and_agents_and_keeps_only_what_matters() {
    let rest = r#"
  isolation: shared
  agent_template:
    - name: "step \e[31m\rover\nforged"
      shell: sleep 0.8; test ${item} != bad
error_policy: { error_collection: immediate }
"#;
    let shown = |columns, rows| {
        let world = parallel_items(3, &["a", "b", "bad", "d", "e"], rest);
        let args = ["run", "workflow.yml", "-y", "--job-id", "job"];
        let (seen, code) = on_a_terminal_of(&world, &args, (columns, rows), |_| {});
        assert_eq!(code, 0, "{seen}");
        let seen = seen.replace("\r\n", "\n\r");
        let terminal = TerminalEmulator::show(&seen, columns.into());
        let text = terminal.text();
        let (stays, summary) = text.split_once("~ map: 4/5 done").unwrap();
        assert!(!summary.contains("running"), "{text}");
        assert!(seen.contains("0/5 done · 3 running"), "{seen}");
        (stays.to_owned(), terminal.highest, seen)
    };
    for (columns, rows) in [(200, 50), (100, 24)] {
        let (stays, highest, seen) = shown(columns, rows);
        assert_eq!(highest, 4, "the totals and three agents");
        assert!(seen.contains("  step \\u{1b}[31m\\rover\\nforged  0s"), "{seen}");
        insta::allow_duplicates! { assert_snapshot!(stays, @"
        · job job · fix · mapreduce
        · 5 items
        ✗ item-003 at step 1: `step over forged` failed with exit code 1; in the DLQ after 1 attempt
        ") }
    }
    let (stays, highest, seen) = shown(40, 4);
    assert_eq!(highest, 3, "the totals and what fits");
    assert!(seen.contains("  step \\u{1b}[3…  0s"), "{seen}");
    assert!(seen.contains("… and 2 more"), "{seen}");
    assert_snapshot!(stays, @"
        · job job · fix · mapreduce
        · 5 items
        ✗ item-003 at step 1: `step over forged`
         failed with exit code 1; in the DLQ aft
        er 1 attempt
        ");
}

/// Writes facts to the journal of a job.
fn record(layout: &Layout, facts: &[(i64, Option<&str>, Option<&str>, Value)]) {
    let job: JobId = "job".parse().unwrap();
    let mut journal = JournalWriter::create(layout, &job, Durability::Relaxed).unwrap();
    for (milliseconds, item, agent, event) in facts {
        let event: Event = serde_json::from_value(event.clone()).unwrap();
        let fact = NewEvent {
            item_id: item.map(|item| item.parse().unwrap()),
            agent_id: agent.map(|agent| agent.parse().unwrap()),
            event,
        };
        journal.append(vec![fact], at(*milliseconds)).unwrap();
    }
}

/// Returns a world with a job that is in the middle of its items.
fn busy() -> TestEnv {
    let world = TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"));
    let mut begun = started();
    begun.as_object_mut().unwrap().insert("mode".to_owned(), json!("mapreduce"));
    let failure = json!({"kind": "timeout", "message": "took longer than 5s"});
    let attempt = json!({"event_type": "agent_started", "attempt": 1, "correlation_id": "c"});
    let mut facts = vec![
        (0, None, None, begun),
        (1, None, None, json!({"event_type": "phase_started", "phase": "map"})),
        (2, None, None, json!({"event_type": "items_selected", "total": 9, "sha256": ""})),
    ];
    for item in ["item-1", "item-2", "item-3", "item-4", "item-5", "item-6"] {
        facts.push((3, Some(item), None, json!({"event_type": "item_queued"})));
    }
    for item in ["item-1", "item-2", "item-3"] {
        facts.push((4, Some(item), Some("agent-1"), attempt.clone()));
        let dead = json!({"event_type": "item_dead_lettered", "attempts": 1, "failure": failure});
        facts.push((900, Some(item), Some("agent-1"), dead));
    }
    let step = json!({"event_type": "step_started", "step": "1", "name": "shell: cargo test", "attempt": 1});
    let open = json!({"event_type": "circuit_open", "failures": 3, "until": at(31_000)});
    facts.extend([
        (910, Some("item-4"), Some("agent-1"), attempt.clone()),
        (911, Some("item-4"), Some("agent-1"), step),
        (912, Some("item-5"), Some("agent-2"), attempt),
        (1_000, None, None, open),
    ]);
    record(&layout(&world), &facts);
    world
}

/// Returns what a person sees, without what depends on today's date.
fn undated(world: &TestEnv, args: &[&str]) -> String {
    let text = world.prodigy(args).to_string();
    let text = Regex::new(r"\b\d+d \d\dh").unwrap().replace_all(&text, "[time]").into_owned();
    let text = Regex::new(r"[\d.]+/h").unwrap().replace_all(&text, "[pace]").into_owned();
    let numbers = r#""(elapsed_ms|duration_ms|per_second)": [\de.-]+"#;
    Regex::new(numbers).unwrap().replace_all(&text, "\"$1\": 0").into_owned()
}

#[test]
fn jobs_show_tells_what_the_agents_of_a_running_job_do() {
    let world = busy();
    let lock = hold(&layout(&world), "job");
    assert_snapshot!(undated(&world, &["jobs"]), @"
        JOB  STATUS   WORKFLOW  STEPS  ITEMS  STARTED           TOOK
        job  running  tidy.yml  0/0    0/9    2026-01-02 03:04  [time]
        ");
    assert_snapshot!(undated(&world, &["jobs", "show", "job"]), @"
        job         job
        status      running
        workflow    tidy.yml
        repository  /repo
        phase       map
        items       0 of 9 done, 3 in the DLQ, 2 running, 4 waiting
        pace        [pace]
        circuit     open for 0s
        agent       agent-1  item-4  1 shell: cargo test  [time]
        agent       agent-2  item-5  starting  [time]
        failures    3 × Timeout, e.g. took longer than <time> (Consider increasing timeout_per_agent)
        started     2026-01-02T03:04:05Z
        last event  2026-01-02T03:04:06Z
        took        [time]
        ----- stderr -----

        next: `prodigy events job --follow` watches it
        ");
    drop(lock);
    assert_snapshot!(undated(&world, &["jobs", "show", "job"]), @"
        job         job
        status      interrupted
        workflow    tidy.yml
        repository  /repo
        items       0 of 9 done, 3 in the DLQ, 6 waiting
        failures    3 × Timeout, e.g. took longer than <time> (Consider increasing timeout_per_agent)
        started     2026-01-02T03:04:05Z
        last event  2026-01-02T03:04:06Z
        took        1s
        ----- stderr -----

        next: `prodigy resume job` goes on
        ");
}

#[test]
#[expect(clippy::too_many_lines, reason = "the document is shown whole")]
fn the_json_document_of_a_job_has_its_items() {
    let world = busy();
    let _lock = hold(&layout(&world), "job");
    assert_snapshot!(undated(&world, &["jobs", "show", "job", "--json"]), @r#"
    {
      "schema_version": 1,
      "job": {
        "job_id": "job",
        "repo": "repo",
        "status": "running",
        "workflow_file": "tidy.yml",
        "workflow_name": null,
        "repository": "/repo",
        "options": {},
        "target_branch": "main",
        "steps_done": 0,
        "steps_failed": 0,
        "steps_total": 0,
        "phase": "map",
        "items": {
          "total": 9,
          "successful": 0,
          "recovered": 0,
          "ignored": 0,
          "dead_lettered": 3,
          "skipped": 0,
          "running": 2,
          "pending": 4,
          "retried": 0,
          "agents": [
            {
              "agent_id": "agent-1",
              "item_id": "item-4",
              "attempt": 1,
              "step": "1",
              "step_name": "shell: cargo test",
              "since": "2026-01-02T03:04:05.91Z",
              "elapsed_ms": 0,
              "last_tool": null,
              "last_heard_at": "2026-01-02T03:04:05.911Z",
              "cost_usd": 0.0
            },
            {
              "agent_id": "agent-2",
              "item_id": "item-5",
              "attempt": 1,
              "step": null,
              "step_name": null,
              "since": "2026-01-02T03:04:05.912Z",
              "elapsed_ms": 0,
              "last_tool": null,
              "last_heard_at": "2026-01-02T03:04:05.912Z",
              "cost_usd": 0.0
            }
          ],
          "circuit": "open",
          "circuit_open_until": "2026-01-02T03:04:36Z",
          "per_second": 0,
          "left_ms": null,
          "failure_rate": 0.3333333333333333,
          "error_types": {
            "Timeout": 3
          },
          "failure_patterns": [
            {
              "pattern_type": "Timeout",
              "frequency": 3,
              "suggested_action": "Consider increasing timeout_per_agent",
              "example": "took longer than <time>"
            }
          ]
        },
        "current_step": null,
        "started_at": "2026-01-02T03:04:05Z",
        "last_event_at": "2026-01-02T03:04:06Z",
        "duration_ms": 0,
        "resumed": 0,
        "records": 19,
        "branch": null,
        "worktree": null,
        "merged_commit": null,
        "end": null,
        "limit": null,
        "warnings": {
          "count": 0,
          "items": 0,
          "first": []
        },
        "kept": {
          "items": 0,
          "files": 0,
          "entries": []
        },
        "damage": null,
        "cost_usd": 0.0,
        "cost_estimated_usd": 0.0,
        "cost_untold": 0,
        "cost_per_success_usd": null,
        "lost_usd": 0.0,
        "tokens": {
          "input": 0,
          "output": 0,
          "cache_read": 0,
          "cache_write": 0
        },
        "budget": null
      }
    }
    "#);
}
