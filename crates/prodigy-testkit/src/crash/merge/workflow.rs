//! The files of the job, before and after.

use std::{collections::BTreeMap, fmt::Write as _};

/// A workflow whose one step changes, adds and removes files, and commits.
pub(crate) const WORKFLOW: &str = r"name: crash-merge
steps:
  - shell: sh make.sh && git add --all && git commit --quiet --message work
";

/// The files of the user's that no job touches.
pub(crate) const OF_THE_USER: &str = "user-";

/// The texts of files by their paths.
pub(crate) type Files = BTreeMap<String, String>;

/// Returns the files that the job finds: `files` to be changed, a third as many to be removed.
pub(crate) fn files_before(files: u32) -> Files {
    let mut found = Files::new();
    for number in 0..files {
        found.insert(format!("changed/{}/{number}.txt", number % 7), long_text("old", number));
        if number % 3 == 0 {
            found.insert(format!("removed/{number}.txt"), long_text("old", number));
        }
    }
    found.insert("turns/into/a-file".to_owned(), long_text("old", 1));
    found.insert("into-a-directory".to_owned(), long_text("old", 2));
    found
}

/// Returns the files that it leaves.
pub(crate) fn files_after(files: u32) -> Files {
    let mut found = Files::new();
    for number in 0..files {
        found.insert(format!("changed/{}/{number}.txt", number % 7), long_text("new", number));
        found.insert(format!("added/{}/{number}.txt", number % 5), long_text("new", number));
    }
    found.insert("turns".to_owned(), long_text("new", 1));
    found.insert("into-a-directory/file".to_owned(), long_text("new", 2));
    found
}

/// Returns a script that turns the one into the other.
pub(crate) fn script(files: u32) -> String {
    let mut script = "set -e\nrm -r removed turns into-a-directory\n".to_owned();
    script.push_str("mkdir -p into-a-directory added/0 added/1 added/2 added/3 added/4\n");
    script.push_str(
        "text() { i=0; while [ $i -lt 60 ]; do echo \"line $i of new file $1\"; i=$((i+1)); done; }\n",
    );
    script.push_str("text 1 > turns\ntext 2 > into-a-directory/file\n");
    for number in 0..files {
        let (one, other) = (number % 7, number % 5);
        writeln!(script, "text {number} > changed/{one}/{number}.txt").unwrap();
        writeln!(script, "cp changed/{one}/{number}.txt added/{other}/{number}.txt").unwrap();
    }
    script
}

/// Returns a text that takes more than one write.
fn long_text(kind: &str, number: u32) -> String {
    (0..60).fold(String::new(), |mut text, line| {
        writeln!(text, "line {line} of {kind} file {number}").unwrap();
        text
    })
}
