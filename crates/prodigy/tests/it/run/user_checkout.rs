//! The user's checkout while a job runs: what changes in it is told, and nothing is put back.

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;
use regex::Regex;
use rustix::process::Signal;
use serde_json::Value;

use crate::fixture::{
    map_job::{go, map_world},
    workflow::{SpawnedProdigy, records, run, run_with, stable, world},
};

/// Returns a text with the hashes of commits and of what is staged replaced.
fn hidden(text: &str) -> String {
    let text = Regex::new(r"\b[0-9a-f]{40}\b").unwrap().replace_all(text, "[hash]");
    let text = Regex::new(r"\b[0-9a-f]{16}\b").unwrap().replace_all(&text, "[staged]");
    Regex::new(r"\b[0-9a-f]{10}\b").unwrap().replace_all(&text, "[commit]").into_owned()
}

/// Returns what the journal says about the checkout: one line for each change, with the
/// record that comes next.
fn told(world: &TestEnv) -> String {
    let records = records(world);
    let mut lines = Vec::new();
    for (record, next) in records.iter().zip(records.iter().skip(1)) {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        if record["event_type"] == "checkout_changed" {
            for change in record["changes"].as_array().unwrap() {
                let parts = ["what", "before", "after"].map(|name| text(&change[name]));
                let phase = text(&next["phase"]);
                let next = format!("{} {phase}", text(&next["event_type"]));
                lines.push(format!("{} | before {next}", parts.join(" ")));
            }
        }
    }
    hidden(&lines.join("\n"))
}

/// Makes a world with a branch `side`, a tag and a stash, and a step that does something to
/// the checkout.
fn user_world(step: &str) -> TestEnv {
    let world = world("- shell: 'true'\n");
    let root = world.root().display().to_string();
    let text = format!("- name: astray\n  shell: |\n    cd ROOT/repo\n    {step}\n");
    world.write("workflow.yml", text.replace("ROOT", &root));
    world.commit_all("Go astray");
    world.git(&["branch", "side", "HEAD~1"]);
    world.git(&["branch", "prodigy/of-another/job"]);
    world.git(&["tag", "v1", "HEAD~1"]);
    world.write("README.md", "# stashed\n");
    world.git(&["stash", "--quiet"]);
    world
}

#[test]
fn a_checkout_that_a_step_changed_is_told_with_the_commands_to_look() {
    let world = user_world(
        "git branch --quiet --force side main; git tag --delete v1; git stash drop; echo x > x; git add x; git checkout --quiet -b other",
    );
    assert_snapshot!(hidden(&run(&world)), @"
    ----- stderr -----
    · job job · workflow.yml · 1 step
    ✓ 1 astray  [time]
    ✗ your checkout changed while the job ran: HEAD went from branch `main` to branch `other`, what is staged is not the same, branch `side` went from [commit] to [commit] and 2 more

    warning: your checkout changed while the job ran; nothing was put back, since it may have been you:
      HEAD went from branch `main` to branch `other`; look: git reflog
      what is staged is not the same; look: git status
      branch `side` went from [commit] to [commit]; look: git reflog show side
      the stash is gone; it was at [commit]; look: git stash store [hash]
      tag `v1` is gone; it was at [commit]; look: git tag v1 [commit]

    completed · 1 of 1 step
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
    assert_snapshot!(told(&world), @"
    HEAD refs/heads/main refs/heads/other | before phase_completed steps
    index [staged] [staged] | before phase_completed steps
    refs/heads/side [hash] [hash] | before phase_completed steps
    refs/stash [hash] - | before phase_completed steps
    refs/tags/v1 [hash] - | before phase_completed steps
    ");
    // Nothing is put back.
    assert_eq!(world.git(&["symbolic-ref", "--short", "HEAD"]), "other");
    assert_eq!(world.git(&["diff", "--cached", "--name-only"]), "x");
    let events = world.prodigy(&["events", "job", "--type", "checkout_changed"]);
    assert_snapshot!(hidden(&events.stdout).split_once("  ").unwrap().1, @"checkout_changed    HEAD went from branch `main` to branch `other`, what is staged is not the same, branch `side` went …");
    let schema = world.prodigy(&["schema", "event"]);
    assert!(schema.stdout.contains("checkout_changed"));
}

#[test]
fn the_first_stash_is_told_since_it_takes_files_away() {
    let world = user_world("echo changed > README.md; git stash --quiet");
    world.git(&["stash", "drop", "--quiet"]);
    let seen = run(&world);
    assert_snapshot!(told(&world), @"refs/stash - [hash] | before phase_completed steps");
    assert!(seen.contains("look: git stash"), "{seen}");
}

#[test]
fn what_takes_nothing_away_is_not_told() {
    // New branches, branches of jobs, what is known of a remote repository, files that are not
    // staged, and an index that was only brought up to date.
    let world = user_world(
        "git branch new; git branch --force prodigy/of-another/job HEAD~1; git update-ref refs/remotes/origin/main HEAD; echo y > y; touch README.md; git status --short",
    );
    let seen = run(&world);
    assert_eq!(told(&world), "", "{seen}");
    assert!(!seen.contains("your checkout"), "{seen}");
    assert_eq!(seen.lines().last(), Some("next: prodigy events job"));
}

#[test]
fn remotes_tags_and_exclude_lines_that_a_step_planted_are_told() {
    let world = user_world(
        "git remote add evil https://me:secret@example.org/x.git; git remote set-url origin /elsewhere; git tag v2; echo '*.key' >> .git/info/exclude",
    );
    world.git(&["remote", "add", "origin", "/here"]);
    let seen = run(&world);
    assert_snapshot!(told(&world), @r"
    refs/tags/v2 - [hash] | before phase_completed steps
    remote.evil.fetch - +refs/heads/*:refs/remotes/evil/* | before phase_completed steps
    remote.evil.url - https://…@example.org/x.git | before phase_completed steps
    remote.origin.url /here /elsewhere | before phase_completed steps
    info/exclude - *.key | before phase_completed steps
    ");
    for part in [
        "tag `v2` is new",
        "`remote.evil.url` is new: `https://…@example.org/x.git`; look: git remote --verbose",
        "`.git/info/exclude` has a new line `*.key`",
    ] {
        assert!(seen.contains(part), "{seen}");
    }
    assert!(!seen.contains("secret"), "{seen}");
    let shown = world.prodigy(&["jobs", "show", "job"]).stdout;
    assert!(shown.contains("`remote.origin.url` went from `/here` to `/elsewhere`"), "{shown}");
    let document = world.prodigy(&["jobs", "show", "job", "--json"]).stdout;
    let document: Value = serde_json::from_str(&document).unwrap();
    assert_eq!(document["job"]["checkout_changes"].as_array().unwrap().len(), 5, "{document}");
    // Nothing is put back.
    assert_eq!(world.git(&["config", "remote.origin.url"]), "/elsewhere");
}

#[test]
fn the_merge_of_the_job_is_not_told() {
    for merge in
        ["", "merge:\n  - shell: git -C ROOT/repo merge --quiet \"${merge.source_branch}\"\n"]
    {
        let world = world("- shell: 'true'\n");
        let text =
            format!("steps:\n  - shell: echo x > x; git add x; git commit --quiet -m x\n{merge}");
        world.write("workflow.yml", text.replace("ROOT", &world.root().display().to_string()));
        world.commit_all("Merge");
        let seen = run(&world);
        assert_eq!(told(&world), "", "{seen}");
        assert_eq!(world.read("x"), "x\n", "{seen}");
    }
}

#[test]
fn a_merge_that_does_more_is_told() {
    let world = world("- shell: 'true'\n");
    let text = "steps:\n  - shell: echo x > x; git add x; git commit --quiet -m x\n\
        merge:\n  - shell: git -C ROOT/repo merge --quiet \"${merge.source_branch}\"; git branch --force side main\n";
    world.write("workflow.yml", text.replace("ROOT", &world.root().display().to_string()));
    world.commit_all("Merge");
    world.git(&["branch", "side"]);
    run(&world);
    assert_snapshot!(told(&world), @"refs/heads/side [hash] [hash] | before job_completed -");
}

#[test]
fn each_phase_is_looked_at() {
    let astray =
        |name: &str| format!("- shell: git -C ROOT/repo commit --quiet --allow-empty -m {name}\n");
    let (setup, reduce) = (astray("setup"), astray("reduce"));
    let map = astray("map");
    let world = map_world(&format!(
        "setup:\n  {setup}map:\n  input: {{ items: [a] }}\n  agent_template:\n    {map}reduce:\n  {reduce}"
    ));
    let seen = go(&world);
    assert_snapshot!(told(&world), @"
    refs/heads/main [hash] [hash] | before phase_completed setup
    refs/heads/main [hash] [hash] | before phase_completed map
    refs/heads/main [hash] [hash] | before phase_completed reduce
    ");
    assert_eq!(seen.code, Some(0), "{seen}");
}

#[test]
fn a_damaged_index_is_told_and_loses_nothing() {
    let world = user_world("echo nonsense > .git/index");
    let seen = run(&world);
    assert_snapshot!(told(&world), @"index [staged] unreadable | before phase_completed steps");
    assert_snapshot!(seen.lines().last().unwrap(), @"next: prodigy events job");
}

#[test]
fn what_a_killed_run_changed_is_told_by_the_next() {
    let world = world("- shell: 'true'\n").env("PRODIGY_GRACE", "1s");
    let root = world.root().display().to_string();
    let text = "- shell: test -e ROOT/begun || { git -C ROOT/repo branch --force side main; touch ROOT/begun; sleep 300; }\n";
    world.write("workflow.yml", text.replace("ROOT", &root));
    world.commit_all("Sleep");
    world.git(&["branch", "side", "HEAD~1"]);
    let mut started =
        SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    started.until(&world, "the step begins", || world.root().join("begun").exists());
    started.signal(Signal::KILL);
    started.seen(&world);
    let seen = stable(&world.prodigy(&["resume", "job"]));
    assert_snapshot!(told(&world), @"refs/heads/side [hash] [hash] | before step_started -");
    assert_snapshot!(hidden(&seen), @"
    ----- stderr -----
    · job job resumed · 0 of 1 step done
    ✗ your checkout changed while the job ran: branch `side` went from [commit] to [commit]
    ✓ 1 shell: test -e $ROOT/begun || { git -C $ROOT/r…  [time]

    warning: your checkout changed while the job ran; nothing was put back, since it may have been you:
      branch `side` went from [commit] to [commit]; look: git reflog show side

    completed · 1 of 1 step
    nothing to merge: the steps made no commit
    next: prodigy events job
    ");
}

#[test]
fn what_the_user_does_while_no_run_is_under_way_is_not_told() {
    let world = world("- shell: test -e gate\n");
    run_with(&world, &[]);
    world.write("other", "x\n");
    world.commit_all("Work on");
    let seen = world.prodigy(&["resume", "job"]);
    assert_eq!(told(&world), "", "{seen}");
}

#[test]
fn a_merge_that_was_cut_off_is_not_told() {
    let world = world("- shell: 'true'\n").env("PRODIGY_GRACE", "1s");
    let text = "steps:\n  - shell: echo x > x; git add x; git commit --quiet -m x\n\
        merge:\n  - shell: git -C ROOT/repo merge --quiet \"${merge.source_branch}\"; test -e ROOT/begun || { touch ROOT/begun; sleep 300; }\n";
    world.write("workflow.yml", text.replace("ROOT", &world.root().display().to_string()));
    world.commit_all("Merge slowly");
    let mut started =
        SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    started.until(&world, "the merge begins", || world.root().join("begun").exists());
    started.signal(Signal::KILL);
    started.seen(&world);
    let seen = stable(&world.prodigy(&["resume", "job", "-y"]));
    assert_eq!(told(&world), "", "{seen}");
    assert_eq!(world.read("x"), "x\n", "{seen}");
}
