//! Writing references without git, which costs a process each time.
//!
//! The protocol is git's own: whoever made the file with `.lock` at its end may
//! write, and renames it into place. Only references of one item are written this
//! way, and nobody else uses them by then.

use std::{
    fs, io,
    path::{Component, Path, PathBuf},
};

use super::{
    Error,
    shelter::read_regular_or_empty,
    tree::{is_hash, remove},
};

/// The most attempts to write a branch whose directory git removes meanwhile.
const TRIES: usize = 5;

/// Returns whether git takes this as the name of a branch.
pub(super) fn is_branch_name(name: &str) -> bool {
    let is_part = |part: &str| {
        let has_case = Path::new(part).extension().is_some_and(|end| end == "lock");
        !part.is_empty() && !part.starts_with('.') && !part.ends_with('.') && !has_case
    };
    let is_bad = |byte: u8| byte <= b' ' || byte == 0x7f || b"~^:?*[\\".contains(&byte);
    name.split('/').all(is_part)
        && !name.starts_with('-')
        && !name.contains("..")
        && !name.contains("@{")
        && !name.bytes().any(is_bad)
}

/// Returns where a branch stands if it has a file of its own.
pub(super) fn read_branch(common_dir: &Path, branch: &str) -> Option<String> {
    let text = read_regular_or_empty(&common_dir.join("refs/heads").join(branch)).ok()?;
    let text = String::from_utf8(text).ok()?;
    let hash = text.strip_suffix('\n')?;
    is_hash(hash).then(|| hash.to_owned())
}

/// Points a branch at a commit.
pub(super) fn write_branch(common_dir: &Path, branch: &str, commit: &str) -> Result<(), Error> {
    let path = common_dir.join("refs/heads").join(branch);
    let mut tries = 1;
    loop {
        make_directories(common_dir, path.parent().unwrap_or(common_dir))?;
        match replace_locked(&path, format!("{commit}\n").as_bytes()) {
            // Git removes directories that have become empty.
            Err(Error::File { source, .. })
                if source.kind() == io::ErrorKind::NotFound && tries < TRIES =>
            {
                tries += 1;
            }
            other => return other,
        }
    }
}

/// Replaces one of git's files, by way of its lock.
#[expect(clippy::disallowed_methods, reason = "git's own way; after a loss of power it is redone")]
pub(super) fn replace_locked(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let mut lock = path.as_os_str().to_owned();
    lock.push(".lock");
    let lock = PathBuf::from(lock);
    remove(&lock)?;
    fs::File::create_new(&lock)
        .and_then(|mut file| io::Write::write_all(&mut file, bytes))
        .and_then(|()| fs::rename(&lock, path))
        .map_err(Error::file("write", path))
}

/// Makes directories of git's, and follows no link that an agent put in the place of one.
pub(super) fn make_directories(root: &Path, directory: &Path) -> Result<(), Error> {
    let mut at = root.to_owned();
    for part in directory.strip_prefix(root).unwrap_or(directory).components() {
        let Component::Normal(part) = part else { continue };
        at.push(part);
        let linked = || Error::file("write to", &at)(io::Error::other("it is not a directory"));
        match at.symlink_metadata() {
            Ok(found) if found.is_dir() => {}
            Ok(_) => return Err(linked()),
            Err(_) => match fs::create_dir(&at) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(Error::file("create", &at)(error));
                }
                Ok(()) | Err(_) => {}
            },
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_git_refuses_are_known() {
        let good = ["a", "prodigy/j-1/item-001", "a.b/c@d", "\u{fc}"];
        assert_eq!(good.map(is_branch_name), [true; 4]);
        let bad = [
            "", "/a", "a/", "a//b", ".a", "a/.b", "a.lock", "a.lock/b", "a..b", "a b", "a\n", "a~",
            "a^", "a:b", "a?", "a*", "a[", "a\\b", "a@{b", "-a", "a.", "../a",
        ];
        for name in bad {
            assert!(!is_branch_name(name), "{name:?}");
        }
    }
}
