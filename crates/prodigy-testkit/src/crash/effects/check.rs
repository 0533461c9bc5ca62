//! Checks after each kill, and in the end.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
};

use serde_json::Value;

use super::{
    trial::effects_file,
    workflow::{EffectCase, permanent_effects},
};
use crate::{
    TestEnv,
    crash::{
        CrashTrial, check_processes, repository_checks::check_command_succeeds,
        sequential::parse_journal,
    },
};

/// The state of a job, read from the journal.
#[derive(Debug, Default)]
pub(crate) struct EffectJournal {
    /// True if the job is completed and was not resumed since.
    pub(crate) is_over: bool,
    /// The items that are in the dead letter queue.
    pub(crate) dead: BTreeSet<String>,
    /// Those of them that were under way in three crashes: somebody has to release them.
    pub(crate) quarantined: BTreeSet<String>,
    /// The changes that were about to be made at some time.
    prepared: BTreeSet<String>,
    /// Those of which the end is known: made, or not made.
    known: BTreeSet<String>,
}

impl EffectJournal {
    /// Returns whether nobody knows if a change of an item was made.
    pub(crate) fn is_open(&self, item: &str) -> bool {
        let of_item = format!(":{item}:");
        let is_its = |key: &&String| key.contains(&of_item);
        self.prepared.iter().filter(is_its).any(|key| !self.known.contains(key))
    }

    /// Reads a journal.
    pub(crate) fn read(text: &str) -> Result<Self, String> {
        let mut told = Self::default();
        for record in parse_journal(text)? {
            let text =
                |key: &str| record.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
            let (item, key) = (text("item_id"), text("key"));
            match text("event_type").as_str() {
                "job_completed" => told.is_over = true,
                "job_resumed" => told.is_over = false,
                "item_dead_lettered" => {
                    let reason = record.pointer("/failure/kind").and_then(Value::as_str);
                    if reason == Some("poison_repeat") {
                        told.quarantined.insert(item.clone());
                    }
                    told.dead.insert(item);
                }
                "dlq_item_updated" => drop(told.quarantined.remove(&item)),
                "replay_started" => drop(told.dead.remove(&item)),
                "effect_prepared" => {
                    told.known.remove(&key);
                    told.prepared.insert(key);
                }
                "effect_committed" => drop(told.known.insert(key)),
                "effect_reconciled" => {
                    if matches!(text("finding").as_str(), "committed" | "absent") {
                        told.known.insert(key);
                    } else {
                        told.known.remove(&key);
                    }
                }
                _ => {}
            }
        }
        Ok(told)
    }
}

/// Checks what must hold at any moment, and returns what the journal says.
pub(crate) fn check_now(trial: &CrashTrial, job: &str) -> Result<EffectJournal, String> {
    let told = EffectJournal::read(&trial.records(job))?;
    let text = fs::read_to_string(effects_file(&trial.world)).unwrap();
    check_made(&text, job, &told)?;
    Ok(told)
}

/// Checks that nothing was changed twice, and nothing before there was a record of it.
fn check_made(text: &str, job: &str, told: &EffectJournal) -> Result<(), String> {
    let own = format!("{job}:");
    for (change, keys) in
        effects_made(text).into_iter().filter(|(change, _)| change.starts_with(&own))
    {
        if keys.len() > 1 {
            return Err(format!("{change} was made {} times", keys.len()));
        }
        if let Some(key) = keys.into_iter().find(|key| !told.prepared.contains(*key)) {
            return Err(format!("{change} was made before {key} was recorded"));
        }
    }
    Ok(())
}

/// Returns the changes that were made, with the key of each time.
fn effects_made(text: &str) -> BTreeMap<&str, Vec<&str>> {
    let mut made = BTreeMap::<&str, Vec<&str>>::new();
    for (change, key) in text.lines().filter_map(|line| line.split_once(' ')) {
        made.entry(change).or_default().push(key);
    }
    made
}

/// Checks that whoever came to the end of its steps made all changes of the workflow of then.
fn check_passed(passed: &str, text: &str, job: &str, cases: &[EffectCase]) -> Result<(), String> {
    let own = format!("{job}:");
    let made = effects_made(text);
    for line in passed.lines().filter(|line| line.starts_with(&own)) {
        let mut words = line.split_whitespace();
        let (who, phase) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let names = permanent_effects(cases, phase).iter().copied().chain(words);
        for name in names {
            if !made.contains_key(format!("{who}{name}").as_str()) {
                return Err(format!("{who} came to the end of {phase} without {name}"));
            }
        }
    }
    Ok(())
}

/// Checks everything that must hold once nothing more can be done without a person.
pub(crate) fn check_end(
    trial: &CrashTrial,
    job: &str,
    cases: &[EffectCase],
) -> Result<EffectJournal, String> {
    let world = &trial.world;
    let told = check_now(trial, job)?;
    let text = fs::read_to_string(effects_file(world)).unwrap();
    let passed = fs::read_to_string(world.root().join("ledger/passed")).unwrap_or_default();
    check_passed(&passed, &text, job, cases)?;
    let made = effects_made(&text);
    let is_made = |who: &str, name: &str| made.contains_key(format!("{job}:{who}:{name}").as_str());
    let phases: &[&str] = if cases.is_empty() { &["steps"] } else { &["setup", "reduce"] };
    for name in phases.iter().flat_map(|phase| permanent_effects(cases, phase)) {
        if !is_made("workflow", name) {
            return Err(format!("{name} was never made"));
        }
    }
    for case in cases {
        let id = case.id();
        if told.dead.contains(&id) {
            check_unknown(world, job, *case)?;
        } else if !is_made(&id, "item") {
            return Err(format!("{id} is done, and its change was never made"));
        }
    }
    check_processes(world)?;
    check_command_succeeds(world, &["verify", job])?;
    if cases.is_empty() {
        return Ok(told);
    }
    // What a run that was killed did not get to list is listed by whoever looks.
    check_command_succeeds(world, &["dlq", "list", job, "--all"])?;
    check_command_succeeds(world, &["dlq", "fsck", job, "--dry-run"])?;
    Ok(told)
}

/// Checks that a dead letter is one of which nobody can know more, and says so.
fn check_unknown(world: &TestEnv, job: &str, case: EffectCase) -> Result<(), String> {
    let id = case.id();
    let seen = world.prodigy(&["dlq", "inspect", job, &id]);
    let entry: Value = serde_json::from_str(&seen.stdout)
        .map_err(|error| format!("the entry of {id} cannot be read: {error}\n{seen}"))?;
    let state = entry.get("commit_state").and_then(Value::as_str);
    if !case.can_check && state == Some("unknown") {
        return Ok(());
    }
    Err(format!("{id} is a dead letter in the end, with {state:?}:\n{}", seen.stdout))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(records: &[&str]) -> EffectJournal {
        let lines = records.iter().enumerate();
        let lines = lines.map(|(at, rest)| format!("{{\"seq\":{},{rest}}}", at + 1));
        EffectJournal::read(&lines.collect::<Vec<_>>().join("\n")).unwrap()
    }

    #[test]
    fn what_was_made_twice_or_without_a_record_is_noticed() {
        let told = told(&[r#""event_type":"effect_prepared","key":"j:a:~1""#]);
        assert_eq!(check_made("j:a:item j:a:~1\n", "j", &told), Ok(()));
        let twice = check_made("j:a:item j:a:~1\nj:a:item j:a:~2\n", "j", &told);
        assert_eq!(twice, Err("j:a:item was made 2 times".to_owned()));
        let early = check_made("j:b:item j:b:~1\n", "j", &told);
        assert_eq!(early, Err("j:b:item was made before j:b:~1 was recorded".to_owned()));
        assert_eq!(check_made("other:b:item x\n", "j", &told), Ok(()), "another job");
    }

    #[test]
    fn what_was_passed_over_is_noticed() {
        let cases = crate::crash::effects::workflow::cases(1);
        let outside = "j:a:item j:a:~1\nj:a:extra-2 j:a:extra-2\n";
        let check = |passed: &str| check_passed(passed, outside, "j", &cases);
        assert_eq!(check("j:a: map extra-2\nother:a: map extra-3\n"), Ok(()));
        let forgotten = Err("j:a: came to the end of map without extra-3".to_owned());
        assert_eq!(check("j:a: map extra-2 extra-3\n"), forgotten);
    }

    #[test]
    fn what_was_begun_again_is_not_known() {
        let known = |records: &[&str]| told(records).known.len();
        let prepared = r#""event_type":"effect_prepared","key":"k""#;
        let committed = r#""event_type":"effect_committed","key":"k""#;
        let partial = r#""event_type":"effect_reconciled","key":"k","finding":"partial""#;
        assert_eq!(known(&[prepared]), 0);
        assert_eq!(known(&[prepared, committed]), 1);
        assert_eq!(known(&[prepared, committed, prepared]), 0);
        assert_eq!(known(&[prepared, committed, partial]), 0);
    }
}
