//! Programs that stand in for prodigy: one that works, and some that lose or leave something.

use std::time::Duration;

use super::{run_map_trial, run_map_without_kills, run_scale_trial};
use crate::crash::sequential::tests::program;

/// Does what the workflow says, one item after the other, and knows nothing of crashes.
const SOUND: &str = r#"#!/bin/sh
mkdir -p "$PRODIGY_HOME"; cd "$PRODIGY_HOME/../repo"
journal="$PRODIGY_HOME/journal"
case $1 in events) cat "$journal" 2> /dev/null; exit 0 ;; verify) exit 0 ;; resume) exit 0 ;; esac
record() {
    seq=$(($(cat "$journal" 2> /dev/null | wc -l) + 1))
    echo "{\"seq\":$seq,\"event_type\":\"$1\"${2:+,\"item_id\":\"$2\"}$3}" >> "$journal"
}
file=$2 yes=$3; for job; do :; done
branch=prodigy/$job/job worktree="$PRODIGY_HOME/worktrees/job"
record job_started
git worktree add --quiet -b "$branch" "$worktree"
once() {
    id=$(printf 'item-%03d' "$1"); sleep 0.01
    record item_queued "$id"
    echo "start $id 1" >> "$LEDGER/ledger"
    if [ "$2" = never ]; then
        keep "$1" "$id"
        record item_dead_lettered "$id"; return; fi
    mkdir -p own; printf 'first %s\nsecond %s\n' "$1" "$1" > "own/$1.txt"
    subject="work on $1"; if [ "$2" = agent ]; then subject="writer: $1"; fi
    git add --all; git commit --quiet --message "$subject"
    if [ "$2" = loose ]; then leave "$1" "$id"; fi
    echo "end $id 1" >> "$LEDGER/ledger"
    record agent_completed "$id"
    record worktree_merged "$id"
    good=$((good + 1))
}
leave() {
    blob=$(echo "left $1" | git hash-object -w --stdin)
    own=$(printf '100644 blob %s\t%s.left\n' "$blob" "$1" | git mktree)
    tree=$(printf '040000 tree %s\town\n' "$own" | git mktree)
    git update-ref "refs/prodigy/$job/kept/$2" "$(git commit-tree -m left "$tree")"
    record work_kept "$2" ",\"reference\":\"refs/prodigy/$job/kept/$2\""
}
keep() {
    kept="$PRODIGY_HOME/kept/$2" note="note $1"
    mkdir -p "$kept/own"; echo "first $1" > "$kept/own/$1.txt"
    blob=$(echo "note $1" | git hash-object -w --stdin)
    own=$(printf '100644 blob %s\t%s.note\n' "$blob" "$1" | git mktree)
    tree=$(printf '040000 tree %s\town\n' "$own" | git mktree)
    git branch --quiet "prodigy/$job/$2" "$(git commit-tree -m "$note" "$tree")"
    record worktree_preserved "$2" ",\"path\":\"$kept\",\"left\":{\"branch\":\"prodigy/$job/$2\"}"
}
cd "$worktree"
good=0
sed -n 's/^ *- {n: \([0-9]*\)\(, kind: \)*\(.*\)}$/\1 \3/p' "$file" > "$LEDGER/items"
while read -r n kind; do total=$n; once "$n" "$kind"; done < "$LEDGER/items"
echo "$good of $total" > reduced.txt
git add --all; git commit --quiet --message reduced
cd "$PRODIGY_HOME/../repo"
git worktree remove "$worktree"
if [ "$yes" != -y ]; then echo "not merged: \`git merge --quiet $branch\` merges it"; exit 7; fi
git merge --quiet --no-ff --no-edit "$branch"
git branch --quiet -D "$branch"
record worktree_merged
record job_completed
"#;

const ITEMS: u32 = 8;

/// Returns what a trial that kills nothing says about a program.
fn said(text: &str) -> String {
    let (_directory, path) = program(text);
    run_map_without_kills(&path, ITEMS)
        .err()
        .map_or_else(|| "survived".to_owned(), |broken| broken.message)
}

fn instead(of: &str, with: &str) -> String {
    assert!(SOUND.contains(of), "{of}");
    said(&SOUND.replace(of, with))
}

#[test]
fn what_is_lost_or_there_twice_is_noticed() {
    assert_eq!(said(SOUND), "survived");
    insta::assert_snapshot!(instead("    git add --all; git", "    git add --all; [ $1 = 2 ] || git"), @"`main` has 0 commits of item-002");
    insta::assert_snapshot!(instead("mkdir -p own;", "mkdir -p own; [ $1 = 2 ] && echo x > other.txt;"), @r#"the commit `writer: 2` changes "other.txt\nown/2.txt""#);
    insta::assert_snapshot!(instead("'first %s\\nsecond", "'first %s\\nfirst %s\\nsecond"), @r#"`own/1.txt` of item-001 in `main` is Some("first 1\nfirst 1\nsecond \n") instead of Some("first 1\nsecond 1\n")"#);
    insta::assert_snapshot!(
        instead("    echo \"end", "    git commit --quiet --allow-empty --message 'work on 4'\n    echo \"end"), @"`main` has 6 commits of item-004");
    insta::assert_snapshot!(instead("if [ \"$2\" = never ]; then", "if [ \"$1\" = 1 ]; then"), @"item-001: dead-lettered although it works: MapItemHistory { queued: 1, completed: 0, merged: 0, dead: 1, skipped: 0, failed: 0, is_poison: false }");
    insta::assert_snapshot!(instead("    record worktree_preserved", "    : record"), @"item-005 failed and nothing says what it left");
    insta::assert_snapshot!(instead("    record work_kept", "    : record"), @"item-006 left `own/6.left` and nothing says where it is");
    insta::assert_snapshot!(instead("    git update-ref", "    : git update-ref"), @"what item-006 left is lost: `own/6.left` in `refs/prodigy/crash-1/kept/item-006` is None");
    insta::assert_snapshot!(instead("\"left $1\"", "\"right $1\""), @r#"what item-006 left is lost: `own/6.left` in `refs/prodigy/crash-1/kept/item-006` is Some("right 6\n")"#);
    insta::assert_snapshot!(instead("return; fi", "fi"), @"item-005: not accounted for exactly once: MapItemHistory { queued: 1, completed: 1, merged: 1, dead: 1, skipped: 0, failed: 0, is_poison: false }");
    insta::assert_snapshot!(instead("echo \"$good of", "echo \"0 of"), @r#"`reduce` left "0 of 8\n" in 1 commits instead of "5 of 8\n""#);
    insta::assert_snapshot!(instead("record job_completed", ""), @"the job was completed 0 and merged 1 times");
    insta::assert_snapshot!(
        instead("    echo \"end $id", "    echo \"overlap $id 2\" >> \"$LEDGER/ledger\"\n    echo \"end $id"), @"two attempts at item-001 were at work at once");
    insta::assert_snapshot!(instead("verify) exit 0", "verify) echo no; exit 1"), @"
        `prodigy verify crash-1` does not agree:
        no
        [exit 1]
        ");
}

#[test]
fn what_is_left_over_is_noticed() {
    let and = |more: &str| said(&format!("{SOUND}{more}\n"));
    insta::assert_snapshot!(and("echo mine > mine.txt"), @"
        the user's checkout is not clean:
        ?? mine.txt
        ");
    insta::assert_snapshot!(and("git branch prodigy/$job/item-001"), @"
        branches are left:
        refs/heads/prodigy/crash-1/item-001
        ");
    assert_eq!(and("git branch prodigy/$job/item-007"), "survived");
    assert_eq!(
        and("git worktree add --quiet --detach \"$PRODIGY_HOME/worktrees/item-007\""),
        "survived"
    );
    let left = and("git worktree add --quiet --detach \"$PRODIGY_HOME/worktrees/item-001\"");
    assert_eq!(left.lines().next(), Some("git still knows a worktree:"));
    let left = and("mkdir -p \"$PRODIGY_HOME/worktrees/job/.git\"");
    assert_eq!(left.split('`').next(), Some("a worktree is left: "));
    let moved = and("git commit --quiet --allow-empty --message mine");
    assert_eq!(moved.lines().next(), Some("the user's HEAD was moved 2 times, not 1:"));
}

#[test]
fn a_program_that_knows_nothing_of_crashes_does_not_survive() {
    let (_directory, path) = program(SOUND);
    let broken =
        (0..5).find_map(|seed| run_map_trial(&path, seed, Duration::from_millis(150), ITEMS).err());
    assert!(broken.is_some());
}

#[test]
fn a_checkout_that_is_touched_before_the_merge_is_noticed() {
    let touching =
        SOUND.replace("record job_started", "record job_started; echo x > mine.txt; sleep 5");
    let (_directory, path) = program(&touching);
    let broken = run_map_trial(&path, 1, Duration::from_secs(1), ITEMS).unwrap_err();
    assert_eq!(
        broken.message.split(':').next(),
        Some("the user's checkout changed before the merge")
    );
}

/// Returns what the large job says about a program.
fn scaled(of: &str, with: &str) -> String {
    assert!(SOUND.contains(of), "{of}");
    let (_directory, path) = program(&SOUND.replace(of, with));
    run_scale_trial(&path, ITEMS, 2)
        .err()
        .map_or_else(|| "survived".to_owned(), |broken| broken.message)
}

#[test]
fn a_large_job_may_leave_only_its_own_branch() {
    assert_eq!(scaled("git", "git"), "survived");
    insta::assert_snapshot!(scaled("exit 7", "exit 0"), @"`prodigy run` ended with exit status: 0 instead of 7");
    insta::assert_snapshot!(scaled("exit 7", "git branch prodigy/$job/item-001; exit 7"), @"
        branches are left:
        refs/heads/prodigy/scale/item-001
        ");
    let changed = scaled("exit 7", "git merge --quiet \"$branch\"; exit 7");
    assert_eq!(changed.split(':').next(), Some("the user's checkout changed"));
    let changed = scaled("exit 7", "git stash drop --quiet; exit 7");
    assert_eq!(changed.split(':').next(), Some("the user's checkout changed"));
    insta::assert_snapshot!(scaled("\\`git merge", "\\`git nothing"), @"no command to merge was printed");
    insta::assert_snapshot!(
        scaled("record agent_completed \"$id\"", "[ $1 = 3 ] || record agent_completed \"$id\""), @"item-003: not accounted for exactly once: MapItemHistory { queued: 1, completed: 0, merged: 1, dead: 0, skipped: 0, failed: 0, is_poison: false }");
    insta::assert_snapshot!(
        scaled("record job_started", "record job_started; for i in a b c; do echo \"start $i 1\" >> \"$LEDGER/ledger\"; done"), @"4 items were at work at once, not 2");
}
