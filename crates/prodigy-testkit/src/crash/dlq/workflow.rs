//! The workflow whose items die and are replayed.

use std::fmt::Write as _;

use crate::crash::{
    failed_work::FailedItemWork,
    repository_checks::{ItemCommit, item_id},
};

/// Everything but the items. `LEDGER` is a directory outside of the repository.
///
/// The policy for the dead letters: those that are forced need manual review.
pub(crate) const POLICY: &str = "version: v1
dlq_rules:
  - match: { reason_code: [schema_invalid, poison_repeat] }
    action: manual_review
";

/// Each step holds a lock for as long as any process of it lives: if the lock is
/// taken, another attempt at the item is still at work.
const TEXT: &str = r#"name: crash-dlq
mode: mapreduce
error_policy:
  on_item_failure: dlq
reduce:
  - shell: |
      echo ${map.successful} of ${map.total} >> reduced.txt
      sleep 0.1
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
        test "$PRODIGY_ATTEMPT" -lt "$FROM" || exit 0
        case "$KIND" in
          plain)
            echo "note $N" > "own/$N.note"
            git add "own/$N.note" && git commit --quiet --message "note on $N"
            exit 3 ;;
          invalid | refused) echo '{"reason_code": "schema_invalid"}' > "$PRODIGY_RESULT_FILE"; exit 4 ;;
        esac
      env:
        N: ${item.n}
        KIND: ${item.kind}
        FROM: ${item.from}
    - shell: |
        exec 9>> "$LEDGER/$PRODIGY_ITEM_ID.lock"
        flock --nonblock 9 || echo "overlap $PRODIGY_ITEM_ID $PRODIGY_ATTEMPT" >> "$LEDGER/ledger"
        test "$PRODIGY_ATTEMPT" -ge "$FROM" || sleep 30
      when: item.kind == 'slow'
      timeout: 200ms
      env:
        FROM: ${item.from}
    - shell: |
        exec 9>> "$LEDGER/$PRODIGY_ITEM_ID.lock"
        flock --nonblock 9 || echo "overlap $PRODIGY_ITEM_ID $PRODIGY_ATTEMPT" >> "$LEDGER/ledger"
        set -e
        echo "second $N" >> "own/$N.txt"
        git add --all
        git commit --quiet --message "work on $N"
        echo "end $PRODIGY_ITEM_ID $PRODIGY_ATTEMPT" >> "$LEDGER/ledger"
      env:
        N: ${item.n}
  input:
    items:
"#;

/// The way in which an item fails, until its first successful attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DlqFault {
    /// With an exit code; it may be replayed.
    Plain,
    /// By taking too long; it may be replayed. On a busy machine it may fail once more.
    Slow,
    /// With a reason that speaks against a replay; it is forced.
    Invalid,
    /// The same, and nobody forces it: it is never replayed.
    Refused,
}

/// One of the items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DlqCase {
    number: u32,
    items: u32,
    /// The way in which it fails.
    pub(crate) fault: DlqFault,
    /// The first attempt that succeeds.
    pub(crate) from: u32,
}

impl DlqCase {
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
            subject: format!("work on {number}"),
            is_done,
        }
    }

    /// Returns what it leaves when it dies.
    pub(crate) fn failed_item_work(self) -> FailedItemWork {
        let number = self.number;
        let note = || (format!("own/{number}.note"), format!("note {number}\n"));
        FailedItemWork {
            uncommitted: (format!("own/{number}.txt"), format!("first {number}\n")),
            committed: (self.fault == DlqFault::Plain).then(note),
        }
    }

    /// Returns whether it stays a dead letter.
    pub(crate) fn stays_dead(self) -> bool {
        self.fault == DlqFault::Refused && self.from > 1
    }
}

/// Returns the items of a job of this size.
pub(crate) fn cases(items: u32) -> Vec<DlqCase> {
    let case = |number: u32| {
        let fault = match number % 10 {
            2 | 6 => DlqFault::Slow,
            4 | 8 => DlqFault::Invalid,
            0 => DlqFault::Refused,
            _ => DlqFault::Plain,
        };
        DlqCase { number, items, fault, from: 1 + (number * 7 / 3) % 4 }
    };
    (1..=items).map(case).collect()
}

/// Returns the workflow with these items.
pub(crate) fn text(cases: &[DlqCase]) -> String {
    let mut text = TEXT.to_owned();
    for case in cases {
        let kind = match case.fault {
            DlqFault::Plain => "plain",
            DlqFault::Slow => "slow",
            DlqFault::Invalid => "invalid",
            DlqFault::Refused => "refused",
        };
        let (number, from) = (case.number, case.from);
        writeln!(text, "      - {{n: {number}, kind: {kind}, from: {from}}}").unwrap();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn there_are_items_that_fail_in_every_way_and_any_number_of_times() {
        let mut counts: BTreeMap<String, [u32; 4]> = BTreeMap::new();
        for case in cases(40) {
            let counts = counts.entry(format!("{:?}", case.fault)).or_default();
            counts[case.from as usize - 1] += 1;
        }
        insta::assert_debug_snapshot!(counts, @r#"
        {
            "Invalid": [
                3,
                2,
                2,
                1,
            ],
            "Plain": [
                3,
                6,
                4,
                7,
            ],
            "Refused": [
                0,
                1,
                2,
                1,
            ],
            "Slow": [
                4,
                1,
                2,
                1,
            ],
        }
        "#);
    }
}
