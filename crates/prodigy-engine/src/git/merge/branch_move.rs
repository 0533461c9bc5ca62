//! Moving a branch in two steps: it is locked and checked first, and moved when all else is done.

use super::checkout_update::BranchCheckout;
use crate::{git::Error, process::Coprocess};

/// A branch that is locked, stands where it should, and can be moved.
pub(crate) struct BranchMove {
    git: Coprocess,
}

impl BranchMove {
    /// Locks the branch of a checkout, if it is at `old`, to move it to `new`.
    ///
    /// The git that holds the lock gives it back when we are gone.
    pub(crate) fn prepare(
        seat: BranchCheckout<'_>,
        branch: &str,
        (old, new): (&str, &str),
        note: &str,
    ) -> Result<Self, Error> {
        let args = ["update-ref", "-m", note, "--stdin"];
        let begin = format!("start\nupdate refs/heads/{branch} {new} {old}\nprepare\n");
        let mut git = seat.call(&args).durable().spawn_coprocess()?;
        let prepared = git
            .write(begin.as_bytes())
            .and_then(|()| git.read_line())
            .and_then(|_| git.read_line());
        match prepared {
            Ok(_) => Ok(Self { git }),
            Err(source) => {
                drop(git);
                // The program that stays ends without a word; one that is called once says why.
                seat.call(&args).stdin(format!("{begin}abort\n")).durable().run()?;
                Err(Error::Run { command: "update-ref".to_owned(), source })
            }
        }
    }

    /// Moves the branch.
    ///
    /// The git that moved it is left to end by itself: the index must follow at once.
    pub(crate) fn commit(&mut self) -> Result<(), Error> {
        self.finish("commit")
    }

    /// Gives the lock back; the branch stays where it is.
    pub(crate) fn abort(mut self) -> Result<(), Error> {
        self.finish("abort")
    }

    fn finish(&mut self, word: &str) -> Result<(), Error> {
        let told =
            self.git.write(format!("{word}\n").as_bytes()).and_then(|()| self.git.read_line());
        let failed = |source| Error::Run { command: "update-ref".to_owned(), source };
        told.map(drop).map_err(failed)
    }
}
