//! Calling git without believing anything that agents can write to.
//!
//! The guard takes back what an agent planted in the repository's configuration, but
//! other agents are at work while one item's worktree is prepared or merged, and a
//! filter or a merge driver would run at once. So these calls get a git directory of
//! our own, with the settings as they were before any agent ran. It shares nothing
//! with the repository but the objects.

use std::{
    fs::{self, DirBuilder},
    io::{self, Read as _},
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::git::{
    Error, Repo, Worktree,
    command::{GitCommand, GitDirs},
    worktree::remove,
};

/// The most of one file that is looked at; what is larger is no configuration.
const MOST_BYTES: u64 = 4 << 20;

/// Settings without which an index would not be one plain file of ours.
const PLAIN: &[&str] = &[
    "index.version=2",
    "index.sparse=false",
    "feature.manyFiles=false",
    "core.splitIndex=false",
    "core.untrackedCache=false",
    "core.logAllRefUpdates=false",
];

/// The name of the branch that stands for what is checked out, and of the one it began from.
pub(crate) const ITEM: &str = "item";
pub(crate) const BASE: &str = "base";

/// A repository's settings as they were when they could be trusted.
#[derive(Debug)]
pub(crate) struct FrozenConfig {
    config: Vec<u8>,
    exclude: Vec<u8>,
    shallow: Vec<u8>,
    /// Set if each reference is a file; newer repositories may have a table instead.
    pub(crate) has_ref_files: bool,
}

/// A git directory of our own.
#[derive(Debug)]
pub(crate) struct IsolatedGitDir {
    repo: Repo,
    place: GitDirs,
    objects: PathBuf,
    /// Only to be dropped.
    _temporary: Option<TempDir>,
}

impl Repo {
    /// Returns the settings as they were at the first call, which must come before any agent
    /// runs, or after the guard has checked.
    pub(crate) fn frozen_config(&self) -> Result<&FrozenConfig, Error> {
        if let Some(frozen) = self.frozen.get() {
            return Ok(frozen);
        }
        let frozen = FrozenConfig::take(self)?;
        Ok(self.frozen.get_or_init(|| frozen))
    }
}

impl FrozenConfig {
    fn take(repo: &Repo) -> Result<Self, Error> {
        let list = ["config", "--list", "--includes", "--show-scope", "-z"];
        let fields = repo.call(&list).read_only().run_fields()?;
        let mut config = Vec::new();
        let (mut has_ref_files, mut has_extensions) = (true, false);
        let mut fields = fields.iter();
        while let (Some(scope), Some(setting)) = (fields.next(), fields.next()) {
            let mut parts = setting.splitn(2, |byte| *byte == b'\n');
            let (name, value) = (parts.next().unwrap_or_default(), parts.next());
            if name == b"extensions.refstorage" {
                has_ref_files = value == Some(b"files");
            } else if scope != b"command" && !is_location_setting(name) {
                has_extensions |= name.starts_with(b"extensions.");
                write_setting(&mut config, name, value);
            }
        }
        let version: &[u8] = if has_extensions { b"1" } else { b"0" };
        write_setting(&mut config, b"core.repositoryformatversion", Some(version));
        write_setting(&mut config, b"core.bare", Some(b"false"));
        // `status` then tells how many commits were added.
        let branch = format!("branch.{ITEM}");
        write_setting(&mut config, format!("{branch}.remote").as_bytes(), Some(b"."));
        let base = format!("refs/heads/{BASE}");
        write_setting(&mut config, format!("{branch}.merge").as_bytes(), Some(base.as_bytes()));
        let common = repo.common_dir();
        Ok(Self {
            config,
            exclude: read_regular_or_empty(&common.join("info/exclude"))?,
            shallow: read_regular_or_empty(&common.join("shallow"))?,
            has_ref_files,
        })
    }
}

impl IsolatedGitDir {
    /// Makes a shelter beside a worktree, for calls about it.
    pub(crate) fn for_worktree(tree: &Worktree) -> Result<Self, Error> {
        let path = isolated_git_dir_path(tree.path());
        remove(&path)?;
        let made = DirBuilder::new().mode(0o700).create(&path);
        made.map_err(Error::file("create", &path))?;
        let shelter = Self::within(&tree.repo, path, tree.path().to_owned(), None)?;
        let sparse = read_regular_or_empty(&tree.place.git_dir.join("info/sparse-checkout"))?;
        if !sparse.is_empty() {
            shelter.write("info/sparse-checkout", &sparse)?;
        }
        Ok(shelter)
    }

    /// Makes a shelter for calls that are about a branch and no worktree.
    ///
    /// It replaces those that earlier processes could not remove: a branch has one at a time.
    pub(crate) fn for_branch(repo: &Repo, branch: &str) -> Result<Self, Error> {
        remove_isolated_dirs_of_branch(repo, branch)?;
        let directory = tempfile::Builder::new()
            .prefix(&prefix_of(branch))
            .permissions(fs::Permissions::from_mode(0o700))
            .tempdir_in(repo.common_dir());
        let directory = directory.map_err(Error::file("write to", repo.common_dir()))?;
        let path = directory.path().to_owned();
        let work_tree = path.join("work");
        fs::create_dir(&work_tree).map_err(Error::file("create", &work_tree))?;
        Self::within(repo, path, work_tree, Some(directory))
    }

    fn within(
        repo: &Repo,
        path: PathBuf,
        work_tree: PathBuf,
        temporary: Option<TempDir>,
    ) -> Result<Self, Error> {
        let frozen = repo.frozen_config()?;
        for directory in ["refs", "refs/heads", "info"].map(|name| path.join(name)) {
            fs::create_dir(&directory).map_err(Error::file("create", &directory))?;
        }
        let objects = repo.common_dir().join("objects");
        // Large files that a filter of the user's fetched are looked for there.
        let (lfs, link) = (repo.common_dir().join("lfs"), path.join("lfs"));
        if lfs.is_dir() {
            std::os::unix::fs::symlink(lfs, &link).map_err(Error::file("write", &link))?;
        }
        let place = GitDirs { git_dir: path.clone(), common_dir: path, work_tree };
        let shelter = Self { repo: repo.clone(), place, objects, _temporary: temporary };
        shelter.write("HEAD", format!("ref: refs/heads/{ITEM}\n").as_bytes())?;
        shelter.write("info/exclude", &frozen.exclude)?;
        if !frozen.shallow.is_empty() {
            shelter.write("shallow", &frozen.shallow)?;
        }
        shelter.rewrite_config()?;
        Ok(shelter)
    }

    /// Makes sure that the settings are still ours.
    pub(crate) fn rewrite_config(&self) -> Result<(), Error> {
        let config = &self.repo.frozen_config()?.config;
        if read_regular_or_empty(&self.path("config")).is_ok_and(|found| found == *config) {
            return Ok(());
        }
        remove(&self.path("config"))?;
        self.write("config", config)
    }

    /// Returns a path in the shelter.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.place.git_dir.join(name)
    }

    /// Writes a file in the shelter.
    pub(crate) fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.path(name);
        let written =
            fs::File::create(&path).and_then(|mut file| io::Write::write_all(&mut file, bytes));
        written.map_err(Error::file("write", &path))
    }

    /// Starts a call.
    pub(crate) fn call<'a>(&'a self, args: &[&str]) -> GitCommand<'a> {
        self.repo
            .git
            .command_in(&self.place, args)
            .settings(PLAIN)
            .env("GIT_COMMON_DIR", &self.place.git_dir)
            .env("GIT_OBJECT_DIRECTORY", &self.objects)
            // The user's own settings were remembered with the repository's.
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_CONFIG_NOSYSTEM", "1")
    }
}

impl Drop for IsolatedGitDir {
    fn drop(&mut self) {
        // What is left is replaced when the worktree's next shelter is made.
        remove(&self.place.git_dir).ok();
    }
}

/// Returns where the shelter of a worktree is.
pub(crate) fn isolated_git_dir_path(work_tree: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(work_tree.file_name().unwrap_or_default());
    name.push(".git");
    work_tree.with_file_name(name)
}

/// Removes the shelters of a branch that processes which were killed left behind.
pub(crate) fn remove_isolated_dirs_of_branch(repo: &Repo, branch: &str) -> Result<(), Error> {
    let (common, prefix) = (repo.common_dir(), prefix_of(branch));
    for entry in fs::read_dir(common).map_err(Error::file("read", common))? {
        let entry = entry.map_err(Error::file("read", common))?;
        if entry.file_name().as_encoded_bytes().starts_with(prefix.as_bytes()) {
            remove(&entry.path())?;
        }
    }
    Ok(())
}

/// Returns how the names of a branch's shelters begin; no branch has such a name.
fn prefix_of(branch: &str) -> String {
    format!("{}~", branch.replace('/', "-"))
}

/// Returns whether a setting is about where a repository is or how it is stored.
fn is_location_setting(name: &[u8]) -> bool {
    const NAMES: &[&[u8]] = &[
        b"core.bare",
        b"core.worktree",
        b"core.repositoryformatversion",
        b"extensions.worktreeconfig",
        b"include.path",
    ];
    NAMES.contains(&name) || name.starts_with(b"includeif.")
}

/// Writes a setting as a configuration file has it.
fn write_setting(config: &mut Vec<u8>, name: &[u8], value: Option<&[u8]>) {
    let first = name.iter().position(|byte| *byte == b'.').unwrap_or_default();
    let last = name.iter().rposition(|byte| *byte == b'.').unwrap_or_default();
    let section = name.get(..first).unwrap_or_default();
    let key = name.get(last + 1..).unwrap_or_default();
    config.push(b'[');
    config.extend(section);
    if let Some(subsection) = name.get(first + 1..last) {
        config.extend(b" ");
        write_quoted(config, subsection);
    }
    config.extend(b"]\n");
    config.extend(key);
    if let Some(value) = value {
        config.extend(b" = ");
        write_quoted(config, value);
    }
    config.push(b'\n');
}

fn write_quoted(config: &mut Vec<u8>, text: &[u8]) {
    config.push(b'"');
    for byte in text {
        match byte {
            b'"' | b'\\' => config.extend([b'\\', *byte]),
            b'\n' => config.extend(b"\\n"),
            byte => config.push(*byte),
        }
    }
    config.push(b'"');
}

/// Returns a path as git wants it in a list of paths, where a colon would end it.
pub(crate) fn quote_path_list_entry(path: &Path) -> std::ffi::OsString {
    let mut text = Vec::new();
    write_quoted(&mut text, path.as_os_str().as_encoded_bytes());
    std::os::unix::ffi::OsStringExt::from_vec(text)
}

/// Returns what is in a file that need not exist; what is no plain file counts as empty.
pub(crate) fn read_regular_or_empty(path: &Path) -> Result<Vec<u8>, Error> {
    let is_plain = path.symlink_metadata().is_ok_and(|found| found.is_file());
    if !is_plain {
        return Ok(Vec::new());
    }
    let mut bytes = Vec::new();
    fs::File::open(path)
        .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut bytes))
        .map_err(Error::file("read", path))?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_written_so_that_git_reads_the_same() {
        let mut config = Vec::new();
        write_setting(&mut config, b"core.autocrlf", Some(b"input"));
        write_setting(&mut config, b"filter.a \"b\".c\\d.clean", Some(b"x \"$1\" # no\n;\ty"));
        write_setting(&mut config, b"some.flag", None);
        insta::assert_snapshot!(String::from_utf8(config).unwrap(), @r#"
        [core]
        autocrlf = "input"
        [filter "a \"b\".c\\d"]
        clean = "x \"$1\" # no\n;	y"
        [some]
        flag
        "#);
    }
}
