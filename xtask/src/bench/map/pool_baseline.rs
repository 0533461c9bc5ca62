//! The best that git and a shell allow: worktrees that are made beforehand and reused.
//!
//! For each item `HEAD` and a branch are written as files, `git reset --hard` and `git clean`
//! put the worktree in order, and the command runs. With commits, the branch is then merged
//! with `merge-tree`, `commit-tree` and `update-ref`, one item after the other.

use std::{
    fs,
    path::PathBuf,
    process::Command,
    sync::{Mutex, PoisonError},
};

use prodigy_testkit::TestEnv;

use super::{
    SLOTS,
    baselines::COMMIT,
    repository::{file, line, run_concurrently, run_silent},
};
use crate::{error::Error, program::read};

/// Worktrees that wait for items.
pub(crate) struct PoolBaseline {
    world: TestEnv,
    base: String,
}

impl PoolBaseline {
    /// Makes one worktree for each slot; that is not measured.
    pub(crate) fn new(world: TestEnv) -> Result<Self, Error> {
        for slot in 0..SLOTS {
            let path = world.root().join(format!("slot-{slot}"));
            run_silent(world.command("git").args(["worktree", "add", "--detach"]).arg(path))?;
        }
        let base = world.git(&["rev-parse", "HEAD"]);
        let refs = world.repo().join(".git/refs/heads/floor");
        fs::create_dir_all(&refs).map_err(|source| Error::File { path: refs, source })?;
        Ok(Self { world, base })
    }

    /// Gives the world back, so that it can be kept.
    pub(crate) fn into_env(self) -> TestEnv {
        self.world
    }

    /// Runs `:` for each item and returns the seconds per item.
    pub(crate) fn run_noop(&self, items: u32) -> Result<f64, Error> {
        run_concurrently(items, |slot, item| {
            self.prepare(slot, item, &self.base)?;
            run_silent(self.command_in_slot(slot, "sh").args(["-c", ":"]))?;
            self.forget(item)
        })
    }

    /// Makes a commit for each item, merges it, and returns the seconds per item.
    pub(crate) fn run_commits(&self, items: u32) -> Result<f64, Error> {
        let tip = Mutex::new(self.base.clone());
        run_silent(self.world.command("git").args(["update-ref", JOB, &self.base]))?;
        run_concurrently(items, |slot, item| {
            let base = tip.lock().unwrap_or_else(PoisonError::into_inner).clone();
            self.prepare(slot, item, &base)?;
            let mut shell = self.command_in_slot(slot, "sh");
            shell.args(["-c", COMMIT]).env("ITEM", item.to_string());
            shell.env("FILE", file(item)).env("LINE", line(item).to_string());
            run_silent(&mut shell)?;
            let mut tip = tip.lock().unwrap_or_else(PoisonError::into_inner);
            *tip = self.merge(item, &tip)?;
            drop(tip);
            self.forget(item)
        })
    }

    /// Puts a slot's worktree in order, on a fresh branch at `base`.
    fn prepare(&self, slot: u32, item: u32, base: &str) -> Result<(), Error> {
        write(self.reference(item), format!("{base}\n"))?;
        let head = self.world.repo().join(format!(".git/worktrees/slot-{slot}/HEAD"));
        write(head, format!("ref: {}\n", branch(item)))?;
        run_silent(self.command_in_slot(slot, "git").args(["reset", "--quiet", "--hard"]))?;
        run_silent(self.command_in_slot(slot, "git").args(["clean", "--quiet", "-fdx"]))
    }

    /// Merges an item's branch into the job's without a worktree and returns the new tip.
    fn merge(&self, item: u32, tip: &str) -> Result<String, Error> {
        let git = |args: &[&str]| {
            let printed = read(self.world.command("git").args(args))?;
            Ok::<_, Error>(printed.lines().next().unwrap_or_default().to_owned())
        };
        let branch = branch(item);
        let tree = git(&["merge-tree", "--write-tree", tip, &branch])?;
        let message = format!("Merge item {item}");
        let commit = git(&["commit-tree", &tree, "-p", tip, "-p", &branch, "-m", &message])?;
        git(&["update-ref", JOB, &commit, tip])?;
        Ok(commit)
    }

    fn forget(&self, item: u32) -> Result<(), Error> {
        let path = self.reference(item);
        fs::remove_file(&path).map_err(|source| Error::File { path, source })
    }

    fn reference(&self, item: u32) -> PathBuf {
        self.world.repo().join(".git").join(branch(item))
    }

    fn command_in_slot(&self, slot: u32, program: &str) -> Command {
        let mut command = self.world.command(program);
        command.current_dir(self.world.root().join(format!("slot-{slot}")));
        command
    }
}

/// The branch that collects the commits.
const JOB: &str = "refs/heads/floor-job";

fn branch(item: u32) -> String {
    format!("refs/heads/floor/item-{item}")
}

fn write(path: PathBuf, text: String) -> Result<(), Error> {
    fs::write(&path, text).map_err(|source| Error::File { path, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::map::repository::repository;

    #[test]
    fn every_commit_is_merged_and_no_branch_is_left() {
        let pool = PoolBaseline::new(repository("prodigy".as_ref())).unwrap();
        pool.run_commits(12).unwrap();
        let world = pool.into_env();
        let subjects = world.git(&["log", "--format=%s", "--no-merges", JOB]);
        assert_eq!(subjects.lines().filter(|line| line.starts_with("item ")).count(), 12);
        let shown = world.git(&["show", &format!("{JOB}:src/part-11.txt")]);
        assert_eq!(shown.lines().next(), Some("item 11"));
        assert_eq!(world.git(&["for-each-ref", "refs/heads/floor/"]), "");
    }

    #[test]
    fn a_worktree_is_clean_for_each_item() {
        let pool = PoolBaseline::new(repository("prodigy".as_ref())).unwrap();
        let stray = pool.world.root().join("slot-0/stray.txt");
        write(stray.clone(), String::new()).unwrap();
        pool.run_noop(SLOTS * 2).unwrap();
        assert!(!stray.exists());
    }
}
