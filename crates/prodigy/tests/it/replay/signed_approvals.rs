//! Agreements that are signed, with the real `ssh-keygen`: the tests fail without it.

use std::fs;

use insta::assert_snapshot;
use prodigy_testkit::{CommandOutput, TestEnv};

use crate::fixture::{
    approvals::{POLICY, approve, ask, audited, by, office, plain, refused, replays, retry},
    map_job::{assert_code, of_type},
};

const SIGNERS: &str = ".prodigy/allowed_signers";

/// Makes a world in which Carol and Dan have to sign, and Eve has a key that nobody knows.
pub(crate) fn signed() -> TestEnv {
    let signed = format!("    identity: signed\n    allowed_signers: {SIGNERS}\n");
    let world = office(&format!("{POLICY}{signed}"), &["a"]);
    let mut known = String::new();
    for who in ["carol", "dan", "eve"] {
        let key = key(&world, who);
        let made = world
            .command("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-C", who, "-f", &key])
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let public = fs::read_to_string(format!("{key}.pub")).unwrap();
        if who != "eve" {
            known.extend([who, "@example.com ", &public]);
        }
    }
    world.write(SIGNERS, known);
    world.commit_all("Name the signers");
    world
}

/// Returns the file with somebody's key.
pub(crate) fn key(world: &TestEnv, who: &str) -> String {
    world.root().join(format!("{who}.key")).display().to_string()
}

/// Agrees as somebody with a key.
pub(crate) fn sign(world: &TestEnv, who: &str, digest: &str, key: &str) -> CommandOutput {
    let expect = ["--expect", digest, "--sign", "--key", key];
    by(world, who, &[&["dlq", "approve", "job", "item-001"], &expect[..]].concat())
}

/// Says why a signature is not taken.
fn why(world: &TestEnv, seen: &CommandOutput) -> String {
    assert_code(seen, 1);
    let shown = plain(seen).replace(&world.root().display().to_string(), "$ROOT");
    shown.split_once("stderr -----\n").unwrap().1.to_owned()
}

#[test]
fn a_word_that_is_signed_with_the_right_key_counts() {
    let world = signed();
    let digest = ask(&world);
    assert_eq!(refused(&world, "carol", &digest), "not_signed");
    let seen = sign(&world, "carol", &digest[..21], &key(&world, "carol"));
    assert_code(&seen, 0);
    let line = seen.stdout.lines().find(|line| line.starts_with("approved")).unwrap();
    assert_eq!(line, "approved  item-001 as carol@example.com (signed)");
    let granted = &of_type(&world, "approval_granted")[0];
    assert_eq!(
        (&granted["identity"], &granted["digest"]),
        (&"signed".into(), &digest.clone().into())
    );
    // Anybody can check it again later, with nothing but what is recorded.
    let signature = world.root().join("signature");
    fs::write(&signature, granted["signature"].as_str().unwrap()).unwrap();
    let text = world.root().join("text");
    fs::write(&text, format!("prodigy approve {digest}\n")).unwrap();
    let signers = world.repo().join(SIGNERS);
    let checked = world
        .command("ssh-keygen")
        .args(["-Y", "verify", "-n", "prodigy-approval", "-I", "carol@example.com", "-f"])
        .arg(&signers)
        .arg("-s")
        .arg(&signature)
        .stdin(fs::File::open(&text).unwrap())
        .output()
        .unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    assert_code(&retry(&world, "ben", &[]), 0);
    assert_eq!(replays(&world), "item-001 by ben@example.com approved");
}

#[test]
fn a_signature_by_another_or_unknown_key_is_refused() {
    let world = signed();
    let digest = ask(&world);
    let before = of_type(&world, "approval_granted").len();
    let with = |who: &str, name: &str| why(&world, &sign(&world, who, &digest, &key(&world, name)));
    assert_snapshot!(with("carol", "eve"), @"
    error: the approval is refused (bad_signature): the signature is not good: its key is not in `.prodigy/allowed_signers`, or no longer counts
    [exit 1]
    ");
    assert_snapshot!(with("dan", "carol"), @"
    error: the approval is refused (bad_signature): the signature is not good: its key is that of carol@example.com, not of dan@example.com
    [exit 1]
    ");
    assert_eq!(audited(&world).last().unwrap(), "dan approve refused bad_signature");
    // Whoever is not in the group is refused before anything is signed.
    assert_snapshot!(with("eve", "eve"), @"
    error: the approval is refused (not_in_group): eve@example.com is not a member of the group `governance`; ask somebody who is
    [exit 1]
    ");
    assert_snapshot!(with("carol", "nobody"), @"
    error: cannot sign with the key `$ROOT/nobody.key`: No such file or directory (os error 2)

    hint: the file must be a private key that only you can read; load a key that has a passphrase with `ssh-add`
    [exit 1]
    ");
    world.git(&["rm", "--quiet", SIGNERS]);
    world.commit_all("Forget the signers");
    let digest = ask(&world);
    let with = |who: &str, name: &str| why(&world, &sign(&world, who, &digest, &key(&world, name)));
    assert_snapshot!(with("carol", "carol"), @"
    error: cannot read the allowed signers in `.prodigy/allowed_signers`: it is not committed on `main`

    hint: it has a line for each person: `alice@example.com ssh-ed25519 AAAA…`; the policy says where it is, from the root of the repository, and it has to be committed
    [exit 1]
    ");
    assert_eq!(of_type(&world, "approval_granted").len(), before);
    assert_code(&retry(&world, "ben", &[]), 8);
}

#[test]
fn the_key_is_the_one_that_git_signs_with() {
    let world = signed();
    let digest = ask(&world);
    let expect = ["dlq", "approve", "job", "item-001", "--expect", &digest, "--sign"];
    assert_snapshot!(why(&world, &by(&world, "carol", &expect)), @"
    error: there is no key to sign with: git is not set up to sign with keys of ssh

    hint: pass `--key FILE`, or set it up with `git config gpg.format ssh` and `git config user.signingkey FILE`
    [exit 1]
    ");
    world.git(&["config", "gpg.format", "ssh"]);
    world.git(&["config", "user.signingkey", &key(&world, "carol")]);
    assert_code(&by(&world, "carol", &expect), 0);
}

#[test]
fn a_no_is_signed_as_well() {
    let world = signed();
    let digest = ask(&world);
    let reject = |more: &[&str]| {
        let no = ["dlq", "reject", "job", "item-001", "--expect", &digest, "--reason", "no"];
        by(&world, "carol", &[&no, more].concat())
    };
    let unsigned = reject(&[]);
    assert_code(&unsigned, 1);
    assert_eq!(audited(&world).last().unwrap(), "carol reject refused not_signed");
    assert_code(&reject(&["--sign", "--key", &key(&world, "carol")]), 0);
    assert_eq!(of_type(&world, "approval_denied")[0]["identity"], "signed");
    // The signature of a no is none of a yes.
    assert_code(&retry(&world, "ben", &[]), 10);
}

#[test]
fn a_signature_that_nobody_can_check_is_refused() {
    let world = office(POLICY, &["a"]);
    let made = world
        .command("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f", &key(&world, "carol")])
        .output()
        .unwrap();
    assert!(made.status.success());
    let digest = ask(&world);
    let seen = sign(&world, "carol", &digest, &key(&world, "carol"));
    assert_snapshot!(why(&world, &seen), @"
    error: the approval is refused (bad_signature): the signature is not good: the policy names no `allowed_signers` that it could be checked against
    [exit 1]
    ");
    assert_code(&approve(&world, "carol", &digest), 0);
}
