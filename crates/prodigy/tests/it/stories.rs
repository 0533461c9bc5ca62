//! What the tests of running workflows share.

use prodigy_testkit::{Seen, World};
use regex::Regex;

/// Makes a world whose repository holds `workflow.yml`.
pub(crate) fn world(workflow: &str) -> World {
    let world = World::with_repo(env!("CARGO_BIN_EXE_prodigy"));
    world.write("workflow.yml", workflow);
    world.commit_all("Add the workflow");
    world
}

/// Runs the workflow as job `job`, merging at the end, and returns what a person sees.
pub(crate) fn run(world: &World) -> String {
    run_with(world, &[])
}

/// Runs the workflow as job `job` with more arguments.
pub(crate) fn run_with(world: &World, more: &[&str]) -> String {
    let mut args = vec!["run", "workflow.yml", "-y", "--job-id", "job"];
    args.extend(more);
    stable(&world.prodigy(&args))
}

/// Returns what a person sees, without what differs from run to run.
pub(crate) fn stable(seen: &Seen) -> String {
    let text = seen.to_string();
    let text = Regex::new(r"\b\d+(\.\d+)?(ms|s)\b").unwrap().replace_all(&text, "[time]");
    let text = Regex::new(r"\bat [0-9a-f]{10}\b").unwrap().replace_all(&text, "at [commit]");
    text.into_owned()
}
