//! What steps inherit: keys are hidden in everything that is kept, and git never asks.

use std::{fs, path::Path};

use insta::assert_snapshot;
use prodigy_testkit::TestEnv;

use crate::fixture::{
    map_job::{assert_code, go, letter, map_world},
    workflow::{records, run, world},
};

const KEY: &str = "sk-ant-api03-0f1e2d3c4b5a69788796";
const PASSWORD: &str = "quote\" and\nnewline in it";
const WORD: &str = "created_at_descending";

/// Returns the files below a directory that hold a text, without the objects of git.
fn holding(directory: &Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![directory.to_owned()];
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                waiting.push(path);
            } else if fs::read(&path).is_ok_and(|bytes| {
                bytes.windows(text.len()).any(|window| window == text.as_bytes())
            }) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}

fn with_keys(world: TestEnv) -> TestEnv {
    world
        .env("ANTHROPIC_API_KEY", KEY)
        .env("DB_PASSWORD", PASSWORD)
        .env("SORT_KEY", WORD)
        .env("SSH_KEY", "/home/ann/.ssh/id_ed25519")
}

#[test]
fn keys_that_nobody_declared_are_hidden_everywhere() {
    let world = with_keys(map_world(
        r#"
map:
  input: { items: [one] }
  agent_template:
    - shell: |
        env; env >&2
        printf '%s' "$ANTHROPIC_API_KEY" | base64
        printf '%s' "$ANTHROPIC_API_KEY" > left
        printf '{"type":"user","text":"%s and %s"}\n' "$ANTHROPIC_API_KEY" "$(printf '%s' "$DB_PASSWORD" | sed 's/"/\\"/g' | sed ':a;N;s/\n/\\n/;ta')"
        echo "failing with $ANTHROPIC_API_KEY sorted by $SORT_KEY" >&2
        exit 3
"#,
    ));
    let seen = go(&world);
    assert_code(&seen, 1);
    for secret in
        [KEY, "quote\\\" and\\nnewline", "quote\" and\nnewline", "c2stYW50LWFwaTAzLTBmMWUyZDNj"]
    {
        let mut held = holding(&world.home(), secret);
        held.retain(|path| !path.contains("/worktrees/"));
        assert_eq!(held, [""; 0], "{secret}");
        assert!(!seen.to_string().contains(secret), "{seen}");
    }
    let log = world.prodigy(&["logs", "job", "item-001"]).stdout;
    for line in [
        "ANTHROPIC_API_KEY=***",
        "SORT_KEY=created_at_descending",
        "SSH_KEY=/home/ann/.ssh/id_ed25519",
    ] {
        assert!(log.contains(line), "{log}");
    }
    let failed = letter(&world, "item-001");
    let failed = failed.to_string();
    assert!(failed.contains("failing with *** sorted by created_at_descending"), "{failed}");
}

#[test]
fn a_key_in_a_captured_variable_is_hidden_in_events_and_prompts_still_get_it() {
    let world = with_keys(world(
        r#"
agents:
  other: { type: command, command: [sh, -c, 'cat > prompt; cat prompt; git add prompt; git commit --quiet -m prompt'] }
steps:
  - { shell: echo "$ANTHROPIC_API_KEY", capture: key }
  - { agent: { use: other, prompt: "use ${env.ANTHROPIC_API_KEY}" } }
  - { shell: 'test "${env.ANTHROPIC_API_KEY}" = "$ANTHROPIC_API_KEY"' }
"#,
    ));
    let seen = run(&world);
    assert_eq!(world.read("prompt"), format!("use {KEY}"), "{seen}");
    assert_eq!(holding(&world.home(), KEY), [""; 0]);
}

#[test]
fn the_commit_that_a_job_starts_from_is_not_hidden_although_a_key_is_called_after_it() {
    let world =
        world("- shell: echo x > x; git add x; git commit --quiet -m x; echo \"$OTHER_KEY\"\n");
    let commit = world.git(&["rev-parse", "HEAD"]);
    let world = world.env("CACHE_KEY", &commit).env("OTHER_KEY", KEY);
    let seen = run(&world);
    let journal = records(&world);
    assert_eq!(journal[0]["base_commit"], *commit, "{seen}");
    assert_eq!(world.read("x"), "x\n", "{seen}");
    assert_eq!(holding(&world.home(), KEY), [""; 0]);
}

#[test]
fn what_points_git_elsewhere_or_lets_it_ask_is_not_inherited() {
    let world = world(
        "- shell: env | grep -E '^(GIT|SSH|DISPLAY|CLAUDE|OLDPWD|PRODIGY_JOB_ID|GCM|WAYLAND)' | sort > ROOT-env\n",
    );
    let root = world.root().join("seen").display().to_string();
    world.write("workflow.yml", world.read("workflow.yml").replace("ROOT", &root));
    let mut world = world;
    for (name, value) in [
        ("GIT_DIR", "/elsewhere"),
        ("GIT_WORK_TREE", "/elsewhere"),
        ("GIT_INDEX_FILE", "/elsewhere"),
        ("GIT_OBJECT_DIRECTORY", "/elsewhere"),
        ("GIT_ALTERNATE_OBJECT_DIRECTORIES", "/elsewhere"),
        ("GIT_COMMON_DIR", "/elsewhere"),
        ("GIT_NAMESPACE", "elsewhere"),
        ("GIT_PREFIX", "elsewhere/"),
        ("GIT_CONFIG_PARAMETERS", "'core.hooksPath=/elsewhere'"),
        ("GIT_CONFIG_COUNT", "1"),
        ("GIT_CONFIG_KEY_0", "core.hooksPath"),
        ("GIT_CONFIG_VALUE_0", "/elsewhere"),
        ("GIT_EDITOR", "vi"),
        ("GIT_SEQUENCE_EDITOR", "vi"),
        ("GIT_ASKPASS", "/usr/bin/ask"),
        ("SSH_ASKPASS", "/usr/bin/ask"),
        ("SSH_ASKPASS_REQUIRE", "force"),
        ("GIT_TERMINAL_PROMPT", "1"),
        ("GIT_PAGER", "less"),
        ("GIT_EXTERNAL_DIFF", "/usr/bin/diff"),
        ("GIT_TEMPLATE_DIR", "/elsewhere"),
        ("GIT_QUARANTINE_PATH", "/elsewhere"),
        ("GIT_SSH_COMMAND", "ssh -i key"),
        ("DISPLAY", ":0"),
        ("WAYLAND_DISPLAY", "wayland-0"),
        ("CLAUDECODE", "1"),
        ("CLAUDE_CODE_ENTRYPOINT", "cli"),
        ("CLAUDE_CODE_SSE_PORT", "1234"),
        ("CLAUDE_CONFIG_DIR", "/mine"),
        ("PRODIGY_JOB_ID", "another"),
    ] {
        world = world.env(name, value);
    }
    let seen = run(&world);
    let env = fs::read_to_string(format!("{root}-env")).unwrap_or_default();
    assert!(seen.contains("completed"), "{seen}");
    assert_snapshot!(env, @"
    CLAUDE_CONFIG_DIR=/mine
    DISPLAY=:0
    GCM_INTERACTIVE=never
    GIT_ASKPASS=/usr/bin/ask
    GIT_AUTHOR_EMAIL=test@example.com
    GIT_AUTHOR_NAME=Test
    GIT_COMMITTER_EMAIL=test@example.com
    GIT_COMMITTER_NAME=Test
    GIT_CONFIG_COUNT=3
    GIT_CONFIG_GLOBAL=/dev/null
    GIT_CONFIG_KEY_0=core.hooksPath
    GIT_CONFIG_KEY_1=gc.auto
    GIT_CONFIG_KEY_2=maintenance.auto
    GIT_CONFIG_NOSYSTEM=1
    GIT_CONFIG_VALUE_0=/elsewhere
    GIT_CONFIG_VALUE_1=0
    GIT_CONFIG_VALUE_2=false
    GIT_EDITOR=true
    GIT_EXTERNAL_DIFF=/usr/bin/diff
    GIT_PAGER=less
    GIT_SSH_COMMAND=ssh -i key
    GIT_TEMPLATE_DIR=/elsewhere
    GIT_TERMINAL_PROMPT=0
    PRODIGY_JOB_ID=job
    SSH_ASKPASS_REQUIRE=never
    WAYLAND_DISPLAY=wayland-0
    ");
}

#[test]
fn nothing_that_git_says_is_about_one_repository_is_inherited() {
    let world =
        world("- shell: env | cut -d= -f1 | sort > seen; git add seen; git commit -qm seen\n");
    let local = world.git(&["rev-parse", "--local-env-vars"]);
    let mut world = world;
    for name in local.lines().filter(|name| *name != "GIT_CONFIG_COUNT") {
        world = world.env(name, "");
    }
    let seen = run(&world);
    let reached = world.read("seen");
    let reached: Vec<_> =
        reached.lines().filter(|name| local.lines().any(|it| it == *name)).collect();
    // How often nothing is cleaned up is said by this one.
    assert_eq!(reached, ["GIT_CONFIG_COUNT"], "{seen}");
    assert!(local.lines().any(|name| name == "GIT_SHALLOW_FILE"), "{local}");
}

#[test]
fn no_agent_believes_that_it_runs_inside_another_one() {
    let world = world(
        "- shell: env | cut -d= -f1 | grep -E 'AGENT|CLAUDE|CODEX' | sort > seen; git add seen; git commit -qm seen\n",
    );
    let mut world = world;
    for name in [
        "AI_AGENT",
        "CLAUDECODE",
        "CLAUDE_CODE_CHILD_SESSION",
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_CODE_EXECPATH",
        "CLAUDE_CODE_MAX_RETRIES",
        "CLAUDE_CODE_MESSAGING_SOCKET",
        "CLAUDE_CODE_MESSAGING_TOKEN",
        "CLAUDE_CODE_SESSION_ATTENDED",
        "CLAUDE_CODE_SESSION_ID",
        "CLAUDE_CODE_SSE_PORT",
        "CLAUDE_EFFORT",
        "CLAUDE_PID",
        "CODEX_HOME",
        "CODEX_SANDBOX",
        "CODEX_SANDBOX_NETWORK_DISABLED",
    ] {
        world = world.env(name, "1");
    }
    let seen = run(&world);
    // What people set for an agent stays.
    assert_eq!(world.read("seen"), "CLAUDE_CODE_MAX_RETRIES\nCODEX_HOME\n", "{seen}");
}

#[test]
fn the_program_by_which_an_editor_asks_is_not_inherited() {
    let world = world(
        "- shell: echo \"${GIT_ASKPASS-none}\" > asked; git add asked; git commit --quiet -m x\n",
    )
    .env("GIT_ASKPASS", "/usr/share/code/askpass.sh")
    .env("VSCODE_GIT_ASKPASS_MAIN", "/usr/share/code/askpass-main.js");
    let seen = run(&world);
    assert_eq!(world.read("asked"), "none\n", "{seen}");
}

#[test]
fn git_never_asks_in_a_step() {
    let world = world(
        r"
- shell: |
    git -c credential.helper= ls-remote http://127.0.0.1:9/nowhere 2>&1 | grep -ci 'could not\|failed' > asked
    echo a > a; git add a; git commit --quiet -m a; echo b > b; git add b; git commit --quiet -m b
    git rebase --quiet --interactive HEAD~1
    git commit --amend
    git merge --no-ff --quiet HEAD
  timeout: 20s
",
    );
    let seen = run(&world);
    assert_eq!((world.read("a"), world.read("b")), ("a\n".to_owned(), "b\n".to_owned()), "{seen}");
}
