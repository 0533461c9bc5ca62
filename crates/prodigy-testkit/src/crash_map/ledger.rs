//! What the attempts themselves wrote down.

use std::collections::BTreeMap;

use super::workflow::ATTEMPTS;

/// Checks that no two attempts at an item were at work at once, and none ran too often.
///
/// A kill may cut off an attempt and so allow one more.
pub(super) fn check(text: &str, kills: u32) -> Result<(), String> {
    let mut seen: BTreeMap<&str, Seen<'_>> = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split(' ');
        let (Some(what), Some(item), Some(attempt), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(format!("the ledger has the line {line:?}"));
        };
        let seen = seen.entry(item).or_default();
        match what {
            "start" => {
                seen.starts += 1;
                seen.running = Some(attempt);
            }
            "end" if seen.running == Some(attempt) => {
                seen.ends += 1;
                seen.running = None;
            }
            "end" => {
                let running = seen.running;
                return Err(format!("attempt {attempt} at {item} ended during {running:?}"));
            }
            "overlap" => return Err(format!("two attempts at {item} were at work at once")),
            _ => return Err(format!("the ledger has the line {line:?}")),
        }
        if seen.starts > ATTEMPTS + kills || seen.ends > 1 + kills {
            let Seen { starts, ends, .. } = *seen;
            return Err(format!(
                "{item} started {starts} and ended {ends} times with {kills} kills"
            ));
        }
    }
    Ok(())
}

/// Returns how many items were at work at once at most.
pub(super) fn most_at_once(text: &str) -> u32 {
    let (mut now, mut most) = (0_u32, 0);
    for line in text.lines() {
        if line.starts_with("start ") {
            now += 1;
            most = most.max(now);
        } else if line.starts_with("end ") {
            now = now.saturating_sub(1);
        }
    }
    most
}

#[derive(Default)]
struct Seen<'a> {
    starts: u32,
    ends: u32,
    running: Option<&'a str>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str], kills: u32) -> String {
        check(&lines.join("\n"), kills).err().unwrap_or_else(|| "fine".to_owned())
    }

    #[test]
    fn the_items_at_work_are_counted() {
        assert_eq!(most_at_once("start a 1\nstart b 1\nend a 1\nstart c 1\nend b 1\n"), 2);
    }

    #[test]
    fn attempts_that_overlap_or_repeat_are_noticed() {
        let failed_once = ["start a 1", "start b 1", "start a 2", "end b 1", "end a 2"];
        assert_eq!(said(&failed_once, 0), "fine");
        assert_eq!(
            said(&["start a 1", "overlap a 2", "start a 2"], 0),
            "two attempts at a were at work at once"
        );
        assert_eq!(
            said(&["start a 1", "start a 2", "end a 1"], 1),
            "attempt 1 at a ended during Some(\"2\")"
        );
        let twice = ["start a 1", "end a 1", "start a 1", "end a 1"];
        assert_eq!(said(&twice, 1), "fine");
        assert_eq!(said(&twice, 0), "a started 2 and ended 2 times with 0 kills");
        assert_eq!(said(&["start a"], 0), "the ledger has the line \"start a\"");
    }
}
