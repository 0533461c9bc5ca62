//! A patch of an attempt's uncommitted changes.

use std::{fs, path::Path};

use prodigy_core::mask::Mask;

use super::remove;
use crate::{
    git::{
        Error, Repo, WorktreeSlot, WorktreeStatus,
        command::{GitCommand, split_fields},
        index,
        isolation::isolated_git_dir::quote_path_list_entry,
    },
    process,
};

/// The largest patch that is made.
const MOST_BYTES: usize = 16 << 20;

/// The most that is read to make one: what was changed may shrink a lot in a patch.
const MOST_READ: u64 = 64 << 20;

/// The options for a patch that `git apply` reads whatever the user's settings are.
const PLAIN: &[&str] = &[
    "--patch",
    "--binary",
    "--full-index",
    "--unified=3",
    "--inter-hunk-context=0",
    "--no-renames",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--ignore-submodules=dirty",
    "--submodule=short",
];

/// The line that what is not text begins with.
const BINARY: &[u8] = b"\nGIT binary patch\n";

/// All that an attempt changed and did not commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Patch {
    /// The input for `git apply`, without secrets.
    pub bytes: Vec<u8>,
    /// The files that are not in it, because nobody could see in it that they hold a secret.
    pub left_out: Vec<String>,
}

impl WorktreeSlot {
    /// Returns all that differs from the commit that is checked out, new files included and
    /// ignored and kept ones left out; `None` if it is too large.
    ///
    /// Neither the worktree's index nor the repository is touched: what has to be written is
    /// written to the shelter. Secrets are masked. A patch encodes what is not text, so that a
    /// secret in it could not be found any more: such files are left out.
    pub fn patch(&self, left: &WorktreeStatus, mask: &Mask) -> Result<Option<Patch>, Error> {
        if self.size_of(left) > MOST_READ {
            return Ok(None);
        }
        self.shelter.rewrite_config()?;
        let objects = self.shelter.path("scratch-objects");
        remove(&objects)?;
        fs::create_dir(&objects).map_err(Error::file("create", &objects))?;
        let made = self.make_patch(left, &objects, mask);
        remove(&objects)?;
        match made {
            Err(Error::Run { source: process::Error::TooMuchOutput { .. }, .. }) => Ok(None),
            other => Ok(Some(other?).filter(|patch| patch.bytes.len() <= MOST_BYTES)),
        }
    }

    fn make_patch(
        &self,
        left: &WorktreeStatus,
        objects: &Path,
        mask: &Mask,
    ) -> Result<Patch, Error> {
        let head = &left.head;
        let index = match self.copy_of_index() {
            Err(Error::Failed { .. }) => self.write_index(head)?,
            other => other?,
        };
        let call = |args: &[&str]| self.scratch(args, objects).index(&index);
        index::remove_nested_repos(call, &index, self.tree.path(), head.len() / 2)?;
        let kept = self.kept.iter().filter_map(|path| path.to_str());
        let mut paths = vec![".".to_owned()];
        paths.extend(kept.map(exclude_pathspec));
        let add = ["add", "--all", "--sparse", "--ignore-errors", "--"];
        call(&add).args(&paths).accept_codes(&[1]).run()?;
        let diff = |paths: &[String]| -> Result<Vec<u8>, Error> {
            let diff = call(&["diff-index", "--cached"]).args(PLAIN).args([head, "--"]).args(paths);
            Ok(diff.run()?.stdout)
        };
        let mut bytes = diff(&paths)?;
        let mut hidden = Vec::new();
        if !mask.is_empty() && contains(&bytes, BINARY) {
            let count = ["diff-index", "--cached", "--numstat", "--no-renames", "-z", head, "--"];
            let counted = call(&count).args(&paths).run()?.stdout;
            hidden = secret_files(self.tree.path(), &counted, mask);
        }
        if !hidden.is_empty() {
            paths.extend(hidden.iter().map(|path| exclude_pathspec(path)));
            bytes = diff(&paths)?;
        }
        Ok(Patch { bytes: masked(mask, bytes), left_out: hidden })
    }

    /// Returns how much there is to read.
    fn size_of(&self, left: &WorktreeStatus) -> u64 {
        let size = |path: &String| {
            let found = self.tree.path().join(path).symlink_metadata();
            found.map_or(0, |found| found.len())
        };
        left.uncommitted.iter().map(|file| size(&file.path)).sum()
    }

    /// Starts a call whose objects are thrown away.
    fn scratch<'a>(&'a self, args: &[&str], objects: &Path) -> GitCommand<'a> {
        let of_repo = self.tree.repo.common_dir().join("objects");
        self.shelter
            .call(args)
            .env("GIT_OBJECT_DIRECTORY", objects)
            .env("GIT_ALTERNATE_OBJECT_DIRECTORIES", quote_path_list_entry(&of_repo))
    }
}

/// Returns the difference between a commit and a tree of the same worktree; `None` if it is
/// too large.
pub(crate) fn patch_between(
    repo: &Repo,
    work_tree: &Path,
    (head, tree): (&str, &str),
    mask: &Mask,
) -> Result<Option<Patch>, Error> {
    let mut paths = vec![".".to_owned()];
    let diff = |paths: &[String]| {
        let call = repo.call(&["diff-tree", "-r"]).args(PLAIN).args([head, tree, "--"]);
        match call.args(paths).run() {
            Err(Error::Run { source: process::Error::TooMuchOutput { .. }, .. }) => Ok(None),
            other => Ok(Some(other?.stdout)),
        }
    };
    let Some(mut bytes) = diff(&paths)? else { return Ok(None) };
    let mut hidden = Vec::new();
    if !mask.is_empty() && contains(&bytes, BINARY) {
        let count = ["diff-tree", "-r", "--numstat", "--no-renames", "-z", head, tree];
        hidden = secret_files(work_tree, &repo.call(&count).run()?.stdout, mask);
    }
    if !hidden.is_empty() {
        paths.extend(hidden.iter().map(|path| exclude_pathspec(path)));
        bytes = diff(&paths)?.unwrap_or_default();
    }
    let patch = Patch { bytes: masked(mask, bytes), left_out: hidden };
    Ok(Some(patch).filter(|patch| patch.bytes.len() <= MOST_BYTES))
}

/// Returns the files that are not text, as git counted them, and hold a secret.
fn secret_files(work_tree: &Path, counted: &[u8], mask: &Mask) -> Vec<String> {
    let binary = split_fields(counted)
        .into_iter()
        .filter_map(|field| String::from_utf8(field.strip_prefix(b"-\t-\t")?.to_vec()).ok());
    let is_secret = |path: &String| {
        let path = work_tree.join(path);
        let is_file = path.symlink_metadata().is_ok_and(|found| found.is_file());
        is_file && fs::read(&path).is_ok_and(|bytes| masked(mask, bytes.clone()) != bytes)
    };
    binary.filter(is_secret).collect()
}

/// Returns what tells git to leave out a path.
pub(crate) fn exclude_pathspec(path: &str) -> String {
    format!(":(exclude,literal){path}")
}

/// Takes secrets out of what is about to be stored.
fn masked(mask: &Mask, bytes: Vec<u8>) -> Vec<u8> {
    if mask.is_empty() {
        return bytes;
    }
    let mut stream = mask.stream();
    let mut out = stream.push(&bytes).into_owned();
    out.extend(stream.finish());
    out
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}
