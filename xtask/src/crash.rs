//! `cargo xtask crash`: kill and resume, many times.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use prodigy_testkit::crash::{
    KillCounts, TrialFailure,
    dlq::{DlqTrialReport, run_dlq_trial, run_dlq_without_kills},
    effects::{run_effects_trial, run_effects_without_kills},
    map::{run_map_trial, run_map_without_kills, run_scale_trial},
    merge::{run_merge_trial, run_merge_without_kills},
    races::run_races,
    sequential::{run_trial, run_without_kills},
};

use crate::{
    error::Error,
    program::{binary_or_build, print_note},
};

/// Kill a workflow at random moments, resume it, and check that nothing is lost or done twice
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct CrashArgs {
    #[command(subcommand)]
    what: Option<CrashCommand>,

    /// Number of trials
    #[arg(long, default_value_t = 20)]
    runs: u64,

    #[command(flatten)]
    common: TrialArgs,
}

#[derive(clap::Args, Debug)]
struct TrialArgs {
    /// The number that decides when to kill; trial N uses SEED + N
    #[arg(long, default_value_t = 1)]
    seed: u64,

    /// Use this binary instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

/// The other kinds of trial; without one, sequential workflows are killed.
#[derive(clap::Subcommand, Debug)]
enum CrashCommand {
    /// Kill MapReduce jobs at random moments and check every item
    Map(MapTrialArgs),
    /// Kill replays of dead letters at random moments and check every one of them
    Dlq(DlqTrialArgs),
    /// Kill jobs that change something outside, change their workflow, and check that nothing is changed twice or forgotten
    Effects(EffectTrialArgs),
    /// Kill the final merge and check that the user's checkout is whole
    Merge(MergeTrialArgs),
    /// Let two replays race for each of many dead letters and check that one takes it
    Races(RacesArgs),
    /// Run one large MapReduce job, killing nothing, and check every item and the checkout
    Scale(ScaleArgs),
}

#[derive(clap::Args, Debug)]
struct ScaleArgs {
    /// Number of items in the job
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    items: u32,

    /// Number of items worked on at once
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=1024))]
    slots: u32,

    /// Use this binary instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
struct RacesArgs {
    /// Number of races
    #[arg(long, default_value_t = 1000, value_parser = clap::value_parser!(u32).range(1..))]
    races: u32,

    /// Use this binary instead of building one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
}

#[derive(clap::Args, Debug)]
struct MapTrialArgs {
    /// Total number of kills
    #[arg(long, default_value_t = 40)]
    kills: u32,

    /// Number of items in each job
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    items: u32,

    #[command(flatten)]
    common: TrialArgs,
}

#[derive(clap::Args, Debug)]
struct DlqTrialArgs {
    /// Total number of kills
    #[arg(long, default_value_t = 200)]
    kills: u32,

    /// Number of items in each job
    #[arg(long, default_value_t = 40, value_parser = clap::value_parser!(u32).range(1..))]
    items: u32,

    #[command(flatten)]
    common: TrialArgs,
}

#[derive(clap::Args, Debug)]
struct EffectTrialArgs {
    /// Total number of kills
    #[arg(long, default_value_t = 100)]
    kills: u32,

    /// Number of items in each job
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..))]
    items: u32,

    #[command(flatten)]
    common: TrialArgs,
}

#[derive(clap::Args, Debug)]
struct MergeTrialArgs {
    /// Total number of kills
    #[arg(long, default_value_t = 60)]
    kills: u32,

    /// Number of files that each job changes and adds
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    files: u32,

    #[command(flatten)]
    common: TrialArgs,
}

pub(crate) fn run(args: &CrashArgs) -> Result<(), Error> {
    match &args.what {
        None => sequential(args),
        Some(CrashCommand::Map(args)) => map(args),
        Some(CrashCommand::Dlq(args)) => dlq(args),
        Some(CrashCommand::Effects(args)) => effects(args),
        Some(CrashCommand::Merge(args)) => merge(args),
        Some(CrashCommand::Races(args)) => race(args),
        Some(CrashCommand::Scale(args)) => large(args),
    }
}

fn sequential(args: &CrashArgs) -> Result<(), Error> {
    let binary = binary_or_build(args.common.binary.as_deref(), false)?;
    let span = run_without_kills(&binary).map_err(|broken| trial_error(*broken, ""))?;
    print_note(format_args!("undisturbed: {} ms", span.as_millis()));
    let mut kills = 0;
    for number in 0..args.runs {
        let seed = args.common.seed.wrapping_add(number);
        let again = format!("--runs 1 --seed {seed}");
        let survived =
            run_trial(&binary, seed, span).map_err(|broken| trial_error(*broken, &again))?;
        kills += survived.kills;
        print_note(format_args!(
            "trial {}/{}: seed {seed}, killed {} times, {} starts, {} ms",
            number + 1,
            args.runs,
            survived.kills,
            survived.starts,
            survived.duration.as_millis(),
        ));
    }
    print_note(format_args!("{} trials, {kills} kills, nothing lost", args.runs));
    Ok(())
}

fn map(args: &MapTrialArgs) -> Result<(), Error> {
    let binary = binary_or_build(args.common.binary.as_deref(), false)?;
    let calm =
        run_map_without_kills(&binary, args.items).map_err(|broken| trial_error(*broken, ""))?;
    print_note(format_args!(
        "undisturbed: {} ms, {} items succeeded, {} dead-lettered, circuit opened {} times",
        calm.survived.duration.as_millis(),
        calm.successful,
        calm.dead,
        calm.opened,
    ));
    kill_jobs(args, &binary, calm.survived.duration)
}

/// Starts jobs and kills them until there are enough kills.
fn kill_jobs(args: &MapTrialArgs, binary: &Path, mut span: Duration) -> Result<(), Error> {
    let (mut jobs, mut kills, mut poison, mut opened) = (0, 0, 0, 0);
    let mut by_kind = KillCounts::default();
    while kills < args.kills {
        let seed = args.common.seed.wrapping_add(jobs);
        let again = format!("map --kills 1 --seed {seed} --items {}", args.items);
        let done = run_map_trial(binary, seed, span, args.items)
            .map_err(|broken| trial_error(*broken, &again))?;
        jobs += 1;
        // On a machine that was busy at first, moments would lie behind the end of the job.
        span = span.min(done.survived.duration);
        kills += done.survived.kills;
        by_kind.add(&done.survived.by_kind);
        poison += done.poison;
        opened += done.opened;
        print_note(format_args!(
            "job {jobs}: seed {seed}, killed {} times ({kills}/{}), {} succeeded, {} dead-lettered, {} ms",
            done.survived.kills,
            args.kills,
            done.successful,
            done.dead,
            done.survived.duration.as_millis(),
        ));
    }
    print_note(format_args!("killed right after: {by_kind}"));
    print_note(format_args!(
        "{jobs} jobs of {} items, {kills} kills, nothing lost or done twice; {poison} items dead-lettered as poison, circuit opened {opened} times",
        args.items,
    ));
    Ok(())
}

/// Replays dead letters and kills the replays until there are enough kills.
fn dlq(args: &DlqTrialArgs) -> Result<(), Error> {
    let binary = binary_or_build(args.common.binary.as_deref(), false)?;
    let calm =
        run_dlq_without_kills(&binary, args.items).map_err(|broken| trial_error(*broken, ""))?;
    print_note(format_args!(
        "undisturbed: {} ms, one replay {} ms, {} deaths, {} replays, {} entries stay open",
        calm.survived.duration.as_millis(),
        calm.replay.as_millis(),
        calm.deaths,
        calm.replays,
        calm.open,
    ));
    let (mut jobs, mut kills, mut deaths, mut replays, mut lost) = (0, 0, 0, 0, 0);
    let (mut span, mut by_kind) = (calm.replay, KillCounts::default());
    while kills < args.kills {
        let seed = args.common.seed.wrapping_add(jobs);
        let again = format!("dlq --kills 1 --seed {seed} --items {}", args.items);
        let done: DlqTrialReport = run_dlq_trial(&binary, seed, span, args.items)
            .map_err(|broken| trial_error(*broken, &again))?;
        jobs += 1;
        // On a machine that was busy at first, moments would lie behind the end of a replay.
        span = span.min(done.replay);
        kills += done.survived.kills;
        by_kind.add(&done.survived.by_kind);
        deaths += done.deaths;
        replays += done.replays;
        lost += done.lost;
        print_note(format_args!(
            "job {jobs}: seed {seed}, killed {} times ({kills}/{}), {} starts, {} deaths, {} replays, {} attempts cut off, {} ms",
            done.survived.kills,
            args.kills,
            done.survived.starts,
            done.deaths,
            done.replays,
            done.lost,
            done.survived.duration.as_millis(),
        ));
    }
    print_note(format_args!("killed right after: {by_kind}"));
    print_note(format_args!(
        "{jobs} jobs of {} items, {kills} kills, {deaths} deaths, {replays} replays, {lost} attempts cut off; no dead letter lost, nothing done twice",
        args.items,
    ));
    Ok(())
}

/// Kills jobs that change something outside until there are enough kills.
fn effects(args: &EffectTrialArgs) -> Result<(), Error> {
    let binary = binary_or_build(args.common.binary.as_deref(), false)?;
    let calm = run_effects_without_kills(&binary, args.items)
        .map_err(|broken| trial_error(*broken, ""))?;
    print_note(format_args!(
        "undisturbed: {} ms, {} changes, {} of them not known",
        calm.run.as_millis(),
        calm.made,
        calm.unknown,
    ));
    let (mut jobs, mut kills, mut made, mut unknown, mut changed) = (0, 0, 0, 0, 0);
    let (mut span, mut by_kind) = (calm.run, KillCounts::default());
    while kills < args.kills {
        let seed = args.common.seed.wrapping_add(jobs);
        let again = format!("effects --kills 1 --seed {seed} --items {}", args.items);
        let done = run_effects_trial(&binary, seed, span, args.items)
            .map_err(|broken| trial_error(*broken, &again))?;
        jobs += 1;
        // On a machine that was busy at first, moments would lie behind the end of a run.
        span = span.min(done.run).max(calm.run / 4);
        kills += done.survived.kills;
        by_kind.add(&done.survived.by_kind);
        made += done.made;
        unknown += done.unknown;
        changed += done.changed;
        print_note(format_args!(
            "job {jobs}: seed {seed}, killed {} times ({kills}/{}), {} starts, {} changes, {} not known, {} other workflows, {} refused, {} ms",
            done.survived.kills,
            args.kills,
            done.survived.starts,
            done.made,
            done.unknown,
            done.changed,
            done.refused,
            done.survived.duration.as_millis(),
        ));
    }
    print_note(format_args!("killed right after: {by_kind}"));
    print_note(format_args!(
        "{jobs} jobs of {} items, {kills} kills, {changed} other workflows, {made} changes, none made twice or forgotten; {unknown} left to a person",
        args.items,
    ));
    Ok(())
}

/// Kills final merges until there are enough kills.
fn merge(args: &MergeTrialArgs) -> Result<(), Error> {
    let binary = binary_or_build(args.common.binary.as_deref(), false)?;
    let calm =
        run_merge_without_kills(&binary, args.files).map_err(|broken| trial_error(*broken, ""))?;
    print_note(format_args!("undisturbed: update of the checkout {} ms", calm.update.as_millis()));
    let (mut jobs, mut kills, mut in_update, mut in_repair) = (0, 0, 0, 0);
    let (mut commits, mut restored, mut by_kind) = (0, 0, KillCounts::default());
    while kills < args.kills {
        let seed = args.common.seed.wrapping_add(jobs);
        let again = format!("merge --kills 1 --seed {seed} --files {}", args.files);
        let done = run_merge_trial(&binary, seed, calm.update, args.files)
            .map_err(|broken| trial_error(*broken, &again))?;
        jobs += 1;
        kills += done.survived.kills;
        by_kind.add(&done.survived.by_kind);
        in_update += done.in_update;
        in_repair += done.in_repair;
        commits += done.commits;
        restored += u32::from(done.is_restored);
        print_note(format_args!(
            "job {jobs}: seed {seed}, killed {} times ({kills}/{}), {} after the update began, {} in repair, {} starts, {} commits of the user, {} ms",
            done.survived.kills,
            args.kills,
            done.in_update,
            done.in_repair,
            done.survived.starts,
            done.commits,
            done.survived.duration.as_millis(),
        ));
    }
    print_note(format_args!("killed right after: {by_kind}"));
    print_note(format_args!(
        "{jobs} jobs of {} files, {kills} kills, {in_update} after an update began, {in_repair} in repair, {commits} commits of the user, {restored} results restored; every checkout whole, nothing lost or doubled",
        args.files,
    ));
    Ok(())
}

fn large(args: &ScaleArgs) -> Result<(), Error> {
    let binary = binary_or_build(args.binary.as_deref(), false)?;
    let done = run_scale_trial(&binary, args.items, args.slots)
        .map_err(|broken| trial_error(*broken, ""))?;
    print_note(format_args!(
        "{} items, at most {} at once, {} ms; nothing lost or left, the checkout unchanged at {} looks",
        args.items,
        done.most_at_once,
        done.duration.as_millis(),
        done.looks,
    ));
    Ok(())
}

fn race(args: &RacesArgs) -> Result<(), Error> {
    let binary = binary_or_build(args.binary.as_deref(), false)?;
    let done = run_races(&binary, args.races).map_err(|broken| trial_error(*broken, ""))?;
    print_note(format_args!(
        "{} races, in {} of them one waited for the other, {} ms; each entry was claimed once, announced once, recorded once",
        done.races,
        done.met,
        done.duration.as_millis(),
    ));
    Ok(())
}

fn trial_error(broken: TrialFailure, again: &str) -> Error {
    print_note(format_args!("{}", broken.transcript));
    let message = broken.message;
    let again = match again {
        "" => String::new(),
        words => format!("; again with `cargo xtask crash {words}`"),
    };
    Error::Broken { message, world: broken.world.keep(), again }
}
