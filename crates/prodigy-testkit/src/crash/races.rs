//! Two replays of one dead letter at once, many times: one of them takes it.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{Child, Stdio},
    time::{Duration, Instant},
};

use serde_json::Value;

use crate::{TestEnv, crash::TrialFailure};

const JOB: &str = "races";

/// The longest that one race may take.
const PATIENCE: Duration = Duration::from_secs(120);
const PAUSE: Duration = Duration::from_millis(2);

/// The workflow; its side effect is a line in a file, which shows how often it was done.
const WORKFLOW: &str = r#"
name: races
mode: mapreduce
map:
  input: items.json
  json_path: "$[*]"
  item_key: item.id
  max_parallel: 20
  isolation: shared
  agent_template:
    - name: reach it
      shell: |
        test -e "$OUTSIDE/up" || {
          echo "curl: (7) Failed to connect to api.example port 443: Connection refused" >&2
          exit 7
        }
    - id: announce
      name: announce
      effects: external
      shell: echo "$PRODIGY_IDEMPOTENCY_KEY" >> "$OUTSIDE/effects"
"#;

/// Races that went well.
#[derive(Clone, Copy, Debug)]
pub struct RaceReport {
    /// The number of races.
    pub races: u32,
    /// The number of races in which one replay reported that it waited for the other.
    pub met: u32,
    /// The duration of all races.
    pub duration: Duration,
}

/// Lets two replayers race for each of many dead letters, one after the other, and checks that
/// each was claimed once, that its effect was made once, and that the audit trail says so.
pub fn run_races(binary: &Path, races: u32) -> Result<RaceReport, Box<TrialFailure>> {
    let world = TestEnv::with_repo(binary);
    let outside = world.root().join("outside");
    fs::create_dir(&outside).unwrap();
    let world = world.env("OUTSIDE", &outside.to_string_lossy());
    run(&world, &outside, races).map_err(|message| {
        let transcript = world.prodigy(&["events", JOB]).to_string();
        Box::new(TrialFailure { message, transcript, world })
    })
}

fn run(world: &TestEnv, outside: &Path, races: u32) -> Result<RaceReport, String> {
    let names: Vec<String> = (1..=races).map(|number| format!("n{number}")).collect();
    let items: Vec<Value> = names.iter().map(|name| serde_json::json!({ "id": name })).collect();
    world.write("items.json", Value::from(items).to_string());
    world.write("races.yml", WORKFLOW);
    world.commit_all("workflow");
    let first = world.prodigy(&["run", "races.yml", "-y", "--job-id", JOB]);
    // All items fail at first.
    if first.code != Some(1) {
        return Err(format!("the job could not be run: {first}"));
    }
    fs::write(outside.join("up"), "").unwrap();
    let began = Instant::now();
    let mut met = 0;
    for name in &names {
        met += run_race(world, name)?;
    }
    let duration = began.elapsed();
    check_claims(world, &names)?;
    check_effects(outside, &names)?;
    check_trail(world, &names)?;
    Ok(RaceReport { races, met, duration })
}

/// Starts two replays of one entry; returns 1 if one of them had to wait for the other.
fn run_race(world: &TestEnv, item: &str) -> Result<u32, String> {
    let start = |number: u32| -> Child {
        let log = fs::File::create(world.root().join(format!("racer-{number}"))).unwrap();
        let mut command = world.prodigy_command(&["dlq", "retry", JOB, item, "-y"]);
        command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
    };
    let racers = [start(1), start(2)];
    for mut racer in racers {
        let began = Instant::now();
        while racer.try_wait().unwrap().is_none() {
            if began.elapsed() > PATIENCE {
                racer.kill().unwrap();
                racer.wait().unwrap();
                return Err(format!("a replay of {item} did not end"));
            }
            std::thread::sleep(PAUSE);
        }
    }
    let said = |number: u32| {
        fs::read_to_string(world.root().join(format!("racer-{number}"))).unwrap_or_default()
    };
    let waited = [said(1), said(2)].iter().any(|text| text.contains("waiting until it is done"));
    Ok(u32::from(waited))
}

/// Checks that the journal holds one claim of each entry.
fn check_claims(world: &TestEnv, names: &[String]) -> Result<(), String> {
    let events = world.prodigy(&["events", JOB, "--json", "--type", "replay_started"]).stdout;
    let mut claims: BTreeMap<String, u32> = BTreeMap::new();
    for line in events.lines() {
        let record: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let item = record.get("item_id").and_then(Value::as_str).unwrap_or_default();
        *claims.entry(item.to_owned()).or_default() += 1;
    }
    check_exactly_once(&claims, names, str::to_owned, "claimed")
}

/// Checks that the world outside was changed once for each entry.
fn check_effects(outside: &Path, names: &[String]) -> Result<(), String> {
    let text = fs::read_to_string(outside.join("effects")).unwrap_or_default();
    let mut effects: BTreeMap<String, u32> = BTreeMap::new();
    for line in text.lines() {
        *effects.entry(line.to_owned()).or_default() += 1;
    }
    check_exactly_once(&effects, names, |name| format!("{JOB}:{name}:announce"), "announced")
}

/// Checks that the audit trail holds one intent for each entry, and is whole.
fn check_trail(world: &TestEnv, names: &[String]) -> Result<(), String> {
    let verified = world.prodigy(&["audit", "verify"]);
    if verified.code != Some(0) {
        return Err(format!("the audit trail is not whole: {verified}"));
    }
    let shown = world.prodigy(&["audit", "show", "--json", "--action", "replay"]).stdout;
    let document: Value = serde_json::from_str(&shown).map_err(|error| error.to_string())?;
    let records = document.get("records").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut intents: BTreeMap<String, u32> = BTreeMap::new();
    for record in records.iter().filter(|record| record["outcome"] == "intended") {
        *intents.entry(record["entry"].as_str().unwrap_or_default().to_owned()).or_default() += 1;
    }
    check_exactly_once(&intents, names, str::to_owned, "recorded")
}

/// Checks that everything expected is there exactly once, and nothing else.
fn check_exactly_once(
    counted: &BTreeMap<String, u32>,
    names: &[String],
    key: impl Fn(&str) -> String,
    what: &str,
) -> Result<(), String> {
    for name in names {
        let times = counted.get(&key(name)).copied().unwrap_or(0);
        if times != 1 {
            return Err(format!("{name} was {what} {times} times"));
        }
    }
    if counted.len() == names.len() {
        return Ok(());
    }
    Err(format!("{} were {what}, not {}", counted.len(), names.len()))
}
