//! The workflow that is cut off, and what must come of it.

use std::fmt::Write as _;

use crate::crash::{
    failed_work::FailedItemWork,
    repository_checks::{ItemCommit, item_id},
};

/// The maximum number of attempts at an item.
pub(crate) const ATTEMPTS: u32 = 3;

/// Everything but the items. `LEDGER` is a directory outside of the repository.
///
/// Each step holds a lock for as long as any process of it lives: if the lock is
/// taken, another attempt at the item is still at work.
const TEXT: &str = r#"name: crash-map
mode: mapreduce
agents:
  writer:
    type: simulated
    rules:
      - edits: [{path: "own/{prompt}.txt", content: "second {prompt}\n", append: true}]
error_policy:
  on_item_failure: dlq
  preserve_worktrees: PRESERVE
  retry_config:
    max_attempts: 3
    backoff: {type: fixed, delay: 10ms}
  circuit_breaker:
    failure_threshold: 3
    success_threshold: 1
    timeout: 200ms
reduce:
  - shell: |
      echo ${map.successful} of ${map.total} >> reduced.txt
      git add --all && git commit --quiet --message reduced
map:
  max_parallel: 4
  agent_template:
    - shell: |
        exec 9>> "$LEDGER/$PRODIGY_ITEM_ID.lock"
        flock --nonblock 9 || echo "overlap $PRODIGY_ITEM_ID $PRODIGY_ATTEMPT" >> "$LEDGER/ledger"
        set -e
        echo "start $PRODIGY_ITEM_ID $PRODIGY_ATTEMPT" >> "$LEDGER/ledger"
        mkdir -p own
        echo "first $N" >> "own/$N.txt"
        sleep "0.0$((N % 4))"
        case "$KIND" in
          never)
            echo "note $N" > "own/$N.note"
            git add "own/$N.note" && git commit --quiet --message "note on $N"
            exit 3 ;;
          once) if mkdir "$LEDGER/$PRODIGY_ITEM_ID.once" 2> /dev/null; then exit 4; fi ;;
        esac
      env:
        N: ${item.n}
        KIND: ${item.kind}
    - shell: |
        exec 9>> "$LEDGER/$PRODIGY_ITEM_ID.lock"
        flock --nonblock 9 || echo "overlap $PRODIGY_ITEM_ID $PRODIGY_ATTEMPT" >> "$LEDGER/ledger"
        set -e
        echo "second $N" >> "own/$N.txt"
        git add --all
        git commit --quiet --message "work on $N"
        test "$KIND" != loose || echo "left $N" > "own/$N.left"
        echo "end $PRODIGY_ITEM_ID $PRODIGY_ATTEMPT" >> "$LEDGER/ledger"
      when: item.kind != 'agent'
      env:
        N: ${item.n}
        KIND: ${item.kind}
    - agent: {use: writer, prompt: "${item.n}"}
      when: item.kind == 'agent'
    - shell: echo "end $PRODIGY_ITEM_ID $PRODIGY_ATTEMPT" >> "$LEDGER/ledger"
      when: item.kind == 'agent'
  input:
    items:
"#;

/// The behaviour of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MapFault {
    /// Works.
    Plain,
    /// Fails at the first attempt.
    Once,
    /// Fails at every attempt.
    Never,
    /// Works, and leaves a file that it does not commit.
    Loose,
    /// Works by an agent that commits nothing itself.
    Agent,
}

/// One of the items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MapCase {
    /// Its number, from 1.
    pub(crate) number: u32,
    /// The behaviour of the item.
    pub(crate) kind: MapFault,
    items: u32,
}

impl MapCase {
    /// Returns the id that prodigy gives it.
    pub(crate) fn id(self) -> String {
        item_id(self.number, self.items)
    }

    /// Returns what of it must be in `main`, or must not.
    pub(crate) fn item_commit(self, is_done: bool) -> ItemCommit {
        let number = self.number;
        ItemCommit {
            id: self.id(),
            file: format!("own/{number}.txt"),
            content: format!("first {number}\nsecond {number}\n"),
            subject: match self.kind {
                MapFault::Agent => format!("writer: {number}"),
                MapFault::Plain | MapFault::Once | MapFault::Never | MapFault::Loose => {
                    format!("work on {number}")
                }
            },
            is_done,
        }
    }
}

impl MapCase {
    /// Returns what it leaves if it fails for good; only one that always fails does.
    pub(crate) fn failed_item_work(self) -> Option<FailedItemWork> {
        let number = self.number;
        (self.kind == MapFault::Never).then(|| FailedItemWork {
            uncommitted: (format!("own/{number}.txt"), format!("first {number}\n")),
            committed: Some((format!("own/{number}.note"), format!("note {number}\n"))),
        })
    }
}

impl MapCase {
    /// Returns the file, and its text, that it leaves uncommitted if it succeeds.
    pub(crate) fn uncommitted_file(self) -> Option<(String, String)> {
        let number = self.number;
        let left = || (format!("own/{number}.left"), format!("left {number}\n"));
        (self.kind == MapFault::Loose).then(left)
    }
}

/// Returns the items of a job of this size.
pub(crate) fn map_cases(items: u32) -> impl Iterator<Item = MapCase> {
    (1..=items).map(move |number| MapCase { number, kind: kind(number), items })
}

/// Failures that come together open the circuit breaker; the others are strewn about.
fn kind(number: u32) -> MapFault {
    match (number % 50, number % 11, number % 37) {
        (7..=10, _, _) | (_, _, 5) => MapFault::Never,
        (_, 3, _) => MapFault::Once,
        _ if number % 13 == 6 => MapFault::Loose,
        _ if number % 17 == 2 => MapFault::Agent,
        _ => MapFault::Plain,
    }
}

/// Returns the workflow with so many items; `keeps` says whether the worktrees of failed items
/// are kept.
pub(crate) fn text(items: u32, keeps: bool) -> String {
    let mut text = TEXT.replace("PRESERVE", if keeps { "failed" } else { "never" });
    for work in map_cases(items) {
        let kind = match work.kind {
            MapFault::Plain => "plain",
            MapFault::Once => "once",
            MapFault::Never => "never",
            MapFault::Loose => "loose",
            MapFault::Agent => "agent",
        };
        writeln!(text, "      - {{n: {}, kind: {kind}}}", work.number).unwrap();
    }
    text
}

/// The work of a large job: every item commits, and says when it is at work.
const LARGE: &str = r#"name: scale
mode: mapreduce
map:
  max_parallel: SLOTS
  agent_template:
    - shell: |
        set -e
        echo "start $PRODIGY_ITEM_ID $PRODIGY_ATTEMPT" >> "$LEDGER/ledger"
        mkdir -p own
        printf 'first %s\nsecond %s\n' "$N" "$N" > "own/$N.txt"
        git add --all
        git commit --quiet --message "work on $N"
        echo "end $PRODIGY_ITEM_ID $PRODIGY_ATTEMPT" >> "$LEDGER/ledger"
      env:
        N: ${item.n}
  input:
    items:
"#;

/// Returns a workflow with so many items, so many of them at once, that all succeed.
pub(crate) fn large_workflow(items: u32, slots: u32) -> (String, Vec<MapCase>) {
    let mut text = LARGE.replace("SLOTS", &slots.to_string());
    let works: Vec<_> =
        map_cases(items).map(|work| MapCase { kind: MapFault::Plain, ..work }).collect();
    for work in &works {
        writeln!(text, "      - {{n: {}}}", work.number).unwrap();
    }
    (text, works)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_items_of_every_kind() {
        let of = |kind| map_cases(200).filter(|work| work.kind == kind).count();
        assert_eq!((of(MapFault::Plain), of(MapFault::Once), of(MapFault::Never)), (140, 15, 22));
        assert_eq!((of(MapFault::Loose), of(MapFault::Agent)), (13, 10));
        assert_eq!(map_cases(200).next().unwrap().id(), "item-001");
        assert_eq!(map_cases(1000).next().unwrap().id(), "item-0001");
        assert!(TEXT.contains(&format!("max_attempts: {ATTEMPTS}\n")));
    }
}
