//! What the tests of changes outside share: a file beside the repository that steps add to.

use std::fs;

use prodigy_testkit::TestEnv;
use serde_json::Value;

use crate::{
    map_world::{beside, map_world, of_type},
    stories::records,
};

/// Adds a line with its key to the file `outside`; before and after that it does what the
/// files `does.before.NAME` and `does.after.NAME` say, if they are there.
const DEED: &str = "\
    if test -e ROOT/does.before.$1; then . ROOT/does.before.$1; fi\n\
    echo \"$PRODIGY_IDEMPOTENCY_KEY\" >> ROOT/outside\n\
    if test -e ROOT/does.after.$1; then . ROOT/does.after.$1; fi\n\
    echo \"receipt of $1\"\n";

/// Does what the file `does.NAME` says, if it is there.
const OTHER: &str = "if test -e ROOT/does.$1; then . ROOT/does.$1; fi\n";

/// Says whether the file `outside` has the key.
const CHECK: &str = "touch ROOT/outside\n\
    if grep -qxF \"$PRODIGY_IDEMPOTENCY_KEY\" ROOT/outside; then echo found; else exit 1; fi\n";

/// Kills the prodigy that runs the step, two processes above it, and waits for the end.
pub(crate) const DIE: &str = "\
    pid=$$; seen=0\n\
    while test $seen -lt 2; do\n\
      pid=$(sed 's/.*) //' /proc/$pid/stat | cut -d ' ' -f 2)\n\
      if test \"$(cat /proc/$pid/comm)\" = prodigy; then seen=$((seen + 1)); fi\n\
    done\n\
    rm -f ROOT/does.*\n\
    kill -9 $pid; sleep 100\n";

/// One item whose second step changes something outside; `MORE` stands for more keys of it.
const MAP: &str = r"
map:
  input: { items: [a] }
  agent_template:
    - shell: sh ROOT/other first
    - id: deed
      shell: sh ROOT/deed ${item}
      effects: external
      MORE
    - shell: sh ROOT/other last
";

/// Returns a world with one item whose second step changes something outside.
///
/// `more` is one more line of that step.
pub(crate) fn item_world(more: &str) -> TestEnv {
    let world = map_world(&MAP.replace("MORE", more)).env("USER", "ada");
    furnish(&world);
    world
}

/// Returns a world whose second of three steps changes something outside.
pub(crate) fn steps_world(more: &str) -> TestEnv {
    let world = TestEnv::with_repo(env!("CARGO_BIN_EXE_prodigy"))
        .env("PRODIGY_DURABILITY", "relaxed")
        .env("PRODIGY_GRACE", "300ms");
    write_steps(&world, more);
    world.commit_all("Add the workflow");
    furnish(&world);
    world
}

/// Writes a workflow whose second of three steps changes something outside.
pub(crate) fn write_steps(world: &TestEnv, more: &str) {
    let text = "- shell: sh ROOT/other first\n\
                - id: deed\n  shell: sh ROOT/deed a\n  effects: external\n  MORE\n\
                - shell: sh ROOT/other last\n";
    let text = text.replace("MORE", more);
    world.write("workflow.yml", text.replace("ROOT", &world.root().display().to_string()));
}

/// The key `check` of a step whose change can be looked for.
pub(crate) const WITH_CHECK: &str = "check: sh ROOT/check";

/// Writes the programs that the steps run.
pub(crate) fn furnish(world: &TestEnv) {
    for (name, text) in [("deed", DEED), ("other", OTHER), ("check", CHECK)] {
        put(world, name, text);
    }
}

/// Writes a file beside the repository.
pub(crate) fn put(world: &TestEnv, name: &str, text: &str) {
    let text = text.replace("ROOT", &world.root().display().to_string());
    fs::write(world.root().join(name), text).unwrap();
}

/// Returns how often something outside was changed.
pub(crate) fn made(world: &TestEnv) -> usize {
    beside(world, "outside").lines().count()
}

/// Returns the records about changes outside, one line each.
pub(crate) fn effects(world: &TestEnv) -> String {
    let line = |record: &Value| {
        let text = |key: &str| record[key].as_str().map(|text| format!(" {text}"));
        let kind = record["event_type"].as_str()?.strip_prefix("effect_")?;
        let more = ["state", "finding", "receipt", "by"].into_iter().filter_map(text);
        let key = record["key"].as_str()?;
        Some(format!("{key} {kind}{}", more.collect::<String>()))
    };
    records(world).iter().filter_map(line).collect::<Vec<_>>().join("\n")
}

/// Returns the reason code of the last failure, and what it was made of.
pub(crate) fn failed_with(world: &TestEnv, kind: &str) -> String {
    let records = of_type(world, kind);
    let failure = &records.last().unwrap()["failure"];
    let cause = failure["cause"].as_str().map(|cause| format!(" by {cause}")).unwrap_or_default();
    format!(
        "{}{cause}: {}",
        failure["kind"].as_str().unwrap(),
        failure["message"].as_str().unwrap()
    )
}
