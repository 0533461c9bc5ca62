//! One large job with many slots: nothing lost, nothing left, and the user's checkout as it was.

use std::{
    fs::{self, File},
    path::Path,
    time::{Duration, Instant},
};

use super::{check::item_commits, checkout::CheckoutContents, journal::MapJournal, workflow};
use crate::{
    TestEnv,
    crash::{
        TrialFailure,
        attempt_log::max_concurrency,
        check_processes,
        repository_checks::{check_branch, check_command_succeeds, check_refs, check_worktrees},
    },
};

const JOB: &str = "scale";

/// The code that says that the work is done and not merged.
const NOT_MERGED: i32 = 7;

/// The time between two checks of the checkout while the job runs.
const PAUSE: Duration = Duration::from_millis(100);

/// A large job that went well.
#[derive(Clone, Copy, Debug)]
pub struct ScaleReport {
    /// The duration of the job, without the merge.
    pub duration: Duration,
    /// The largest number of items in flight at once.
    pub most_at_once: u32,
    /// The number of checks of the user's checkout meanwhile.
    pub looks: u32,
}

/// Runs a large job without `-y`, checks that it changes nothing in the user's checkout, merges
/// it with the command that prodigy prints, and checks every item.
pub fn run_scale_trial(
    binary: &Path,
    items: u32,
    slots: u32,
) -> Result<ScaleReport, Box<TrialFailure>> {
    let world = TestEnv::with_repo(binary);
    let ledger = world.root().join("ledger");
    fs::create_dir(&ledger).unwrap();
    let world = world.env("LEDGER", &ledger.to_string_lossy());
    let output = world.root().join("output.log");
    run(&world, &output, items, slots).map_err(|message| {
        let transcript = fs::read_to_string(&output).unwrap_or_default();
        Box::new(TrialFailure { message, transcript, world })
    })
}

fn run(world: &TestEnv, output: &Path, items: u32, slots: u32) -> Result<ScaleReport, String> {
    let (text, works) = workflow::large_workflow(items, slots);
    populate_checkout(world, &text);
    let before = CheckoutContents::read(world);
    let (duration, looks) = job(world, output, &before, items)?;
    before.check_same(&CheckoutContents::read(world))?;
    let account = MapJournal::read(&world.prodigy(&["events", JOB, "--json"]).stdout)?;
    account.check_items(&works)?;
    // The job's own branch and worktree wait for the merge; nothing else does.
    check_refs(world, |branch| branch == format!("{JOB}/job"))?;
    check_worktrees(world, |name| name == "job")?;
    check_processes(world)?;
    run_printed_merge(world, output)?;
    check_branch(world, &item_commits(&works, &account))?;
    let ledger = fs::read_to_string(world.root().join("ledger/ledger")).unwrap_or_default();
    let most_at_once = max_concurrency(&ledger);
    if most_at_once > slots {
        return Err(format!("{most_at_once} items were at work at once, not {slots}"));
    }
    check_command_succeeds(world, &["verify", JOB])?;
    Ok(ScaleReport { duration, most_at_once, looks })
}

/// Gives the user something to lose: a stash, a changed file, untracked and ignored files.
fn populate_checkout(world: &TestEnv, text: &str) {
    world.write("scale.yml", text);
    world.write(".gitignore", "*.tmp\n");
    world.commit_all("workflow");
    world.write("README.md", "put aside\n");
    world.git(&["stash", "--quiet"]);
    world.write("README.md", "changed and not committed\n");
    world.write("notes/untracked.txt", "mine\n");
    world.write("ignored.tmp", "mine, too\n");
}

/// Runs the job and looks at the checkout all the while; returns how long it took.
fn job(
    world: &TestEnv,
    output: &Path,
    before: &CheckoutContents,
    items: u32,
) -> Result<(Duration, u32), String> {
    let limit = Duration::from_secs(120) + Duration::from_millis(600) * items;
    let log = File::create(output).unwrap();
    let mut command = world.prodigy_command(&["run", "scale.yml", "--job-id", JOB]);
    let began = Instant::now();
    let mut child = command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap();
    let mut looks = 0;
    loop {
        let ended = child.try_wait().unwrap();
        let seen = before.check_same(&CheckoutContents::read(world));
        looks += 1;
        if let Some(status) = ended {
            return match status.code() {
                Some(NOT_MERGED) => seen.map(|()| (began.elapsed(), looks)),
                _ => Err(format!("`prodigy run` ended with {status} instead of {NOT_MERGED}")),
            };
        }
        if seen.is_err() || began.elapsed() > limit {
            child.kill().unwrap();
            child.wait().unwrap();
            seen?;
            return Err("`prodigy run` did not end in time".to_owned());
        }
        std::thread::sleep(PAUSE);
    }
}

/// Runs the command that prodigy printed, as a person would.
fn run_printed_merge(world: &TestEnv, output: &Path) -> Result<(), String> {
    let text = fs::read_to_string(output).unwrap_or_default();
    let printed = text.split('`').find(|words| words.starts_with("git merge "));
    let command = printed.ok_or("no command to merge was printed")?;
    let merged = world.command("sh").args(["-c", command]).output().unwrap();
    if merged.status.success() {
        return Ok(());
    }
    Err(format!("`{command}` failed: {}", String::from_utf8_lossy(&merged.stderr)))
}
