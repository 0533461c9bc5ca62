//! Work that a usage limit cuts off keeps what it has: finished steps, commits and files.

use std::{fs, thread, time::Duration};

use prodigy_testkit::{CommandOutput, TestEnv, crash::check_processes};
use rustix::process::Signal;

use crate::fixture::{
    map_job::{assert_code, beside, counts, has_told, map_world, of_type, write_workflow},
    workflow::SpawnedProdigy,
};

/// An agent that serves three prompts in a window of its limit, which is lifted soon after.
///
/// Each prompt that is served is paid for: it is noted in `prompts` and committed.
const THREE_PER_WINDOW: &str = r#"
prompt=$(cat)
served=$(cat ROOT/window 2>/dev/null || echo 0)
if test "$served" -ge 3 && test -s ROOT/until && test "$(date +%s)" -ge "$(cat ROOT/until)"; then
  served=0
  rm ROOT/until
fi
if test "$served" -ge 3; then
  test -s ROOT/until || echo $(($(date +%s) + 3)) >ROOT/until
  echo "Claude AI usage limit reached|$(cat ROOT/until)"
  exit 1
fi
echo $((served + 1)) >ROOT/window
echo "$prompt" >>ROOT/prompts
echo "$prompt" >>work.txt
git add work.txt
git commit --quiet --message "$prompt"
echo "done with $prompt"
"#;

/// An agent that commits the first half of its work, then runs into its limit, once.
const LIMIT_IN_THE_MIDDLE: &str = r#"
prompt=$(cat)
echo "$prompt" >>ROOT/prompts
if ! test -e first.txt; then
  echo first >first.txt; git add first.txt; git commit --quiet --message first
  echo scratch >uncommitted.txt
  echo cache >ignored.txt
fi
if mkdir ROOT/limited 2>/dev/null; then
  echo "Claude AI usage limit reached|$(($(date +%s) + 3))"
  exit 1
fi
test -e uncommitted.txt && test -e ignored.txt && echo kept >>ROOT/found
echo second >second.txt; git add second.txt; git commit --quiet --message second
echo done
"#;

/// Makes a world with an agent that is a script; `ROOT` stands for the world.
fn world(script: &str, workflow: &str) -> TestEnv {
    let world = map_world("map: { input: { items: [] }, agent_template: [{ shell: 'true' }] }");
    set_up(&world, script, workflow);
    world
}

fn set_up(world: &TestEnv, script: &str, workflow: &str) {
    let agent =
        "agents:\n  own:\n    type: command\n    command: [sh, ROOT/agent.sh]\n    prompt: stdin\n";
    write_workflow(world, &format!("{agent}{workflow}"));
    world.write(".gitignore", "ignored.txt\n");
    world.commit_all("Add the workflow");
    let script = script.replace("ROOT", &world.root().display().to_string());
    fs::write(world.root().join("agent.sh"), script).unwrap();
}

/// Makes the same world with a sequential workflow.
fn sequential_world(script: &str, steps: &str) -> TestEnv {
    let world = world(script, "");
    let text = world.read("workflow.yml").replace("mode: mapreduce\n", "");
    world.write("workflow.yml", format!("{text}{steps}").replace("ROOT", &root(&world)));
    world.commit_all("Add the steps");
    world
}

fn root(world: &TestEnv) -> String {
    world.root().display().to_string()
}

/// Returns the step that gives a prompt to the agent.
fn ask(prompt: &str) -> String {
    format!("{{ agent: {{ use: own, prompt: \"{prompt}\" }} }}")
}

/// Runs the workflow to its end, waiting for limits.
fn run(world: &TestEnv) -> CommandOutput {
    let args = ["run", "workflow.yml", "-y", "--job-id", "job"];
    SpawnedProdigy::new(world, &args).seen(world)
}

/// Runs the workflow, and kills prodigy once something is so.
fn kill_when(world: &TestEnv, what: &str, is_so: impl Fn() -> bool) {
    let mut run = SpawnedProdigy::new(world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
    run.until(world, what, is_so);
    run.signal(Signal::KILL);
    run.seen(world);
}

/// Returns the numbers from 1 on, a line each.
fn numbers(last: usize) -> String {
    (1..=last).map(|number| format!("{number}\n")).collect::<Vec<_>>().concat()
}

/// Checks that each of `1` to `last` was paid for once, and that its work is on the branch.
#[track_caller]
fn check_each_once(world: &TestEnv, last: usize, place: &str) {
    let all = numbers(last);
    assert_eq!(beside(world, "prompts"), all, "{place}: paid for");
    assert_eq!(world.read("work.txt"), all, "{place}: merged");
    check_processes(world).unwrap();
}

#[test]
fn five_prompts_of_an_item_are_paid_for_once_at_three_per_window() {
    let steps: Vec<_> = (1..=5).map(|number| ask(&number.to_string())).collect();
    let steps = steps.join(", ");
    let workflow = format!("map: {{ input: {{ items: [one] }}, agent_template: [{steps}] }}\n");
    let world = world(THREE_PER_WINDOW, &workflow);
    assert_code(&run(&world), 0);
    check_each_once(&world, 5, "steps of an item");
    let suspended = of_type(&world, "work_suspended");
    assert_eq!(suspended.len(), 1, "{suspended:?}");
    assert_eq!(suspended[0]["finished_steps"], 3);
    // Each step is recorded once, also those that finished before the limit.
    let of_item = |kind: &str| {
        let records = of_type(&world, kind).into_iter();
        records.filter(|record| record["item_id"] == "item-001").count()
    };
    assert_eq!((of_item("step_started"), of_item("step_completed")), (6, 5));
    assert_eq!(of_type(&world, "agent_completed")[0]["attempt"], 1);
}

#[test]
fn finished_work_stays_done_wherever_the_limit_is_reached() {
    let loop_of = |more: &str| {
        format!("foreach: {{ input: [1, 2, 3, 4, 5, 6, 7]{more}, do: [{}] }}", ask("${item}"))
    };
    let item = |steps: &str| format!("map:\n  input: {{ items: [x] }}\n  agent_template:\n{steps}");
    let map = "map: { input: { items: [x] }, agent_template: [{ shell: 'true' }] }\n";
    let prompts = (1..=7).map(|number| format!("    - {}\n", ask(&number.to_string())));
    let seven = prompts.collect::<Vec<_>>().concat();
    let places = [
        ("a loop", item(&format!("    - {}", loop_of("")))),
        (
            "a loop of commands",
            item(&format!(
                "    - {}",
                loop_of("").replace("[1, 2, 3, 4, 5, 6, 7]", "'seq 7; echo >>ROOT/listed'")
            )),
        ),
        (
            "a handler",
            item(&format!(
                "    - shell: exit 1\n      on_failure: [{}]",
                (1..=7).map(|number| ask(&number.to_string())).collect::<Vec<_>>().join(", ")
            )),
        ),
        (
            "after a failed try",
            item(&format!(
                "    - {{ shell: 'test -e ROOT/tried || {{ touch ROOT/tried; exit 1; }}', retry: {{ attempts: 2, initial_delay: 1ms }} }}\n{seven}"
            )),
        ),
        (
            "the handler of the item",
            format!(
                "{}\nerror_policy:\n  on_item_failure: custom:rescue\n  handlers:\n    rescue:\n{seven}",
                item("    - shell: exit 3")
            ),
        ),
        ("setup", format!("setup:\n{}{map}", seven.replace("    - ", "  - "))),
        ("reduce", format!("{map}reduce:\n  - {}\n", loop_of(""))),
        (
            "merge",
            format!(
                "map: {{ input: {{ items: [x] }}, agent_template: [{{ shell: 'touch new', auto_commit: true }}] }}\nmerge:\n{}  - shell: git -C ROOT/repo merge --quiet --no-edit \"${{merge.source_branch}}\"\n",
                seven.replace("    - ", "  - ")
            ),
        ),
    ];
    thread::scope(|scope| {
        for (place, workflow) in places {
            scope.spawn(move || {
                let world = world(THREE_PER_WINDOW, &workflow);
                let ended = run(&world);
                let code = i32::from(place == "the handler of the item");
                assert_eq!(ended.code, Some(code), "{place}: {ended}");
                let all = numbers(7);
                assert_eq!(beside(&world, "prompts"), all, "{place}: {ended}");
                if code == 0 {
                    check_each_once(&world, 7, place);
                }
                if place == "a loop of commands" {
                    assert_eq!(
                        beside(&world, "listed"),
                        "\n",
                        "{place}: the values are listed once"
                    );
                }
                assert_eq!(of_type(&world, "quota_paused").len(), 2, "{place}");
            });
        }
    });
}

#[test]
fn a_judge_at_its_limit_does_not_cost_the_work_again() {
    let step = |number: usize| {
        format!(
            "    - agent: {{ use: own, prompt: \"{number}\" }}\n      validate: {{ commands: [{}, {{ shell: 'echo \"{{\\\"status\\\": \\\"complete\\\"}}\"' }}] }}\n",
            ask(&format!("judge {number}"))
        )
    };
    let steps: String = (1..=3).map(step).collect();
    let workflow = format!("map:\n  input: {{ items: [x] }}\n  agent_template:\n{steps}");
    let world = world(THREE_PER_WINDOW, &workflow);
    assert_code(&run(&world), 0);
    assert_eq!(beside(&world, "prompts"), "1\njudge 1\n2\njudge 2\n3\njudge 3\n");
}

#[test]
fn commits_and_files_of_an_agent_at_its_limit_are_kept() {
    let step = "{ agent: { use: own, prompt: work }, commit_required: true, auto_commit: false }";
    let map = format!("map: {{ input: {{ items: [x] }}, agent_template: [{step}] }}\n");
    let reduced = format!(
        "map: {{ input: {{ items: [x] }}, agent_template: [{{ shell: 'true' }}] }}\nreduce: [{step}]\n"
    );
    for (place, workflow) in [("an item", map), ("reduce", reduced)] {
        let world = world(LIMIT_IN_THE_MIDDLE, &workflow);
        assert_code(&run(&world), 0);
        let work = [world.read("first.txt"), world.read("second.txt")];
        assert_eq!(work, ["first\n", "second\n"], "{place}");
        assert_eq!(beside(&world, "found"), "kept\n", "{place}: its files were there");
        assert_eq!(beside(&world, "prompts"), "work\nwork\n", "{place}");
    }
}

#[test]
fn half_of_the_work_is_no_commit_of_the_other_half() {
    // The second run commits nothing: what it committed before the limit counts.
    let script = LIMIT_IN_THE_MIDDLE.replace(
        "echo second >second.txt; git add second.txt; git commit --quiet --message second",
        "true",
    );
    let step = "{ agent: { use: own, prompt: work }, commit_required: true, auto_commit: false }";
    let workflow = format!("map: {{ input: {{ items: [x] }}, agent_template: [{step}] }}\n");
    let world = world(&script, &workflow);
    assert_code(&run(&world), 0);
    assert_eq!(world.read("first.txt"), "first\n");
}

#[test]
fn suspended_work_survives_a_kill_during_the_pause() {
    let script = THREE_PER_WINDOW.replace("+ 3)) >ROOT/until", "+ 6)) >ROOT/until");
    let steps: Vec<_> = (1..=5).map(|number| ask(&number.to_string())).collect();
    let steps = steps.join(", ");
    let item = format!("map: {{ input: {{ items: [x] }}, agent_template: [{steps}] }}\n");
    let reduced = format!(
        "map: {{ input: {{ items: [x] }}, agent_template: [{{ shell: 'true' }}] }}\nreduce: [{{ foreach: {{ input: [1, 2, 3, 4, 5], do: [{}] }} }}]\n",
        ask("${item}")
    );
    for (place, workflow) in [("an item", item), ("reduce", reduced)] {
        let world = world(&script, &workflow);
        kill_when(&world, "it is paused", || has_told(&world, "quota_paused"));
        let shown = world.prodigy(&["jobs", "show", "job"]).to_string();
        assert!(shown.contains("suspended   "), "{place}: {shown}");
        assert!(shown.contains("in the middle with 3 finished steps"), "{place}: {shown}");
        let seen = SpawnedProdigy::new(&world, &["resume", "job"]).seen(&world);
        assert_eq!(seen.code, Some(0), "{place}: {seen}");
        check_each_once(&world, 5, place);
    }
}

#[test]
fn a_kill_after_the_pause_goes_back_to_where_the_work_was_suspended() {
    // The second prompt of the second window hangs; killed there, its work is taken back.
    let script = THREE_PER_WINDOW.replace(
        "echo \"done with $prompt\"",
        "test \"$prompt\" != 5 || ! mkdir ROOT/hangs 2>/dev/null || sleep 60\necho done",
    );
    let steps: Vec<_> = (1..=6).map(|number| ask(&number.to_string())).collect();
    let steps = steps.join(", ");
    let workflow = format!("map: {{ input: {{ items: [x] }}, agent_template: [{steps}] }}\n");
    let world = world(&script, &workflow);
    kill_when(&world, "the agent hangs", || world.root().join("hangs").exists());
    assert_code(&SpawnedProdigy::new(&world, &["resume", "job"]).seen(&world), 0);
    assert_eq!(world.read("work.txt"), "1\n2\n3\n4\n5\n6\n");
    assert_eq!(beside(&world, "prompts"), "1\n2\n3\n4\n5\n4\n5\n6\n");
    assert_eq!(of_type(&world, "agent_completed")[0]["attempt"], 1);
}

#[test]
fn a_stop_after_the_pause_goes_back_to_where_the_work_was_suspended() {
    // The second prompt of the second window hangs until it is stopped.
    let script = THREE_PER_WINDOW.replace(
        "echo \"done with $prompt\"",
        "test \"$prompt\" != 5 || ! mkdir ROOT/hangs 2>/dev/null || sleep 60\necho done",
    );
    let prompts: Vec<_> = (1..=6).map(|number| ask(&number.to_string())).collect();
    let prompts = prompts.join(", ");
    let item = format!("map: {{ input: {{ items: [x] }}, agent_template: [{prompts}] }}\n");
    let each =
        format!("[{{ foreach: {{ input: [1, 2, 3, 4, 5, 6], do: [{}] }} }}]", ask("${item}"));
    let reduced = format!(
        "map: {{ input: {{ items: [x] }}, agent_template: [{{ shell: 'true' }}] }}\nreduce: {each}\n"
    );
    for (place, workflow) in [("an item", item), ("reduce", reduced)] {
        let world = world(&script, &workflow);
        let mut run =
            SpawnedProdigy::new(&world, &["run", "workflow.yml", "-y", "--job-id", "job"]);
        run.until(&world, "the agent hangs", || world.root().join("hangs").exists());
        run.signal(Signal::TERM);
        assert_code(&run.seen(&world), 143);
        assert_code(&SpawnedProdigy::new(&world, &["resume", "job"]).seen(&world), 0);
        assert_eq!(world.read("work.txt"), numbers(6), "{place}");
        assert_eq!(beside(&world, "prompts"), "1\n2\n3\n4\n5\n4\n5\n6\n", "{place}");
        check_processes(&world).unwrap();
    }
}

#[test]
fn items_in_parallel_go_on_in_their_own_worktrees() {
    let steps: Vec<_> = (1..=3).map(|number| ask(&format!("${{item}}{number}"))).collect();
    let steps = steps.join(", ");
    let workflow = format!(
        "map: {{ input: {{ items: [a, b, c, d] }}, item_key: item, max_parallel: 2, agent_template: [{steps}] }}\n"
    );
    let script = THREE_PER_WINDOW.replace("work.txt", "\"${prompt%?}.txt\"");
    // Prompts are served one at a time, so that the window is counted right.
    let script = format!("exec 9>ROOT/lock; flock 9\n{script}");
    let world = world(&script, &workflow);
    assert_code(&run(&world), 0);
    for item in ["a", "b", "c", "d"] {
        assert_eq!(world.read(&format!("{item}.txt")), format!("{item}1\n{item}2\n{item}3\n"));
    }
    assert_eq!(beside(&world, "prompts").lines().count(), 12, "each is paid for once");
    assert_eq!(counts(&world), (4, 0, 0));
}

#[test]
fn work_that_never_gets_further_is_dead_lettered() {
    let script = "echo x >>ROOT/prompts; echo work >>part.txt; git add .; git commit --quiet --message part\necho \"Claude AI usage limit reached|$(($(date +%s) + 3))\"; exit 1\n";
    let step = ask("work");
    let workflow = format!(
        "quota: {{ max_restarts: 1 }}\nmap: {{ input: {{ items: [x] }}, agent_template: [{step}] }}\n"
    );
    let world = world(script, &workflow);
    let seen = run(&world);
    assert_code(&seen, 1);
    assert_eq!(beside(&world, "prompts"), "x\nx\n", "one restart");
    let failure = &of_type(&world, "item_dead_lettered")[0]["failure"];
    assert_eq!(failure["kind"], "quota_exhausted");
    let message = failure["message"].as_str().unwrap();
    assert!(
        message.contains("cut it off 2 times") && message.contains("`quota.max_restarts` is 1"),
        "{message}"
    );
    // What it left is kept with the dead letter.
    let left = of_type(&world, "worktree_preserved");
    assert_eq!(left[0]["left"]["commits"], 2, "{left:?}");
}

#[test]
fn a_step_that_never_gets_further_fails_and_can_be_resumed() {
    let script = "echo x >>ROOT/prompts\nif test -e ROOT/mended; then echo done; exit 0; fi\necho y >>half.txt; git add .; git commit --quiet --message half\necho \"Claude AI usage limit reached|$(($(date +%s) + 3))\"; exit 1\n";
    let world = sequential_world(
        script,
        "quota: { max_restarts: 1 }\nsteps:\n  - { agent: { use: own, prompt: work } }\n",
    );
    let seen = run(&world);
    assert_code(&seen, 1);
    assert!(seen.to_string().contains("cut it off 2 times"), "{seen}");
    fs::write(world.root().join("mended"), "").unwrap();
    assert_code(&SpawnedProdigy::new(&world, &["resume", "job"]).seen(&world), 0);
    assert_eq!(world.read("half.txt"), "y\ny\n", "its commits were kept");
}

#[test]
fn a_step_that_went_on_without_a_change_keeps_what_it_did_before() {
    let script = LIMIT_IN_THE_MIDDLE.replace(
        "echo second >second.txt; git add second.txt; git commit --quiet --message second",
        "true",
    );
    let steps = "steps:\n  - { agent: { use: own, prompt: work }, auto_commit: false }\n  - shell: test -e ROOT/killed || { touch ROOT/killed; sleep 60; }\n";
    let world = sequential_world(&script, steps);
    kill_when(&world, "the next step runs", || world.root().join("killed").exists());
    assert_code(&SpawnedProdigy::new(&world, &["resume", "job"]).seen(&world), 0);
    assert_eq!(world.read("first.txt"), "first\n");
}

/// A job whose step waits in the middle for a limit to be lifted.
pub(crate) fn suspended_step() -> TestEnv {
    let each = format!("  - foreach: {{ input: [1, 2, 3, 4], do: [{}] }}\n", ask("${item}"));
    let world = sequential_world(THREE_PER_WINDOW, &format!("steps:\n{each}"));
    let args = ["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"];
    assert_code(&SpawnedProdigy::new(&world, &args).seen(&world), 75);
    world
}

#[test]
fn a_step_of_the_job_is_shown_in_the_middle() {
    let world = suspended_step();
    let shown = world.prodigy(&["jobs", "show", "job", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["job"]["suspended"]["step"], "1");
    assert_eq!(shown["job"]["suspended"]["finished_steps"], 3);
    let shown = world.prodigy(&["jobs", "show", "job"]).to_string();
    let line =
        "suspended   step 1 waits in the middle with 3 finished steps; it goes on from there";
    assert!(shown.contains(line), "{shown}");
}

#[test]
fn the_summary_names_what_is_kept() {
    let steps: Vec<_> = (1..=5).map(|number| ask(&number.to_string())).collect();
    let steps = steps.join(", ");
    let workflow = format!("map: {{ input: {{ items: [x] }}, agent_template: [{steps}] }}\n");
    let world = world(THREE_PER_WINDOW, &workflow);
    let args = ["run", "workflow.yml", "-y", "--job-id", "job", "--no-wait"];
    let seen = SpawnedProdigy::new(&world, &args).seen(&world);
    assert_code(&seen, 75);
    let line = "kept: 1 item waits in the middle with 3 finished steps; it goes on from there";
    assert!(seen.to_string().contains(line), "{seen}");
    let shown = world.prodigy(&["jobs", "show", "job", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["job"]["suspended"]["items"]["item-001"], 3);
    let events = world.prodigy(&["events", "job", "--type", "work_suspended"]).to_string();
    assert!(events.contains("worktree kept  3 steps finished"), "{events}");
    thread::sleep(Duration::from_millis(3100));
    assert_code(
        &SpawnedProdigy::new(&world, &["resume", "job", "--no-wait=false"]).seen(&world),
        0,
    );
    check_each_once(&world, 5, "after a stop");
    let left = world.git(&["for-each-ref", "refs/prodigy/job/suspended"]);
    assert_eq!(left, "", "nothing is left of it");
}
