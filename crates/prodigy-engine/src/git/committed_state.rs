//! The state of a file of the user's checkout against the last commit.

use super::{Error, Repo, command::display_path};

/// The state of a file of the user's checkout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommittedState {
    /// It is as in the last commit.
    Committed,
    /// It differs from the last commit.
    Modified,
    /// It is there, and in no commit.
    Untracked,
    /// It is neither there nor in the last commit.
    Missing,
}

impl Repo {
    /// Returns the state of a file, named from the root of the checkout.
    pub fn committed_state(&self, path: &str) -> Result<CommittedState, Error> {
        let object = format!("HEAD:{path}");
        let call = self.call_here(&["cat-file", "-e", &object]).accept_codes(&[1, 128]).read_only();
        let is_committed = call.run()?.status == 0;
        if !is_committed {
            let is_there = self.checkout().join(path).symlink_metadata().is_ok();
            let absent = CommittedState::Missing;
            return Ok(if is_there { CommittedState::Untracked } else { absent });
        }
        let literal = format!(":(literal){path}");
        let args = ["status", "--porcelain", "-z", "--no-renames", "--", &literal];
        let is_changed = !self.call_here(&args).read_only().run_fields()?.is_empty();
        Ok(if is_changed { CommittedState::Modified } else { CommittedState::Committed })
    }

    /// Returns the files of the user's checkout whose names fit one of some patterns, those that
    /// git ignores left out; from the root of the checkout.
    pub fn files_matching(&self, patterns: &[&str]) -> Result<Vec<String>, Error> {
        let args = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--"];
        let fields = self.call_here(&args).args(patterns).read_only().run_fields()?;
        Ok(fields.iter().map(|path| display_path(path)).collect())
    }
}
