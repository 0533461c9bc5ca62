//! The tools that a person would use instead: a loop, `xargs`, GNU parallel, a script around git.

use std::{fmt::Write as _, process::Command};

use prodigy_testkit::TestEnv;

use super::{
    SLOTS,
    repository::{file, line, run_concurrently, run_silent},
};
use crate::{bench::timing::time, error::Error};

/// Starts a shell for each item from threads of our own; returns the seconds per item.
pub(crate) fn threads_baseline(items: u32) -> Result<f64, Error> {
    run_concurrently(items, |_, _| run_silent(Command::new("sh").args(["-c", ":"])))
}

/// Starts a shell for each item with `xargs -P`.
pub(crate) fn xargs(items: u32) -> Result<f64, Error> {
    let script = format!("seq {items} | xargs -P {SLOTS} -n 1 sh -c :");
    let seconds = time(Command::new("sh").args(["-c", &script]))?.as_secs_f64();
    Ok(seconds / f64::from(items))
}

/// Starts a shell for each item with GNU parallel, where that is installed.
pub(crate) fn parallel(items: u32) -> Result<Option<f64>, Error> {
    let is_gnu = "parallel --version 2>/dev/null | head -n 1 | grep -q '^GNU parallel'";
    if run_silent(Command::new("sh").args(["-c", is_gnu])).is_err() {
        return Ok(None);
    }
    let script = format!("seq {items} | parallel --will-cite -j {SLOTS} -n 1 'sh -c :'");
    let seconds = time(Command::new("sh").args(["-c", &script]))?.as_secs_f64();
    Ok(Some(seconds / f64::from(items)))
}

/// The loop that a person would write: a worktree and a branch for each item, one after the other.
pub(crate) fn worktree_script_baseline(
    world: &TestEnv,
    items: u32,
    commit: bool,
) -> Result<f64, Error> {
    let worktree = world.root().join("worktree");
    let work = if commit { COMMIT } else { ":" };
    let mut text = String::from("set -e\n");
    for item in 0..items {
        // Writing to a string cannot go wrong.
        writeln!(text, "once {item} {} {}", file(item), line(item)).ok();
    }
    let once = format!(
        "once() {{
    git worktree add --quiet -b \"item-$1\" \"$WORKTREE\"
    (cd \"$WORKTREE\" && ITEM=$1 FILE=$2 LINE=$3 sh -c '{work}')
    git merge --quiet --no-ff --no-edit \"item-$1\"
    git worktree remove \"$WORKTREE\"
    git branch --quiet -D \"item-$1\"
}}\n"
    );
    let mut command = world.command("sh");
    command.env("WORKTREE", worktree).args(["-c", &format!("{once}{text}")]);
    Ok(time(&mut command)?.as_secs_f64() / f64::from(items))
}

/// The command of an item that makes a commit; `ITEM`, `FILE` and `LINE` say which.
pub(crate) const COMMIT: &str = "sed -i \"${LINE}s/.*/item $ITEM/\" \"$FILE\" && git commit --quiet --all --message \"item $ITEM\"";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::map::repository::repository;

    #[test]
    fn the_script_merges_one_commit_for_each_item_and_leaves_nothing() {
        let world = repository("prodigy".as_ref());
        worktree_script_baseline(&world, 3, true).unwrap();
        assert_eq!(
            world.git(&["log", "--format=%s", "--no-merges", "--topo-order", "-3"]),
            "item 2\nitem 1\nitem 0"
        );
        assert_eq!(world.git(&["rev-list", "--count", "--merges", "main"]), "3");
        assert_eq!(world.git(&["branch", "--list"]), "* main");
        assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1);
        assert_eq!(world.read("src/part-01.txt").lines().next(), Some("item 1"));
    }

    #[test]
    fn the_floors_without_git_run() {
        assert!(threads_baseline(20).unwrap() > 0.0);
        assert!(xargs(20).unwrap() > 0.0);
    }
}
