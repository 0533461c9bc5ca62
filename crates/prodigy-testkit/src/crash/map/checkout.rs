//! The user's checkout, byte for byte.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::Path};

use crate::TestEnv;

/// Everything in a checkout that belongs to the user: files, index, HEAD, branch and stash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CheckoutContents(BTreeMap<String, Vec<u8>>);

impl CheckoutContents {
    /// Reads everything, without git writing anything back.
    pub(crate) fn read(world: &TestEnv) -> Self {
        let mut parts = BTreeMap::new();
        collect_files(&world.repo(), "", &mut parts);
        for name in ["index", "HEAD", "ORIG_HEAD", "MERGE_HEAD", "logs/HEAD", "logs/refs/stash"] {
            parts.insert(
                name.to_owned(),
                fs::read(world.repo().join(".git").join(name)).unwrap_or_default(),
            );
        }
        for args in [
            &["status", "--porcelain", "--ignored"][..],
            &["rev-parse", "HEAD", "refs/heads/main", "refs/stash"][..],
            &["stash", "list"][..],
            &["config", "--local", "--list"][..],
        ] {
            let mut git = world.command("git");
            // Without this `git status` writes what it found out to the index.
            let output = git.env("GIT_OPTIONAL_LOCKS", "0").args(args).output().unwrap();
            let said = [output.stdout, output.stderr].concat();
            parts.insert(format!("git {}", args.join(" ")), said);
        }
        Self(parts)
    }

    /// Returns an error that names what is not the same in another reading.
    pub(crate) fn check_same(&self, other: &Self) -> Result<(), String> {
        let names: std::collections::BTreeSet<_> = self.0.keys().chain(other.0.keys()).collect();
        let changed: Vec<_> =
            names.into_iter().filter(|name| self.0.get(*name) != other.0.get(*name)).collect();
        if changed.is_empty() {
            return Ok(());
        }
        Err(format!("the user's checkout changed: {changed:?}"))
    }
}

/// Adds the files below a directory with their permissions; `.git` belongs to git.
fn collect_files(directory: &Path, prefix: &str, parts: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = format!("{prefix}{}", entry.file_name().to_string_lossy());
        if name == ".git" {
            continue;
        }
        // A file that is gone again is a change that the next look does not need.
        let Ok(metadata) = entry.path().symlink_metadata() else { continue };
        if metadata.is_dir() {
            collect_files(&entry.path(), &format!("{name}/"), parts);
        } else {
            let mut bytes = format!("{:o}\n", metadata.permissions().mode()).into_bytes();
            bytes.extend(fs::read(entry.path()).unwrap_or_default());
            parts.insert(format!("file {name}"), bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_is_noticed_and_looking_changes_nothing() {
        let world = TestEnv::with_repo("prodigy");
        world.write("README.md", "changed\n");
        world.git(&["stash"]);
        let before = CheckoutContents::read(&world);
        let said = || {
            let said = before.check_same(&CheckoutContents::read(&world));
            said.err().unwrap_or_else(|| "same".to_owned())
        };
        assert_eq!(said(), "same");
        world.write("new.txt", "");
        insta::assert_snapshot!(said(), @r#"the user's checkout changed: ["file new.txt", "git status --porcelain --ignored"]"#);
        fs::remove_file(world.repo().join("new.txt")).unwrap();
        assert_eq!(said(), "same");
        world.git(&["update-index", "--refresh", "--really-refresh"]);
        world.git(&["update-ref", "refs/heads/other", "HEAD"]);
        assert_eq!(said(), "same");
        world.git(&["commit", "--quiet", "--allow-empty", "--message", "x"]);
        insta::assert_snapshot!(said(), @r#"the user's checkout changed: ["git rev-parse HEAD refs/heads/main refs/stash", "logs/HEAD"]"#);
    }
}
