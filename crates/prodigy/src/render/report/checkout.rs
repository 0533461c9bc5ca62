//! Saying that the user's checkout changed while a job ran.

use std::path::Path;

use prodigy_core::event::CheckoutChange;

use crate::{
    commands::context::shell_quote,
    render::console::{Console, one_line},
};

/// The file that says which files git overlooks in all working trees.
const EXCLUDE: &str = "info/exclude";

/// The most changes that are told one by one.
const TOLD: usize = 10;

/// The number of digits shown of a commit's hash.
const SHORT: usize = 10;

/// The most changes that one line tells.
const IN_A_LINE: usize = 3;

/// Says in one line that the checkout changed.
pub(crate) fn line(changes: &[CheckoutChange]) -> String {
    let shown: Vec<_> = changes.iter().take(IN_A_LINE).map(describe_change).collect();
    let more = match changes.len().saturating_sub(IN_A_LINE) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    format!("your checkout changed while the job ran: {}{more}", shown.join(", "))
}

/// Warns at the end of a run, with the commands that tell more.
pub(crate) fn print_warning(changes: &[CheckoutChange], in_all: usize, out: &mut Console) {
    if changes.is_empty() {
        return;
    }
    out.note("\nwarning: your checkout changed while the job ran; nothing was put back, since it may have been you:");
    for one in changes.iter().take(TOLD) {
        out.note(format_args!("  {}; look: {}", describe_change(one), inspect_command(one)));
    }
    if let Some(more) = in_all.checked_sub(TOLD).filter(|more| *more > 0) {
        out.note(format_args!("  {more} more; the events `checkout_changed` tell which"));
    }
}

/// Returns what `jobs show` says of the changes.
pub(crate) fn facts(changes: &[CheckoutChange], in_all: usize) -> Vec<(&'static str, String)> {
    let mut facts: Vec<_> = changes.iter().map(|one| ("", describe_change(one))).collect();
    if let Some(more) = in_all.checked_sub(changes.len()).filter(|more| *more > 0) {
        facts.push(("", format!("{more} more; the events `checkout_changed` tell which")));
    }
    if let Some(first) = facts.first_mut() {
        first.0 = "changed";
    }
    facts
}

/// Says everything that changed.
pub(crate) fn changes(changes: &[CheckoutChange]) -> String {
    changes.iter().map(describe_change).collect::<Vec<_>>().join(", ")
}

/// Says what changed.
fn describe_change(change: &CheckoutChange) -> String {
    let CheckoutChange { what, before, after } = change;
    let (before, after) = (before.as_deref(), after.as_deref());
    if what == EXCLUDE {
        let line = |line: &str| one_line(line);
        return match (before, after) {
            (None, Some(after)) => format!("`.git/{EXCLUDE}` has a new line `{}`", line(after)),
            (Some(before), None) => format!("`.git/{EXCLUDE}` lost the line `{}`", line(before)),
            (Some(_), Some(_)) | (None, None) => format!("`.git/{EXCLUDE}` changed"),
        };
    }
    if what.starts_with("remote.") {
        let name = one_line(what);
        return match (before.map(one_line), after.map(one_line)) {
            (Some(before), Some(after)) => format!("`{name}` went from `{before}` to `{after}`"),
            (Some(before), None) => format!("`{name}` is gone; it was `{before}`"),
            (None, Some(after)) => format!("`{name}` is new: `{after}`"),
            (None, None) => format!("`{name}` changed"),
        };
    }
    let name = match what.as_str() {
        "HEAD" => "HEAD".to_owned(),
        "index" => return "what is staged is not the same".to_owned(),
        "refs/tags" => return format!("{} more tags are new", after.unwrap_or("some")),
        "refs/stash" => "the stash".to_owned(),
        what => reference_label(what),
    };
    match (before, after) {
        (Some(before), Some(after)) => {
            format!("{name} went from {} to {}", describe_state(before), describe_state(after))
        }
        (Some(before), None) => format!("{name} is gone; it was at {}", describe_state(before)),
        (None, Some(after)) => format!("{name} is new, at {}", describe_state(after)),
        (None, None) => format!("{name} changed"),
    }
}

/// Returns the command that tells more about a change, or that takes it back if something is gone.
fn inspect_command(change: &CheckoutChange) -> String {
    let CheckoutChange { what, before, after } = change;
    let gone = before.as_deref().filter(|_| after.is_none());
    let quoted = |name: &str| shell_quote(Path::new(&one_line(name)));
    if let Some(branch) = what.strip_prefix("refs/heads/") {
        return match gone {
            Some(commit) => format!("git branch {} {}", quoted(branch), short_commit(commit)),
            None => format!("git reflog show {}", quoted(branch)),
        };
    }
    if let Some(tag) = what.strip_prefix("refs/tags/") {
        return match gone {
            Some(commit) => format!("git tag {} {}", quoted(tag), short_commit(commit)),
            None => format!("git show {}", quoted(tag)),
        };
    }
    if what.starts_with("remote.") {
        return "git remote --verbose".to_owned();
    }
    match (what.as_str(), gone) {
        (EXCLUDE, _) => "cat \"$(git rev-parse --git-path info/exclude)\"".to_owned(),
        ("refs/tags", _) => "git tag --list".to_owned(),
        ("refs/stash", Some(commit)) => format!("git stash store {commit}"),
        ("refs/stash", None) => "git stash list".to_owned(),
        ("index", _) => "git status".to_owned(),
        (_, _) => "git reflog".to_owned(),
    }
}

/// Returns the full name of a reference as people say it.
fn reference_label(reference: &str) -> String {
    let (kind, name) =
        match (reference.strip_prefix("refs/heads/"), reference.strip_prefix("refs/tags/")) {
            (Some(branch), _) => ("branch ", branch),
            (None, Some(tag)) => ("tag ", tag),
            (None, None) => ("", reference),
        };
    format!("{kind}`{}`", one_line(name))
}

/// Returns what something was or is, as people say it.
fn describe_state(value: &str) -> String {
    if value.starts_with("refs/") { reference_label(value) } else { short_commit(value) }
}

fn short_commit(commit: &str) -> String {
    one_line(commit).chars().take(SHORT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(what: &str, before: Option<&str>, after: Option<&str>) -> String {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        let one =
            CheckoutChange { what: what.to_owned(), before: owned(before), after: owned(after) };
        format!("{}; look: {}", describe_change(&one), inspect_command(&one))
    }

    #[test]
    fn every_change_is_told_with_the_command_that_tells_more() {
        let (old, new) = (Some("0123456789abcdef"), Some("fedcba9876543210"));
        let lines = [
            told("HEAD", Some("refs/heads/main"), Some("refs/heads/other")),
            told("HEAD", Some("refs/heads/main"), new),
            told("index", old, new),
            told("refs/heads/main", old, new),
            told("refs/heads/it's", old, None),
            told("refs/tags/v1", old, new),
            told("refs/tags/v1", old, None),
            told("refs/stash", old, new),
            told("refs/stash", None, new),
            told("refs/stash", old, None),
            told("refs/tags/v2", None, new),
            told("refs/tags", None, Some("12")),
            told("remote.evil.url", None, Some("https://example.org/x")),
            told("remote.origin.url", Some("a"), Some("b")),
            told("remote.origin.url", Some("a"), None),
            told("info/exclude", None, Some("*.key")),
            told("info/exclude", Some("*.key"), None),
        ];
        insta::assert_snapshot!(lines.join("\n"), @r#"
        HEAD went from branch `main` to branch `other`; look: git reflog
        HEAD went from branch `main` to fedcba9876; look: git reflog
        what is staged is not the same; look: git status
        branch `main` went from 0123456789 to fedcba9876; look: git reflog show main
        branch `it's` is gone; it was at 0123456789; look: git branch 'it'\''s' 0123456789
        tag `v1` went from 0123456789 to fedcba9876; look: git show v1
        tag `v1` is gone; it was at 0123456789; look: git tag v1 0123456789
        the stash went from 0123456789 to fedcba9876; look: git stash list
        the stash is new, at fedcba9876; look: git stash list
        the stash is gone; it was at 0123456789; look: git stash store 0123456789abcdef
        tag `v2` is new, at fedcba9876; look: git show v2
        12 more tags are new; look: git tag --list
        `remote.evil.url` is new: `https://example.org/x`; look: git remote --verbose
        `remote.origin.url` went from `a` to `b`; look: git remote --verbose
        `remote.origin.url` is gone; it was `a`; look: git remote --verbose
        `.git/info/exclude` has a new line `*.key`; look: cat "$(git rev-parse --git-path info/exclude)"
        `.git/info/exclude` lost the line `*.key`; look: cat "$(git rev-parse --git-path info/exclude)"
        "#);
    }

    #[test]
    fn one_line_tells_three() {
        let change = CheckoutChange { what: "index".to_owned(), before: None, after: None };
        insta::assert_snapshot!(line(&vec![change; 5]), @"your checkout changed while the job ran: what is staged is not the same, what is staged is not the same, what is staged is not the same and 2 more");
    }
}
