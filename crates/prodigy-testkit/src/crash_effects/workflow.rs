//! The workflow whose steps change something outside.

use std::fmt::Write as _;

use crate::repository::item_id;

/// Everything but the items. `LEDGER` is a directory outside of the repository.
///
/// What is shared by the steps stands in `MAKE`: a step fails once before or after the change
/// if it is told to.
const TEXT: &str = r#"name: crash-effects
mode: mapreduce
error_policy:
  on_item_failure: dlq
  retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 1ms } }
setup:
  - shell: MAKE
    effects: external
    check: CHECK
    env: { N: 3, HOW: none }
reduce:
  - shell: MAKE
    effects: external
    check: CHECK
    env: { N: 4, HOW: none }
map:
  max_parallel: 4
  agent_template:
    - shell: sleep "0.0$((N % 3))"
      env: { N: "${item.n}" }
    - shell: MAKE
      effects: external
      check: CHECK
      when: item.kind == 'checked'
      env: { N: "${item.n}", HOW: "${item.how}" }
    - shell: MAKE
      effects: external
      when: item.kind == 'unchecked'
      env: { N: "${item.n}", HOW: "${item.how}" }
    - shell: |
        sleep "0.0$((N % 4))"
        echo "$N" > "$N.txt"
        git add --all && git commit --quiet --message "work on $N"
      env: { N: "${item.n}" }
  input:
    items:
"#;

/// Changes something outside.
const MAKE: &str = "sh \"$LEDGER/make\"";

/// Says whether it was changed.
const CHECK: &str = "grep -qxF \"$PRODIGY_IDEMPOTENCY_KEY\" \"$LEDGER/outside\" && echo found";

/// The program that changes something outside.
pub(super) const PROGRAM: &str = "\
    once() { test \"$HOW\" = \"$1\" && mkdir \"$LEDGER/$N.$1\" 2> /dev/null; }\n\
    sleep \"0.0$((N % 5))\"\n\
    once before && exit 3\n\
    echo \"$PRODIGY_IDEMPOTENCY_KEY\" >> \"$LEDGER/outside\"\n\
    sleep \"0.0$((N % 7))\"\n\
    once after && exit 4\n\
    echo \"made $N\"\n";

/// One of the items.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    number: u32,
    items: u32,
    /// Whether its change can be looked for.
    pub(super) can_check: bool,
}

impl Case {
    /// Returns the id that prodigy gives it.
    pub(super) fn id(self) -> String {
        item_id(self.number, self.items)
    }

    /// Returns the name of its change.
    pub(super) fn key(self, job: &str) -> String {
        let step = if self.can_check { 2 } else { 3 };
        format!("{job}:{}:{step}", self.id())
    }

    /// Returns where it fails once.
    fn how(self) -> &'static str {
        match self.number % 6 {
            2 => "before",
            4 | 5 => "after",
            _ => "none",
        }
    }
}

/// Returns the items of a job of this size.
pub(super) fn cases(items: u32) -> Vec<Case> {
    (1..=items).map(|number| Case { number, items, can_check: number % 3 != 0 }).collect()
}

/// Returns the names of the changes that the steps of the job itself make.
pub(super) fn own_keys(job: &str) -> [String; 2] {
    ["setup.1", "reduce.1"].map(|step| format!("{job}:workflow:{step}"))
}

/// Returns the workflow with these items.
pub(super) fn text(cases: &[Case]) -> String {
    let mut text = TEXT.replace("MAKE", MAKE).replace("CHECK", CHECK);
    for case in cases {
        let kind = if case.can_check { "checked" } else { "unchecked" };
        let (number, how) = (case.number, case.how());
        writeln!(text, "      - {{n: {number}, kind: {kind}, how: {how}}}").unwrap();
    }
    text
}
