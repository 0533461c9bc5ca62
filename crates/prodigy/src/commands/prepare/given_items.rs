//! The items of a job from `--input`, and the check that an `input:` file is committed.

use std::{
    fs::File,
    io::{self, Read},
    path::{Component, Path},
};

use prodigy_core::{
    event::{InputOverride, JobMode},
    ids::hex,
    items::{self, InputFormat, looks_like_path},
    workflow::{Body, MapInput},
};
use prodigy_engine::git::{CommittedState, Repo};
use sha2::{Digest as _, Sha256};

use crate::{
    commands::{
        context::git_error,
        workflow::{items_required_error, plan::known_variables, run::RunRequest},
    },
    error::CliError,
    exit::Exit,
    render::console::Console,
};

/// The largest input that is read.
const LIMIT: u64 = 1024 * 1024 * 1024;

/// The items that take the place of `map.input`.
#[derive(Clone, Debug)]
pub(crate) struct GivenItems {
    /// Their source and form, as it is recorded.
    pub(crate) input: InputOverride,
    /// Their text.
    pub(crate) bytes: Vec<u8>,
}

/// The flag `--input`.
#[derive(clap::Args, Clone, Debug, Default)]
pub(crate) struct InputArgs {
    /// Take the items from this file instead of `map.input`; `-` is standard input
    ///
    /// The ending says how it is written: `.json`, `.jsonl`, `.csv`, `.tsv`, `.txt`. Without one, and
    /// for `-`, it is JSON if it begins with `[` or `{`, and else one item per line. The file need not
    /// be committed: it is kept with the job. For example, `git ls-files '*.rs' | prodigy run
    /// workflow.yml --input -`.
    #[arg(long, value_name = "FILE")]
    input: Option<std::path::PathBuf>,
}

impl InputArgs {
    /// Reads the items that were given, if any were.
    pub(crate) fn read(&self, mode: JobMode) -> Result<Option<GivenItems>, CliError> {
        let Some(path) = &self.input else { return Ok(None) };
        if mode == JobMode::Sequential {
            return Err(items_required_error("--input"));
        }
        let is_stdin = path.as_os_str() == "-";
        let name = if is_stdin {
            "standard input".to_owned()
        } else {
            path.to_string_lossy().into_owned()
        };
        let unreadable = |error: io::Error| {
            let is_wrong =
                matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory);
            let exit = if is_wrong { Exit::Usage } else { Exit::Failure };
            CliError::new(exit, format!("the input `{name}` cannot be read: {error}"))
        };
        let bytes = if is_stdin {
            read_bounded(io::stdin().lock())
        } else {
            File::open(path).and_then(read_bounded)
        };
        let bytes = bytes.map_err(unreadable)?;
        let unusable = |error: items::Error| {
            CliError::new(Exit::Invalid, format!("the items cannot be had from `{name}`: {error}"))
        };
        let kind =
            InputFormat::from_file_name((!is_stdin).then_some(&**path)).map_err(&unusable)?;
        items::read_items(&bytes, kind).map_err(&unusable)?;
        let sha256 = hex(&Sha256::digest(&bytes));
        Ok(Some(GivenItems { input: InputOverride { name, kind, sha256 }, bytes }))
    }
}

/// Reads everything, up to the limit.
fn read_bounded(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(LIMIT + 1).read_to_end(&mut bytes)?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length <= LIMIT) {
        return Ok(bytes);
    }
    Err(io::Error::other(format!("it is larger than {} MiB", LIMIT / 1024 / 1024)))
}

/// The file that `map.input` names.
pub(crate) struct InputFile {
    /// Its path below the root of the repository.
    pub(crate) path: String,
    /// Its state in the repository.
    pub(crate) state: CommittedState,
    /// True if `setup` may write it.
    pub(crate) may_be_written: bool,
}

/// Returns the file that the items come from, if that is known and in the repository.
pub(crate) fn input_file(request: &RunRequest) -> Result<Option<InputFile>, CliError> {
    let Body::MapReduce(body) = &request.file.loaded.workflow.body else { return Ok(None) };
    let (text, is_guess) = match &body.map.input {
        MapInput::File(text) => (text, false),
        MapInput::Guess(text) => (text, true),
        MapInput::Items(_) | MapInput::Glob(_) | MapInput::Command(_) => return Ok(None),
    };
    // What the text asks for besides parameters is known once the job runs.
    let Ok(path) = text.render(&known_variables(request)) else { return Ok(None) };
    let Some(path) = below_root(&path) else { return Ok(None) };
    let is_there = request.repo.checkout().join(&path).is_file();
    if request.given.is_some() || is_guess && !is_there && !looks_like_path(&path) {
        return Ok(None);
    }
    let state = committed_state(&request.repo, &path)?;
    let may_be_written = body.setup.as_ref().is_some_and(|setup| !setup.phase.steps.is_empty());
    Ok(Some(InputFile { path, state, may_be_written }))
}

fn committed_state(repo: &Repo, path: &str) -> Result<CommittedState, CliError> {
    repo.committed_state(path).map_err(git_error)
}

/// Returns a path below the root without `.`; none if it leads elsewhere.
fn below_root(path: &str) -> Option<String> {
    let mut parts = Vec::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(part) => parts.push(part.to_str()?),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join("/"))
}

/// Refuses an input file that the worktree of the job will not have.
pub(crate) fn check(request: &RunRequest, out: &mut Console) -> Result<(), CliError> {
    let Some(file) = input_file(request)? else { return Ok(()) };
    let path = &file.path;
    let message = match file.state {
        CommittedState::Committed => return Ok(()),
        CommittedState::Modified => format!(
            "`{path}` has changes that are not committed, so the job would take its items from the old version"
        ),
        CommittedState::Untracked => {
            format!("`{path}` is not committed, so the worktree of the job does not have it")
        }
        CommittedState::Missing => format!("there is no file `{path}` to take the items from"),
    };
    if file.may_be_written {
        if file.state != CommittedState::Missing {
            out.note(format_args!("note: {message}, unless `setup` writes it"));
        }
        return Ok(());
    }
    let workflow = &request.name;
    let hint = match file.state {
        CommittedState::Missing => {
            format!("`prodigy run {workflow} --input FILE` takes them from another file")
        }
        CommittedState::Committed | CommittedState::Modified | CommittedState::Untracked => {
            format!("commit it, or run `prodigy run {workflow} --input {path}`")
        }
    };
    Err(CliError::new(Exit::Usage, message).with_hint(hint))
}
