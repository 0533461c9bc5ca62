//! The work that failed items left, looked for where the journal says that it is.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
};

use serde_json::Value;

use crate::{TestEnv, crash::sequential::parse_journal};

/// The work of an item that failed for good.
#[derive(Clone, Debug)]
pub(crate) struct FailedItemWork {
    /// The file that it changed and did not commit, and what it has.
    pub(crate) uncommitted: (String, String),
    /// The file that it committed, and what it has.
    pub(crate) committed: Option<(String, String)>,
}

/// Checks that all that failed items left is there, with the right content.
///
/// `expected` returns what an item must have left; `None` if that is not known, as of one that
/// was under way at too many crashes.
pub(crate) fn check_failed_work(
    world: &TestEnv,
    journal: &str,
    expected: impl Fn(&str) -> Option<FailedItemWork>,
) -> Result<(), String> {
    for (item, record) in dead_items(journal)? {
        let Some(work) = expected(&item) else { continue };
        let Some(record) = record else {
            return Err(format!("{item} failed and nothing says what it left"));
        };
        check_work(world, &work, &record)
            .map_err(|what| format!("the work of {item} is lost: {what}: {record}"))?;
    }
    Ok(())
}

/// Checks that what successful items left uncommitted is where the journal says.
///
/// `expected` returns the file that an item leaves, and its text.
pub(crate) fn check_kept_work(
    world: &TestEnv,
    journal: &str,
    expected: impl Fn(&str) -> Option<(String, String)>,
) -> Result<(), String> {
    let mut references = BTreeMap::new();
    for record in parse_journal(journal)? {
        let text = |key| record.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let item = text("item_id");
        match text("event_type").as_str() {
            "work_kept" => {
                references.insert(item, text("reference"));
            }
            "agent_completed" => {
                let Some((file, content)) = expected(&item) else { continue };
                let Some(reference) = references.get(&item) else {
                    return Err(format!("{item} left `{file}` and nothing says where it is"));
                };
                let found = object_content(world, &format!("{reference}:{file}"));
                if found.as_ref() != Some(&content) {
                    return Err(format!(
                        "what {item} left is lost: `{file}` in `{reference}` is {found:?}"
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the items that are dead or left out now, but for those that were given up because of
/// crashes, each with the last record of what its last attempt left.
fn dead_items(journal: &str) -> Result<BTreeMap<String, Option<Value>>, String> {
    let (mut kept, mut dead) = (BTreeMap::new(), BTreeSet::new());
    for record in parse_journal(journal)? {
        let text = |key| record.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (kind, item) = (text("event_type"), text("item_id"));
        let reason = record.pointer("/failure/kind").and_then(Value::as_str);
        match kind.as_str() {
            "agent_started" => {
                kept.remove(&item);
            }
            "worktree_preserved" => {
                kept.insert(item, record);
            }
            "item_dead_lettered" | "item_skipped" if reason != Some("poison_repeat") => {
                dead.insert(item.clone());
            }
            "replay_started" | "dlq_item_removed" => {
                dead.remove(&item);
            }
            _ => {}
        }
    }
    Ok(dead.into_iter().map(|item| (item.clone(), kept.remove(&item))).collect())
}

/// Checks that the work of an item is where a record says.
fn check_work(world: &TestEnv, work: &FailedItemWork, record: &Value) -> Result<(), String> {
    // Paths are shown as they are for people.
    let root = world.root().canonicalize().unwrap().to_string_lossy().into_owned();
    let text = |pointer| {
        let text = record.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        text.replace("$ROOT", &root)
    };
    let path = text("/path");
    let (file, content) = &work.uncommitted;
    let found = if path.starts_with("refs/") {
        object_content(world, &format!("{path}:files/{file}"))
    } else if path.is_empty() {
        added_lines(&text("/left/patch"), file)
    } else {
        fs::read_to_string(Path::new(&path).join(file)).ok()
    };
    if found.as_ref() != Some(content) {
        return Err(format!("`{file}` is {found:?} instead of {content:?}"));
    }
    let Some((file, content)) = &work.committed else { return Ok(()) };
    let commit = if path.starts_with("refs/") { format!("{path}^") } else { text("/left/branch") };
    let found = object_content(world, &format!("{commit}:{file}"));
    if found.as_ref() != Some(content) {
        return Err(format!("`{file}` in `{commit}` is {found:?} instead of {content:?}"));
    }
    Ok(())
}

/// Returns the lines that a patch adds to a file, if it has the file.
fn added_lines(patch: &str, file: &str) -> Option<String> {
    let patch = fs::read_to_string(patch).ok()?;
    let (_, rest) = patch.split_once(&format!("+++ b/{file}\n"))?;
    let lines = rest.lines().take_while(|line| !line.starts_with("diff "));
    let added = lines.filter_map(|line| line.strip_prefix('+'));
    Some(added.flat_map(|line| [line, "\n"]).collect())
}

fn object_content(world: &TestEnv, name: &str) -> Option<String> {
    let output = world.command("git").args(["cat-file", "-p", name]).output().unwrap();
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns what is said about a dead item `a` whose journal ends with a record.
    fn said(world: &TestEnv, record: Option<&Value>) -> String {
        let mut records = vec![json!({"event_type": "agent_started", "item_id": "a"})];
        records.extend(record.cloned());
        records.push(json!({"event_type": "item_dead_lettered", "item_id": "a"}));
        let lines = records.into_iter().zip(1..).map(|(mut record, seq)| {
            record["seq"] = seq.into();
            format!("{record}\n")
        });
        let work = FailedItemWork {
            uncommitted: ("draft".to_owned(), "draft\n".to_owned()),
            committed: Some(("README.md".to_owned(), "# fixture\n".to_owned())),
        };
        let journal: String = lines.collect();
        let checked =
            check_failed_work(world, &journal, |item| (item == "a").then(|| work.clone()));
        checked.err().map_or_else(|| "fine".to_owned(), |error| error.chars().take(80).collect())
    }

    #[test]
    fn work_that_is_not_where_the_journal_says_is_noticed() {
        let world = TestEnv::with_repo("prodigy");
        let kept = world.root().join("kept");
        let record = json!({
            "event_type": "worktree_preserved",
            "item_id": "a",
            "path": kept,
            "left": {"branch": "main"},
        });
        assert_eq!(said(&world, None), "a failed and nothing says what it left");
        let lost = "the work of a is lost: `draft` is None instead of \"draft\\n\"";
        assert!(said(&world, Some(&record)).starts_with(lost));
        fs::create_dir(&kept).unwrap();
        fs::write(kept.join("draft"), "draft\n").unwrap();
        assert_eq!(said(&world, Some(&record)), "fine");
        let mut other = record.clone();
        other["left"]["branch"] = "gone".into();
        let lost = "the work of a is lost: `README.md` in `gone` is None";
        assert!(said(&world, Some(&other)).starts_with(lost));
        let mut patch = record;
        patch["path"] = "".into();
        patch["left"]["patch"] = world.root().join("patch").to_string_lossy().as_ref().into();
        fs::write(
            world.root().join("patch"),
            "--- /dev/null\n+++ b/draft\n@@ -0,0 +1 @@\n+draft\n",
        )
        .unwrap();
        assert_eq!(said(&world, Some(&patch)), "fine");
    }
}
