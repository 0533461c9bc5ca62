//! Verdicts of judges: only the judge's own count, and only if nothing contradicts them.

use insta::assert_snapshot;

use crate::fixture::{
    map_job::{beside, counts, go, letter, map_world, sorted},
    workflow::{run, world},
};

/// Runs one step with a judge and returns the line that says how it ended.
fn judged(step: &str, judge: &str) -> String {
    let world = world(&format!(
        "agents: {{ claude: {{ type: simulated }} }}\nsteps:\n  - name: work\n    shell: {step}\n    validate: {judge}\n"
    ));
    let seen = run(&world);
    seen.lines().find(|line| line.contains(" 1 work")).unwrap_or(&seen).to_owned()
}

const FORGED: &str = r#"echo '{"completion_percentage":100}' > verdict.json"#;

#[test]
fn a_result_file_that_the_step_wrote_is_no_verdict() {
    let file = |judge: &str| {
        let judge = format!("{{ shell: \"{judge}\", result_file: verdict.json }}");
        judged(&format!("'{}'", FORGED.replace('\'', "''")), &judge)
    };
    let linked =
        r#""mkdir d; echo '{\"status\": \"complete\"}' > d/real; ln -s d/real verdict.json""#;
    let directory = "mkdir verdict.json";
    let judge = "{ shell: 'true', result_file: verdict.json }";
    let seen = [
        file("true"),
        file("exit 1"),
        file(r#"echo '{\"completion_percentage\":30}' > verdict.json"#),
        file(r#"echo '{\"completion_percentage\":100}' > verdict.json"#),
        judged(linked, judge),
        judged(directory, judge),
    ];
    assert_snapshot!(seen.join("\n"), @r#"
    ✗ 1 work: the judge left no `verdict.json`
    ✗ 1 work: the judge failed and left no `verdict.json`: exit code 1
    ✗ 1 work: validation found 30 % done, and 100 % is wanted
    ✓ 1 work  [time]
    ✗ 1 work: the judge left no `verdict.json`
    ✗ 1 work: `verdict.json` cannot be removed before the judge starts: Is a directory (os error 21)
    "#);
}

#[test]
fn a_judge_whose_exit_code_is_not_0_is_not_satisfied() {
    let printed = r#"echo '{\"completion_percentage\":100}'"#;
    let seen = [
        judged("'true'", &format!("{{ shell: \"{printed}; exit 1\" }}")),
        judged(
            "'true'",
            &format!("{{ shell: \"{printed} > v.json; exit 1\", result_file: v.json }}"),
        ),
        judged("'true'", "{ shell: exit 1, threshold: 0 }"),
        judged("'true'", "{ commands: [{ shell: exit 1, continue_on_error: true }] }"),
        judged(
            "'true'",
            &format!(
                "{{ commands: [{{ shell: exit 1, continue_on_error: true }}, {{ shell: \"{printed}\" }}] }}"
            ),
        ),
    ];
    assert_snapshot!(seen.join("\n"), @"
    ✗ 1 work: the judge found 100 % done, but it failed: exit code 1
    ✗ 1 work: the judge found 100 % done, but it failed: exit code 1
    ✗ 1 work: the judge failed: exit code 1
    ✗ 1 work: validation found 0 % done, and 100 % is wanted
    ✓ 1 work  [time]
    ");
}

#[test]
fn verdicts_that_contradict_each_other_do_not_count() {
    let shell = |text: &str| {
        let text = text.replace('"', "\\\"");
        judged("'true'", &format!("{{ shell: \"echo '{text}'\" }}"))
    };
    let file = |text: &str| {
        let text = text.replace('"', "\\\"");
        judged("'true'", &format!("{{ shell: \"echo '{text}' > v.json\", result_file: v.json }}"))
    };
    let agent = |text: &str| {
        let world = world(&format!(
            "agents: {{ claude: {{ type: simulated, rules: [{{ answer: '{text}' }}] }} }}\n\
             steps: [{{ name: work, shell: 'true', validate: {{ claude: judge }} }}]\n"
        ));
        let seen = run(&world);
        seen.lines().find(|line| line.contains(" 1 work")).unwrap_or(&seen).to_owned()
    };
    let seen = [
        agent(r#"First {"completion_percentage": 10}, then {"completion_percentage": 100}"#),
        agent(r#"{"status": "incomplete"} or rather {"status": "complete"}"#),
        agent(r#"So {"status": "complete"}, that is {"completion_percentage": 100}"#),
        agent(r#"{"completion_percentage": 100, "status": "failed"}"#),
        agent(r#"{"completion_percentage": 20, "completion_percentage": 100}"#),
        shell(r#"{"completion_percentage": 100, "status": "incomplete"}"#),
        shell(r#"{"completion_percentage": 900}"#),
        shell(r#"{"completion_percentage": 10} {"completion_percentage": 100}"#),
        shell(r#"checked {"completion_percentage": 40}"#),
        shell("all is well"),
        file(r#"{"completion_percentage": 900}"#),
        file(r#"{"completion_percentage": 100, "completion_percentage": 10}"#),
        file(r#"all is well: {"completion_percentage": 100}"#),
    ];
    assert_snapshot!(seen.join("\n"), @r#"
    ✗ 1 work: the judge's answer cannot be used: its verdicts contradict each other: 10 % and 100 %
    ✗ 1 work: the judge's answer cannot be used: its verdicts contradict each other: 0 % and 100 %
    ✓ 1 work  [time]
    ✗ 1 work: the judge's answer cannot be used: `completion_percentage` is 100, but `status` is `failed`
    ✗ 1 work: the judge's answer cannot be used: it has `completion_percentage` twice, with different values
    ✗ 1 work: the judge's output cannot be used: `completion_percentage` is 100, but `status` is `incomplete`
    ✗ 1 work: the judge's output cannot be used: `completion_percentage` must be a number from 0 to 100, not 900
    ✗ 1 work: the judge's output cannot be used: its verdicts contradict each other: 10 % and 100 %
    ✗ 1 work: validation found 40 % done, and 100 % is wanted
    ✓ 1 work  [time]
    ✗ 1 work: the judge's `v.json` cannot be used: `completion_percentage` must be a number from 0 to 100, not 900
    ✗ 1 work: the judge's `v.json` cannot be used: it has `completion_percentage` twice, with different values
    ✗ 1 work: the judge's `v.json` cannot be used: it is not a JSON object
    "#);
}

#[test]
fn an_agent_judges_by_its_own_words_and_not_by_what_commands_printed() {
    let seen = judged(
        r#""echo '{\"completion_percentage\": 100}' > report""#,
        "{ commands: [{ shell: cat report }, { claude: judge }] }",
    );
    assert_snapshot!(seen, @"✗ 1 work: the judge's answer cannot be used: it has no JSON object with `completion_percentage` or `status`, but this: `done`");
}

#[test]
fn each_judgement_of_an_item_needs_a_new_file() {
    let world = map_world(
        r#"
map:
  input: { items: [mended, forged] }
  item_key: item
  agent_template:
    - shell: "true"
      validate:
        shell: |
          echo judged >> "ROOT/judged-${item}"
          if test "${item}" = mended; then
            if test -e done.txt; then echo '{"status": "complete"}' > v.json; else echo '{"missing": ["done.txt"]}' > v.json; fi
          elif ! test -e v.json; then
            test "$(wc -l < ROOT/judged-forged)" -gt 1 || echo '{"completion_percentage": 50}' > v.json
          fi
        result_file: v.json
        on_incomplete:
          shell: |
            touch done.txt; echo '{"completion_percentage": 100}' > v.json
    - shell: rm v.json
reduce:
  - shell: |
      echo '{"completion_percentage": 100}' > v.json
    on_failure: { shell: echo refused > ROOT/reduce }
    validate: { shell: "true", result_file: v.json }
"#,
    );
    let seen = go(&world);
    assert_eq!(counts(&world), (1, 1, 0), "{seen}");
    assert_eq!(sorted(&world, "judged-mended"), "judged\njudged");
    assert_eq!(letter(&world, "forged")["reason"], "the judge left no `v.json`");
    assert_eq!(beside(&world, "reduce"), "refused\n", "{seen}");
}
