//! Writing references without git, which costs a process each time.
//!
//! The protocol is git's own: whoever made the file with `.lock` at its end may
//! write, and renames it into place. Only references of one item are written this
//! way, and nobody else uses them by then.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use super::{
    Error, Repo, Worktree,
    command::display_path,
    isolation::isolated_git_dir::read_regular_or_empty,
    locks::RepoLock,
    merge::plumbing::unexpected_output,
    worktree::{is_hash, remove},
};

/// The most attempts to write a branch whose directory git removes meanwhile.
const TRIES: usize = 5;

/// Returns whether git takes this as the name of a branch.
pub(super) fn is_branch_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let has_case = Path::new(part).extension().is_some_and(|end| end == "lock");
        !part.is_empty() && !part.starts_with('.') && !part.ends_with('.') && !has_case
    };
    let is_bad = |byte: u8| byte <= b' ' || byte == 0x7f || b"~^:?*[\\".contains(&byte);
    name.split('/').all(is_part)
        && !name.starts_with('-')
        && !name.contains("..")
        && !name.contains("@{")
        && !name.bytes().any(is_bad)
}

/// Returns where a branch stands if it has a file of its own.
pub(super) fn read_branch(common_dir: &Path, branch: &str) -> Option<String> {
    let text = read_regular_or_empty(&common_dir.join("refs/heads").join(branch)).ok()?;
    let text = String::from_utf8(text).ok()?;
    let hash = text.strip_suffix('\n')?;
    is_hash(hash).then(|| hash.to_owned())
}

/// Points a branch at a commit.
pub(super) fn write_branch(common_dir: &Path, branch: &str, commit: &str) -> Result<(), Error> {
    let path = common_dir.join("refs/heads").join(branch);
    let mut tries = 1;
    loop {
        make_directories(common_dir, path.parent().unwrap_or(common_dir))?;
        match replace_locked(&path, format!("{commit}\n").as_bytes()) {
            // Git removes directories that have become empty.
            Err(Error::File { source, .. })
                if source.kind() == io::ErrorKind::NotFound && tries < TRIES =>
            {
                tries += 1;
            }
            other => return other,
        }
    }
}

/// Replaces one of git's files, by way of its lock.
#[expect(clippy::disallowed_methods, reason = "git's own way; after a loss of power it is redone")]
pub(super) fn replace_locked(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    let lock = PathBuf::from(lock);
    remove(&lock)?;
    fs::File::create_new(&lock)
        .and_then(|mut file| io::Write::write_all(&mut file, bytes))
        .and_then(|()| fs::rename(&lock, path))
        .map_err(Error::file("write", path))
}

/// Makes directories of git's, and follows no link that an agent put in the place of one.
pub(super) fn make_directories(root: &Path, directory: &Path) -> Result<(), Error> {
    let mut at = root.to_owned();
    for part in directory.strip_prefix(root).unwrap_or(directory).components() {
        let Component::Normal(part) = part else { continue };
        at.push(part);
        let linked = || Error::file("write to", &at)(io::Error::other("it is not a directory"));
        match at.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(linked()),
            Err(_) => match fs::create_dir(&at) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::file("create", &at)(error));
                }
                Ok(()) | Err(_) => {}
            },
        }
    }
    Ok(())
}

impl Repo {
    /// Deletes the branches that begin with `prefix`, except `target`, those that hold commits
    /// which `target` has not, and those that a worktree is on: it would stand on nothing.
    pub fn delete_item_branches(&self, prefix: &str, target: &str) -> Result<(), Error> {
        let _lock = RepoLock::acquire(self.common_dir())?;
        let all = format!("refs/heads/{prefix}");
        let format = "--format=%(refname) %(objectname)";
        let list = self.call(&["for-each-ref", format, &all]).run_text()?;
        let trees = self.worktrees()?;
        let is_out = |branch: &str| trees.iter().any(|tree| tree.branch.as_deref() == Some(branch));
        let mut commands = String::new();
        for (name, commit) in list.lines().filter_map(|line| line.split_once(' ')) {
            let branch = name.strip_prefix("refs/heads/").unwrap_or(name);
            if branch == target || is_out(branch) || !self.is_ancestor(commit, target)? {
                continue;
            }
            commands.push_str("delete ");
            commands.push_str(name);
            commands.push(' ');
            commands.push_str(commit);
            commands.push('\n');
        }
        if !commands.is_empty() {
            self.call(&["update-ref", "--stdin"]).stdin(commands).durable().run()?;
        }
        Ok(())
    }
}

/// A reference of a job that is no branch, and the commit below the one it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobReference {
    /// Its name, which begins with `refs/prodigy/`.
    pub name: String,
    /// The commit that it was recorded on.
    pub parent: String,
}

impl Repo {
    /// Returns the references of all jobs that are no branches: snapshots and records.
    pub fn job_references(&self) -> Result<Vec<JobReference>, Error> {
        let format = "--format=%(objecttype) %(refname) %(parent)";
        let text = self.call(&["for-each-ref", format, "refs/prodigy/"]).read_only().run_text()?;
        // What is no commit belongs to no job: anchors are texts.
        let commits = text.lines().filter_map(|line| line.strip_prefix("commit "));
        let reference = |line: &str| {
            let (name, parent) = line.split_once(' ').unwrap_or((line, ""));
            JobReference { name: name.to_owned(), parent: parent.to_owned() }
        };
        Ok(commits.map(reference).collect())
    }

    /// Deletes references of jobs that are no branches. What only they hold is lost.
    pub fn delete_job_references(&self, names: &[String]) -> Result<(), Error> {
        let mut commands = String::new();
        for name in names.iter().filter(|name| name.starts_with("refs/prodigy/")) {
            commands.extend(["delete ", name, "\n"]);
        }
        let _lock = RepoLock::acquire(self.common_dir())?;
        self.call(&["update-ref", "--stdin"]).stdin(commands).durable().run()?;
        Ok(())
    }

    /// Deletes the branches and references of a job. What only they hold is lost.
    pub fn delete_job(&self, job: &str) -> Result<(), Error> {
        let is_of_job = |name: &str, at: usize| name.split('/').nth(at) == Some(job);
        let mut names: Vec<String> =
            self.job_references()?.into_iter().map(|one| one.name).collect();
        names.retain(|name| is_of_job(name, 2));
        let branches = self.job_branches()?.into_iter().filter(|branch| is_of_job(branch, 1));
        names.extend(branches.map(|branch| format!("refs/heads/{branch}")));
        let commands: Vec<_> = names.iter().map(|name| format!("delete {name}\n")).collect();
        let _lock = RepoLock::acquire(self.common_dir())?;
        self.call(&["update-ref", "--stdin"]).stdin(commands.concat()).durable().run()?;
        Ok(())
    }

    /// Returns whether a branch is there, without starting git if that can be avoided.
    pub fn has_branch(&self, branch: &str) -> Result<bool, Error> {
        let has_file = read_branch(self.common_dir(), branch).is_some();
        Ok(has_file || self.branch_tip(branch)?.is_some())
    }

    /// Puts a branch back that is not there any more, at the commit that it stood at.
    pub fn restore_branch(&self, branch: &str, commit: &str) -> Result<(), Error> {
        let lost = || Error::BranchLost { branch: branch.to_owned(), commit: commit.to_owned() };
        let found = self.resolve_commit(commit).map_err(|_| lost())?;
        let (name, nothing) = (format!("refs/heads/{branch}"), "0".repeat(found.len()));
        let args = ["update-ref", "--no-deref", "-m", "prodigy: put back", &name, &found, &nothing];
        self.call(&args).durable().run()?;
        Ok(())
    }

    /// Deletes a branch of a job, unless it holds commits that are nowhere else.
    pub fn remove_job_branch(&self, branch: &str) -> Result<(), Error> {
        let _lock = RepoLock::acquire(self.common_dir())?;
        self.delete_branch_if_contained(branch)
    }

    /// Makes a worktree lead to this repository, which was moved.
    pub fn relink_worktree(&self, path: &Path) -> Result<(), Error> {
        let Ok(path) = path.canonicalize() else { return Ok(()) };
        let _lock = RepoLock::acquire(self.common_dir())?;
        if self.admin_dir(&path)?.is_some() {
            self.find_registered(&path, "")?.repair_link()?;
        }
        Ok(())
    }

    /// Makes git find a worktree again that was moved without telling it.
    pub fn repair_worktree(&self, path: &Path) -> Result<(), Error> {
        let _lock = RepoLock::acquire(self.common_dir())?;
        if self.admin_dir(path)?.is_none() {
            self.call(&["worktree", "repair", "--"]).args([path]).durable().run()?;
        }
        Ok(())
    }
}

impl Worktree {
    /// Returns what is in the worktree and in no commit, ignored files included; a
    /// directory with nothing else in it is named as a whole.
    pub fn uncommitted_and_ignored(&self) -> Result<Vec<String>, Error> {
        self.verify_integrity()?;
        let args = ["status", "--porcelain", "-z", "--no-renames", "--ignored"];
        let fields =
            self.call(&args).args(["--untracked-files=normal"]).read_only().run_fields()?;
        let is_extra = |field: &&Vec<u8>| field.starts_with(b"??") || field.starts_with(b"!!");
        let path = |field: &Vec<u8>| display_path(field.get(3..).unwrap_or_default());
        Ok(fields.iter().filter(is_extra).map(path).collect())
    }
}

/// The text in a reference, with its object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditAnchor {
    /// The text.
    pub text: String,
    /// The object that has it.
    object: String,
}

impl Repo {
    /// Returns the text that a reference holds; `None` if there is none.
    pub fn read_anchor(&self, name: &str) -> Result<Option<AuditAnchor>, Error> {
        let call = self.call(&["cat-file", "--batch"]).stdin(format!("{name}\n")).read_only();
        let output = call.run()?.stdout;
        let text = String::from_utf8_lossy(&output);
        let (head, content) = text.split_once('\n').unwrap_or((&text, ""));
        let words: Vec<_> = head.split(' ').collect();
        match words.as_slice() {
            [object, "blob", _] if is_hash(object) => {
                let text = content.strip_suffix('\n').unwrap_or(content);
                Ok(Some(AuditAnchor { text: text.to_owned(), object: (*object).to_owned() }))
            }
            [_, "missing"] => Ok(None),
            _ => Err(unexpected_output("cat-file")),
        }
    }

    /// Makes a reference hold another text; fails if it no longer holds the old one.
    pub fn move_anchor(
        &self,
        name: &str,
        text: &str,
        old: Option<&AuditAnchor>,
    ) -> Result<AuditAnchor, Error> {
        let call = self.call(&["hash-object", "-w", "--no-filters", "--stdin"]).stdin(text);
        let object = call.durable().run_text()?;
        if !is_hash(&object) {
            return Err(unexpected_output("hash-object"));
        }
        // An empty name stands for a reference that is not there yet.
        let old = old.map_or("", |old| &old.object);
        // What is in the place of the reference is replaced, not what it may lead to.
        let call = self.call(&["update-ref", "--no-deref", name, &object, old]);
        call.durable().run()?;
        Ok(AuditAnchor { text: text.to_owned(), object })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_git_refuses_are_known() {
        let good = ["a", "prodigy/j-1/item-001", "a.b/c@d", "\u{fc}"];
        assert_eq!(good.map(is_branch_name), [true; 4]);
        let bad = [
            "", "/a", "a/", "a//b", ".a", "a/.b", "a.lock", "a.lock/b", "a..b", "a b", "a\n", "a~",
            "a^", "a:b", "a?", "a*", "a[", "a\\b", "a@{b", "-a", "a.", "../a",
        ];
        for name in bad {
            assert!(!is_branch_name(name), "{name:?}");
        }
    }
}
