//! Items whose values reach arithmetic, names or programs through variables of the shell.

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::fixture::{
    map_job::{beside, go, letter, map_world, of_type},
    workflow::stable,
};

/// A job with one item and one step for bash.
fn job(item: &str, script: &str) -> TestEnv {
    let script = script.replace('\n', "\n          ");
    map_world(&format!(
        "map:\n  input: {{ items: ['{item}'] }}\n  agent_template:\n    - shell_program: bash\n      \
         shell: |\n          {script}\n"
    ))
}

/// Scripts that run an item called `a[$(command)]`, or `command` itself, if nothing stops them.
const SCRIPTS: [&str; 9] = [
    "n=${item}; for ((i=0;i<n;i++)); do :; done",
    "x=${item}; [[ $x -eq 1 ]]",
    "x=${item}; echo $((x))",
    "x=${item}; echo ${!x}",
    "x=${item}; a[$x]=1",
    "x=$(echo ${item}); $x",
    "echo ${item} | xargs -I{} sh -c 'echo {}'",
    "x=${item}; eval \"$x\"",
    "read -r x <<<${item}; ((x))",
];

#[test]
fn no_item_is_run_through_a_variable() {
    let mut verdicts = Vec::new();
    for script in SCRIPTS {
        for item in ["a[$(touch ROOT/canary)]", "touch ROOT/canary", "$(touch ROOT/canary)"] {
            let world = job(item, script);
            let seen = go(&world);
            assert!(!world.root().join("canary").exists(), "{item} was run by {script}: {seen}");
            let refused = stable(&seen);
            let refused = refused.lines().find(|line| line.starts_with("error: "));
            let verdict = match refused {
                Some(line) => line.to_owned(),
                None => letter(&world, "item-001")["reason_code"].as_str().unwrap().to_owned(),
            };
            verdicts.push(format!("{script}: {verdict}"));
        }
    }
    verdicts.dedup();
    assert_snapshot!(verdicts.join("\n"), @r#"
    n=${item}; for ((i=0;i<n;i++)); do :; done: template_error
    x=${item}; [[ $x -eq 1 ]]: template_error
    x=${item}; echo $((x)): template_error
    x=${item}; echo ${!x}: error: `$x` holds `${item}`, and the shell reads it as the name of a variable or as a prompt, and runs what it hides
    x=${item}; a[$x]=1: template_error
    x=$(echo ${item}); $x: error: `$x` holds `${item}`, and stands where a command is expected, so its value would choose what runs
    echo ${item} | xargs -I{} sh -c 'echo {}': error: `${item}` stands in text that becomes a program on standard input
    x=${item}; eval "$x": error: `$x` holds `${item}`, and is an argument of `eval`, which reads it as a program
    read -r x <<<${item}; ((x)): template_error
    "#);
}

#[test]
fn numbers_are_calculated_with_through_a_variable() {
    let world = job("3", "n=${item}; for ((i=0;i<n;i++)); do echo $((n + i)) >> ROOT/out; done");
    let seen = go(&world);
    assert_eq!(beside(&world, "out"), "3\n4\n5\n", "{seen}");
    assert_eq!(of_type(&world, "agent_completed").len(), 1);
}
