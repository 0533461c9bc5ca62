//! Commands that are known to change something outside the worktree.
//!
//! The list is for a warning only: it names what people commonly run, and cannot know what a
//! script of theirs does.

use std::ops::Range;

use super::word::ShellWord;

/// A command that changes something outside the worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExternalCommand {
    /// Where it stands in the script.
    pub range: Range<usize>,
    /// The command, as people write it: `git push`.
    pub name: String,
}

/// Programs whose first operands say what they do: all of these change something.
const VERBS: &[(&str, &[&[&str]])] = &[
    ("git", &[&["push"]]),
    ("npm", &[&["publish"], &["unpublish"], &["deprecate"]]),
    ("pnpm", &[&["publish"]]),
    ("yarn", &[&["publish"], &["npm", "publish"]]),
    ("cargo", &[&["publish"], &["yank"]]),
    ("terraform", &[&["apply"], &["destroy"], &["import"]]),
    ("tofu", &[&["apply"], &["destroy"], &["import"]]),
    ("docker", &[&["push"]]),
    ("podman", &[&["push"]]),
    ("twine", &[&["upload"]]),
    ("helm", &[&["install"], &["upgrade"], &["uninstall"], &["rollback"], &["push"]]),
];

/// Subcommands of `kubectl` that change the cluster.
const KUBECTL: &[&str] = &[
    "annotate",
    "apply",
    "autoscale",
    "cordon",
    "create",
    "delete",
    "drain",
    "edit",
    "expose",
    "label",
    "patch",
    "replace",
    "rollout",
    "run",
    "scale",
    "set",
    "taint",
    "uncordon",
];

/// Verbs of `gh` that change something, as its second word.
const GH: &[&str] = &[
    "close", "comment", "create", "delete", "edit", "merge", "ready", "reopen", "review", "run",
    "set", "transfer", "upload",
];

/// Options of these programs that take the next word, before the word that says what to do.
const VALUED: &[(&str, &[&str])] = &[
    ("git", &["-C", "-c", "--git-dir", "--work-tree", "--namespace", "--exec-path"]),
    ("kubectl", &["-n", "--namespace", "--context", "--kubeconfig", "--cluster", "--user", "-s"]),
    ("gh", &["-R", "--repo"]),
    ("npm", &["-w", "--workspace", "--prefix"]),
    ("cargo", &["--config", "-Z", "--color", "-C"]),
    ("helm", &["-n", "--namespace", "--kube-context", "--kubeconfig"]),
];

/// Returns what a command changes outside, if it is known to.
pub(crate) fn external_effect(name: &str, arguments: &[ShellWord]) -> Option<String> {
    match name {
        "curl" => curl(arguments),
        "kubectl" | "oc" => {
            let verb = operands(name, arguments).next()?;
            KUBECTL.contains(&verb).then(|| format!("{name} {verb}"))
        }
        "gh" => {
            let mut words = operands(name, arguments);
            let (thing, verb) = (words.next()?, words.next()?);
            GH.contains(&verb).then(|| format!("gh {thing} {verb}"))
        }
        name => {
            let (_, verbs) = VERBS.iter().find(|(known, _)| *known == name)?;
            let said: Vec<&str> = operands(name, arguments).take(2).collect();
            let found = verbs.iter().find(|verb| said.starts_with(verb))?;
            let only_shows = arguments.iter().any(|word| word.text == "--dry-run");
            (!only_shows).then(|| format!("{name} {}", found.join(" ")))
        }
    }
}

/// Returns the words that are neither options nor their values, as far as they are known.
fn operands<'w>(name: &str, arguments: &'w [ShellWord]) -> impl Iterator<Item = &'w str> {
    let valued = VALUED.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, all)| *all);
    let mut is_value = false;
    arguments.iter().filter_map(move |word| {
        let text = word.text.as_str();
        if std::mem::take(&mut is_value) {
            return None;
        }
        // `cargo +nightly publish` names a toolchain first.
        if text.starts_with(['-', '+']) {
            is_value = valued.contains(&text);
            return None;
        }
        Some(text)
    })
}

/// Returns what `curl` sends, if it does not only fetch.
fn curl(arguments: &[ShellWord]) -> Option<String> {
    const SENDS: &[&str] = &["--data", "--form", "--json", "--upload-file"];
    let mut sends = None;
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        let text = word.text.as_str();
        let method = match text {
            "-X" | "--request" => words.next().map(|word| word.text.as_str()),
            _ => text.strip_prefix("--request=").or_else(|| text.strip_prefix("-X")),
        };
        if let Some(method) = method {
            let changes = ["POST", "PUT", "PATCH", "DELETE"];
            // An author who names the method means it, whatever else is sent.
            return changes.contains(&method).then(|| format!("curl -X {method}"));
        }
        let is_get = matches!(text, "-G" | "--get" | "-I" | "--head");
        if is_get {
            return None;
        }
        let long = SENDS.iter().find(|option| text.starts_with(**option));
        let short = ["-d", "-F", "-T"].into_iter().find(|option| text.starts_with(option));
        sends = sends.or(long.copied().or(short));
    }
    sends.map(|option| format!("curl {option}"))
}
