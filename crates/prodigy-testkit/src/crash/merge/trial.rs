//! One job, killed in its final merge until it is done.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use prodigy_core::Timestamp;
use serde_json::Value;

use super::{
    check::{check_end, check_files},
    workflow::{OF_THE_USER, WORKFLOW, files_before, script},
};
use crate::{
    TestEnv,
    crash::{CrashTrial, KillPoint, TrialFailure, TrialReport},
};

/// The record with which the update of the checkout begins.
const UPDATE: &str = "checkout_update_started";

/// The records around the update, by their number, right after which prodigy is killed, too.
const AROUND: &[(&str, u32)] = &[
    ("phase_started", 1),
    ("phase_started", 2),
    ("worktree_merged", 1),
    ("phase_completed", 1),
    ("phase_completed", 2),
    ("worktree_cleaned", 1),
    ("job_completed", 1),
];

/// The file that is written right before the files take their places.
const PLAN: &str = ".git/prodigy-update-prodigy-job-job/plan";

/// The branch that the update moves.
const BRANCH: &str = ".git/refs/heads/main";

/// The maximum number of kills in one trial.
const MOST_KILLS: u64 = 5;

/// The maximum number of starts of prodigy, so that a job that never ends is noticed.
const MOST_STARTS: u32 = 25;

/// A job whose merge survived.
#[derive(Clone, Debug)]
pub struct MergeTrialReport {
    /// The starts, the kills and the time.
    pub survived: TrialReport,
    /// The time from the record of the update to the end of the run.
    pub update: Duration,
    /// The number of kills after the update had begun.
    pub in_update: u32,
    /// The number of kills that hit `repair`.
    pub in_repair: u32,
    /// The number of commits that the user made.
    pub commits: usize,
    /// True if one of them reverted the result, which was restored.
    pub is_restored: bool,
}

/// A trial under way.
struct MergeTrial {
    trial: CrashTrial,
    files: u32,
    /// The files that the user has committed.
    commits: BTreeSet<String>,
    in_update: u32,
    in_repair: u32,
}

/// Runs the job without killing anything, and checks it.
pub fn run_merge_without_kills(
    binary: &Path,
    files: u32,
) -> Result<MergeTrialReport, Box<TrialFailure>> {
    run_merge_trial(binary, 0, Duration::ZERO, files)
}

/// Runs the job, kills prodigy at moments up to `span` after the update of the checkout began,
/// resumes it until it is done, and checks the checkout after each kill and in the end. A
/// `span` of zero kills nothing.
pub fn run_merge_trial(
    binary: &Path,
    seed: u64,
    span: Duration,
    files: u32,
) -> Result<MergeTrialReport, Box<TrialFailure>> {
    let world = TestEnv::with_repo(binary);
    for (path, text) in files_before(files) {
        world.write(&path, text);
    }
    world.write("merge.yml", WORKFLOW);
    world.write("make.sh", script(files));
    world.commit_all("base");
    let trial = CrashTrial::new(world, "merge.yml", seed).limit(Duration::from_secs(120));
    let (commits, in_update, in_repair) = (BTreeSet::new(), 0, 0);
    let mut merge = MergeTrial { trial, files, commits, in_update, in_repair };
    match merge.run(span) {
        Ok(()) => Ok(MergeTrialReport {
            survived: merge.trial.report(),
            update: merge.update_time(),
            in_update: merge.in_update,
            in_repair: merge.in_repair,
            commits: merge.commits.len(),
            is_restored: merge.is_restored(),
        }),
        Err(message) => Err(Box::new(merge.trial.fail(message))),
    }
}

impl MergeTrial {
    fn run(&mut self, span: Duration) -> Result<(), String> {
        let is_busy = !span.is_zero() && self.trial.random_below(3) == 0;
        let mut kills_left =
            if span.is_zero() { 0 } else { 1 + self.trial.random_below(MOST_KILLS) };
        let mut args = vec!["run", "merge.yml", "-y", "--job-id", "job"];
        for _ in 0..MOST_STARTS {
            let kill = (kills_left > 0).then(|| self.kill_point(&args, span, is_busy));
            let end = if is_busy {
                self.start_beside_user(&args, kill)?
            } else {
                self.trial.start(&args, kill)?
            };
            check_files(&self.trial.world, self.files)?;
            match end {
                // One that was killed right after its end has nothing left to resume.
                Some(status) if status.success() || self.has_record("job_completed") => {
                    return check_end(&self.trial.world, "job", self.files, &self.commits);
                }
                // A user who commits all the time may be in the way; nothing is staged then.
                Some(status) if status.code() == Some(7) && is_busy => self.check_unstaged()?,
                Some(status) => {
                    return Err(format!("`prodigy {}` ended with {status}", args.join(" ")));
                }
                None => {
                    kills_left -= 1;
                    self.in_update += u32::from(self.has_begun());
                    if !is_busy {
                        self.act_as_user()?;
                    }
                    kills_left = kills_left.saturating_sub(self.damage_and_repair()?);
                    check_files(&self.trial.world, self.files)?;
                }
            }
            args = vec!["resume", "job", "-y"];
        }
        Err(format!("not done after {MOST_STARTS} starts"))
    }

    /// Returns when the next start is killed: in the update of the checkout, often when the
    /// files are about to take their places or right after the branch has moved, right after a
    /// record around it, or, if it resumes, perhaps while it recovers from the last kill.
    fn kill_point(&mut self, args: &[&str], span: Duration, is_busy: bool) -> KillPoint {
        let micros = u64::try_from(span.as_micros()).unwrap_or(u64::MAX).max(1);
        let delay = Duration::from_micros(self.trial.random_below(micros));
        if args.first() == Some(&"resume") && self.trial.random_below(2) == 0 {
            return KillPoint::Elapsed(delay * 2);
        }
        match self.trial.random_below(6) {
            5 => {
                let at = usize::try_from(self.trial.random_below(AROUND.len() as u64)).unwrap();
                let (kind, nth) = *AROUND.get(at).unwrap();
                KillPoint::Record { kind, nth, delay: Duration::ZERO }
            }
            // A user who commits moves the branch, too.
            0 if !is_busy => KillPoint::Change { path: BRANCH },
            0..=2 => {
                let delay = Duration::from_micros(self.trial.random_below(micros / 5 + 1));
                KillPoint::File { path: PLAN, delay }
            }
            _ => KillPoint::Record { kind: UPDATE, nth: 1, delay },
        }
    }

    /// Starts prodigy while a user commits a file of their own again and again.
    fn start_beside_user(
        &mut self,
        args: &[&str],
        kill: Option<KillPoint>,
    ) -> Result<Option<ExitStatus>, String> {
        let stop = AtomicBool::new(false);
        let (user, first) = (CheckoutUser::of(&self.trial.world), self.commits.len());
        let (end, made) = thread::scope(|scope| {
            let committing = scope.spawn(|| {
                let mut made = first;
                while !stop.load(Ordering::Relaxed) {
                    made += usize::from(user.commit(&user_file(made)));
                    thread::sleep(Duration::from_millis(50));
                }
                made
            });
            let end = self.trial.start(args, kill);
            stop.store(true, Ordering::Relaxed);
            (end, committing.join().unwrap())
        });
        self.commits.extend((first..made).map(user_file));
        // A file that another git was in the way of is committed later, unless a lock is left.
        let last = user_file(made);
        if user.repo.join(&last).exists() && user.commit(&last) {
            self.commits.insert(last);
        }
        end
    }

    /// Does between two starts what a user might: nothing, commit, or remove the lock of a git
    /// that is not there any more, as git advises, and commit.
    fn act_as_user(&mut self) -> Result<(), String> {
        let lock = self.trial.world.repo().join(".git/index.lock");
        match self.trial.random_below(3) {
            0 => return Ok(()),
            1 if lock.exists() => fs::remove_file(&lock).unwrap(),
            _ if lock.exists() => return Ok(()),
            _ => {}
        }
        let name = user_file(self.commits.len());
        if !CheckoutUser::of(&self.trial.world).commit(&name) {
            return Err(format!("the user could not commit `{name}`"));
        }
        self.commits.insert(name);
        Ok(())
    }

    /// Damages the journal at the record with which the merge begins, in a third of the trials,
    /// and repairs it, killing that once, perhaps. Returns how often it was killed.
    fn damage_and_repair(&mut self) -> Result<u64, String> {
        let is_over = self.has_record("worktree_merged");
        if is_over || !self.has_begun() || self.trial.random_below(3) != 0 {
            return Ok(0);
        }
        damage_journal(&self.trial.world);
        let delay = Duration::from_micros(self.trial.random_below(30_000));
        let is_killed =
            self.trial.start(&["repair", "job"], Some(KillPoint::Elapsed(delay)))?.is_none();
        self.in_repair += u32::from(is_killed);
        if let Some(status) = self.trial.start(&["repair", "job"], None)?
            && !status.success()
        {
            return Err(format!("`prodigy repair job` ended with {status}"));
        }
        Ok(u64::from(is_killed))
    }

    fn is_restored(&self) -> bool {
        let args = ["log", "--format=%H", "--grep=^Restore the result of", "main"];
        !self.trial.world.git(&args).is_empty()
    }

    fn has_begun(&self) -> bool {
        self.has_record(UPDATE)
    }

    fn has_record(&self, kind: &str) -> bool {
        records(&self.trial.world).iter().any(|record| record["event_type"] == kind)
    }

    fn check_unstaged(&self) -> Result<(), String> {
        let staged = self.trial.world.git(&["diff", "--cached", "--name-only"]);
        let ours: Vec<_> = staged.lines().filter(|name| !name.starts_with("user-")).collect();
        if ours.is_empty() { Ok(()) } else { Err(format!("exit 7 left staged: {ours:?}")) }
    }

    /// Returns the time from the last record of an update to the next.
    fn update_time(&self) -> Duration {
        let records = records(&self.trial.world);
        let times: Vec<Timestamp> = ["worktree_merged", UPDATE]
            .iter()
            .filter_map(|kind| records.iter().rfind(|record| record["event_type"] == **kind))
            .filter_map(|record| record["timestamp"].as_str()?.parse().ok())
            .collect();
        match times.as_slice() {
            [merged, begun] => (*merged - *begun).try_into().unwrap_or_default(),
            _ => Duration::ZERO,
        }
    }
}

/// The user, who commits files of their own.
struct CheckoutUser {
    repo: PathBuf,
}

impl CheckoutUser {
    fn of(world: &TestEnv) -> Self {
        Self { repo: world.repo() }
    }

    /// Commits a file; returns whether no other git was in the way.
    fn commit(&self, name: &str) -> bool {
        fs::write(self.repo.join(name), "by the user\n").unwrap();
        let commit = ["commit", "--quiet", "--message", name];
        [["add", name].as_slice(), commit.as_slice()].iter().all(|args| self.git(args))
    }

    fn git(&self, args: &[&str]) -> bool {
        let mut git = Command::new("git");
        git.args(args).current_dir(&self.repo).stdin(Stdio::null());
        git.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_CONFIG_GLOBAL", "/dev/null");
        for who in ["AUTHOR", "COMMITTER"] {
            git.env(format!("GIT_{who}_NAME"), "User");
            git.env(format!("GIT_{who}_EMAIL"), "user@example.com");
        }
        git.output().unwrap().status.success()
    }
}

fn user_file(number: usize) -> String {
    format!("{OF_THE_USER}{number}.txt")
}

/// Returns the files of the job's journal, in order.
fn journal_files(world: &TestEnv) -> Vec<PathBuf> {
    let entries = fs::read_dir(world.home().join("events/repo/job")).into_iter().flatten();
    let mut files: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "jsonl"));
    files.sort();
    files
}

/// Returns the whole records of the job's journal.
fn records(world: &TestEnv) -> Vec<Value> {
    let text = |path: &PathBuf| fs::read_to_string(path).unwrap_or_default();
    let text: String = journal_files(world).iter().map(text).collect();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

/// Damages the last record of an update of the checkout, so that a repair leaves it out.
fn damage_journal(world: &TestEnv) {
    let mark = format!("\"event_type\":\"{UPDATE}\"");
    for path in journal_files(world).iter().rev() {
        let text = fs::read_to_string(path).unwrap();
        if let Some(at) = text.rfind(&mark) {
            let (head, tail) = text.split_at(at);
            let damaged = format!(
                "{head}{}\n",
                tail.replacen("\"target\":\"main\"", "\"target\":\"niam\"", 1).trim_end()
            );
            // A line behind it makes it damage, not a record that was cut off.
            let is_last = !damaged.trim_end().get(at..).is_some_and(|rest| rest.contains('\n'));
            let more = if is_last { "{}\n" } else { "" };
            fs::write(path, format!("{damaged}{more}")).unwrap();
            return;
        }
    }
}
