//! Git programs that stay while a job's items are merged.
//!
//! Each of them answers in a fraction of a millisecond, where starting one takes two.
//! One that has failed is started again at the next question.

use std::fs;

use crate::{
    clock,
    git::{Error, Repo, isolation::isolated_git_dir::IsolatedGitDir, locks, worktree::is_hash},
    process::{self, Coprocess},
};

/// The fields of a commit that are needed here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommitHeader {
    pub(crate) tree: String,
    pub(crate) parents: Vec<String>,
    /// When it was made, in seconds, as its maker says.
    pub(crate) time: i64,
}

/// The programs.
#[derive(Debug)]
pub(crate) struct GitPlumbing {
    pub(crate) repo: Repo,
    pub(crate) shelter: IsolatedGitDir,
    objects: Option<Coprocess>,
    hasher: Option<Coprocess>,
    references: Option<Coprocess>,
}

impl GitPlumbing {
    pub(crate) fn new(repo: &Repo, branch: &str) -> Result<Self, Error> {
        let shelter = IsolatedGitDir::for_branch(repo, branch)?;
        Ok(Self { repo: repo.clone(), shelter, objects: None, hasher: None, references: None })
    }

    /// Reads a commit; `None` if there is no such commit.
    pub(crate) fn commit(&mut self, hash: &str) -> Result<Option<CommitHeader>, Error> {
        let shelter = &self.shelter;
        let start = || shelter.call(&["cat-file", "--batch"]).spawn_coprocess();
        ask(&mut self.objects, "cat-file", start, |objects| {
            objects.write(format!("{hash}\n").as_bytes())?;
            let line = objects.read_line()?;
            let line = String::from_utf8_lossy(&line);
            let mut words = line.split(' ').skip(1);
            let (kind, size) = (words.next(), words.next().and_then(|size| size.parse().ok()));
            let Some(size) = size else { return Ok(None) };
            let mut content = objects.read_bytes(size)?;
            objects.read_bytes(1)?;
            let is_commit = kind == Some("commit");
            content.truncate(content.windows(2).position(|two| two == b"\n\n").unwrap_or(size));
            let header = || CommitHeader::parse(&String::from_utf8_lossy(&content));
            Ok(if is_commit { header() } else { None })
        })
    }

    /// Stores a commit and returns its hash.
    pub(crate) fn store(&mut self, content: &[u8]) -> Result<String, Error> {
        self.shelter.write("commit", content)?;
        let path = self.shelter.path("commit");
        let shelter = &self.shelter;
        let args = ["hash-object", "-t", "commit", "-w", "--no-filters", "--stdin-paths"];
        let start = || shelter.call(&args).durable().spawn_coprocess();
        let hash = ask(&mut self.hasher, "hash-object", start, |hasher| {
            hasher.write(path.as_os_str().as_encoded_bytes())?;
            hasher.write(b"\n")?;
            Ok(String::from_utf8_lossy(&hasher.read_line()?).into_owned())
        })?;
        fs::remove_file(&path).map_err(Error::file("remove", &path))?;
        if is_hash(&hash) { Ok(hash) } else { Err(unexpected_output("hash-object")) }
    }

    /// Moves a reference from one commit to another; fails if it is not at the old one.
    pub(crate) fn update(&mut self, name: &str, new: &str, old: &str) -> Result<(), Error> {
        self.transact(&format!("update {name} {new} {old}"))
    }

    /// Deletes a reference that stands at a commit, with its log.
    pub(crate) fn delete(&mut self, name: &str, old: &str) -> Result<(), Error> {
        self.transact(&format!("delete {name} {old}"))
    }

    fn transact(&mut self, command: &str) -> Result<(), Error> {
        let repo = &self.repo;
        let (began, _record) = (clock::now(), repo.git.record_start());
        // What is in the place of a branch is replaced, not what it may lead to.
        let args = ["update-ref", "-m", "prodigy: merge", "--no-deref", "--stdin"];
        let start = || repo.call(&args).durable().spawn_coprocess();
        let asked = ask(&mut self.references, "update-ref", start, |references| {
            references.write(format!("start\n{command}\nprepare\ncommit\n").as_bytes())?;
            for _ in ["start", "prepare", "commit"] {
                references.read_line()?;
            }
            Ok(())
        });
        // The program that stays ends without a word; one that is called once says why.
        let refused = asked.is_err();
        if refused {
            locks::remove_stale(&self.repo.main, |lock| lock.created_since(began.into()))?;
            self.repo.call(&args).stdin(format!("{command}\n")).durable().run()?;
        }
        Ok(())
    }
}

impl CommitHeader {
    fn parse(header: &str) -> Option<Self> {
        let mut found = Self { tree: String::new(), parents: Vec::new(), time: 0 };
        for line in header.lines() {
            match line.split_once(' ') {
                Some(("tree", tree)) => tree.clone_into(&mut found.tree),
                Some(("parent", parent)) => found.parents.push(parent.to_owned()),
                Some(("committer", committer)) => {
                    let time = committer.rsplit(' ').nth(1);
                    found.time = time.and_then(|time| time.parse().ok()).unwrap_or_default();
                }
                Some(_) | None => {}
            }
        }
        is_hash(&found.tree).then_some(found)
    }
}

/// Asks a program that stays, and starts it if need be.
fn ask<T>(
    program: &mut Option<Coprocess>,
    command: &str,
    start: impl FnOnce() -> Result<Coprocess, Error>,
    question: impl FnOnce(&mut Coprocess) -> Result<T, process::Error>,
) -> Result<T, Error> {
    let mut running = match program.take() {
        Some(running) => running,
        None => start()?,
    };
    let answer = question(&mut running)
        .map_err(|source| Error::Run { command: command.to_owned(), source })?;
    *program = Some(running);
    Ok(answer)
}

pub(crate) fn unexpected_output(command: &str) -> Error {
    Error::Unexpected { command: command.to_owned() }
}
