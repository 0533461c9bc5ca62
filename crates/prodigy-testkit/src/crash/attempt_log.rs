//! The ledger that the attempts at items write themselves, without prodigy.
//!
//! An attempt writes `start ITEM ATTEMPT` when it begins and `end ITEM ATTEMPT` when its work is
//! done. It writes `overlap ITEM ATTEMPT` if another attempt at the same item still lives.

use std::collections::BTreeMap;

/// The ledger entries of the attempts at one item.
#[derive(Debug, Default)]
pub(crate) struct AttemptLog {
    /// The numbers of the attempts that began, in order; one that was cut off may be there again.
    pub(crate) starts: Vec<u32>,
    /// The number of attempts that finished their work.
    pub(crate) ends: u32,
    running: Option<u32>,
}

/// Reads a ledger, item by item, and checks that no two attempts at an item were at work at once.
pub(crate) fn read(text: &str) -> Result<BTreeMap<String, AttemptLog>, String> {
    let mut items: BTreeMap<String, AttemptLog> = BTreeMap::new();
    for line in text.lines() {
        let strange = || format!("the ledger has the line {line:?}");
        let words: Vec<_> = line.split(' ').collect();
        let &[what, item, attempt] = words.as_slice() else { return Err(strange()) };
        let attempt = attempt.parse().map_err(|_| strange())?;
        let traces = items.entry(item.to_owned()).or_default();
        match what {
            "start" => {
                traces.starts.push(attempt);
                traces.running = Some(attempt);
            }
            "end" if traces.running == Some(attempt) => {
                traces.ends += 1;
                traces.running = None;
            }
            "end" => {
                let running = traces.running;
                return Err(format!("attempt {attempt} at {item} ended during {running:?}"));
            }
            "overlap" => return Err(format!("two attempts at {item} were at work at once")),
            _ => return Err(strange()),
        }
    }
    Ok(items)
}

/// Returns how many items were at work at once at most.
pub(crate) fn max_concurrency(text: &str) -> u32 {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn said(lines: &[&str]) -> String {
        let show = |(item, traces): (&String, &AttemptLog)| {
            format!("{item} started {:?} and ended {} times", traces.starts, traces.ends)
        };
        match read(&lines.join("\n")) {
            Ok(items) => items.iter().map(show).collect::<Vec<_>>().join(", "),
            Err(message) => message,
        }
    }

    #[test]
    fn the_items_at_work_are_counted() {
        assert_eq!(max_concurrency("start a 1\nstart b 1\nend a 1\nstart c 1\nend b 1\n"), 2);
    }

    #[test]
    fn attempts_that_overlap_are_noticed() {
        assert_eq!(
            said(&["start a 1", "start b 1", "start a 2", "end b 1", "end a 2"]),
            "a started [1, 2] and ended 1 times, b started [1] and ended 1 times"
        );
        assert_eq!(
            said(&["start a 1", "overlap a 2", "start a 2"]),
            "two attempts at a were at work at once"
        );
        assert_eq!(
            said(&["start a 1", "start a 2", "end a 1"]),
            "attempt 1 at a ended during Some(2)"
        );
        assert_eq!(said(&["start a"]), "the ledger has the line \"start a\"");
        assert_eq!(said(&["start a b"]), "the ledger has the line \"start a b\"");
        assert_eq!(said(&["began a 1"]), "the ledger has the line \"began a 1\"");
    }
}
