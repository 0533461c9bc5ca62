//! The usage limit that the simulated agents of a job share.
//!
//! The first turn that runs into it writes down when it is reset, so that all others see the same
//! limit, also those of a run that is taken up again.

use std::{
    fs,
    io::{self, Write as _},
    path::Path,
    time::Duration,
};

use prodigy_core::{
    Timestamp,
    workflow::{SimulatedEnd, SimulatedReset},
};

use super::turn::Error;

/// Returns when the limit is reset, if a turn runs into it now.
pub(crate) fn quota_reset_time(
    end: SimulatedEnd,
    file: Option<&Path>,
    now: Timestamp,
) -> Result<Option<Timestamp>, Error> {
    let hit = match end {
        SimulatedEnd::UsageLimit(SimulatedReset::At(moment)) => Some(moment),
        SimulatedEnd::UsageLimit(SimulatedReset::AfterMs(wait)) => {
            now.checked_add(Duration::from_millis(wait)).ok()
        }
        SimulatedEnd::Well
        | SimulatedEnd::Denied
        | SimulatedEnd::Crash
        | SimulatedEnd::Hang
        | SimulatedEnd::Error
        | SimulatedEnd::Status(_)
        | SimulatedEnd::Refusal
        | SimulatedEnd::MaxTurns
        | SimulatedEnd::OverBudget
        | SimulatedEnd::Garbage => None,
    };
    let until = match file {
        Some(file) => {
            shared(file, hit).map_err(|source| Error::Limit { path: file.to_owned(), source })?
        }
        None => hit,
    };
    Ok(until.filter(|until| now < *until))
}

/// Returns what is written down, or writes down what is new.
fn shared(file: &Path, hit: Option<Timestamp>) -> io::Result<Option<Timestamp>> {
    if let Some(known) = read(file)? {
        return Ok(Some(known));
    }
    let Some(hit) = hit else { return Ok(None) };
    let directory = file.parent().unwrap_or_else(|| Path::new("."));
    let mut new = tempfile::NamedTempFile::new_in(directory)?;
    write!(new, "{hit}")?;
    match new.persist_noclobber(file) {
        Ok(_) => Ok(Some(hit)),
        // Somebody else was faster.
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => read(file),
        Err(error) => Err(error.error),
    }
}

fn read(file: &Path) -> io::Result<Option<Timestamp>> {
    match fs::read_to_string(file) {
        Ok(text) => text.trim().parse().map(Some).map_err(io::Error::other),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limit(seconds: u64) -> SimulatedEnd {
        SimulatedEnd::UsageLimit(SimulatedReset::AfterMs(seconds * 1000))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_first_who_hits_the_limit_says_when_it_ends_for_all() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("limit");
        let asked = |end, now| quota_reset_time(end, Some(&file), at(now)).unwrap();
        assert_eq!(asked(SimulatedEnd::Well, 90), None);
        assert_eq!(asked(limit(10), 100), Some(at(110)));
        assert_eq!(asked(limit(10), 105), Some(at(110)));
        assert_eq!(asked(SimulatedEnd::Well, 109), Some(at(110)));
        assert_eq!(asked(limit(10), 110), None, "it works again, also for those it was for");
        assert_eq!(asked(limit(10), 500), None);
    }

    #[test]
    fn without_a_file_each_turn_has_its_own_limit() {
        assert_eq!(quota_reset_time(limit(5), None, at(7)).unwrap(), Some(at(12)));
        let end = SimulatedEnd::UsageLimit(SimulatedReset::At(at(9)));
        assert_eq!(quota_reset_time(end, None, at(7)).unwrap(), Some(at(9)));
        assert_eq!(quota_reset_time(end, None, at(9)).unwrap(), None);
    }

    #[test]
    fn a_file_that_says_nothing_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("limit");
        fs::File::create(&file).unwrap().write_all(b"soon").unwrap();
        let error = quota_reset_time(limit(5), Some(&file), at(7)).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot use `{}`", file.display()));
    }
}
