//! Finding files by a pattern.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// A pattern could not be looked for.
#[derive(Debug, thiserror::Error)]
pub enum FilePatternError {
    /// It is not a pattern.
    #[error("`{pattern}` is not a pattern: {reason}")]
    Syntax {
        /// The text.
        pattern: String,
        /// The syntax error.
        reason: String,
    },
    /// A directory cannot be read.
    #[error("cannot look for `{pattern}` in `{}`: {source}", directory.display())]
    Read {
        /// The pattern.
        pattern: String,
        /// The directory.
        directory: PathBuf,
        /// The cause.
        source: std::io::Error,
    },
    /// A file that matches has a name that is not text.
    #[error("the name of the file `{name}` is not UTF-8")]
    NotText {
        /// The name, as far as it can be shown.
        name: String,
    },
}

/// Returns the files below a directory that match a pattern, relative to it and sorted.
///
/// Links to directories are not followed, `.git` is not looked into, and a file whose name
/// is not text is not passed over in silence.
pub fn matching_files(root: &Path, pattern: &str) -> Result<Vec<String>, FilePatternError> {
    let glob = glob::Pattern::new(pattern).map_err(|error| FilePatternError::Syntax {
        pattern: pattern.to_owned(),
        reason: error.to_string(),
    })?;
    let options = glob::MatchOptions { require_literal_separator: true, ..Default::default() };
    let mut found = Vec::new();
    let mut waiting = vec![PathBuf::new()];
    while let Some(directory) = waiting.pop() {
        let cannot = |source: std::io::Error| FilePatternError::Read {
            pattern: pattern.to_owned(),
            directory: directory.clone(),
            source,
        };
        for entry in fs::read_dir(root.join(&directory)).map_err(cannot)? {
            let entry = entry.map_err(cannot)?;
            let path = directory.join(entry.file_name());
            if entry.file_type().map_err(cannot)?.is_dir() {
                waiting.extend((entry.file_name() != ".git").then_some(path));
                continue;
            }
            let shown = path.to_string_lossy();
            if !glob.matches_with(&shown, options) || !entry.path().is_file() {
                continue;
            }
            match path.to_str() {
                Some(name) => found.push(name.to_owned()),
                None => return Err(FilePatternError::NotText { name: shown.into_owned() }),
            }
        }
    }
    found.sort();
    Ok(found)
}
