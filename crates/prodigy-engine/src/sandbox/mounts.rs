//! The view that a step has of the file system.

use std::{
    collections::BTreeMap,
    ffi::OsString,
    path::{Path, PathBuf},
};

/// The access to a part of the file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MountMode {
    /// An empty place that is gone with the step.
    Blank,
    /// As it is, not to be written.
    Read,
    /// As it is.
    Write,
}

/// The mount at a path.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    sight: MountMode,
    /// The path that is mounted there in place of the original.
    from: Option<PathBuf>,
}

/// The file system as a step sees it: a path has the access of its nearest ancestor in the map.
///
/// The root is in the map and is read-only. The last setting of a path wins.
#[derive(Debug, Default)]
pub(crate) struct MountTable {
    named: BTreeMap<PathBuf, Mount>,
}

impl MountTable {
    /// Puts an empty place there; a file becomes an empty one.
    pub(crate) fn blank(&mut self, path: &Path) {
        self.name(path, MountMode::Blank);
    }

    /// Shows what is there.
    pub(crate) fn read(&mut self, path: &Path) {
        self.name(path, MountMode::Read);
    }

    /// Lets the step write there.
    pub(crate) fn write(&mut self, path: &Path) {
        self.name(path, MountMode::Write);
    }

    /// Shows something below a place that is empty otherwise, unless something was said of it.
    pub(crate) fn bind_read_only(&mut self, path: PathBuf, from: PathBuf) {
        let seen = Mount { sight: MountMode::Read, from: Some(from) };
        self.named.entry(path).or_insert(seen);
    }

    /// Lets the step write to something that it sees below a place that is empty otherwise.
    pub(crate) fn bind_writable(&mut self, path: PathBuf, from: PathBuf) {
        self.named.insert(path, Mount { sight: MountMode::Write, from: Some(from) });
    }

    /// Returns whether a path was named, other than to hide it.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.named.get(path).is_some_and(|seen| seen.sight != MountMode::Blank)
    }

    /// Names a path; one that is not there cannot be seen anyhow.
    fn name(&mut self, path: &Path, sight: MountMode) {
        // Bubblewrap would mount over what a link leads to.
        if let Ok(path) = path.canonicalize() {
            self.named.insert(path, Mount { sight, from: None });
        }
    }

    /// Returns the arguments that make it so, with an empty file for files that are hidden.
    /// Parents come before what is in them.
    pub(crate) fn bwrap_args(&self, empty: &Path) -> Vec<OsString> {
        let mut arguments = Vec::new();
        for (path, Mount { sight, from }) in &self.named {
            let parent = path.ancestors().skip(1).find_map(|above| self.named.get(above));
            let is_as_around = *sight == parent.map_or(MountMode::Read, |parent| parent.sight);
            if from.is_none() && is_as_around && *sight != MountMode::Blank {
                continue;
            }
            // What is shown from elsewhere was found there a moment ago, and may be gone.
            let (read, write) = match from {
                Some(_) => ("--ro-bind-try", "--bind-try"),
                None => ("--ro-bind", "--bind"),
            };
            let from = from.as_ref().unwrap_or(path).clone().into_os_string();
            let path = path.clone().into_os_string();
            match sight {
                MountMode::Blank if Path::new(&path).is_dir() => {
                    arguments.extend(["--tmpfs".into(), path]);
                }
                MountMode::Blank => arguments.extend(["--ro-bind".into(), empty.into(), path]),
                MountMode::Read => arguments.extend([read.into(), from, path]),
                MountMode::Write => arguments.extend([write.into(), from, path]),
            }
        }
        arguments
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_decides_and_nothing_is_said_twice() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for directory in ["home/.ssh/keys", "home/work/tree", "home/work/other"] {
            std::fs::create_dir_all(root.join(directory)).unwrap();
        }
        std::fs::File::create(root.join("home/.netrc")).unwrap();
        let mut view = MountTable::default();
        view.write(&root.join("home/work/tree"));
        view.blank(&root);
        view.read(&root.join("home"));
        view.read(&root.join("home/work"));
        view.blank(&root.join("home/.ssh"));
        view.blank(&root.join("home/.netrc"));
        view.read(&root.join("home/.ssh/keys"));
        view.blank(&root.join("home/work/other"));
        view.write(&root.join("home/work/other"));
        view.write(&root.join("nowhere"));
        view.bind_read_only(root.join("home/.ssh/config"), root.join("home/work"));
        view.bind_read_only(root.join("home/.ssh/keys"), root.join("home/work"));
        view.bind_writable(root.join("home/.ssh/known"), root.join("home/work/other"));
        let arguments = view.bwrap_args(Path::new("EMPTY")).join(std::ffi::OsStr::new(" "));
        let arguments = arguments.to_str().unwrap().replace(&*root.to_string_lossy(), "$ROOT");
        insta::assert_snapshot!(arguments.replace(" --", "\n--"), @"
        --tmpfs $ROOT
        --ro-bind $ROOT/home $ROOT/home
        --ro-bind EMPTY $ROOT/home/.netrc
        --tmpfs $ROOT/home/.ssh
        --ro-bind-try $ROOT/home/work $ROOT/home/.ssh/config
        --ro-bind $ROOT/home/.ssh/keys $ROOT/home/.ssh/keys
        --bind-try $ROOT/home/work/other $ROOT/home/.ssh/known
        --bind $ROOT/home/work/other $ROOT/home/work/other
        --bind $ROOT/home/work/tree $ROOT/home/work/tree
        ");
    }
}
