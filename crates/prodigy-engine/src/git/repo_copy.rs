//! A copy of a repository in which everything may be tried.
//!
//! It shares the objects of the original and nothing else: nothing that is done to the copy is
//! seen in the original, in its other working trees, or in a remote repository.

use std::{
    ffi::OsStr,
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
};

use super::{Error, Git, Repo};

/// Settings of a repository that its copy has, too.
const COPIED: &str = r"^(user\..*|core\.(autocrlf|eol|symlinks)|branch\..*\.(remote|merge))$";

impl Repo {
    /// Makes a copy with the same branches, tags and checkout. Its remote repositories are empty
    /// shells in another directory, which take every push.
    pub fn copy_to(&self, target: &Path, outside: &Path) -> Result<Self, Error> {
        let head = self.head()?;
        let format = self.call(&["rev-parse", "--show-object-format"]).run_text()?;
        let kind = RepoInit { git: &self.git, format: &format };
        let branch = format!("--initial-branch={}", head.branch.as_deref().unwrap_or("main"));
        kind.init(target, &[&branch])?;
        let directory = target.join(".git");
        self.share(&directory)?;
        let here = |args: &[&str]| self.git.command(target, args).settings(&[]);
        for reference in self.references(&["refs/heads", "refs/tags", "refs/remotes"])? {
            let GitReference { name, object } = &reference;
            if !name.starts_with("refs/heads/prodigy/") {
                self.git.command(target, &["update-ref", name, object]).run()?;
            }
        }
        let settings =
            self.call(&["config", "--local", "-z", "--get-regexp", COPIED]).accept_codes(&[1]);
        for field in settings.run_fields()? {
            let text = String::from_utf8_lossy(&field).into_owned();
            let (name, value) = text.split_once('\n').unwrap_or((&text, "true"));
            here(&["config", "--add", name, value]).run()?;
        }
        for (number, remote) in self.call(&["remote"]).run_text()?.lines().enumerate() {
            let shell = outside.join(format!("remote-{}.git", number + 1));
            self.shell(&kind, remote, &shell)?;
            let (url, fetch) = (format!("remote.{remote}.url"), format!("remote.{remote}.fetch"));
            let spec = format!("+refs/heads/*:refs/remotes/{remote}/*");
            self.git.command(target, &["config", &url]).args([&shell]).run()?;
            here(&["config", &fetch, &spec]).run()?;
        }
        if head.branch.is_none() {
            here(&["update-ref", "--no-deref", "HEAD", &head.commit]).run()?;
        }
        here(&["reset", "--quiet", "--hard"]).run()?;
        Self::discover_with(self.git.clone(), target)
    }

    /// Makes a repository that stands in for a remote one, as it was last seen.
    fn shell(&self, kind: &RepoInit<'_>, remote: &str, shell: &Path) -> Result<(), Error> {
        kind.init(shell, &["--bare"])?;
        self.share(shell)?;
        let seen = format!("refs/remotes/{remote}");
        for GitReference { name, object } in self.references(&[&seen])? {
            let Some(branch) = name.strip_prefix(&format!("{seen}/")) else { continue };
            if branch != "HEAD" {
                let name = format!("refs/heads/{branch}");
                self.git.command(shell, &["update-ref", &name, &object]).run()?;
            }
        }
        Ok(())
    }

    /// Lets another repository read the objects of this one.
    fn share(&self, directory: &Path) -> Result<(), Error> {
        let objects = self.main.common_dir.join("objects");
        write_line(&directory.join("objects/info/alternates"), objects.as_os_str())?;
        let shallow = self.main.common_dir.join("shallow");
        if shallow.is_file() {
            let target = directory.join("shallow");
            fs::copy(&shallow, &target).map_err(Error::file("write", target))?;
        }
        Ok(())
    }

    fn references(&self, below: &[&str]) -> Result<Vec<GitReference>, Error> {
        let format = "--format=%(refname) %(objectname)";
        let text = self.call(&["for-each-ref", format]).args(below).run_text()?;
        let line = |line: &str| {
            let (name, object) = line.split_once(' ')?;
            Some(GitReference { name: name.to_owned(), object: object.to_owned() })
        };
        Ok(text.lines().filter_map(line).collect())
    }
}

/// A name and what it stands for.
struct GitReference {
    name: String,
    object: String,
}

/// The git and the object format for new repositories.
struct RepoInit<'a> {
    git: &'a Git,
    format: &'a str,
}

impl RepoInit<'_> {
    fn init(&self, target: &Path, flags: &[&str]) -> Result<(), Error> {
        fs::create_dir_all(target).map_err(Error::file("make", target))?;
        let format = format!("--object-format={}", self.format);
        // Templates bring hooks.
        let call = self.git.command(target, &["init", "--quiet", "--template=", &format]);
        call.args(flags).run()?;
        let info: PathBuf =
            if flags.contains(&"--bare") { target.into() } else { target.join(".git") };
        let info = info.join("objects/info");
        fs::create_dir_all(&info).map_err(Error::file("make", info))
    }
}

fn write_line(path: &Path, line: &OsStr) -> Result<(), Error> {
    use std::os::unix::ffi::OsStrExt as _;
    let write = || File::create(path)?.write_all(&[line.as_bytes(), b"\n"].concat());
    write().map_err(Error::file("write", path))
}
