//! Signatures, with the real `ssh-keygen`: the tests fail where it is not installed.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use prodigy_core::replay::approval::Vote;
use tempfile::TempDir;

use super::*;
use crate::{git::Git, store::fixture as process};

/// A directory with the keys of two people, one of whom may sign.
struct Keys {
    directory: TempDir,
}

impl Keys {
    fn new() -> Self {
        let keys = Self { directory: tempfile::tempdir().unwrap() };
        for name in ["ada", "eve"] {
            keys.make(name, "");
        }
        let ada = keys.public("ada");
        keys.allow(&format!("ada@example.com namespaces=\"prodigy-approval\" {ada}\n"));
        keys
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn make(&self, name: &str, passphrase: &str) {
        let path = self.path(name);
        let args = ["-q", "-t", "ed25519", "-C", name, "-N", passphrase, "-f"];
        program("ssh-keygen", self.directory.path(), &args, &[path.to_str().unwrap()]);
    }

    fn public(&self, name: &str) -> String {
        fs::read_to_string(self.path(&format!("{name}.pub"))).unwrap().trim().to_owned()
    }

    fn allow(&self, text: &str) {
        crate::store::write_atomic(&self.path("allowed_signers"), text.as_bytes()).unwrap();
    }

    fn sign(&self, text: &str, name: &str) -> String {
        sign(text, &SigningKey::File(self.path(name))).unwrap()
    }

    /// Checks a signature against those who may sign.
    fn verify(&self, text: &str, signature: &str, identity: &str) -> Result<(), Error> {
        let content = fs::read(self.path("allowed_signers")).unwrap();
        verify(text, signature, identity, AllowedSigners { name: "signers", content: &content })
    }

    /// Says why a signature is not good.
    fn refused(&self, text: &str, signature: &str, identity: &str) -> String {
        let error = self.verify(text, signature, identity).unwrap_err();
        assert!(matches!(error, Error::NotGood { .. }), "{error:?}");
        self.show(&error)
    }

    fn show(&self, error: &Error) -> String {
        error.to_string().replace(self.directory.path().to_str().unwrap(), "$TMP")
    }

    /// Returns a repository with settings.
    fn repo(&self, settings: &[(&str, &str)]) -> Repo {
        let path = self.path("repo");
        fs::create_dir(&path).unwrap();
        program("git", &path, &["init", "--quiet"], &[]);
        let identity = ["-c", "user.name=x", "-c", "user.email=x@example.com"];
        program("git", &path, &identity, &["commit", "--quiet", "--allow-empty", "-m", "first"]);
        for (name, value) in settings {
            program("git", &path, &["config", name, value], &[]);
        }
        let mut env = vec![("HOME".into(), Some(self.directory.path().into()))];
        env.extend(GIT.map(|(name, value)| (name.into(), Some(value.into()))));
        Repo::discover_with(Git::with_env(env), &path).unwrap()
    }
}

const GIT: [(&str, &str); 2] = [("GIT_CONFIG_NOSYSTEM", "1"), ("GIT_CONFIG_GLOBAL", "/dev/null")];

fn program(name: &str, directory: &Path, args: &[&str], more: &[&str]) {
    #[expect(clippy::disallowed_methods, reason = "the test plays the user")]
    let mut command = Command::new(name);
    command.current_dir(directory).args(args).args(more).envs(GIT).stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| panic!("`{name}` is needed: {error}"));
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_signature_by_an_allowed_key_is_good() {
    let keys = Keys::new();
    let text = Vote::Approve.signed_text("sha256:aa");
    let signature = keys.sign(&text, "ada");
    assert!(signature.starts_with("-----BEGIN SSH SIGNATURE-----\n"), "{signature}");
    keys.verify(&text, &signature, "ada@example.com").unwrap();
}

#[test]
fn a_changed_text_is_found() {
    let keys = Keys::new();
    let signature = keys.sign(&Vote::Approve.signed_text("sha256:aa"), "ada");
    for other in [Vote::Reject.signed_text("sha256:aa"), Vote::Approve.signed_text("sha256:ab")] {
        let why = keys.refused(&other, &signature, "ada@example.com");
        insta::allow_duplicates! {
            insta::assert_snapshot!(why, @"Signature verification failed: incorrect signature");
        }
    }
}

#[test]
fn the_key_of_somebody_who_is_not_allowed_is_found() {
    let keys = Keys::new();
    let signature = keys.sign("yes\n", "eve");
    insta::assert_snapshot!(keys.refused("yes\n", &signature, "ada@example.com"), @"its key is not in `signers`, or no longer counts");
    insta::assert_snapshot!(keys.refused("yes\n", &signature, "eve@example.com"), @"its key is not in `signers`, or no longer counts");
}

#[test]
fn the_key_of_another_person_is_found() {
    let keys = Keys::new();
    let people = [("ada", "ada@example.com"), ("eve", "eve@example.com")];
    let lines = people.map(|(name, mail)| format!("{mail} {}\n", keys.public(name)));
    keys.allow(&lines.concat());
    let signature = keys.sign("yes\n", "eve");
    keys.verify("yes\n", &signature, "eve@example.com").unwrap();
    insta::assert_snapshot!(keys.refused("yes\n", &signature, "ada@example.com"), @"its key is that of eve@example.com, not of ada@example.com");
    insta::assert_snapshot!(keys.refused("yes\n", &signature, "*@example.com"), @"its key is that of eve@example.com, not of *@example.com");
}

#[test]
fn a_signature_that_was_made_for_something_else_does_not_count() {
    let keys = Keys::new();
    fs::File::create_new(keys.path("text")).unwrap();
    let key = keys.path("ada");
    let args = ["-Y", "sign", "-n", "git", "-f", key.to_str().unwrap()];
    program("ssh-keygen", keys.directory.path(), &args, &["text"]);
    let signature = fs::read_to_string(keys.path("text.sig")).unwrap();
    let why = keys.refused("", &signature, "ada@example.com");
    assert!(why.contains("namespace"), "{why}");
}

#[test]
fn what_is_no_signature_does_not_count() {
    let keys = Keys::new();
    let good = keys.sign("yes\n", "ada");
    let cut = &good[..good.len() / 2];
    let long = good.clone() + &"x".repeat(100_000);
    for text in ["", "yes", cut, &long] {
        let why = keys.refused("yes\n", text, "ada@example.com");
        assert!(!why.is_empty());
    }
    insta::assert_snapshot!(keys.refused("yes\n", "yes", "ada@example.com"), @"it is not a signature that `ssh-keygen -Y sign` makes");
}

#[test]
fn a_key_that_is_no_longer_valid_does_not_count() {
    let keys = Keys::new();
    let ada = keys.public("ada");
    keys.allow(&format!("ada@example.com valid-before=\"20200101\" {ada}\n"));
    let signature = keys.sign("yes\n", "ada");
    keys.refused("yes\n", &signature, "ada@example.com");
}

#[test]
fn a_key_that_cannot_be_used_is_named_and_nobody_is_asked() {
    let keys = Keys::new();
    keys.make("locked", "secret");
    let refused = |name| {
        let error = sign("yes\n", &SigningKey::File(keys.path(name))).unwrap_err();
        assert!(matches!(error, Error::Key { .. }), "{error:?}");
        assert!(error.hint().is_some());
        keys.show(&error)
    };
    insta::assert_snapshot!(refused("missing"), @"cannot sign with the key `$TMP/missing`: No such file or directory (os error 2)");
    let locked = refused("locked");
    assert!(locked.contains("passphrase"), "{locked}");
}

#[test]
fn a_program_that_is_not_installed_is_named() {
    let error = run_ssh_keygen_program("no-such-ssh-keygen", &[], "").unwrap_err();
    insta::assert_snapshot!(format!("{error}; {}", error.hint().unwrap()), @"`ssh-keygen` is not installed, or not on the `PATH`; install OpenSSH; Debian calls it `openssh-client`");
}

#[test]
fn the_key_is_the_one_that_git_signs_with() {
    let keys = Keys::new();
    let repo = keys.repo(&[("gpg.format", "ssh"), ("user.signingkey", "~/ada")]);
    let key = SigningKey::from_git_config(&repo).unwrap();
    assert_eq!(key, SigningKey::File(keys.path("ada")));
    let signature = sign("yes\n", &key).unwrap();
    keys.verify("yes\n", &signature, "ada@example.com").unwrap();
}

#[test]
fn a_public_key_in_the_configuration_stands_for_one_in_the_agent() {
    let keys = Keys::new();
    let ada = keys.public("ada");
    let repo = keys.repo(&[("gpg.format", "ssh"), ("user.signingkey", &format!("key::{ada}"))]);
    assert_eq!(SigningKey::from_git_config(&repo).unwrap(), SigningKey::Public(ada));
}

#[test]
fn a_key_that_only_the_agent_has_signs() {
    let name = "identity::tests::a_key_that_only_the_agent_has_signs";
    if let Some(directory) = process::in_child() {
        let public = fs::read_to_string(directory.join("ada.pub")).unwrap();
        let signature = sign("yes\n", &SigningKey::Public(public.trim().to_owned())).unwrap();
        let content = fs::read(directory.join("allowed_signers")).unwrap();
        let signers = AllowedSigners { name: "signers", content: &content };
        verify("yes\n", &signature, "ada@example.com", signers).unwrap();
        return;
    }
    let keys = Keys::new();
    // The agent ends with the program that it was started for.
    let shell = r#"exec ssh-agent sh -c 'cd "$PRODIGY_TEST_CHILD" && ssh-add -q ada && rm ada &&
        exec "$@"' sh "$@""#;
    process::run_child(name, shell, &keys.directory);
    assert!(!keys.path("ada").exists());
}

#[test]
fn without_a_key_of_ssh_there_is_none() {
    let keys = Keys::new();
    let repo = keys.repo(&[("user.signingkey", "0xABCD")]);
    let error = SigningKey::from_git_config(&repo).unwrap_err();
    insta::assert_snapshot!(format!("{error}; {}", error.hint().unwrap()), @"there is no key to sign with: git is not set up to sign with keys of ssh; pass `--key FILE`, or set it up with `git config gpg.format ssh` and `git config user.signingkey FILE`");
}

#[test]
fn people_are_who_git_says_or_else_who_the_system_says() {
    let keys = Keys::new();
    let repo = keys.repo(&[("user.email", " ada\u{1b}@example.com ")]);
    assert_eq!(asserted_identity(&repo, "root"), "ada @example.com");
    let other = Keys::new();
    assert_eq!(asserted_identity(&other.repo(&[]), " root\n"), "root");
}
