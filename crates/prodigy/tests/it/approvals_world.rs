//! People who ask for replays and agree to them: what the tests of approvals share.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::{fs, process::Command};

use prodigy_testkit::{CommandOutput, TestEnv};
use regex::Regex;
use serde_json::Value;

use crate::{
    dlq_retry::{WORKFLOW, failing, fails_with, mend},
    map_world::{assert_code, letter, of_type},
    stories::stable,
};

/// Ann runs jobs, Ben replays, Carol and Dan agree.
pub(crate) const POLICY: &str = "
version: v1
dlq_rules:
  - id: ask
    match: { reason_code: denied }
    action: require_approval
    approver_group: governance
defaults: { action: manual_review }
approver_groups:
  governance:
    members: [ann@example.com, ben@example.com, carol@example.com, dan@example.com]
    ttl: 30m
    distinct_from: [submitter, replayer]
";

/// Makes a world in which Ann ran a job of which items wait for somebody to agree.
pub(crate) fn office(policy: &str, items: &[&str]) -> TestEnv {
    let world = failing(WORKFLOW, &[]);
    for item in items {
        fails_with(&world, item, "denied");
    }
    rule(&world, policy);
    assert_code(&by(&world, "ann", &["run", "workflow.yml", "-y", "--job-id", "job"]), 0);
    for item in items {
        mend(&world, item);
    }
    world
}

/// Writes the policy and commits it.
pub(crate) fn rule(world: &TestEnv, policy: &str) {
    world.write(".prodigy/replay-policy.yml", policy.trim_start());
    world.git(&["add", ".prodigy/replay-policy.yml"]);
    world.git(&["commit", "--quiet", "--message", "Write the policy"]);
}

/// Returns a command of prodigy that somebody types.
pub(crate) fn typed(world: &TestEnv, who: &str, args: &[&str]) -> Command {
    let settings = world.root().join(format!("{who}.gitconfig"));
    fs::write(&settings, format!("[user]\nemail = {who}@example.com\n")).unwrap();
    let mut command = world.prodigy_command(args);
    command.env("GIT_CONFIG_GLOBAL", settings);
    command
}

/// Runs prodigy as somebody.
pub(crate) fn by(world: &TestEnv, who: &str, args: &[&str]) -> CommandOutput {
    world.to_output(&typed(world, who, args).output().unwrap())
}

/// Asks for a replay as somebody.
pub(crate) fn retry(world: &TestEnv, who: &str, more: &[&str]) -> CommandOutput {
    by(world, who, &[&["dlq", "retry", "job", "item-001", "-y"], more].concat())
}

/// Agrees to what has a digest.
pub(crate) fn approve(world: &TestEnv, who: &str, digest: &str) -> CommandOutput {
    by(world, who, &["dlq", "approve", "job", "item-001", "--expect", digest])
}

/// Returns the request about the first item, as JSON.
pub(crate) fn request(world: &TestEnv) -> Value {
    let listed = by(world, "eve", &["dlq", "approvals", "job", "--json"]);
    assert_code(&listed, 0);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    listed["approvals"][0].clone()
}

/// Asks for a replay as Ben, and returns what is to be agreed to.
pub(crate) fn ask(world: &TestEnv) -> String {
    assert_code(&retry(world, "ben", &[]), 8);
    request(world)["digest"].as_str().unwrap().to_owned()
}

/// Says why somebody's agreement is refused, and that nothing came of it.
#[track_caller]
pub(crate) fn refused(world: &TestEnv, who: &str, digest: &str) -> String {
    let before = letter(world, "item-001");
    let seen = approve(world, who, digest);
    assert_code(&seen, 1);
    assert_eq!(letter(world, "item-001"), before);
    let (_, why) = seen.stderr.split_once("the approval is refused (").unwrap();
    let (code, _) = why.split_once(')').unwrap();
    assert_eq!(audited(world).last().unwrap(), &format!("{who} approve refused {code}"));
    code.to_owned()
}

/// Returns the audit trail: who did what, with what outcome, and what was decided.
pub(crate) fn audited(world: &TestEnv) -> Vec<String> {
    let shown = by(world, "eve", &["audit", "show", "--json"]);
    assert_code(&shown, 0);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let line = |record: &Value| {
        let text = |key: &str| record[key].as_str().unwrap_or("-").to_owned();
        let actor = text("actor").replace("@example.com", "");
        format!("{actor} {} {} {}", text("action"), text("outcome"), text("decision"))
    };
    shown["records"].as_array().unwrap().iter().map(line).collect()
}

/// Returns the replays: which item, who, and whether an agreement was used up.
pub(crate) fn replays(world: &TestEnv) -> String {
    let line = |record: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let used = if record["allowed"]["approval"].is_string() { "approved" } else { "alone" };
        format!("{} by {} {used}", text(&record["item_id"]), text(&record["by"]))
    };
    of_type(world, "replay_started").iter().map(line).collect::<Vec<_>>().join(", ")
}

/// Replaces what is different every time.
pub(crate) fn plain(seen: &CommandOutput) -> String {
    let text = stable(seen);
    let commit = Regex::new("(?m)^(commit    |changed .* )[0-9a-f]{10,40}$").unwrap();
    let text = commit.replace_all(&text, "$1[commit]");
    let digest = Regex::new("sha256:[0-9a-f]{12,64}").unwrap().replace_all(&text, "[digest]");
    let time = Regex::new(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?Z?( UTC)?").unwrap();
    time.replace_all(&digest, "[time]").into_owned()
}
