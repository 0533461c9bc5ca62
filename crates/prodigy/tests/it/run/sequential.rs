//! `prodigy run`: sequential workflows from the first step to the merge.

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::fixture::workflow::{run, run_with, stable, world};

#[test]
fn steps_run_in_a_worktree_and_their_commits_are_merged() {
    let world = world(
        r#"
name: two steps
steps:
  - shell: 'echo "a b" > out.txt && git add out.txt && git commit --quiet --message "Add out"'
  - id: read
    shell: cat out.txt
    capture: text
  - shell: test "${text}" = "a b" && test "${steps.read.output}" = "${last.output}"
"#,
    );
    assert_snapshot!(run(&world), @r#"
    ----- stderr -----
    · job job · two steps · 3 steps
    ✓ 1 shell: echo "a b" > out.txt && git add out.txt && git commit --qui…  [time]
    ✓ 2 shell: cat out.txt  [time]
    ✓ 3 shell: test "${text}" = "a b" && test "${steps.read.output}" = "${…  [time]

    completed · 3 of 3 steps
    merged into main at [commit]
    next: prodigy events job
    "#);
    assert_snapshot!(world.git(&["log", "--format=%s", "main"]), @"
    Add out
    Add the workflow
    first
    ");
    assert_eq!(world.read("out.txt"), "a b\n");
    assert_eq!(world.git(&["branch", "--list", "prodigy/*"]), "", "the branch is gone");
    assert_eq!(world.git(&["worktree", "list"]).lines().count(), 1, "the worktree is gone");
}

#[test]
fn the_checkout_is_not_touched_when_nobody_says_yes() {
    let world = world("- shell: echo x > x && git add x && git commit --quiet --message x\n");
    assert_snapshot!(stable(&world.prodigy(&["run", "workflow.yml", "--job-id", "job"])), @"
    ----- stderr -----
    · job job · workflow.yml · 1 step
    ✓ 1 shell: echo x > x && git add x && git commit --quiet --message x  [time]

    not merged yet · 1 of 1 step done
    not merged: no terminal to ask and no `-y`; `git merge prodigy/job/job` merges it
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    next: prodigy resume job -y
    [exit 7]
    ");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
    assert_eq!(world.git(&["log", "--format=%s", "main"]), "Add the workflow\nfirst");
    assert_snapshot!(stable(&world.prodigy(&["resume", "job", "-y"])), @"
    ----- stderr -----
    · job job resumed · 1 of 1 step done

    completed · 1 of 1 step
    merged into main at [commit]
    next: prodigy events job
    ");
    assert_eq!(world.read("x"), "x\n");
}

#[test]
fn a_failing_step_without_a_handler_fails_the_run_and_resume_repeats_it() {
    let world = world(
        "- shell: echo one >> log\n- shell: 'echo oops >&2; test -e ../mended'\n- shell: git add log && git commit --quiet --message log\n",
    );
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 3 steps
    ✓ 1 shell: echo one >> log  [time]
    ✗ 2 shell: echo oops >&2; test -e ../mended: exit code 1

    failed at step 2: exit code 1 · 1 of 3 steps done
      | oops
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 2
    next: prodigy resume job
    [exit 1]
    ");
    std::fs::create_dir_all(world.home().join("worktrees/repo/job/mended")).unwrap();
    assert_snapshot!(stable(&world.prodigy(&["resume"])), @"
    ----- stderr -----
    · job job resumed · 1 of 3 steps done
    ✓ 2 shell: echo oops >&2; test -e ../mended  [time]
    ✓ 3 shell: git add log && git commit --quiet --message log  [time]

    completed · 3 of 3 steps
    merged into main at [commit]
    next: prodigy events job
    ");
    assert_eq!(world.read("log"), "one\n", "the first step was not run again");
}

#[test]
fn handlers_mend_go_on_or_stop_as_they_say() {
    let world = world(
        r#"
- name: ignored
  shell: exit 3
  on_failure: true
- name: mended by its handler
  shell: test -e fixed
  on_failure:
    shell: touch fixed
    max_attempts: 3
- name: another way
  shell: exit 4
  on_failure:
    strategy: fallback
    commands: [{ shell: echo from the fallback }]
  capture: never
- shell: test "${last.output}" = "from the fallback"
- name: by exit code
  shell: exit 5
  on_exit_code:
    5: { shell: "echo five: ${error.exit_code}" }
- name: the handler is told
  shell: 'echo said; exit 6'
  on_failure:
    shell: echo "${error.message} / ${error.exit_code} / ${shell.output} / ${error.attempt}" > told
    fail_workflow: true
"#,
    );
    assert_snapshot!(run(&world), @r#"
    ----- stderr -----
    · job job · workflow.yml · 6 steps
    ✗ 1 ignored: exit code 3
    ~ 1 ignored (failed, going on)  [time]
    ✗ 2 mended by its handler: exit code 1; attempt 2 follows
    ~ 2 mended by its handler (recovered)  [time]
    ✗ 3 another way: exit code 4
    ~ 3 another way (recovered)  [time]
    ✓ 4 shell: test "${last.output}" = "from the fallback"  [time]
    ✗ 5 by exit code: exit code 5
    ~ 5 by exit code (recovered)  [time]
    ✗ 6 the handler is told: exit code 6

    failed at step 6: exit code 6 · 5 of 6 steps done
      | said
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 6
    next: prodigy resume job
    [exit 1]
    "#);
    let told = world.home().join("worktrees/repo/job/job/told");
    assert_snapshot!(std::fs::read_to_string(told).unwrap(), @"exit code 6 / 6 / said / 1");
}

#[test]
fn retries_wait_and_count() {
    let world = world(
        r#"
- name: third time lucky
  shell: echo x >> tries; test "$(wc -l < tries)" -ge 3
  retry: { attempts: 3, backoff: { type: fixed, delay: 10ms } }
- name: never lucky
  shell: exit 1
  retry: { attempts: 2, backoff: { type: fixed, delay: 10ms }, retry_on: [timeout] }
"#,
    );
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 2 steps
    ✗ 1 third time lucky: exit code 1; attempt 2 follows
    ✗ 1 third time lucky: exit code 1; attempt 3 follows
    ✓ 1 third time lucky  [time]
    ✗ 2 never lucky: exit code 1

    failed at step 2: exit code 1 · 1 of 2 steps done
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 2
    next: prodigy resume job
    [exit 1]
    ");
}

#[test]
fn conditions_skip_and_captures_have_types() {
    let world = world(
        r#"
parameters:
  mode: { type: string, default: slow, enum: [slow, fast] }
  level: { type: number, default: 2 }
steps:
  - shell: 'echo "{\"n\": 5, \"tags\": [\"a\", \"b\"]}"'
    capture: { info: { format: json } }
  - shell: 'printf "x\ny\n"'
    capture: { rows: { format: lines } }
  - shell: echo 41
    capture: number
    capture_format: number
  - shell: echo true
    capture: { flag: { format: boolean } }
  - shell: 'echo to stderr >&2'
    capture: { err: { stream: stderr } }
  - shell: echo "${info.n} ${info.tags[1]} ${rows[0]} ${number} ${flag} ${err} ${params.mode} ${params.level} ${missing:-none}"
    when: "info.n > 4 && flag && number == 41 && params.mode == 'fast'"
    output_file: result.txt
    auto_commit: true
  - shell: exit 1
    when: "${info.n} < 5"
"#,
    );
    assert_snapshot!(run_with(&world, &["--param", "mode=fast"]), @r#"
    ----- stderr -----
    · job job · workflow.yml · 7 steps
    ✓ 1 shell: echo "{\"n\": 5, \"tags\": [\"a\", \"b\"]}"  [time]
    ✓ 2 shell: printf "x\ny\n"  [time]
    ✓ 3 shell: echo 41  [time]
    ✓ 4 shell: echo true  [time]
    ✓ 5 shell: echo to stderr >&2  [time]
    ✓ 6 shell: echo "${info.n} ${info.tags[1]} ${rows[0]} ${number} ${flag…  [time]
    ~ 7 shell: exit 1 (skipped: `${info.n} < 5` is false)

    completed · 7 of 7 steps
    merged into main at [commit]
    next: prodigy events job
    "#);
    assert_snapshot!(world.read("result.txt"), @"5 b x 41 true to stderr fast 2 none");
    assert_snapshot!(stable(&world.prodigy(&["run", "workflow.yml", "--param", "mode=huge"])), @r#"
    ----- stderr -----
    error: the parameter `mode` must be one of `"slow"`, `"fast"`, and `"huge"` is not
    [exit 2]
    "#);
    assert_snapshot!(stable(&world.prodigy(&["run", "workflow.yml", "--param", "speed=1"])), @"
    ----- stderr -----
    error: the workflow has no parameter `speed`

    hint: it has `mode`, `level`
    [exit 2]
    ");
}

#[test]
fn a_bad_capture_fails_the_step() {
    let world = world("- shell: echo nothing\n  capture: { n: { format: number } }\n");
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 1 step
    ✗ 1 shell: echo nothing: cannot capture `n`: expected a number, found `nothing`

    failed at step 1: cannot capture `n`: expected a number, found `nothing` · 0 of 1 step done
      | nothing
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 1
    next: prodigy resume job
    [exit 1]
    ");
}

#[test]
fn loops_run_their_steps_for_each_value() {
    let world = world(
        r#"
- foreach:
    input: [a, "b c", '$(touch /tmp/never)']
    parallel: 2
    do:
      - shell: echo "${index}/${total} ${item}"
  output_file: all.txt
  auto_commit: true
- foreach:
    input: "printf 'x\\n\\ny\\nz\\n'"
    max_items: 2
    continue_on_error: true
    do:
      - shell: test "${item}" = y
  on_failure: true
"#,
    );
    assert_snapshot!(run(&world), @r#"
    ----- stderr -----
    · job job · workflow.yml · 2 steps
    ✓ 1 foreach  [time]
    ✗ 2.foreach.1.1 shell: test "${item}" = y: exit code 1
    ✗ 2 foreach: 1 of 2 failed; the first is 1: exit code 1
    ~ 2 foreach (failed, going on)  [time]

    completed with failures: 1 step failed · 2 of 2 steps
    merged into main at [commit]
    next: prodigy events job
    "#);
    assert_snapshot!(world.read("all.txt"), @"
    1/3 a
    2/3 b c
    3/3 $(touch /tmp/never)
    ");
}

#[test]
fn files_are_written_inside_the_worktree_only() {
    let world = world(
        r##"
parameters:
  p: { default: 'say "hi"' }
steps:
  - write_file: { path: "deep/er/x.json", content: '{"a": "${params.p}"}', format: json, create_dirs: true }
    auto_commit: true
  - shell: ln -s /tmp out
  - write_file: { path: "out/x", content: "no" }
    continue_on_error: true
  - write_file: { path: "../x", content: "no" }
    continue_on_error: true
  - write_file: { path: "s.sh", content: "#!/bin/sh\necho hi\n", mode: "0755" }
  - shell: ./s.sh
  - write_file: { path: "x.yml", content: "a: [", format: yaml }
"##,
    );
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 7 steps
    ✓ 1 write_file: deep/er/x.json  [time]
    ✓ 2 shell: ln -s /tmp out  [time]
    ✗ 3 write_file: out/x: `out/x` leads out of the worktree by a symbolic link
    ~ 3 write_file: out/x (failed, going on)  [time]
    ✗ 4 write_file: ../x: `../x` must be relative and stay inside the worktree
    ~ 4 write_file: ../x (failed, going on)  [time]
    ✓ 5 write_file: s.sh  [time]
    ✓ 6 shell: ./s.sh  [time]
    ✗ 7 write_file: x.yml: the content is not YAML: not valid YAML: while parsing a node, did not find expected node content

    failed at step 7: the content is not YAML: not valid YAML: while parsing a node, did not find expected node content · 6 of 7 steps done
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 7
    next: prodigy resume job
    [exit 1]
    ");
    let written = world.home().join("worktrees/repo/job/job/deep/er/x.json");
    assert_snapshot!(std::fs::read_to_string(written).unwrap(), @r#"
    {
      "a": "say \"hi\""
    }
    "#);
}

#[test]
fn limits_end_the_step() {
    let world = world(
        "- shell: sleep 60\n  timeout: 200ms\n  on_failure: true\n- shell: echo begun; sleep 60\n  idle_timeout: 2s\n",
    );
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 2 steps
    ✗ 1 shell: sleep 60: still running after [time]
    ~ 1 shell: sleep 60 (failed, going on)  [time]
    ✗ 2 shell: echo begun; sleep 60: printed nothing for [time]

    failed at step 2: printed nothing for [time] · 1 of 2 steps done
      | begun
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 2
    next: prodigy resume job
    [exit 1]
    ");
}

#[test]
fn a_required_commit_must_be_there() {
    let world = world("- shell: echo nothing\n  commit_required: true\n");
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 1 step
    ✗ 1 shell: echo nothing: the step made no commit, and `commit_required` is set

    failed at step 1: the step made no commit, and `commit_required` is set · 0 of 1 step done
      | nothing
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 1
    next: prodigy resume job
    [exit 1]
    ");
}

#[test]
fn a_judge_decides_whether_a_step_is_done() {
    let world = world(
        r#"
- shell: echo 1 > parts
  validate:
    shell: 'echo "{\"completion_percentage\": $(( $(wc -l < parts) * 40 )), \"missing\": [\"p\"]}"'
    threshold: 75
    on_incomplete:
      shell: echo "${validation.completion_percentage} ${validation.missing}" >> parts
- shell: cat parts
  output_file: seen
  auto_commit: true
- shell: "true"
  validate: { shell: "false", on_incomplete: { shell: "true", max_attempts: 1 } }
"#,
    );
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    · job job · workflow.yml · 3 steps
    ✓ 1 shell: echo 1 > parts  [time]
    ✓ 2 shell: cat parts  [time]
    ✗ 3.validate.1 shell: false: exit code 1
    ✗ 3.validate.1 shell: false: exit code 1
    ✗ 3 shell: true: validation found 0 % done, and 100 % is wanted

    failed at step 3: validation found 0 % done, and 100 % is wanted · 2 of 3 steps done
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 3
    next: prodigy resume job
    [exit 1]
    ");
}

#[test]
fn secrets_reach_steps_and_nothing_else() {
    let world = world(
        r#"
secrets:
  TOKEN: { command: "cat ../token" }
  FROM_ENV: { env: MY_SECRET }
env: { GREETING: hello }
env_files: [more.env]
profiles: { loud: { GREETING: HELLO } }
steps:
  - shell: 'echo "$GREETING $MORE $TOKEN $FROM_ENV"; echo "$TOKEN" | base64'
    env: { EXTRA: "${env.HOME}" }
    capture: said
  - shell: test "$GREETING" = HELLO && test "${#TOKEN}" -eq 15
  - shell: 'echo "$TOKEN" >&2; exit 1'
"#,
    )
    .env("MY_SECRET", "swordfish");
    std::fs::write(world.root().join("token"), "hunter2-hunter2\n").unwrap();
    world.write("more.env", "# comment\nexport MORE='from a file'\n");
    assert_snapshot!(run_with(&world, &["--profile", "loud"]), @r#"
    ----- stderr -----
    note: 1 uncommitted change in your checkout is not part of this run
    · job job · workflow.yml · 3 steps
    ✓ 1 shell: echo "$GREETING $MORE $TOKEN $FROM_ENV"; echo "$TOKEN" | ba…  [time]
    ✓ 2 shell: test "$GREETING" = HELLO && test "${#TOKEN}" -eq 15  [time]
    ✗ 3 shell: echo "$TOKEN" >&2; exit 1: exit code 1

    failed at step 3: exit code 1 · 2 of 3 steps done
      | ***
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job 3
    next: prodigy resume job
    [exit 1]
    "#);
    assert_snapshot!(stable(&world.prodigy(&["logs", "job", "1"])), @r#"
    ── 1 shell: echo "$GREETING $MORE $TOKEN $FROM_ENV"; echo "$TOKEN" | ba… (exit 0, [time])
    HELLO from a file *** ***
    ***Cg==
    "#);
    let mut found = Vec::new();
    search(&world.home(), &mut found);
    assert_eq!(found, Vec::<String>::new(), "no file holds a secret");
}

/// Lists the files below a directory that hold one of the secrets in any spelling.
fn search(directory: &std::path::Path, found: &mut Vec<String>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            search(&path, found);
        } else if let Ok(bytes) = std::fs::read(&path) {
            let text = String::from_utf8_lossy(&bytes);
            if ["hunter2", "swordfish", "aHVudGVyMi1odW50ZXIy"].iter().any(|s| text.contains(s)) {
                found.push(path.display().to_string());
            }
        }
    }
}

#[test]
fn rounds_repeat_the_steps() {
    let world = world(
        "- shell: echo \"${item} ${index} ${total}\" >> rounds\n- shell: git add rounds && git commit --quiet --message r\n",
    );
    world.write("src/a.rs", "");
    world.write("src/b c.rs", "");
    world.commit_all("files");
    assert_snapshot!(run_with(&world, &["--map", "src/*.rs", "-n", "2"]), @r#"
    ----- stderr -----
    · job job · workflow.yml · 8 steps
    ✓ 1:1 shell: echo "${item} ${index} ${total}" >> rounds  [time]
    ✓ 1:2 shell: git add rounds && git commit --quiet --message r  [time]
    ✓ 2:1 shell: echo "${item} ${index} ${total}" >> rounds  [time]
    ✓ 2:2 shell: git add rounds && git commit --quiet --message r  [time]
    ✓ 3:1 shell: echo "${item} ${index} ${total}" >> rounds  [time]
    ✓ 3:2 shell: git add rounds && git commit --quiet --message r  [time]
    ✓ 4:1 shell: echo "${item} ${index} ${total}" >> rounds  [time]
    ✓ 4:2 shell: git add rounds && git commit --quiet --message r  [time]

    completed · 8 of 8 steps
    merged into main at [commit]
    next: prodigy events job
    "#);
    assert_snapshot!(world.read("rounds"), @"
    src/a.rs 1 4
    src/b c.rs 2 4
    src/a.rs 3 4
    src/b c.rs 4 4
    ");
}

#[test]
fn merge_steps_must_merge() {
    let world = world(
        r#"
steps:
  - shell: echo x > x && git add x && git commit --quiet --message x
merge:
  - shell: echo "${merge.source_branch} ${merge.target_branch} ${merge.commit_count} ${merge.file_list[0]}"
"#,
    );
    assert_snapshot!(run(&world), @r#"
    ----- stderr -----
    · job job · workflow.yml · 1 step
    ✓ 1 shell: echo x > x && git add x && git commit --quiet --message x  [time]
    ✓ merge.1 shell: echo "${merge.source_branch} ${merge.target_branch} ${merge…  [time]
    ✗ merge: the merge steps ended well, but `main` does not contain `prodigy/job/job`

    failed at step merge: the merge steps ended well, but `main` does not contain `prodigy/job/job` · 1 of 1 step done
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    output: prodigy logs job merge
    next: prodigy resume job
    [exit 1]
    "#);
    world.write(
        "workflow.yml",
        world.read("workflow.yml")
            + "  - shell: git -C \"$REPO\" merge --quiet ${merge.source_branch}\n",
    );
    world.commit_all("merge");
    let repo = world.repo().display().to_string();
    let world = world.env("REPO", &repo);
    assert_snapshot!(stable(&world.prodigy(&["run", "workflow.yml", "-y", "--job-id", "two"])), @r#"
    ----- stderr -----
    · job two · workflow.yml · 1 step
    ✓ 1 shell: echo x > x && git add x && git commit --quiet --message x  [time]
    ✓ merge.1 shell: echo "${merge.source_branch} ${merge.target_branch} ${merge…  [time]
    ✓ merge.2 shell: git -C "$REPO" merge --quiet ${merge.source_branch}  [time]

    completed · 1 of 1 step
    merged into main at [commit]
    next: prodigy events two
    "#);
    assert_eq!(world.read("x"), "x\n");
}

#[test]
fn a_dirty_or_conflicting_target_is_left_alone() {
    let world = world("- shell: echo job > README.md && git commit --quiet --all --message job\n");
    world.write("README.md", "mine, not committed\n");
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    note: 1 uncommitted change in your checkout is not part of this run
    · job job · workflow.yml · 1 step
    ✓ 1 shell: echo job > README.md && git commit --quiet --all --message…  [time]

    not merged yet · 1 of 1 step done
    your checkout of `main` has changes of its own in the way: `README.md`; commit or stash them
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    next: prodigy resume job -y
    [exit 7]
    ");
    assert_eq!(world.read("README.md"), "mine, not committed\n");
    world.commit_all("mine");
    assert_snapshot!(stable(&world.prodigy(&["resume", "job"])), @"
    ----- stderr -----
    · job job resumed · 1 of 1 step done
    ✗ conflict with `main` in 1 file

    not merged yet · 1 of 1 step done
    `prodigy/job/job` conflicts with `main` in `README.md`; `git merge prodigy/job/job` lets you resolve it
    worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
    next: prodigy resume job -y
    [exit 7]
    ");
    assert_eq!(world.read("README.md"), "mine, not committed\n");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn agents_answer_commit_and_fail() {
    let world = world(
        r#"
agents:
  claude:
    type: simulated
    rules:
      - { prompt: "^fix", edits: [{ path: fixed.txt, content: "{prompt}" }], commit: "Fix it", cost_usd: 0.25, answer: "I did it" }
      - { prompt: "^lie", fault: lie, answer: "all done" }
      - { prompt: "^crash", fault: crash }
      - { prompt: "^denied", fault: permission_denied, answer: "I may not" }
      - { prompt: "^hang", fault: hang }
  echo: { type: command, command: [cat], prompt: stdin }
  shout: { type: command, command: [printf, "%s!"], prompt: argument }
steps:
  - claude: "fix ${params.what}"
    commit_required: true
  - shell: test "${claude.output}" = "I did it"
  - agent: { use: echo, prompt: "say $(whoami) `id` ${workflow.commits}" }
    capture: said
  - shell: test "${said}" = 'say $(whoami) `id` 1'
  - agent: { use: shout, prompt: "loud" }
    output_file: loud.txt
  - claude: "lie"
    commit_required: true
    on_failure: true
  - claude: "crash"
    on_failure: true
  - claude: "denied"
    on_failure: true
  - claude: "hang"
    timeout: 300ms
parameters:
  what: { default: "the bug" }
"#,
    );
    assert_snapshot!(run(&world), @r#"
        ----- stderr -----
        · job job · workflow.yml · 9 steps
        ✓ 1 claude: fix ${params.what}  [time]
        ✓ 2 shell: test "${claude.output}" = "I did it"  [time]
        ✓ 3 echo: say $(whoami) `id` ${workflow.commits}  [time]
        ✓ 4 shell: test "${said}" = 'say $(whoami) `id` 1'  [time]
        ✓ 5 shout: loud  [time]
        ✗ 6 claude: lie: the step made no commit, and `commit_required` is set
        ~ 6 claude: lie (failed, going on)  [time]
        ✗ 7 claude: crash: the agent was ended by signal 9
        ~ 7 claude: crash (failed, going on)  [time]
        ✗ 8 claude: denied: the agent changed nothing: it was not allowed to use `Bash` (git commit --all); `allowed_tools` can allow it
        ~ 8 claude: denied (failed, going on)  [time]
        ✗ 9 claude: hang: still running after [time]

        failed at step 9: still running after [time] · 8 of 9 steps done · cost at least $0.25
        worktree: $ROOT/home/worktrees/repo/job/job (branch prodigy/job/job)
        output: prodigy logs job 9
        next: prodigy resume job
        [exit 1]
        "#);
}

#[test]
fn a_missing_agent_is_named_before_anything_starts() {
    let world = world("- shell: touch started\n- agent: {use: helper, prompt: do it}\n");
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    error: no agent named `helper` is configured, and `helper: do it` needs it

    hint: add `agents: { helper: { type: command, command: [PROGRAM] } }` to the workflow or to `.prodigy/config.yml`
    [exit 9]
    ");
    assert!(!world.home().join("events").exists(), "nothing was begun");
    world.write("workflow.yml", "agents: { claude: { type: command, command: [no-such-program] } }\nsteps: [{ claude: do it }]\n");
    assert_snapshot!(run(&world), @"
    ----- stderr -----
    note: 1 uncommitted change in your checkout is not part of this run
    error: the program `no-such-program` of agent `claude` is not installed, and `claude: do it` needs it

    hint: install it, or name another one under `agents`
    [exit 9]
    ");
}

#[test]
fn places_where_no_job_can_run_are_refused_in_one_sentence() {
    let world = TestEnv::new(env!("CARGO_BIN_EXE_prodigy"));
    std::fs::write(world.root().join("w.yml"), "- shell: ls\n").unwrap();
    assert_snapshot!(world.prodigy(&["run", "w.yml"]), @"
    ----- stderr -----
    error: `$ROOT` is not in a git repository

    hint: go to a repository, or make one with `git init`
    [exit 2]
    ");
    std::fs::create_dir(world.repo()).unwrap();
    world.git(&["init", "--quiet"]);
    assert_snapshot!(world.prodigy(&["run", "../w.yml"]), @"
    ----- stderr -----
    error: the repository `$ROOT/repo` has no commits yet

    hint: commit something first: `git commit --allow-empty --message first`
    [exit 2]
    ");
    assert_snapshot!(world.prodigy(&["run", "missing.yml"]), @"
    ----- stderr -----
    error: there is no file `missing.yml`

    hint: `prodigy init` writes a first workflow
    [exit 2]
    ");
    assert_snapshot!(world.prodigy(&["run", "."]), @"
    ----- stderr -----
    error: `.` is a directory, not a file

    hint: `prodigy init` writes a first workflow
    [exit 2]
    ");
    assert_snapshot!(world.prodigy(&["run", "../w.yml", "--job-id", "../x"]), @"
    ----- stderr -----
    error: invalid value '../x' for '--job-id <ID>': `../x` is not a usable name: use letters, digits, `.`, `_` and `-`, start with a letter or digit, at most 120 characters

    For more information, try '--help'.
    [exit 2]
    ");
}

#[test]
fn exec_runs_a_single_step() {
    let world = world("");
    let step = "shell: echo 'a: b' > x && git add x && git commit -qm x";
    let seen = world.prodigy(&["exec", step, "-y", "--retry", "2", "--timeout", "1m"]);
    let job = regex::Regex::new("workflow-[0-9]{8}-[0-9]{6}-[a-z0-9]{4}").unwrap();
    assert_snapshot!(job.replace_all(&stable(&seen), "[job]"), @"
    ----- stderr -----
    · job [job] · exec · 1 step
    ✓ 1 shell: echo 'a: b' > x && git add x && git commit -qm x  [time]

    completed · 1 of 1 step
    merged into main at [commit]
    next: prodigy events [job]
    ");
    assert_eq!(world.read("x"), "a: b\n");
    assert_snapshot!(stable(&world.prodigy(&["exec", "rm -rf /"])), @r#"
    ----- stderr -----
    error: `rm -rf /` is not a step

    hint: write it as `prodigy exec "shell: cargo test"`
    [exit 2]
    "#);
}

#[test]
fn a_plan_shows_what_would_run() {
    let world = world(
        r#"
name: demo
parameters: { p: { default: 1 } }
steps:
  - shell: cargo test
    timeout: 5m
    capture: out
    on_failure: { shell: cargo fix, max_attempts: 2 }
  - claude: "/fix ${out}"
    when: "out != ''"
    commit_required: true
"#,
    );
    assert_snapshot!(stable(&world.prodigy(&["plan", "workflow.yml"])), @"
    workflow  demo (workflow.yml)
    start     main at [commit]
    parameter p = 1
    steps
        1  shell: cargo test
           at most 5m [time] · captures out · on failure: 1 handler step, then goes on
        2  claude: /fix ${out}
           when out != '' · must commit · may use `git add` and `git commit`
    merge     plain git, asks first (`-y` says yes)
    cost      unknown: no history of this workflow
    ");
    assert_snapshot!(stable(&world.prodigy(&["run", "workflow.yml", "--dry-run", "--args", "a", "b"])), @"
    workflow  demo (workflow.yml)
    start     main at [commit]
    rounds    2 a b
    parameter p = 1
    steps
        1  shell: cargo test
           at most 5m [time] · captures out · on failure: 1 handler step, then goes on
        2  claude: /fix ${out}
           when out != '' · must commit · may use `git add` and `git commit`
    merge     plain git, asks first (`-y` says yes)
    cost      unknown: no history of this workflow
    ");
    let json: serde_json::Value =
        serde_json::from_str(&world.prodigy(&["plan", "workflow.yml", "--json"]).stdout).unwrap();
    assert_eq!(json["schema_version"], 1);
    assert_eq!(json["steps"][1]["text"], "/fix ${out}");
}

#[test]
fn a_plan_shows_what_named_steps_do_in_full_and_with_parameters() {
    let world = world(
        r#"
parameters: { area: { default: "the parser" } }
steps:
  - name: tests
    shell: |
      cargo build
      cargo test --workspace --all-features --no-fail-fast -- --include-ignored
  - name: tidy up
    claude: "/tidy ${params.area}"
  - claude: "/report ${shell.output} about ${params.area}"
  - name: all of them
    foreach: { input: [a, b], do: [{ shell: "echo ${item}" }] }
merge: [{ shell: "true" }]
"#,
    );
    assert_snapshot!(stable(&world.prodigy(&["plan", "workflow.yml"])), @r#"
    workflow  unnamed (workflow.yml)
    start     main at [commit]
    parameter area = "the parser"
    steps
        1  tests
           shell: cargo build
             cargo test --workspace --all-features --no-fail-fast -- --include-ignored
        2  tidy up
           claude: /tidy the parser
           its changes are committed
        3  claude: /report ${shell.output} about the parser
           its changes are committed
        4  all of them
           foreach: 1 step
             shell: echo ${item}
    merge
        1  shell: true
    cost      unknown: no history of this workflow
    "#);
    let json: serde_json::Value =
        serde_json::from_str(&world.prodigy(&["plan", "workflow.yml", "--json"]).stdout).unwrap();
    assert_eq!(json["steps"][1]["text"], "/tidy the parser");
    assert_eq!(json["merge"][0]["text"], "true");
}

#[test]
fn a_plan_says_that_the_workflow_would_be_refused() {
    let world = world("- claude: think\n  model: big\n");
    assert_snapshot!(stable(&world.prodigy(&["plan", "workflow.yml"])), @"
    workflow  unnamed (workflow.yml)
    start     main at [commit]
    steps
        1  claude: think
           its changes are committed
    merge     plain git, asks first (`-y` says yes)
    cost      unknown: no history of this workflow
    ");
}

#[test]
fn the_command_that_a_run_names_next_works_wherever_it_is_typed() {
    let world = world("- shell: test -e ../../../../../gate\n");
    let home = world.root().join("an other home");
    let (home, repo) = (home.to_str().unwrap(), world.repo());
    let arguments =
        ["--home", home, "run", "workflow.yml", "--job-id", "j", "--path", repo.to_str().unwrap()];
    let seen = world.prodigy(&arguments);
    let next = seen.stderr.lines().last().unwrap().strip_prefix("next: prodigy ").unwrap();
    assert_eq!(next, "--home '$ROOT/an other home' resume j");
    std::fs::write(world.root().join("gate"), "").unwrap();
    let mut elsewhere = world.prodigy_command(&["--home", home, "resume", "j"]);
    let seen = elsewhere.current_dir(world.root()).output().unwrap();
    assert_eq!(seen.status.code(), Some(0), "{}", String::from_utf8_lossy(&seen.stderr));
}

#[test]
fn a_plan_shows_the_items_of_a_mapreduce_workflow() {
    let world = world(
        r#"
name: many
mode: mapreduce
setup: [{ shell: make items }]
map:
  input: items.json
  json_path: "$.items[*]"
  filter: "item.score >= 5"
  sort_by: "item.score DESC"
  max_parallel: 3
  agent_template:
    - claude: "/fix ${item.path}"
    - shell: "test -e ${item.path}"
reduce: [{ shell: "echo ${map.successful}" }]
"#,
    );
    assert_snapshot!(stable(&world.prodigy(&["plan", "workflow.yml"])), @"
    workflow  many (workflow.yml)
    start     main at [commit]
    setup
        1  shell: make items
    items     known later: `items.json` is not there yet
    worktrees up to 3, used by one item after another
    map       3 at once
        1  claude: /fix ${item.path}
           its changes are committed
        2  shell: test -e ${item.path}
    policy    an item that fails is not tried again
              then it goes into the dead letter queue
              failures are told at the end
              worktrees of failed items are kept
    reduce
        1  shell: echo ${map.successful}
    merge     plain git, asks first (`-y` says yes)
    cost      unknown: no history of this workflow
    ");
    let items = r#"{"items": [{"path": "a", "score": 4}, {"path": "b", "score": 5}, {"path": "c", "score": 9}]}"#;
    world.write("items.json", items);
    assert_snapshot!(stable(&world.prodigy(&["plan", "workflow.yml"])), @r#"
    workflow  many (workflow.yml)
    start     main at [commit]
    setup
        1  shell: make items
    items     known later: `items.json` is not committed, so `setup` has to write it
    worktrees up to 3, used by one item after another
    map       3 at once
        1  claude: /fix ${item.path}
           its changes are committed
        2  shell: test -e ${item.path}
    policy    an item that fails is not tried again
              then it goes into the dead letter queue
              failures are told at the end
              worktrees of failed items are kept
    reduce
        1  shell: echo ${map.successful}
    merge     plain git, asks first (`-y` says yes)
    cost      unknown: no history of this workflow
    ----- stderr -----
    note: `items.json` is not committed, so the worktree of the job does not have it, unless `setup` writes it
    "#);
    world.commit_all("Add the items");
    let seen = world.prodigy(&["plan", "workflow.yml", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&seen.stdout).unwrap();
    assert_eq!(json["map"]["items"]["count"], 2);
    assert_eq!(json["map"]["items"]["items"][0]["data"]["path"], "c");
    world.write("items.json", "{");
    world.commit_all("Damage the items");
    assert_snapshot!(stable(&world.prodigy(&["plan", "workflow.yml"])), @"
    ----- stderr -----
    error: the items cannot be had from `items.json`: line 1, column 1: EOF while parsing an object
    [exit 9]
    ");
    let text = world.read("workflow.yml").replace("items.json", "items.yml");
    world.write("workflow.yml", text);
    world.write("items.yml", "- path: a\n");
    world.commit_all("Name other items");
    assert_snapshot!(stable(&world.prodigy(&["plan", "workflow.yml"])), @"
    ----- stderr -----
    error: the items cannot be had from `items.yml`: files that end in `.yml` are not read; items can be in `.json`, `.jsonl`, `.ndjson`, `.csv` and `.tsv`, and one per line in `.txt`, `.list` and files without an ending
    [exit 9]
    ");
}
