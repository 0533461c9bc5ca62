//! The flags that hold for the rest of a job, and those for one call.
//!
//! Every flag of the commands that start or go on with a job stands here with a decision; a test
//! compares the list with the command line.

use std::fmt::Write as _;

use prodigy_core::event::{JobStarted, RunOptions};

use FlagScope::{ByJob, ForCall};

/// The time for which a flag holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlagScope {
    /// Until another is given: this is where it is recorded.
    ByJob(&'static str),
    /// For the call that gives it, for this reason.
    ForCall(&'static str),
}

/// One flag, or the argument of that name, and the commands that have it.
struct FlagEntry {
    commands: &'static [&'static str],
    name: &'static str,
    held: FlagScope,
}

const RUN: &str = "run";
const BATCH: &str = "batch";
const RESUME: &str = "resume";
const RETRY: &str = "dlq retry";

/// Where a record keeps the flags of a run.
const OPTIONS: &str = "`options`";
/// Where the flags of a batch become part of its workflow.
const WORKFLOW: &str = "the stored workflow";
const REPORT: &str = "it names a file for the report of this call";
const PLACE: &str = "it says where to look; the job remembers its repository";
const SELECTION: &str = "it selects dead letters once; each replay is recorded";
const ELSEWHERE: &str = "it takes over the jobs of another home or machine, once";
const MOVED: &str = "it takes over the jobs of a moved repository, once";
const LOOK: &str = "it shows something and changes nothing";

/// All flags.
const FLAGS: &[FlagEntry] = &[
    FlagEntry { commands: &[RUN, BATCH, RESUME, RETRY], name: "budget-usd", held: ByJob(OPTIONS) },
    FlagEntry { commands: &[RUN, BATCH, RESUME, RETRY], name: "no-wait", held: ByJob(OPTIONS) },
    FlagEntry { commands: &[RUN, BATCH, RESUME, RETRY], name: "fail-on-dlq", held: ByJob(OPTIONS) },
    FlagEntry { commands: &[RUN, RESUME], name: "no-items", held: ByJob(OPTIONS) },
    FlagEntry { commands: &[RUN, RESUME], name: "max-parallel", held: ByJob(OPTIONS) },
    FlagEntry {
        commands: &[RUN, BATCH, RESUME, RETRY],
        name: "yes",
        held: ByJob("`yes`, `options`"),
    },
    FlagEntry {
        commands: &[RUN, BATCH, RESUME],
        name: "into",
        held: ByJob("`target_branch`, `into`"),
    },
    FlagEntry { commands: &[RUN], name: "param", held: ByJob("`parameters`") },
    FlagEntry { commands: &[RUN], name: "param-file", held: ByJob("`parameters`") },
    FlagEntry { commands: &[RUN], name: "profile", held: ByJob("`profile`") },
    FlagEntry {
        commands: &[RUN],
        name: "input",
        held: ByJob("`input`, the items kept with the job"),
    },
    FlagEntry { commands: &[RUN], name: "args", held: ByJob("`inputs`") },
    FlagEntry { commands: &[RUN], name: "map", held: ByJob("`inputs`") },
    FlagEntry { commands: &[RUN], name: "iterations", held: ByJob("`rounds`") },
    FlagEntry { commands: &[RUN], name: "WORKFLOW", held: ByJob(WORKFLOW) },
    FlagEntry { commands: &[RUN, BATCH], name: "job-id", held: ByJob("`job_id`") },
    FlagEntry { commands: &[BATCH], name: "GLOB", held: ByJob(WORKFLOW) },
    FlagEntry { commands: &[BATCH], name: "command", held: ByJob(WORKFLOW) },
    FlagEntry { commands: &[BATCH], name: "parallel", held: ByJob(WORKFLOW) },
    FlagEntry { commands: &[BATCH], name: "retry", held: ByJob(WORKFLOW) },
    FlagEntry { commands: &[BATCH], name: "timeout", held: ByJob(WORKFLOW) },
    FlagEntry { commands: &[BATCH], name: "max-items", held: ByJob(WORKFLOW) },
    FlagEntry { commands: &[BATCH], name: "isolation", held: ByJob(WORKFLOW) },
    FlagEntry { commands: &[RESUME, RETRY], name: "use-current-workflow", held: ByJob(WORKFLOW) },
    FlagEntry { commands: &[RESUME], name: "relocate", held: ForCall(MOVED) },
    FlagEntry { commands: &[RESUME, RETRY], name: "here", held: ForCall(ELSEWHERE) },
    FlagEntry { commands: &[RETRY], name: "rerun-reduce", held: ByJob("`reopened`") },
    FlagEntry {
        commands: &[RETRY],
        name: "reason",
        held: ByJob("`replay_started`, the audit trail"),
    },
    FlagEntry {
        commands: &[RETRY],
        name: "max-parallel",
        held: ForCall("replays have a pace of their own, which the policy bounds"),
    },
    FlagEntry {
        commands: &[RETRY],
        name: "rate",
        held: ForCall("replays have a pace of their own, which the policy bounds"),
    },
    FlagEntry {
        commands: &[RETRY],
        name: "canary",
        held: ForCall("replays have a pace of their own, which the policy bounds"),
    },
    FlagEntry {
        commands: &[RESUME],
        name: "no-dlq",
        held: ForCall("it leaves dead letters alone once; they stay as they are"),
    },
    FlagEntry {
        commands: &[RESUME],
        name: "now",
        held: ForCall("it tries a usage limit once; the next one is waited for"),
    },
    FlagEntry { commands: &[RETRY], name: "ITEMS", held: ForCall(SELECTION) },
    FlagEntry { commands: &[RETRY], name: "filter", held: ForCall(SELECTION) },
    FlagEntry { commands: &[RETRY], name: "limit", held: ForCall(SELECTION) },
    FlagEntry { commands: &[RETRY], name: "signature", held: ForCall(SELECTION) },
    FlagEntry { commands: &[RETRY], name: "force", held: ForCall(SELECTION) },
    FlagEntry { commands: &[RUN, BATCH, RESUME, RETRY], name: "junit", held: ForCall(REPORT) },
    FlagEntry { commands: &[RUN, BATCH, RESUME], name: "path", held: ForCall(PLACE) },
    FlagEntry { commands: &[RESUME, RETRY], name: "JOB", held: ForCall("it names the job") },
    FlagEntry { commands: &[RUN, BATCH, RETRY], name: "dry-run", held: ForCall(LOOK) },
    FlagEntry { commands: &[RETRY], name: "json", held: ForCall(LOOK) },
    FlagEntry { commands: &[RUN, RESUME, RETRY], name: "verbose", held: ForCall(LOOK) },
];

/// Returns the flags that hold for a job, for people; that of the merge is not among them.
pub(crate) fn kept_flags(started: &JobStarted) -> Option<String> {
    let RunOptions { max_parallel, needs_items, no_wait, fail_on_dlq, budget_usd, yes: _ } =
        started.options;
    let flag = |is_set: bool, flag: &str| is_set.then(|| flag.to_owned());
    let shown: Vec<String> = [
        max_parallel.map(|most| format!("--max-parallel {most}")),
        budget_usd.map(|most| format!("--budget-usd {most}")),
        flag(needs_items, "--no-items fail"),
        flag(no_wait, "--no-wait"),
        flag(fail_on_dlq, "--fail-on-dlq"),
    ]
    .into_iter()
    .flatten()
    .collect();
    (!shown.is_empty()).then(|| shown.join(" "))
}

/// Returns the page of the reference about the flags.
pub(crate) fn markdown() -> String {
    let mut page = "# Flags and resuming\n\n\
        A flag that changes what a job does is recorded with the job. It holds on every `prodigy resume` until\n\
        another is given there: `--budget-usd 5`, `--no-items ok`, `--fail-on-dlq=false`, `--no-wait=false`,\n\
        `--yes=false`. `prodigy jobs show JOB` shows those that hold, `--yes` excepted.\n\n\
        | Flag | Commands | Holds | Recorded in, or the reason |\n|---|---|---|---|\n"
        .to_owned();
    for FlagEntry { commands, name, held } in FLAGS {
        let shown = if name.chars().all(char::is_uppercase) {
            format!("`{name}`")
        } else {
            format!("`--{name}`")
        };
        let can_change = commands.iter().any(|command| [RESUME, RETRY].contains(command));
        let commands: Vec<_> = commands.iter().map(|command| format!("`{command}`")).collect();
        let (until, why) = match held {
            ByJob(place) if can_change => ("until another is given", place),
            ByJob(place) => ("for the job", place),
            ForCall(reason) => ("for this call", reason),
        };
        // A string takes everything.
        writeln!(page, "| {shown} | {} | {until} | {why} |", commands.join(", ")).ok();
    }
    page
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use clap::CommandFactory as _;

    use super::*;
    use crate::cli::Cli;

    /// Returns the flags and arguments that a command takes.
    fn known(path: &str) -> BTreeSet<String> {
        let mut program = Cli::command();
        program.build();
        let command = path.split(' ').fold(&program, |command, name| {
            command.find_subcommand(name).expect("a command that is there")
        });
        let own = command.get_arguments().filter(|arg| {
            !["home", "help", "version"].iter().any(|everywhere| arg.get_id() == everywhere)
        });
        own.map(|arg| match (arg.get_long(), arg.get_value_names()) {
            (Some(long), _) => long.to_owned(),
            (None, Some([name])) => name.to_string(),
            (None, _) => arg.get_id().to_string(),
        })
        .collect()
    }

    #[test]
    fn every_flag_of_a_job_has_a_decision() {
        for command in [RUN, BATCH, RESUME, RETRY] {
            let decided = FLAGS.iter().filter(|flag| flag.commands.contains(&command));
            let names: Vec<String> = decided.map(|flag| flag.name.to_owned()).collect();
            let set: BTreeSet<String> = names.iter().cloned().collect();
            assert_eq!(set.len(), names.len(), "{command}: a flag is decided twice: {names:?}");
            assert_eq!(set, known(command), "left: decided, right: known to `{command}`");
        }
    }
}
