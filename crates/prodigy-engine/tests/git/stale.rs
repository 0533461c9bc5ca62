//! Locks that a killed git left behind.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    time::{Duration, SystemTime},
};

use crate::{repo, world};

#[test]
fn only_locks_that_steps_can_have_left_are_removed() {
    let world = world();
    let repo = repo(&world);
    let common = repo.common_dir().to_owned();
    let since = SystemTime::now() - Duration::from_secs(60);
    let lock = |path: &str, mode: u32| {
        let path = common.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    };
    assert_eq!(repo.remove_stale_locks(since).unwrap(), Vec::<std::path::PathBuf>::new());

    let packed = lock("packed-refs.lock", 0o600);
    let branch = lock("refs/heads/prodigy/j1/job.lock", 0o600);
    let theirs = lock("refs/heads/prodigy/j2/job.lock", 0o644);
    let old = lock("refs/heads/prodigy/j3/job.lock", 0o600);
    let long_ago = SystemTime::now() - Duration::from_secs(3600);
    fs::File::options().write(true).open(&old).unwrap().set_modified(long_ago).unwrap();

    let mut removed = repo.remove_stale_locks(since).unwrap();
    removed.sort();
    assert_eq!(removed, [packed.clone(), branch.clone()]);
    assert_eq!([packed, branch, theirs, old].map(|path| path.exists()), [false, false, true, true]);
}

#[test]
fn whoever_takes_a_job_up_removes_the_locks_that_our_own_git_left_on_its_references() {
    let world = world();
    let repo = repo(&world);
    let common = repo.common_dir().to_owned();
    let since = SystemTime::now() - Duration::from_secs(60);
    let lock = |path: &str| {
        let path = common.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        path
    };
    let branch = lock("refs/heads/prodigy/j1/item-003.lock");
    let reference = lock("refs/prodigy/j1/failed/item-003.lock");
    let others =
        ["refs/heads/prodigy/j10/job.lock", "refs/prodigy/j2/snapshot.lock", "packed-refs.lock"];
    let others = others.map(lock);

    let mut removed = repo.remove_locks_of("j1", since).unwrap();
    removed.sort();
    assert_eq!(removed, [branch.clone(), reference.clone()]);
    assert!(!branch.exists() && !reference.exists());
    assert_eq!(others.map(|path| path.exists()), [true, true, true]);
}
