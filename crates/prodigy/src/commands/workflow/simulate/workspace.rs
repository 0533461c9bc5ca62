//! Where a rehearsal takes place: a copy of the repository, and a home of its own.

use std::{io, path::PathBuf};

use prodigy_core::{
    ids::{JobId, NameError},
    template::Template,
    workflow::{Body, EnvVar, Workflow},
};
use prodigy_engine::{git::Repo, run::copy_worktree_files, store::Layout};
use tempfile::TempDir;

use super::{RunRequest, context};
use crate::{error::CliError, exit::Exit};

/// The default name of the job.
const JOB: &str = "rehearsal";

/// Where a rehearsal takes place. It is removed with this.
pub(crate) struct RehearsalWorkspace {
    place: TempDir,
    repo: Repo,
    job: JobId,
}

impl RehearsalWorkspace {
    /// Makes a copy of the repository with everything that worktrees get from the checkout.
    pub(crate) fn new(request: &RunRequest) -> Result<Self, CliError> {
        let place = tempfile::Builder::new()
            .prefix("prodigy-rehearsal-")
            .tempdir()
            .map_err(workspace_error)?;
        let job = JOB.parse().map_err(|error: NameError| {
            CliError::new(Exit::Failure, "the job cannot be named").with_source(error)
        })?;
        let target = place.path().join(request.repo.name());
        let outside = place.path().join("outside");
        let repo = request.repo.copy_to(&target, &outside).map_err(context::git_error)?;
        if let Body::MapReduce(body) = &request.file.loaded.workflow.body {
            copy_worktree_files(&body.map.worktree, request.repo.checkout(), &target)
                .map_err(|failure| CliError::new(Exit::Failure, failure.message))?;
        }
        Ok(Self { place, repo, job })
    }

    /// Returns the copy.
    pub(crate) fn repo(&self) -> &Repo {
        &self.repo
    }

    /// Returns the id of the job.
    pub(crate) fn job(&self) -> &JobId {
        &self.job
    }

    /// Returns the home of the rehearsal.
    pub(crate) fn home(&self) -> PathBuf {
        self.place.path().join("home")
    }

    /// Returns where the files of the job are.
    pub(crate) fn layout(&self) -> Result<Layout, CliError> {
        context::layout(&self.home(), &self.repo)
    }

    /// Lets a prodigy that a step starts use this home, too.
    pub(crate) fn set_home_variable(&self, workflow: &mut Workflow) {
        let value = Template::literal(self.home().to_string_lossy());
        workflow.env.push(EnvVar { name: "PRODIGY_HOME".to_owned(), value });
    }

    /// Keeps everything, and returns where it is.
    pub(crate) fn keep(self) -> PathBuf {
        self.place.keep()
    }
}

fn workspace_error(error: io::Error) -> CliError {
    CliError::new(Exit::Failure, "the rehearsal cannot be set up").with_source(error)
}
