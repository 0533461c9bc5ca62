//! The files of a repository that Claude Code takes programs and permissions from.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::{TrustFile, content, front_matter::is_active};

/// The directory of its settings, commands, skills and agents; every directory may have one.
const DIRECTORY: &str = ".claude";

/// The file of the servers that it starts.
const SERVERS: &str = ".mcp.json";

/// The place below [`DIRECTORY`] in which it keeps worktrees of its own.
const WORKTREES: &str = "worktrees";

/// The most entries that are looked at. A worktree with more cannot be trusted.
const MOST: usize = 1_000_000;

/// The deepest that links inside of [`DIRECTORY`] are followed.
const DEEPEST: usize = 16;

/// Returns the files below a directory that Claude Code takes programs or permissions from, in the
/// order of their paths.
///
/// Those are the servers of `.mcp.json` and everything in `.claude` but prose, in the root and in
/// every directory below: Claude Code finds those, too, once it works there. In the user's
/// checkout, the worktrees that Claude Code made there are passed over.
pub fn claude_files(root: &Path, is_checkout: bool) -> Vec<TrustFile> {
    let mut walk = ClaudeFileWalk { is_checkout, left: MOST, files: Vec::new() };
    walk.directory(root, "");
    let ClaudeFileWalk { left, mut files, .. } = walk;
    if left == 0 {
        files.push(TrustFile { path: ".".to_owned(), sha256: None });
    }
    files.sort();
    files
}

/// Returns whether a path is one that Claude Code may take programs or permissions from.
pub fn is_claude_file(path: &str) -> bool {
    let mut parts = path.split('/');
    let is_last = parts.next_back().is_some_and(|name| name.eq_ignore_ascii_case(SERVERS));
    is_last || parts.any(|name| name.eq_ignore_ascii_case(DIRECTORY))
}

/// Returns whether a file of a commit counts, by its content there.
pub fn is_active_in_commit(path: &str, content: Option<&[u8]>) -> bool {
    is_claude_file(path) && (!is_prose(path) || content.is_some_and(is_active))
}

/// Returns whether a prompt names a command or skill of a worktree.
pub fn is_command(prompt: &str, worktree: &Path) -> bool {
    let Some(rest) = prompt.trim_start().strip_prefix('/') else { return false };
    let name = rest.split_whitespace().next().unwrap_or_default();
    // `/team:fix` is `commands/team/fix.md`.
    let parts: Vec<&str> = name.split(':').collect();
    let is_plain = |part: &&str| {
        !part.is_empty() && !part.starts_with('.') && !part.contains(['/', '\\', '\0'])
    };
    if !parts.iter().all(is_plain) {
        return false;
    }
    let place = worktree.join(DIRECTORY);
    let command = place.join("commands").join(parts.join("/")).with_extension("md");
    let skill = place.join("skills").join(parts.join("/")).join("SKILL.md");
    command.is_file() || skill.is_file()
}

fn is_prose(path: &str) -> bool {
    let ending = Path::new(path).extension();
    ending.is_some_and(|ending| ending.eq_ignore_ascii_case("md"))
}

/// A walk through the directories of a worktree.
struct ClaudeFileWalk {
    is_checkout: bool,
    /// The entries that may still be looked at.
    left: usize,
    files: Vec<TrustFile>,
}

impl ClaudeFileWalk {
    /// Looks at a directory of the repository; links to other directories are not followed.
    fn directory(&mut self, place: &Path, path: &str) {
        for (name, entry) in self.entries(place) {
            let inside = join(path, &name);
            if name.eq_ignore_ascii_case(DIRECTORY) {
                self.settings(&entry, &inside, 0);
            } else if name.eq_ignore_ascii_case(SERVERS) {
                self.files.push(TrustFile::read(inside, &entry));
            } else if name != ".git" && entry.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
                self.directory(&entry, &inside);
            }
        }
    }

    /// Looks at what is inside of `.claude`, also where links lead: Claude Code follows them.
    fn settings(&mut self, place: &Path, path: &str, depth: usize) {
        let is_file = match fs::metadata(place) {
            Ok(meta) if meta.is_dir() && depth < DEEPEST => {
                for (name, entry) in self.entries(place) {
                    if !(self.is_checkout && depth == 0 && name == WORKTREES) {
                        self.settings(&entry, &join(path, &name), depth + 1);
                    }
                }
                return;
            }
            Ok(meta) => meta.is_file(),
            // A link that leads nowhere brings in nothing.
            Err(_) if place.is_symlink() => return,
            Err(_) => false,
        };
        if is_file && is_prose(path) && content(place).is_ok_and(|content| !is_active(&content)) {
            return;
        }
        self.files.push(TrustFile::read(path, place));
    }

    /// Returns the entries of a directory, as far as there may be more.
    fn entries(&mut self, place: &Path) -> Vec<(String, PathBuf)> {
        let Ok(found) = fs::read_dir(place) else { return Vec::new() };
        let entries: Vec<_> = found
            .flatten()
            .take(self.left)
            .map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
            .collect();
        self.left -= entries.len();
        entries
    }
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") }
}
