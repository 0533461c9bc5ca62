//! Repositories inside a worktree, which have settings of their own.

use std::path::Path;

use super::{
    Error,
    command::{GitCommand, split_fields},
    index::IndexPaths,
};

/// Takes repositories inside a worktree off an index, so that `git add` does not look into them.
///
/// It would run `git status` there, with that repository's filters, and no setting keeps it
/// from that. What is not on the index is added by the commit it stands at, which is all
/// that is recorded of it anyway. `hash` is how many bytes the name of an object has.
pub(super) fn remove_nested_repos<'a>(
    call: impl Fn(&[&str]) -> GitCommand<'a>,
    index: &Path,
    root: &Path,
    hash: usize,
) -> Result<(), Error> {
    let paths = match IndexPaths::checked_out_submodules(index, hash, root) {
        Some(found) => {
            let paths = found.iter().map(|path| [path.as_os_str().as_encoded_bytes(), b"\0"]);
            paths.flatten().collect::<Vec<_>>().concat()
        }
        None => listed(&call(&["ls-files", "--stage", "-z"]).run()?.stdout),
    };
    if !paths.is_empty() {
        call(&["update-index", "--force-remove", "-z", "--stdin"]).stdin(paths).run()?;
    }
    Ok(())
}

/// Returns the submodules of a listed index, each ended by a NUL byte.
fn listed(stage: &[u8]) -> Vec<u8> {
    let mut paths = Vec::new();
    for field in split_fields(stage) {
        let path = field.splitn(2, |byte| *byte == b'\t').nth(1).unwrap_or_default();
        if field.starts_with(b"160000 ") {
            paths.extend(path);
            paths.push(0);
        }
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_submodules_are_taken_from_a_list() {
        let stage = b"100644 1111 0\ta\x00160000 2222 0\tb\tc\x00160000 3333 2\td\x00";
        assert_eq!(listed(stage), b"b\tc\0d\0");
    }
}
