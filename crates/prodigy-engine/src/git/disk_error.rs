//! The cause of a write that failed, which git does not always name.

use std::path::Path;

/// The free space below which a failed write is put down to a full disk.
///
/// Git removes what it had written when it fails, so that there is some space again.
const NEARLY_FULL: u64 = 16 * 1024 * 1024;

/// The messages of git when it cannot write a file.
const WRITES: &[&str] =
    &["unable to write", "write error", "failed to write", "could not write", "cannot write"];

/// The messages of the operating system when a disk takes no more.
const CAUSES: &[&str] = &["No space left on device", "Disk quota exceeded", "File too large"];

/// Returns what git said, with the cause if it could not write and names none.
pub(crate) fn with_cause<'a>(
    message: String,
    stderr: &[u8],
    paths: impl IntoIterator<Item = &'a Path>,
) -> String {
    let text = String::from_utf8_lossy(stderr);
    let has = |words: &[&str], text: &str| words.iter().any(|word| text.contains(word));
    if has(CAUSES, &message) {
        return message;
    }
    if let Some(cause) = CAUSES.iter().find(|cause| text.contains(**cause)) {
        return format!("{message}: {cause}");
    }
    if !has(WRITES, &text) {
        return message;
    }
    let full = paths.into_iter().find_map(|path| {
        let there = path.ancestors().find(|path| path.exists())?;
        let seen = rustix::fs::statvfs(there).ok()?;
        let free = seen.f_bavail.saturating_mul(seen.f_frsize);
        (free < NEARLY_FULL).then_some((there, free / 1024))
    });
    match full {
        Some((path, free)) => {
            let path = path.display();
            format!("{message}: not enough space on the disk: only {free} KiB are free in `{path}`")
        }
        None => message,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cause_that_another_line_names_is_added_once() {
        let cause = |message: &str, stderr: &str| {
            with_cause(message.to_owned(), stderr.as_bytes(), [Path::new("/proc")])
        };
        let said = "error: unable to write file a\nfatal: cannot update the ref: No space left on device\n";
        assert_eq!(
            cause("unable to write file a", said),
            "unable to write file a: No space left on device"
        );
        assert_eq!(
            cause("no branch: No space left on device", said),
            "no branch: No space left on device"
        );
        assert_eq!(cause("not a commit", "fatal: not a commit\n"), "not a commit");
        // A disk without any space at all.
        assert_eq!(
            cause("unable to write file a", "error: unable to write file a\n"),
            "unable to write file a: not enough space on the disk: only 0 KiB are free in `/proc`"
        );
    }
}
