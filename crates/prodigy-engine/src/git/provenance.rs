//! The content of a file in a commit, and the job that brought it in.

use prodigy_core::ids::JobId;

use super::{Error, Repo};

/// The most merges that are followed into the branches that they brought in.
const DEEPEST: usize = 64;

/// A commit by which a job changed a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobChange {
    /// The commit.
    pub commit: String,
    /// The job that its trailers name.
    pub job: JobId,
}

/// A commit as far as it tells where a change comes from.
struct CommitOrigin {
    parents: Vec<String>,
    job: Option<JobId>,
}

impl Repo {
    /// Returns the content of a file in a commit, or `None` if the commit does not have it.
    pub fn read_file_at(&self, commit: &str, path: &str) -> Result<Option<Vec<u8>>, Error> {
        if path.contains('\0') {
            return Ok(None);
        }
        let object = format!("{commit}:{path}");
        let output =
            self.call(&["cat-file", "blob", &object]).accept_codes(&[1, 128]).read_only().run()?;
        Ok((output.status == 0).then_some(output.stdout))
    }

    /// Returns the change by which a job brought a file to the content that it has in a commit;
    /// `None` if a person did, or if the file was never there.
    ///
    /// Only first parents are followed: what a merge brought in came in with the merge, whatever
    /// the history of the branch looks like that it merged.
    pub fn changed_by_job(&self, tip: &str, path: &str) -> Result<Option<JobChange>, Error> {
        let mut at = tip.to_owned();
        for _ in 0..DEEPEST {
            let args = ["rev-list", "--max-count=1", "--first-parent", &at, "--", path];
            let commit =
                self.call(&args).env("GIT_LITERAL_PATHSPECS", "1").read_only().run_text()?;
            if commit.is_empty() {
                return Ok(None);
            }
            let CommitOrigin { parents, job } = self.origin_of(&commit)?;
            if let Some(job) = job {
                return Ok(Some(JobChange { commit, job }));
            }
            // A merge by a person: who changed it is found in the branch that it brought in.
            let content = self.read_file_at(&commit, path)?;
            let mut brought = None;
            for parent in parents.iter().skip(1) {
                if self.read_file_at(parent, path)? == content {
                    brought = Some(parent.clone());
                    break;
                }
            }
            match brought {
                Some(parent) => at = parent,
                None => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Returns the parents of a commit, and the job that its trailers name.
    fn origin_of(&self, commit: &str) -> Result<CommitOrigin, Error> {
        let trailer = |key: &str| format!("%(trailers:key={key},valueonly,separator=%x2C)");
        let format = format!(
            "--format=%P%n{}%n{}",
            trailer("Prodigy-Job"),
            trailer("Prodigy-Idempotency-Key")
        );
        let args = ["log", "--max-count=1", "--no-walk", &format, commit];
        let text = self.call(&args).read_only().run_text()?;
        let mut lines = text.lines();
        let parents = lines.next().unwrap_or_default();
        let parents = parents.split_whitespace().map(str::to_owned).collect();
        let of_job = |text: &str| text.split(',').next().unwrap_or_default().trim().to_owned();
        let job = lines.next().map(of_job).filter(|job| !job.is_empty());
        let of_key = |text: &str| of_job(text).split(':').next().unwrap_or_default().to_owned();
        let key = lines.next().map(of_key).filter(|job| !job.is_empty());
        Ok(CommitOrigin { parents, job: job.or(key).map(|job| JobId::from_text(&job)) })
    }

    /// Returns whether two commits differ in one of some files.
    pub(super) fn files_differ(
        &self,
        old: &str,
        new: &str,
        files: &[String],
    ) -> Result<bool, Error> {
        for file in files {
            if self.read_file_at(old, file)? != self.read_file_at(new, file)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the commits that one has and several others have not, the newest first, at most so
    /// many.
    pub fn commits_beyond(
        &self,
        tip: &str,
        known: &[String],
        most: usize,
    ) -> Result<Vec<String>, Error> {
        let not = known.iter().map(|commit| format!("^{commit}"));
        let most = format!("--max-count={most}");
        let call = self.call(&["rev-list", &most, tip]).args(not).args(["--"]).read_only();
        Ok(call.run_text()?.lines().map(str::to_owned).collect())
    }

    /// Returns whether a commit is a merge by which prodigy brought in the work of a job.
    pub fn is_merge_by(&self, commit: &str, job: &JobId) -> Result<bool, Error> {
        let origin = self.origin_of(commit)?;
        Ok(origin.parents.len() > 1 && origin.job.as_ref() == Some(job))
    }
}
