//! The final merge into the user's checkout: all of it or nothing, whoever is at work there.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::fixture::{
    map_job::assert_code,
    workflow::{records, stable, world},
};

/// A workflow that commits a new file and a changed one.
const TWO_FILES: &str = "- shell: echo new > new.txt; echo changed > README.md; git add --all; git commit --quiet --message work\n";

fn status(world: &TestEnv) -> String {
    world.git(&["status", "--porcelain", "--untracked-files=all"])
}

#[test]
fn a_locked_branch_is_exit_7_with_nothing_staged() {
    let world = world(TWO_FILES);
    let before = world.git(&["rev-parse", "main"]);
    world.write(".git/refs/heads/main.lock", "");
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    assert_code(&seen, 7);
    assert_eq!(status(&world), "");
    assert_eq!(world.git(&["rev-parse", "main"]), before);
    let said = stable(&seen);
    assert!(said.contains("main.lock"), "{said}");
    assert!(said.contains("next: prodigy resume job -y"), "{said}");
    fs::remove_file(world.repo().join(".git/refs/heads/main.lock")).unwrap();
    assert_code(&world.prodigy(&["resume", "job"]), 0);
    assert_eq!(
        (world.read("new.txt"), world.read("README.md")),
        ("new\n".into(), "changed\n".into())
    );
    assert_eq!(status(&world), "");
}

#[test]
fn the_index_lock_of_another_program_stays_and_is_named() {
    let world = world(TWO_FILES);
    world.write(".git/index.lock", "");
    let seen = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    assert_code(&seen, 7);
    assert!(seen.stderr.contains(".git/index.lock` says that another git is at work"), "{seen}");
    assert!(world.repo().join(".git/index.lock").exists());
    world.write(".git/index.lock", "prodigy updates this checkout for prodigy/other/job\n");
    let seen = world.prodigy(&["resume", "job"]);
    assert_code(&seen, 7);
    assert!(seen.stderr.contains("`prodigy resume other` completes that"), "{seen}");
    fs::remove_file(world.repo().join(".git/index.lock")).unwrap();
    assert_code(&world.prodigy(&["resume", "job"]), 0);
    assert_eq!(status(&world), "");
}

#[test]
fn the_update_of_the_checkout_is_recorded_before_it_begins() {
    let world = world(TWO_FILES);
    let old = world.git(&["rev-parse", "main"]);
    assert_code(&world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]), 0);
    let records = records(&world);
    let at = |kind: &str| records.iter().position(|record| record["event_type"] == kind).unwrap();
    let (update, merged) = (at("checkout_update_started"), at("worktree_merged"));
    assert_eq!(update + 1, merged);
    assert_eq!(records[update]["old"], old.as_str());
    assert_eq!(records[update]["new"], world.git(&["rev-parse", "main"]).as_str());
    assert_eq!(records[update]["target"], "main");
    let left = fs::read_dir(world.repo().join(".git")).unwrap();
    let left = left.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_lock = |name: &str| Path::new(name).extension().is_some_and(|kind| kind == "lock");
    let ours: Vec<_> = left.filter(|name| name.contains("prodigy-") || is_lock(name)).collect();
    assert_eq!(ours, ["prodigy.lock"]);
    let events = world.prodigy(&["events", "job", "--type", "checkout_update_started"]).stdout;
    assert!(events.contains("main to "), "{events}");
    let schema = world.prodigy(&["schema", "event"]).stdout;
    assert!(schema.contains("checkout_update_started"));
}

/// Commits a file of its own every 50 ms until it is told to stop; a commit that another git
/// is in the way of is made later. Returns how many it made.
fn bot(world: &TestEnv, stop: &AtomicBool) -> usize {
    let git = |args: &[&str]| world.command("git").args(args).output().unwrap().status.success();
    let mut made = 0;
    while !stop.load(Ordering::Relaxed) {
        let name = format!("bot-{made}.txt");
        world.write(&name, "by the bot\n");
        let is_made = git(&["add", &name])
            && git(&["commit", "--quiet", "--author", "Bot <bot@example.com>", "--message", &name]);
        made += usize::from(is_made);
        thread::sleep(Duration::from_millis(50));
    }
    made
}

#[test]
fn commits_of_a_bot_hold_only_its_own_files_while_jobs_merge() {
    let world = world(
        "- shell: mkdir -p made; for n in $(seq 60); do echo ${workflow.job_id} > made/${workflow.job_id}-$n.txt; done; git add --all; git commit --quiet --message work\n",
    );
    let stop = AtomicBool::new(false);
    let (codes, made) = thread::scope(|scope| {
        let bot = scope.spawn(|| bot(&world, &stop));
        let run = |number: u32| {
            let job = format!("job-{number}");
            let run = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", &job]);
            (run.code, run.to_string())
        };
        let codes: Vec<_> = (0..10).map(run).collect();
        stop.store(true, Ordering::Relaxed);
        (codes, bot.join().unwrap())
    });
    assert!(made > 10, "{made}");
    for (code, said) in &codes {
        assert_eq!(*code, Some(0), "{said}");
    }
    let of_bot = ["log", "--no-merges", "--author=bot@", "--format=", "--name-only"];
    let of_bot = world.git(&of_bot);
    let strangers: Vec<_> = of_bot.lines().filter(|name| !name.starts_with("bot-")).collect();
    assert_eq!(strangers, Vec::<&str>::new());
    let held = of_bot.lines().collect::<std::collections::BTreeSet<_>>().len();
    assert_eq!(held, made);
    let files = fs::read_dir(world.repo().join("made")).unwrap().count();
    assert_eq!(files, 600);
    // The bot may have been stopped before a file of its last commit was in.
    let left = status(&world);
    let ours: Vec<_> = left.lines().filter(|line| !line.contains("bot-")).collect();
    assert_eq!(ours, Vec::<&str>::new());
}

#[test]
fn what_a_user_staged_and_changed_elsewhere_stays() {
    let world = world(TWO_FILES);
    world.write("mine.txt", "mine\n");
    world.write("staged.txt", "staged\n");
    world.git(&["add", "staged.txt"]);
    assert_code(&world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]), 0);
    assert_snapshot!(status(&world), @"
    A  staged.txt
    ?? mine.txt
    ");
    assert_eq!(world.read("new.txt"), "new\n");
    assert!(!Path::new(&world.repo().join(".git/index.lock")).exists());
}

/// Puts a git before the real one that kills prodigy as soon as the branch has moved, once.
fn killed_at_the_move(world: TestEnv) -> TestEnv {
    let tools = world.root().join("tools");
    fs::create_dir(&tools).unwrap();
    let path = std::env::var("PATH").unwrap();
    let killed = tools.join("killed").display().to_string();
    let script = format!(
        r#"#!/bin/sh
PATH={path:?}
case " $* " in
  *" update-ref -m prodigy: merge "*" --stdin "*)
    if mkdir {killed:?} 2>/dev/null; then
      git "$@" | while read -r line; do
        test "$line" = "commit: ok" && kill -KILL "$PPID"
        echo "$line"
      done
      exit
    fi ;;
esac
exec git "$@"
"#
    );
    let git = tools.join("git");
    fs::write(&git, script).unwrap();
    fs::set_permissions(&git, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{path}", tools.display());
    world.env("PATH", &path)
}

#[test]
fn a_result_that_a_commit_with_the_old_index_reverted_is_restored() {
    let world = killed_at_the_move(world(TWO_FILES));
    let killed = world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]);
    assert_eq!(killed.code, None, "{killed}");
    // As git advises after a crash, and before anybody thinks of `resume`.
    fs::remove_file(world.repo().join(".git/index.lock")).unwrap();
    world.write("mine.txt", "mine\n");
    world.git(&["add", "mine.txt"]);
    world.git(&["commit", "--quiet", "--message", "mine"]);
    assert_eq!(world.git(&["ls-tree", "--name-only", "main", "new.txt"]), "");
    let seen = world.prodigy(&["resume", "job", "-y"]);
    assert_code(&seen, 0);
    let note = seen.stderr.lines().find(|line| line.contains("cut off")).unwrap_or_default();
    let note = regex::Regex::new("[0-9a-f]{10}").unwrap().replace_all(note, "[commit]");
    assert_snapshot!(note, @"the update of your checkout was cut off; it is complete now: commit [commit] was made from an index of before the merge and had reverted 2 files of the result; commit [commit] restores them");
    assert_eq!(status(&world), "", "{seen}");
    assert_eq!(world.git(&["show", "main:new.txt"]), "new");
    assert_eq!(world.git(&["show", "main:README.md"]), "changed");
    assert_eq!(world.git(&["show", "main:mine.txt"]), "mine");
}

#[test]
fn an_update_that_is_cut_off_at_the_move_of_the_branch_is_completed() {
    let world = killed_at_the_move(world(TWO_FILES));
    assert_eq!(world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "job"]).code, None);
    let seen = world.prodigy(&["resume", "job", "-y"]);
    assert_code(&seen, 0);
    assert_eq!(status(&world), "", "{seen}");
    let log = world.git(&["log", "--format=%s", "main"]);
    assert_eq!(log.lines().next(), Some("work"), "{log}");
    assert_eq!(world.read("new.txt"), "new\n");
}
