//! The rules of the house that no lint can check.
//!
//! Each rule collects every offence before it fails, so that one run shows all
//! of them. The scanners have tests of their own at the end: a rule that cannot
//! see an offence is worse than no rule.
#![expect(clippy::unwrap_used, reason = "a test that cannot read the sources should fail here")]
#![expect(clippy::disallowed_methods, reason = "the binary under test is run directly")]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The longest a source file may be, its unit tests not counted.
const MAX_LINES: usize = 400;

/// Files that are one long table of types, which reading in two places would not make clearer,
/// and the longest that such a file may be.
const TABLES: &[&str] =
    &["crates/prodigy-core/src/workflow/model.rs", "crates/prodigy-core/src/event/mod.rs"];
const MAX_TABLE_LINES: usize = 600;

/// Names that several modules may each define for themselves.
const SHARED_NAMES: &[&str] = &["Error"];

/// Words that a doc comment does not begin with: the thing or the act comes first.
const PRONOUNS: &[&str] = &["What", "How", "Whether", "Why", "Who", "Takes in", "It has"];

/// Words that say "something that does things" and so say nothing.
const EMPTY_WORDS: &[&str] =
    &["Manager", "Helper", "Util", "Coordinator", "Executor", "Enhanced", "V2"];

/// Words of unfinished work. Spelled in two halves: this file is scanned too.
const UNFINISHED: &[&str] =
    &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("unimple", "mented")];

/// Parts of the standard library that reach out into the world.
const WORLD: &[&str] = &["env", "fs", "net", "process", "thread"];

/// The roots of the machines that the project was built on.
const MACHINE_ROOTS: &[&str] =
    &[concat!("/wo", "rk/"), concat!("/tm", "p/h/"), concat!("/ro", "ot/")];

/// The most packages that `Cargo.lock` may hold.
const MAX_PACKAGES: usize = 300;

/// A source file: its path from the root of the workspace, and its text without unit tests.
struct Source {
    path: String,
    code: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// Returns every file below `directory`, build output, git's own files and links left out.
fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut waiting = vec![directory.to_owned()];
    let mut files = Vec::new();
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            let kind = entry.file_type().unwrap();
            if kind.is_dir() && entry.file_name() != "target" && entry.file_name() != ".git" {
                waiting.push(entry.path());
            } else if kind.is_file() && entry.file_name() != ".git" {
                files.push(entry.path());
            }
        }
    }
    files.sort();
    files
}

/// Returns the files that git keeps, or all of them where the sources came without git.
fn kept_files() -> Vec<PathBuf> {
    let list = Command::new("git").args(["ls-files", "-z"]).current_dir(root()).output();
    match list {
        Ok(list) if list.status.success() && !list.stdout.is_empty() => {
            let names = String::from_utf8(list.stdout).unwrap();
            let files = names.split_terminator('\0').map(|name| root().join(name));
            files.filter(|path| path.is_file()).collect()
        }
        Ok(_) | Err(_) => files_below(&root()),
    }
}

/// Returns a path as the rules show it.
fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().to_string_lossy().into_owned()
}

/// Returns the code that is shipped or run as a chore, i.e. all of `src`.
fn sources() -> Vec<Source> {
    files_below(&root())
        .into_iter()
        .map(|path| (shown(&path), path))
        .filter(|(path, _)| is_source(path))
        .map(|(path, file)| Source {
            path,
            code: without_tests(&fs::read_to_string(file).unwrap()),
        })
        .collect()
}

/// Returns whether a path is code but not a file of unit tests.
fn is_source(path: &str) -> bool {
    let in_src = path.starts_with("xtask/src/")
        || (path.starts_with("crates/") && path.split('/').nth(2) == Some("src"));
    let of_tests = path.ends_with("/tests.rs") || path.contains("/tests/");
    in_src && Path::new(path).extension().is_some_and(|end| end == "rs") && !of_tests
}

/// Returns a file's text up to its unit tests, which always come last.
fn without_tests(text: &str) -> String {
    text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default().to_owned()
}

/// Returns the name that a line declares as a type, whatever its visibility.
fn declared_type(line: &str) -> Option<&str> {
    let rest = line.trim_start();
    let rest = match rest.strip_prefix("pub(") {
        Some(scope) => scope.split_once(") ")?.1,
        None => rest.strip_prefix("pub ").unwrap_or(rest),
    };
    let rest =
        ["struct ", "enum ", "trait ", "union "].iter().find_map(|kind| rest.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

/// Returns true for a doc line whose first word is a pronoun.
fn begins_with_pronoun(line: &str) -> bool {
    let line = line.trim_start();
    let text = line.strip_prefix("/// ").or_else(|| line.strip_prefix("//! "));
    let rests = |text| PRONOUNS.iter().filter_map(move |word: &&str| str::strip_prefix(text, word));
    text.is_some_and(|text| rests(text).any(|rest| !rest.starts_with(char::is_alphanumeric)))
}

/// Returns the commands that a text names, as in `` `prodigy run …` ``.
fn named_commands(text: &str) -> Vec<&str> {
    text.split("`prodigy ")
        .skip(1)
        .filter_map(|rest| {
            rest.split(|c: char| !c.is_ascii_lowercase() && !"_-".contains(c)).next()
        })
        .filter(|name| name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_'))
        .collect()
}

/// Returns whether `word` stands in `line` as a word of its own.
fn has_word(line: &str, word: &str) -> bool {
    let part_of_word = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        !line[..at].ends_with(part_of_word) && !line[at + word.len()..].starts_with(part_of_word)
    })
}

/// Returns whether a line names one of the machines' own directories as an absolute path.
fn names_a_machine(line: &str) -> bool {
    let part_of_path = |c: char| c.is_alphanumeric() || "._-~$}*/".contains(c);
    MACHINE_ROOTS
        .iter()
        .any(|root| line.match_indices(root).any(|(at, _)| !line[..at].ends_with(part_of_path)))
}

/// Returns the modules of `std` that a source names, whether by `std::fs` or in `use std::{…}`.
fn used_of_std(code: &str) -> Vec<String> {
    let code: String = code
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
        .collect::<Vec<_>>()
        .join("\n");
    let mut used = Vec::new();
    for (at, path) in code.match_indices("std::") {
        let rest = &code[at + path.len()..];
        match rest.strip_prefix('{') {
            Some(list) => used.extend(top_level_names(list)),
            None => used.extend(first_name(rest)),
        }
    }
    used
}

/// Returns the first name of each entry of a `{…}` list whose opening brace is already gone.
fn top_level_names(list: &str) -> Vec<String> {
    let (mut depth, mut entry, mut names) = (1_usize, String::new(), Vec::new());
    for c in list.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 1 => {
                names.extend(first_name(&entry));
                entry.clear();
                continue;
            }
            _ => {}
        }
        if depth == 0 {
            break;
        }
        entry.push(c);
    }
    names.extend(first_name(&entry));
    names
}

fn first_name(text: &str) -> Option<String> {
    let name = text.trim_start().split(|c: char| !c.is_alphanumeric() && c != '_').next()?;
    (!name.is_empty()).then(|| name.to_owned())
}

#[track_caller]
fn none(offences: &[String], rule: &str) {
    assert!(offences.is_empty(), "{rule}:\n  {}", offences.join("\n  "));
}

#[test]
fn a_source_file_can_be_read_in_one_go() {
    let long: Vec<_> = sources()
        .into_iter()
        .filter_map(|source| {
            let table = TABLES.contains(&source.path.as_str());
            let most = if table { MAX_TABLE_LINES } else { MAX_LINES };
            let lines = source.code.lines().count();
            (lines > most).then(|| format!("{}: {lines} lines, at most {most}", source.path))
        })
        .collect();
    none(&long, "split these along an idea");
}

#[test]
fn one_name_means_one_thing() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for source in sources() {
        for name in source.code.lines().filter_map(declared_type) {
            if !SHARED_NAMES.contains(&name) {
                places.entry(name.to_owned()).or_default().push(source.path.clone());
            }
        }
    }
    let shared: Vec<_> = places
        .into_iter()
        .filter(|(_, at)| at.len() > 1)
        .map(|(name, at)| format!("{name}: {}", at.join(", ")))
        .collect();
    none(&shared, "one concept, one type; two concepts, two names");
}

#[test]
fn names_say_what_a_thing_knows_or_does() {
    let empty: Vec<_> = sources()
        .iter()
        .flat_map(|source| {
            source
                .code
                .lines()
                .filter_map(declared_type)
                .filter(|name| EMPTY_WORDS.iter().any(|word| name.contains(word)))
                .map(|name| format!("{name} in {}", source.path))
                .collect::<Vec<_>>()
        })
        .collect();
    none(&empty, "these names say nothing");
}

#[test]
fn the_core_does_not_touch_the_world() {
    let mut reaching = Vec::new();
    for source in sources().iter().filter(|source| source.path.contains("/prodigy-core/")) {
        for name in used_of_std(&source.code) {
            if WORLD.contains(&name.as_str()) {
                reaching.push(format!("std::{name} in {}", source.path));
            }
        }
        for line in source.code.lines().filter(|line| has_word(line, "tokio")) {
            reaching.push(format!("`{}` in {}", line.trim(), source.path));
        }
    }
    none(&reaching, "the core is handed times, bytes and answers; it does not fetch them");
}

#[test]
fn what_is_not_finished_does_not_exist() {
    let mut unfinished = Vec::new();
    for source in sources() {
        for (number, line) in source.code.lines().enumerate() {
            if UNFINISHED.iter().any(|word| has_word(line, word)) {
                unfinished.push(format!("{}:{}: {}", source.path, number + 1, line.trim()));
            }
        }
    }
    none(&unfinished, "finish it or take it out");
}

#[test]
fn doc_comments_begin_with_the_thing_or_the_act() {
    let files = files_below(&root()).into_iter().map(|path| (shown(&path), path));
    let offences: Vec<_> = files
        .filter(|(path, _)| is_source(path))
        .flat_map(|(path, file)| {
            let text = fs::read_to_string(file).unwrap();
            let lines: Vec<_> = text.lines().filter(|line| begins_with_pronoun(line)).collect();
            lines.iter().map(|line| format!("{path}: {}", line.trim())).collect::<Vec<_>>()
        })
        .collect();
    none(&offences, "begin with a noun or a verb");
}

#[test]
fn pronouns_are_seen_at_the_beginning_of_doc_comments_only() {
    assert!(begins_with_pronoun("    /// Whether it is over."));
    assert!(begins_with_pronoun("//! How it works."));
    assert!(!begins_with_pronoun("/// However long it takes."));
    assert!(!begins_with_pronoun("/// The reason why."));
    assert!(!begins_with_pronoun("// What follows is code."));
}

#[test]
fn every_module_says_what_it_is_for() {
    let silent: Vec<_> = sources()
        .into_iter()
        .filter(|source| !source.code.starts_with("//! "))
        .map(|source| source.path)
        .collect();
    none(&silent, "begin these with `//!` and one sentence");
}

#[test]
fn no_file_knows_the_machine_it_was_written_on() {
    let mut places = Vec::new();
    for path in kept_files() {
        let Ok(text) = fs::read_to_string(&path) else { continue };
        for (number, line) in text.lines().enumerate() {
            if names_a_machine(line) {
                places.push(format!("{}:{}: {}", shown(&path), number + 1, line.trim()));
            }
        }
    }
    none(&places, "absolute paths of one machine");
}

#[test]
fn every_command_that_is_named_exists() {
    let mut named: BTreeMap<String, String> = BTreeMap::new();
    for path in kept_files() {
        let is_text = path.extension().is_some_and(|end| end == "rs" || end == "md");
        if !is_text || path.ends_with("tests/house_rules.rs") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        for name in named_commands(&text) {
            named.insert(name.to_owned(), shown(&path));
        }
    }
    let unknown: Vec<_> = named
        .into_iter()
        .filter(|(name, _)| {
            let help = Command::new(env!("CARGO_BIN_EXE_prodigy")).args([name, "--help"]).output();
            !help.unwrap().status.success()
        })
        .map(|(name, path)| format!("prodigy {name} in {path}"))
        .collect();
    none(&unknown, "no hint and no page may send people to a command that is not there");
}

#[test]
fn the_lock_file_stays_small() {
    let lock = fs::read_to_string(root().join("Cargo.lock")).unwrap();
    let packages = lock.lines().filter(|line| *line == "[[package]]").count();
    assert!(packages <= MAX_PACKAGES, "{packages} packages, at most {MAX_PACKAGES}");
}

#[test]
fn declared_types_are_seen_whatever_their_scope() {
    let seen = |line| declared_type(line).unwrap_or("-").to_owned();
    assert_eq!(seen("pub struct Job<'a> {"), "Job");
    assert_eq!(seen("pub(crate) enum Exit {"), "Exit");
    assert_eq!(seen("    pub trait Agent: Send {"), "Agent");
    assert_eq!(seen("pub(super) struct Local;"), "Local");
    assert_eq!(seen("struct Private;"), "Private");
    assert_eq!(seen("// struct Remark"), "-");
    assert_eq!(seen("pub fn structure() {"), "-");
}

#[test]
fn words_are_whole_words() {
    let word = UNFINISHED[0];
    assert!(has_word(&format!("// {word}: later"), word));
    assert!(!has_word(&format!("{word}S_ARE_A_LIST"), word));
}

#[test]
fn commands_are_seen_where_they_are_named() {
    let text =
        "run `prodigy jobs` or `prodigy worktree clean JOB`; `prodigy` and `prodigy --home D`";
    assert_eq!(named_commands(text), ["jobs", "worktree"]);
}

#[test]
fn uses_of_std_are_seen_in_every_spelling() {
    assert_eq!(used_of_std("use std::{collections::BTreeMap, env};"), ["collections", "env"]);
    assert_eq!(used_of_std("use std::{\n    fmt,\n    fs::{self, File},\n};"), ["fmt", "fs"]);
    assert_eq!(used_of_std("let x = std::process::id();"), ["process"]);
    assert_eq!(used_of_std("/// Like [`std::fs`].\nuse std::fmt;"), ["fmt"]);
}

#[test]
fn absolute_machine_paths_are_seen_and_others_are_not() {
    let root = MACHINE_ROOTS[0];
    assert!(names_a_machine(&format!("cd {root}main")));
    assert!(names_a_machine(&format!("\"{root}main\"")));
    assert!(!names_a_machine(&format!("below $ROOT{root}main")));
    assert!(!names_a_machine(&format!("https://example.com{root}")));
}
