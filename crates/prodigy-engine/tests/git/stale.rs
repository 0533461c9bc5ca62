//! Locks that a killed git left behind.

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use crate::{repo, world};

fn lock(common: &Path, path: &str) -> PathBuf {
    let path = common.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, "").unwrap();
    path
}

#[test]
fn only_locks_that_programs_of_ours_can_have_left_are_removed() {
    let world = world();
    let repo = repo(&world);
    let common = repo.common_dir().to_owned();
    let since = SystemTime::now() - Duration::from_secs(60);
    assert_eq!(repo.remove_stale_locks(since).unwrap(), Vec::<PathBuf>::new());

    let packed = lock(&common, "packed-refs.lock");
    let branch = lock(&common, "refs/heads/prodigy/j1/job.lock");
    let open = lock(&common, "refs/heads/topic.lock");
    let holder = fs::File::open(&open).unwrap();
    let old = lock(&common, "config.lock");
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();

    let mut removed = repo.remove_stale_locks(since).unwrap();
    removed.sort();
    assert_eq!(removed, [packed, branch]);
    assert_eq!([&open, &old].map(|path| path.exists()), [true, true]);

    drop(holder);
    assert_eq!(repo.remove_stale_locks(since).unwrap(), [open]);
}

#[test]
fn whoever_takes_a_job_up_removes_the_locks_of_its_references_and_of_programs_under_way() {
    let world = world();
    let repo = repo(&world);
    let common = repo.common_dir().to_owned();
    let since = SystemTime::now() - Duration::from_secs(60);
    let in_flight = world.root().join("in-flight");
    let branch = lock(&common, "refs/heads/prodigy/j1/item-003.lock");
    let reference = lock(&common, "refs/prodigy/j1/failed/item-003.lock");
    let others =
        ["packed-refs.lock", "refs/heads/prodigy/j10/job.lock", "refs/prodigy/j2/snapshot.lock"];
    let others = others.map(|path| lock(&common, path));

    let remove = || {
        let mut removed = repo.remove_job_locks("j1", since, &in_flight).unwrap();
        removed.sort();
        removed
    };
    assert_eq!(remove(), [branch, reference]);
    assert_eq!(others.each_ref().map(|path| path.exists()), [true, true, true]);

    fs::create_dir(&in_flight).unwrap();
    fs::write(in_flight.join("1-0"), "").unwrap();
    assert_eq!(remove(), Vec::<PathBuf>::new());
    assert!(!in_flight.join("1-0").exists());

    fs::write(in_flight.join("1-1"), "").unwrap();
    let record = fs::File::options().write(true).open(in_flight.join("1-1")).unwrap();
    record.set_modified(since).unwrap();
    assert_eq!(remove(), others);
}
