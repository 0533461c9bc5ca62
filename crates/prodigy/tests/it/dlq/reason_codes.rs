//! Why items die: the reason codes of their dead letters, and what tells them apart.
#![expect(clippy::indexing_slicing, reason = "what is not there fails the test")]

use std::{collections::BTreeMap, fmt::Write as _};

use insta::assert_snapshot;
use prodigy_core::failure::{ReasonCode, signature::ErrorSignature};
use prodigy_testkit::TestEnv;
use serde_json::{Value, json};

use crate::fixture::map_job::{assert_code, go, map_world};

/// Returns the failures of the dead letters, by item, as `prodigy events` shows them.
fn letters(world: &TestEnv) -> BTreeMap<String, Value> {
    let seen = world.prodigy(&["events", "job", "--type", "item_dead_lettered", "--json"]);
    assert_code(&seen, 0);
    let records = seen.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of = |record: Value| (record["item_id"].as_str().unwrap().to_owned(), record);
    records.map(of).map(|(item, record)| (item, record["failure"].clone())).collect()
}

/// Runs each script as an item of one job, and returns the code and the message of each.
fn died_of(scripts: &[&str]) -> Vec<(String, String)> {
    let numbers: Vec<_> = (1..=scripts.len()).collect();
    let mut cases = String::new();
    for (number, script) in numbers.iter().zip(scripts) {
        write!(cases, "\n          {number}) {script} ;;").unwrap();
    }
    let world = map_world(&format!(
        r#"
map:
  input: {{ items: {} }}
  max_parallel: 2
  agent_template:
    - name: work
      shell: |
        case "${{item}}" in{cases}
        esac
      timeout: 3s
      idle_timeout: 2s
"#,
        json!(numbers)
    ));
    assert_code(&go(&world), 1);
    let letters = letters(&world);
    (1..=scripts.len())
        .map(|number| {
            let failure = &letters[&format!("item-{number:03}")];
            let text = |name: &str| failure[name].as_str().unwrap().to_owned();
            (text("kind"), text("message").replace(&world.root().display().to_string(), "$ROOT"))
        })
        .collect()
}

fn shown(scripts: &[&str]) -> String {
    let mut table = String::new();
    for (script, (code, message)) in scripts.iter().zip(died_of(scripts)) {
        writeln!(table, "{script}\n    {code}: {message}").unwrap();
    }
    table
}

#[test]
fn a_step_can_name_every_code_there_is() {
    let world = map_world(&format!(
        r#"
map:
  input: {{ items: {} }}
  max_parallel: 4
  agent_template:
    - shell: printf '{{"reason_code":"%s"}}' "${{item}}" > "$PRODIGY_RESULT_FILE"; exit 3
"#,
        json!(ReasonCode::CODES)
    ));
    assert_code(&go(&world), 1);
    let codes: Vec<_> = letters(&world).values().map(|failure| failure["kind"].clone()).collect();
    assert_eq!(codes, ReasonCode::CODES);
}

#[test]
fn a_code_that_there_is_not_is_answered_with_the_nearest() {
    let name =
        |code: &str| format!("echo '{{\"reason_code\":{code}}}' > $PRODIGY_RESULT_FILE; exit 3");
    let scripts = [name("\"rate-limited\""), name("\"nonsense\""), name("17")];
    let scripts: Vec<_> = scripts.iter().map(String::as_str).collect();
    assert_snapshot!(shown(&scripts), @r#"
        echo '{"reason_code":"rate-limited"}' > $PRODIGY_RESULT_FILE; exit 3
            unclassified: exit code 3; there is no reason code `rate-limited`; did you mean `rate_limited`?
        echo '{"reason_code":"nonsense"}' > $PRODIGY_RESULT_FILE; exit 3
            unclassified: exit code 3; there is no reason code `nonsense`
        echo '{"reason_code":17}' > $PRODIGY_RESULT_FILE; exit 3
            unclassified: exit code 3; there is no reason code `17`
        "#);
}

#[test]
fn what_a_step_named_counts_for_one_try() {
    let world = map_world(
        r#"
map:
  input: { items: [one] }
  agent_template:
    - shell: |
        if mkdir ROOT/once; then
          echo '{"reason_code":"rate_limited"}' > "$PRODIGY_RESULT_FILE"; sleep 20
        fi
        exit 3
      timeout: 2s
error_policy: { retry_config: { max_attempts: 2, backoff: { type: fixed, delay: 1ms } } }
"#,
    );
    assert_code(&go(&world), 1);
    assert_eq!(letters(&world)["item-001"]["kind"], "command_failed");
}

#[test]
fn the_end_of_a_process_gives_the_code() {
    assert_snapshot!(shown(&[
        "exit 1",
        "exit 66",
        "exit 69",
        "exit 75",
        "exit 77",
        "timeout 0.1 sleep 5",
        "exec 2>&-; touch program; ./program",
        "exec 2>&-; no-such-program --at-all",
        "kill -9 $$",
        "kill -11 $$",
        "exec 2>&-; sh -c 'kill -9 $$'",
        "exec 2>&-; ulimit -f 1; head -c 100000 /dev/zero > big",
        "sleep 30",
        "while sleep 0.1; do echo busy; done",
    ]), @"
        exit 1
            command_failed: `work` failed with exit code 1
        exit 66
            input_missing: `work` failed with exit code 66
        exit 69
            dependency_unavailable: `work` failed with exit code 69
        exit 75
            dependency_unavailable: `work` failed with exit code 75
        exit 77
            permission_denied: `work` failed with exit code 77
        timeout 0.1 sleep 5
            timeout: `work` failed with exit code 124
        exec 2>&-; touch program; ./program
            permission_denied: `work` failed with exit code 126
        exec 2>&-; no-such-program --at-all
            spawn_failed: `work` failed with exit code 127
        kill -9 $$
            command_failed: `work` was ended by signal 9
        kill -11 $$
            command_failed: `work` was ended by signal 11
        exec 2>&-; sh -c 'kill -9 $$'
            command_failed: `work` failed with exit code 137
        exec 2>&-; ulimit -f 1; head -c 100000 /dev/zero > big
            disk_full: `work` failed with exit code 153
        sleep 30
            stalled: printed nothing for 2s
        while sleep 0.1; do echo busy; done
            timeout: still running after 3s
        ");
}

#[test]
fn what_a_command_printed_last_gives_the_code_if_nothing_else_does() {
    assert_snapshot!(shown(&[
        "echo 'fatal: unable to access: Could not resolve host: git.example.com' >&2; exit 128",
        "echo 'cp: cannot write: No space left on device' >&2; exit 1",
        "echo 'curl: (22) The requested URL returned error: 429' >&2; exit 22",
        "echo 'remote: HTTP 503' >&2; exit 1",
        "echo 'permission denied' >&2; exit 127",
        "echo 'connection refused'; echo 'test result: FAILED. 429 passed; 1 failed'; exit 101",
    ]), @"
        echo 'fatal: unable to access: Could not resolve host: git.example.com' >&2; exit 128
            network_error: `work` failed with exit code 128: fatal: unable to access: Could not resolve host: git.example.com
        echo 'cp: cannot write: No space left on device' >&2; exit 1
            disk_full: `work` failed with exit code 1: cp: cannot write: No space left on device
        echo 'curl: (22) The requested URL returned error: 429' >&2; exit 22
            rate_limited: `work` failed with exit code 22: curl: (22) The requested URL returned error: 429
        echo 'remote: HTTP 503' >&2; exit 1
            dependency_unavailable: `work` failed with exit code 1: remote: HTTP 503
        echo 'permission denied' >&2; exit 127
            spawn_failed: `work` failed with exit code 127: permission denied
        echo 'connection refused'; echo 'test result: FAILED. 429 passed; 1 failed'; exit 101
            command_failed: `work` failed with exit code 101: connection refused
        ");
}

#[test]
fn an_agent_dies_of_what_it_reported() {
    let world = map_world(
        r#"
retry_config: { max_attempts: 1 }
agents:
  there: { type: command, command: [ROOT/agent] }
  claude:
    type: simulated
    rules:
      - { prompt: overload, fault: error, answer: 'API Error: 529 Overloaded' }
      - { prompt: broken, fault: error, answer: 'I lost my way' }
      - { prompt: crash, fault: crash }
map:
  input: { items: [limit, "off", gone, overload, broken, crash] }
  max_parallel: 1
  agent_template:
    - shell: 'case ${item} in off) chmod 600 ROOT/agent;; gone) rm ROOT/agent;; esac'
    - agent: { use: there, prompt: "${item}" }
      when: item == "limit" || item == "off" || item == "gone"
    - claude: "${item}"
"#,
    );
    let agent = world.root().join("agent");
    std::fs::write(&agent, "#!/bin/sh\necho 'You have hit the rate limit. HTTP 429' >&2\nexit 1\n")
        .unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&agent, mode).unwrap();
    assert_code(&go(&world), 1);
    let root = world.root().display().to_string();
    let lines = letters(&world).into_iter().map(|(item, failure)| {
        let text = |name: &str| failure[name].as_str().unwrap().replace(&root, "$ROOT");
        format!("{item} {}: {}", text("kind"), text("message"))
    });
    assert_snapshot!(lines.collect::<Vec<_>>().join("\n"), @"
    item-001 rate_limited: the agent exited with code 1: You have hit the rate limit. HTTP 429
    item-002 permission_denied: cannot start `$ROOT/agent`: Permission denied (os error 13)
    item-003 spawn_failed: cannot start `$ROOT/agent`: No such file or directory (os error 2)
    item-004 provider_overloaded: API Error: 529 Overloaded
    item-005 agent_error: I lost my way
    item-006 agent_crashed: the agent was ended by signal 9
    ");
}

#[test]
fn failures_of_one_cause_have_one_signature_and_no_others_have_it() {
    let world = map_world(
        r#"
map:
  input:
    items:
      - { file: a.rs, says: 'error[E0308]: mismatched types' }
      - { file: b.rs, says: 'error[E0308]: mismatched types' }
      - { file: c.rs, says: 'error[E0425]: cannot find value' }
      - { file: d.rs, says: '' }
  max_parallel: 1
  agent_template:
    - name: cargo check
      shell: |
        printf '%s\n  --> %s:7:1\nerror: could not compile `it` due to 1 previous error\n' "${item.says}" "${item.file}" >&2
        test -n "${item.says}" || kill -9 $$
        exit 101
"#,
    );
    assert_code(&go(&world), 1);
    let patterns = letters(&world).into_iter().map(|(item, failure)| {
        let failure = serde_json::from_value(failure).unwrap();
        ErrorSignature::of(&failure, &item.parse().unwrap()).pattern
    });
    assert_snapshot!(patterns.collect::<Vec<_>>().join("\n"), @"
        CommandFailed::cargo check failed with exit code <n>: error[E0308]: mismatched types
        CommandFailed::cargo check failed with exit code <n>: error[E0308]: mismatched types
        CommandFailed::cargo check failed with exit code <n>: error[E0425]: cannot find value
        CommandFailed::cargo check was ended by signal <n>: error: could not compile <q> due to <n> previous error
        ");
}

/// Returns the text of all source files below a directory, without their tests.
fn sources(directory: &std::path::Path, text: &mut String) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, text);
        } else if path.extension().is_some_and(|kind| kind == "rs")
            && !["tests.rs", "error_type.rs", "advice.rs"].contains(&name.as_str())
            // The declarations of the codes produce none.
            && !path.ends_with("failure/mod.rs")
        {
            let file = std::fs::read_to_string(&path).unwrap();
            text.push_str(file.split("#[cfg(test)]").next().unwrap());
        }
    }
}

#[test]
fn codes_that_only_steps_set_are_those_that_nothing_produces() {
    let crates = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut text = String::new();
    for name in ["prodigy-core", "prodigy-engine", "prodigy"] {
        sources(&crates.join(name).join("src"), &mut text);
    }
    let page = std::fs::read_to_string(crates.join("../docs/reference/failure-codes.md")).unwrap();
    // What a policy decides is set where it is decided.
    let kinds = ReasonCode::ALL.iter().filter(|kind| {
        kind.class() != prodigy_core::failure::ReasonClass::Policy
            || **kind == ReasonCode::SecretDetected
    });
    for kind in kinds {
        let is_produced = text.contains(&format!("ReasonCode::{kind:?}"));
        let row = page.lines().find(|line| line.starts_with(&format!("| `{kind}` |"))).unwrap();
        let is_marked = row.contains("Only a step sets it");
        assert_ne!(is_produced, is_marked, "{row}");
    }
}
