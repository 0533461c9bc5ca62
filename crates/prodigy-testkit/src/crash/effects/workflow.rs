//! The workflow whose steps change something outside, and how it is changed on the way.

use std::{collections::BTreeSet, fmt::Write as _};

use crate::crash::{CrashTrial, repository_checks::item_id};

/// The head of a workflow with items, before its steps.
const POLICY: &str = "name: crash-effects
mode: mapreduce
error_policy:
  on_item_failure: dlq
  retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 1ms } }
";

/// Changes something outside. `LEDGER` is a directory outside of the repository.
const MAKE: &str = "sh \"$LEDGER/make\"";

/// Says whether it was changed.
const CHECK: &str = "grep -q \" $PRODIGY_IDEMPOTENCY_KEY$\" \"$LEDGER/outside\" && echo found";

/// The program that changes something outside; it fails once before or after the change if it
/// is told to.
pub(crate) const PROGRAM: &str = "\
    once() { test \"$HOW\" = \"$1\" && mkdir \"$LEDGER/$NAME.$N.$1\" 2> /dev/null; }\n\
    sleep \"0.0$((N % 5))\"\n\
    once before && exit 3\n\
    echo \"$PRODIGY_JOB_ID:$PRODIGY_ITEM_ID:$NAME $PRODIGY_IDEMPOTENCY_KEY\" >> \"$LEDGER/outside\"\n\
    sleep \"0.0$((N % 7))\"\n\
    once after && exit 4\n\
    echo \"made $N\"\n";

/// One of the items.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EffectCase {
    number: u32,
    items: u32,
    /// True if its step has a `check` for the side effect.
    pub(crate) can_check: bool,
}

impl EffectCase {
    /// Returns the id that prodigy gives it.
    pub(crate) fn id(self) -> String {
        item_id(self.number, self.items)
    }

    /// Returns where it fails once.
    fn failure_point(self) -> &'static str {
        match self.number % 6 {
            2 => "before",
            4 | 5 => "after",
            _ => "none",
        }
    }
}

/// Returns the items of a job of this size.
pub(crate) fn cases(items: u32) -> Vec<EffectCase> {
    (1..=items).map(|number| EffectCase { number, items, can_check: number % 3 != 0 }).collect()
}

/// The changes that every job makes, whatever its workflow is changed to, by phase.
pub(crate) fn permanent_effects(cases: &[EffectCase], phase: &str) -> &'static [&'static str] {
    match phase {
        "steps" => &["one", "two", "three"],
        "setup" => &["begin"],
        "reduce" => &["end"],
        _ if cases.is_empty() => &[],
        _ => &["item"],
    }
}

/// The steps that are in the workflow for some time, by number.
pub(crate) type Extras = BTreeSet<u64>;

/// One text of the workflow.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkflowVariant {
    /// The text.
    pub(crate) text: String,
    /// The steps that are not always there and make a change.
    pub(crate) extras: Extras,
}

impl WorkflowVariant {
    /// Returns the workflow as a job begins with it; without items it has steps only.
    pub(crate) fn first(trial: &mut CrashTrial, cases: &[EffectCase]) -> Self {
        Self::build(trial, cases, Extras::new())
    }

    /// Returns the workflow with steps inserted and removed.
    pub(crate) fn with_changed_steps(&self, trial: &mut CrashTrial, cases: &[EffectCase]) -> Self {
        let mut extras = self.extras.clone();
        let number = trial.random_below(4);
        if !extras.insert(number) {
            extras.remove(&number);
        }
        Self::build(trial, cases, extras)
    }

    fn build(trial: &mut CrashTrial, cases: &[EffectCase], extras: Extras) -> Self {
        let own = |name: &str, number: u32| effect_step(name, number, "none", true, "");
        if cases.is_empty() {
            let steps = vec![own("one", 3), own("two", 4), own("three", 9)];
            let text = list(trial, "steps", steps, &extras);
            return Self { text, extras };
        }
        let commit = "- shell: |\n    sleep \"0.0$((N % 4))\"\n    echo \"$N\" > \"$N.txt\"\n    \
                      git add --all && git commit --quiet --message \"work on $N\"\n  \
                      env: { N: \"${item.n}\" }\n";
        let of_item = |kind: &str| {
            let when = format!("  when: item.kind == '{kind}'\n");
            let text = effect_step("item", 0, "${item.how}", kind == "checked", &when);
            text.replace("N: 0", "N: \"${item.n}\"")
        };
        let items = vec![of_item("checked"), of_item("unchecked"), commit.to_owned()];
        let mut text = POLICY.to_owned();
        for (phase, steps) in [("setup", own("begin", 3)), ("reduce", own("end", 4))] {
            let steps = list(trial, phase, vec![steps], &extras);
            write!(text, "{phase}:\n{}", indented(&steps, "  ")).unwrap();
        }
        let steps = list(trial, "map", items, &extras);
        let steps = indented(&steps, "    ");
        write!(text, "map:\n  max_parallel: 4\n  agent_template:\n{steps}").unwrap();
        text += "  input:\n    items:\n";
        for case in cases {
            let kind = if case.can_check { "checked" } else { "unchecked" };
            let (number, how) = (case.number, case.failure_point());
            writeln!(text, "      - {{n: {number}, kind: {kind}, how: {how}}}").unwrap();
        }
        Self { text, extras }
    }
}

/// Returns a step that makes a change.
fn effect_step(name: &str, number: u32, how: &str, can_check: bool, more: &str) -> String {
    let check = if can_check { format!("  check: {CHECK}\n") } else { String::new() };
    format!(
        "- shell: {MAKE}\n  effects: external\n{check}{more}  \
         env: {{ NAME: {name}, N: {number}, HOW: \"{how}\" }}\n"
    )
}

/// Returns the steps with others between them that change nothing, or something else; the last
/// one says how far it came.
fn list(trial: &mut CrashTrial, phase: &str, steps: Vec<String>, extras: &Extras) -> String {
    let mut steps = steps;
    for number in extras {
        let at = trial.random_below(steps.len() as u64 + 1);
        let id = format!("  id: {phase}-{number}\n");
        let id = if number % 2 == 0 { id.as_str() } else { "" };
        let extra = effect_step(&format!("{phase}-{number}"), 1, "none", true, id);
        steps.insert(usize::try_from(at).unwrap(), extra);
    }
    for _ in 0..trial.random_below(3) {
        let at = trial.random_below(steps.len() as u64 + 1);
        let pad = format!("- shell: 'sleep 0.0{}'\n", trial.random_below(4));
        steps.insert(usize::try_from(at).unwrap(), pad);
    }
    let names: Vec<String> = extras.iter().map(|number| format!("{phase}-{number}")).collect();
    let names = names.join(" ");
    steps.push(format!(
        "- shell: 'echo \"$PRODIGY_JOB_ID:$PRODIGY_ITEM_ID: {phase} {names}\" >> \"$LEDGER/passed\"'\n"
    ));
    steps.concat()
}

fn indented(text: &str, by: &str) -> String {
    text.lines().flat_map(|line| [by, line, "\n"]).collect()
}
