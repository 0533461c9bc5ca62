//! The final merge and the user's settings of git: `merge.ff` and `commit.gpgsign`.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use prodigy_testkit::{CommandOutput, TestEnv};

use crate::fixture::{
    map_job::assert_code,
    workflow::{SpawnedProdigy, world},
};

/// Commits a file; the step's own commit is not signed.
const COMMITS: &str = "- shell: echo new > new.txt; git add --all; git -c commit.gpgsign=false commit --quiet --message work\n";

fn run(world: &TestEnv) -> CommandOutput {
    SpawnedProdigy::new(world, &["run", "workflow.yml", "-y", "--job-id", "job"]).seen(world)
}

fn parents(world: &TestEnv) -> usize {
    world.git(&["rev-list", "--parents", "--max-count=1", "main"]).split(' ').count() - 1
}

/// Makes the user's own settings: commits are signed with a key of ssh by a program.
fn signing(world: TestEnv, program: Option<&str>) -> TestEnv {
    let root = world.root().display().to_string();
    let key = world.root().join("key");
    let made = world
        .command("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-C", "test", "-f"])
        .arg(&key)
        .status()
        .unwrap();
    assert!(made.success());
    let public = fs::read_to_string(key.with_extension("pub")).unwrap();
    fs::write(world.root().join("signers"), format!("test@example.com {public}")).unwrap();
    let program = program.map(|text| {
        let path = script(&world, "signer", text);
        format!("[gpg \"ssh\"]\nprogram = {}\n", path.display())
    });
    let settings = format!(
        "[commit]\ngpgsign = true\n[gpg]\nformat = ssh\n[user]\nsigningkey = {root}/key.pub\n[gpg \"ssh\"]\nallowedSignersFile = {root}/signers\n{}",
        program.unwrap_or_default()
    );
    fs::write(world.root().join("gitconfig"), settings).unwrap();
    world.env("GIT_CONFIG_GLOBAL", &format!("{root}/gitconfig"))
}

fn script(world: &TestEnv, name: &str, text: &str) -> PathBuf {
    let path = world.root().join(name);
    fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn merge_ff_false_makes_a_merge_commit() {
    let world = world(COMMITS);
    world.git(&["config", "merge.ff", "false"]);
    assert_code(&run(&world), 0);
    assert_eq!(parents(&world), 2);
    assert_eq!(world.read("new.txt"), "new\n");
    assert_eq!(world.git(&["status", "--porcelain"]), "");
}

#[test]
fn without_a_setting_the_merge_is_a_fast_forward() {
    let world = world(COMMITS);
    assert_code(&run(&world), 0);
    assert_eq!(parents(&world), 1);
}

#[test]
fn merge_ff_only_leaves_a_target_alone_that_has_moved_on() {
    let world = world("- shell: 'true'\n");
    let text = format!(
        "{COMMITS}- shell: git -C {}/repo commit --quiet --allow-empty --message mine\n",
        world.root().display()
    );
    world.write("workflow.yml", text);
    world.commit_all("Move on");
    world.git(&["config", "merge.ff", "only"]);
    let seen = run(&world);
    assert_code(&seen, 7);
    assert!(seen.stderr.contains("`merge.ff` is `only`"), "{seen}");
    assert_eq!(world.git(&["log", "-1", "--format=%s", "main"]), "mine");
    // Once the user wants a merge commit, there is one.
    world.git(&["config", "--unset", "merge.ff"]);
    assert_code(&world.prodigy(&["resume", "job", "-y"]), 0);
    assert_eq!(parents(&world), 2);
}

#[test]
fn a_merge_commit_is_signed_with_the_users_key_and_program_only() {
    let world = signing(world(COMMITS), None);
    world.git(&["config", "merge.ff", "false"]);
    let root = world.root().display().to_string();
    let planted = script(&world, "planted", &format!("touch {root}/used; exit 1"));
    world.git(&["config", "gpg.ssh.program", &planted.display().to_string()]);
    world.git(&["config", "gpg.program", &planted.display().to_string()]);
    world.git(&["config", "gpg.format", "openpgp"]);
    world.git(&["config", "user.signingkey", "nobody"]);
    assert_code(&run(&world), 0);
    assert_eq!(parents(&world), 2);
    assert!(!world.root().join("used").exists());
    for name in ["gpg.ssh.program", "gpg.program", "gpg.format", "user.signingkey"] {
        world.git(&["config", "--unset", name]);
    }
    let verified = world.command("git").args(["verify-commit", "main"]).output().unwrap();
    assert!(verified.status.success(), "{}", String::from_utf8_lossy(&verified.stderr));
}

#[test]
fn a_signature_that_cannot_be_made_is_exit_7_and_no_commit() {
    for program in ["exit 1", "sleep 600"] {
        let world = signing(world(COMMITS), Some(program));
        world.git(&["config", "merge.ff", "false"]);
        let before = world.git(&["rev-parse", "main"]);
        let seen = run(&world);
        assert_code(&seen, 7);
        assert!(seen.stderr.contains("could not be signed"), "{program}: {seen}");
        assert!(seen.stderr.contains("next: "), "{program}: {seen}");
        assert_eq!(world.git(&["rev-parse", "main"]), before, "{program}");
        assert_eq!(world.git(&["status", "--porcelain"]), "", "{program}");
    }
}
