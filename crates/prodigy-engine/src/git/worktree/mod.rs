//! The worktree of a job, which agents work in.

pub(crate) mod commit;
pub(crate) mod fingerprint;
pub(crate) mod kept_files;
pub(crate) mod lifecycle;
pub(crate) mod patch;
pub(crate) mod preserve;
pub(crate) mod slot;
pub(crate) mod slot_reset;
pub(crate) mod snapshot;

use std::{
    fs, io,
    os::unix::fs::FileTypeExt as _,
    path::{Path, PathBuf},
};

use super::{
    Error, Repo,
    command::{GitCommand, GitDirs, display_path},
    isolation::isolated_git_dir::{IsolatedGitDir, read_regular_or_empty},
};

/// The files that git leaves in a worktree's directory during operations of several steps.
const HALF_DONE: &[&str] = &[
    "MERGE_HEAD",
    "MERGE_MSG",
    "MERGE_MODE",
    "MERGE_AUTOSTASH",
    "AUTO_MERGE",
    "SQUASH_MSG",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "BISECT_LOG",
    "BISECT_START",
    "BISECT_NAMES",
    "BISECT_TERMS",
    "BISECT_EXPECTED_REV",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
];

/// The worktree of a job.
///
/// It is ours alone, and no process of a step is running while we use it: locks
/// that are found in it are leftovers.
#[derive(Clone, Debug)]
pub struct Worktree {
    pub(crate) repo: Repo,
    pub(crate) place: GitDirs,
    pub(crate) branch: String,
}

impl Worktree {
    pub(crate) fn new(repo: Repo, place: GitDirs, branch: &str) -> Self {
        Self { repo, place, branch: branch.to_owned() }
    }

    /// Returns where the files are.
    pub fn path(&self) -> &Path {
        &self.place.work_tree
    }

    /// Returns the repository.
    pub fn repo(&self) -> &Repo {
        &self.repo
    }

    /// Returns the job's branch.
    pub fn branch(&self) -> &str {
        &self.branch
    }

    /// Returns the commit that is checked out, without starting git if that can be avoided.
    pub fn head(&self) -> Result<String, Error> {
        self.verify_integrity()?;
        if let Some(commit) = self.read_head() {
            return Ok(commit);
        }
        self.call(&["rev-parse", "--verify", "HEAD^{commit}"]).run_text()
    }

    /// Returns the branch that is checked out, which an agent may have changed; `None` if detached.
    pub fn checked_out(&self) -> Result<Option<String>, Error> {
        let name = self.call(&["symbolic-ref", "--quiet", "HEAD"]).accept_codes(&[1]).run_text()?;
        Ok(name.strip_prefix("refs/heads/").map(ToOwned::to_owned))
    }

    /// Brings the job's branch to what is checked out, if an agent went to another branch.
    ///
    /// Returns the commit that the job's branch stands at afterwards, or `None` if
    /// what is checked out does not contain all of the job's branch; then nothing
    /// is changed, since commits would be dropped.
    pub fn adopt_head(&self) -> Result<Option<String>, Error> {
        let head = self.head()?;
        let name = format!("refs/heads/{}", self.branch);
        if self.checked_out()?.as_deref() == Some(&*self.branch) {
            return Ok(Some(head));
        }
        let old = self.repo.branch_tip(&self.branch)?;
        if let Some(old) = &old
            && !self.repo.is_ancestor(old, &head)?
        {
            return Ok(None);
        }
        let update = ["update-ref", "-m", "prodigy: adopt", &name, &head];
        self.call(&update).args([old.unwrap_or_default()]).durable().run()?;
        self.call(&["symbolic-ref", "-m", "prodigy: adopt", "HEAD", &name]).durable().run()?;
        Ok(Some(head))
    }

    /// Returns the paths that differ from the last commit, ignored files left out.
    pub fn uncommitted_paths(&self) -> Result<Vec<String>, Error> {
        let args = ["status", "--porcelain", "-z", "--no-renames", "--untracked-files=all"];
        self.verify_integrity()?;
        // Looking into submodules would run what their own settings say.
        let call = self.call(&args).args(["--ignore-submodules=dirty"]);
        let fields = call.read_only().run_fields()?;
        Ok(fields.iter().map(|field| display_path(field.get(3..).unwrap_or_default())).collect())
    }

    /// Brings the index and the files to where the branch stands now.
    ///
    /// Changes that were not committed go; untracked and ignored files stay.
    pub fn reset_to_branch(&self) -> Result<(), Error> {
        self.verify_integrity()?;
        self.repair_link()?;
        self.remove_locks()?;
        self.abort_git_operations()?;
        let no_branch = || Error::NoSuchBranch { branch: self.branch.clone() };
        let tip = self.repo.branch_tip(&self.branch)?.ok_or_else(no_branch)?;
        let name = format!("refs/heads/{}", self.branch);
        self.call(&["symbolic-ref", "-m", "prodigy: sync", "HEAD", &name]).durable().run()?;
        let (shelter, index) =
            (IsolatedGitDir::for_worktree(self)?, self.place.git_dir.join("index"));
        shelter.call(&["read-tree", "--reset", "-u", &tip]).index(&index).run()?;
        Ok(())
    }

    /// Removes what a process that was killed left in git's way.
    pub(crate) fn remove_locks(&self) -> Result<(), Error> {
        let branch = format!("refs/heads/{}.lock", self.branch);
        remove(&self.place.common_dir.join(branch))?;
        for name in ["index.lock", "HEAD.lock"] {
            remove(&self.place.git_dir.join(name))?;
        }
        Ok(())
    }

    /// Ends merges, rebases and the like that were begun and not finished.
    pub(crate) fn abort_git_operations(&self) -> Result<(), Error> {
        for name in HALF_DONE {
            remove(&self.place.git_dir.join(name))?;
        }
        Ok(())
    }

    /// Makes the worktree's `.git` file lead to the repository again, if an agent changed it.
    pub(crate) fn repair_link(&self) -> Result<(), Error> {
        if self.has_valid_link() {
            return Ok(());
        }
        let link = self.path().join(".git");
        remove(&link)?;
        let mut file = fs::File::create_new(&link).map_err(Error::file("write", &link))?;
        io::Write::write_all(&mut file, &self.link()).map_err(Error::file("write", &link))
    }

    /// Returns what the worktree's `.git` file says when git has made it.
    fn link(&self) -> Vec<u8> {
        [b"gitdir: ", self.place.git_dir.as_os_str().as_encoded_bytes(), b"\n"].concat()
    }

    /// Returns whether the worktree's `.git` file leads to our directory, by an absolute path
    /// or a relative one.
    pub(crate) fn has_valid_link(&self) -> bool {
        let link = self.path().join(".git");
        // A link to our directory is short; a longer file would only fill our memory.
        let is_file =
            link.symlink_metadata().is_ok_and(|found| found.is_file() && found.len() < 64 * 1024);
        let Some(text) = is_file.then(|| fs::read(&link).ok()).flatten() else { return false };
        if text == self.link() {
            return true;
        }
        let target = text.strip_prefix(b"gitdir: ").and_then(|text| text.strip_suffix(b"\n"));
        let target = target.and_then(|target| std::str::from_utf8(target).ok());
        let resolved = target.and_then(|target| self.path().join(target).canonicalize().ok());
        resolved.is_some_and(|resolved| resolved == self.place.git_dir)
    }

    /// Refuses to work in what an agent has put in the place of the worktree, or of a file
    /// that git reads: git follows a link wherever it leads and waits for a pipe.
    pub(crate) fn verify_integrity(&self) -> Result<(), Error> {
        if !self.path().canonicalize().is_ok_and(|path| path == self.path()) {
            return Err(Error::Replaced { path: self.path().to_owned() });
        }
        let branch = self.place.common_dir.join("refs/heads").join(&self.branch);
        let of_git = ["HEAD", "index"].map(|name| self.place.git_dir.join(name));
        let in_tree = [".gitattributes", ".gitignore"].map(|name| self.path().join(name));
        for path in of_git.into_iter().chain(in_tree).chain([branch]) {
            if fs::metadata(&path).is_ok_and(|found| blocks_on_open(found.file_type())) {
                return Err(Error::Special { path });
            }
        }
        Ok(())
    }

    /// Starts a call in this worktree.
    pub(crate) fn call<'a>(&'a self, args: &[&str]) -> GitCommand<'a> {
        self.repo.git.command_in(&self.place, args)
    }

    /// Reads HEAD from its files; `None` if they are of a kind that only git understands.
    fn read_head(&self) -> Option<String> {
        let text = fs::read_to_string(self.place.git_dir.join("HEAD")).ok()?;
        let Some(name) = text.strip_prefix("ref: ") else { return hash(&text) };
        let name = Path::new(name.trim_end());
        // A reference never leaves `refs`; a path that does is no reference.
        let is_plain =
            name.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        let file: PathBuf = self.place.common_dir.join(name);
        let is_branch = is_plain && name.starts_with("refs/heads");
        hash(&fs::read_to_string(is_branch.then_some(file)?).ok()?)
    }
}

/// Returns whether reading such a file may never end.
pub(crate) fn blocks_on_open(kind: fs::FileType) -> bool {
    kind.is_fifo() || kind.is_char_device()
}

/// Returns a file's text if it is a commit's hash and nothing else.
fn hash(text: &str) -> Option<String> {
    let text = text.strip_suffix('\n')?;
    is_hash(text).then(|| text.to_owned())
}

/// Returns whether a text is the full hash of an object.
pub(crate) fn is_hash(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|b| b.is_ascii_hexdigit())
}

/// Removes a file or directory that need not exist.
pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    let Ok(metadata) = path.symlink_metadata() else { return Ok(()) };
    let removed = if metadata.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.map_err(Error::file("remove", path)),
    }
}

/// The prefix of the branches of jobs and items.
const OURS: &str = "prodigy/";

/// The branch in HEAD when the references are not files: only git can tell more.
const NO_FILE: &str = ".invalid";

impl Worktree {
    /// Returns an error if a directory is not in this worktree, or if git would not work
    /// on this worktree's own branch there.
    ///
    /// A step may go to a branch of its own or to no branch at all. It may not be on one
    /// that another worktree has checked out, or that is of another item: what it commits
    /// would change under somebody's hands.
    pub fn verify_location(&self, directory: &Path) -> Result<(), Error> {
        let path = self.path();
        let found = path.symlink_metadata();
        if found.is_err() {
            return Err(misplaced(format!("the worktree `{}` is gone", path.display())));
        }
        if found.is_ok_and(|found| !found.is_dir()) {
            let what =
                format!("something else is in the place of the worktree `{}`", path.display());
            return Err(misplaced(what));
        }
        self.verify_integrity()?;
        // In one that does not exist nothing can be started.
        if directory != path && directory.canonicalize().is_ok_and(|found| !found.starts_with(path))
        {
            let (directory, path) = (directory.display(), path.display());
            return Err(misplaced(format!("`{directory}` is not in the worktree `{path}`")));
        }
        if !self.is_linked() {
            let what = format!(
                "`{}` does not lead to the job's repository any more, so git would work in another one",
                path.join(".git").display()
            );
            return Err(misplaced(what));
        }
        self.check_branch()
    }

    /// Returns whether the worktree and its directory in the repository belong together.
    fn is_linked(&self) -> bool {
        let admin = &self.place.git_dir;
        let is_ours = admin.symlink_metadata().is_ok_and(|found| found.is_dir());
        is_ours && self.has_valid_link()
    }

    /// Returns an error if HEAD is on a branch of somebody else's.
    fn check_branch(&self) -> Result<(), Error> {
        let head = self.place.git_dir.join("HEAD");
        let Some(branch) = branch_of(&head)? else { return Ok(()) };
        if branch == self.branch || branch == NO_FILE {
            return Ok(());
        }
        if branch.starts_with(OURS) {
            let what = format!("the worktree is on `{branch}`, a branch of another item or job");
            return Err(misplaced(what));
        }
        let Some(elsewhere) = self.has_checked_out(&branch)? else { return Ok(()) };
        Err(misplaced(format!(
            "the worktree is on branch `{branch}`, which `{}` has checked out: commits would change it there",
            elsewhere.display()
        )))
    }

    /// Returns another working tree of the repository that has a branch checked out.
    fn has_checked_out(&self, branch: &str) -> Result<Option<PathBuf>, Error> {
        let common = &self.place.common_dir;
        if branch_of(&common.join("HEAD"))?.as_deref() == Some(branch) {
            return Ok(Some(self.repo.root().to_owned()));
        }
        for entry in fs::read_dir(common.join("worktrees")).into_iter().flatten().flatten() {
            let admin = entry.path();
            if admin != self.place.git_dir
                && branch_of(&admin.join("HEAD"))?.as_deref() == Some(branch)
            {
                let link = read_regular_or_empty(&admin.join("gitdir"))?;
                let link = PathBuf::from(String::from_utf8_lossy(&link).trim_end());
                return Ok(Some(link.parent().map_or(admin, Path::to_owned)));
            }
        }
        Ok(None)
    }
}

/// Returns the branch that a HEAD is on; `None` if it is on none.
fn branch_of(head: &Path) -> Result<Option<String>, Error> {
    let text = read_regular_or_empty(head)?;
    let text = String::from_utf8_lossy(&text);
    Ok(text.strip_prefix("ref: refs/heads/").map(|name| name.trim_end().to_owned()))
}

fn misplaced(what: String) -> Error {
    Error::Misplaced { what }
}
