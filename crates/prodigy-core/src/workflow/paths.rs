//! Paths in workflow files: text with `/`, relative to the file that names them.
//!
//! The core reads no files, so these are functions of text. They must give the same
//! answer on every machine: a job that is resumed reads its stored files by them.

/// Returns the path of a file that `referrer` names.
pub(super) fn join(referrer: &str, path: &str) -> String {
    if path.starts_with('/') {
        return normalise(path);
    }
    let joined = normalise(&format!("{}{path}", directory(referrer)));
    if joined.is_empty() { ".".to_owned() } else { joined }
}

/// Removes `.` and what `..` makes superfluous.
pub(super) fn normalise(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." if parts.last().is_some_and(|last| *last != "..") => {
                parts.pop();
            }
            // There is nothing above the root directory.
            ".." if path.starts_with('/') => {}
            part => parts.push(part),
        }
    }
    let root = if path.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// Makes a path that `file` names relative to the directory of `main`.
pub(super) fn rebase(main: &str, file: &str, path: &str) -> String {
    if directory(main) == directory(file) || path.starts_with('/') || path.starts_with("~/") {
        return path.to_owned();
    }
    let target = join(file, path);
    let base = normalise(directory(main));
    if target.starts_with('/') != base.starts_with('/') {
        return target;
    }
    let mut from: Vec<&str> = base.split('/').filter(|part| !part.is_empty()).collect();
    let mut to: Vec<&str> = target.split('/').filter(|part| !part.is_empty()).collect();
    while !from.is_empty() && from.first() == to.first() {
        from.remove(0);
        to.remove(0);
    }
    let up = from.iter().map(|_| "..");
    up.chain(to).collect::<Vec<_>>().join("/")
}

/// Returns the directory of a file, with its `/`, or nothing.
fn directory(file: &str) -> &str {
    file.rfind('/').and_then(|end| file.get(..=end)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_relative_to_the_file_that_names_it() {
        let cases = [
            ("workflow.yml", "base.yml"),
            ("./workflow.yml", "base.yml"),
            ("flows/workflow.yml", "../lib/./base.yml"),
            ("workflow.yml", "../../base.yml"),
            ("/srv/flows/workflow.yml", "../../../../base.yml"),
            ("flows/workflow.yml", "/etc/base.yml"),
        ];
        insta::assert_debug_snapshot!(cases.map(|(file, path)| join(file, path)), @r#"
        [
            "base.yml",
            "base.yml",
            "lib/base.yml",
            "../../base.yml",
            "/base.yml",
            "/etc/base.yml",
        ]
        "#);
    }

    #[test]
    fn a_path_from_an_included_file_is_made_relative_to_the_workflow() {
        let cases = [
            ("flows/main.yml", "flows/main.yml", "x.env"),
            ("flows/main.yml", "flows/lib/base.yml", "x.env"),
            ("flows/main.yml", "lib/base.yml", "x.env"),
            ("main.yml", "../lib/base.yml", "x.env"),
            ("/a/b/main.yml", "/a/c/base.yml", "x.env"),
            ("/a/b/main.yml", "/a/c/base.yml", "/etc/x.env"),
        ];
        insta::assert_debug_snapshot!(
            cases.map(|(main, file, path)| rebase(main, file, path)),
            @r#"
        [
            "x.env",
            "lib/x.env",
            "../lib/x.env",
            "../lib/x.env",
            "../c/x.env",
            "/etc/x.env",
        ]
        "#
        );
    }
}
