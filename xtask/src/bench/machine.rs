//! The machine on which something was measured, since figures mean little without it.

use std::{fs, path::Path, process::Command, thread};

use crate::program::read;

/// Returns the machine, the tools and the time as a Markdown list.
pub(super) fn describe(binary: &Path) -> String {
    let cores = thread::available_parallelism().map_or(0, std::num::NonZero::get);
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let temporary = std::env::temp_dir();
    let facts = [
        ("processor", format!("{}, {cores} at once", processor())),
        ("kernel", kernel),
        ("git", tool_version(Command::new("git").arg("--version"))),
        (
            "file system",
            tool_version(
                Command::new("findmnt").args(["-n", "-o", "FSTYPE", "-T"]).arg(&temporary),
            ),
        ),
        ("prodigy", tool_version(Command::new(binary).arg("--version"))),
        ("load before", fs::read_to_string("/proc/loadavg").unwrap_or_default()),
        ("date", tool_version(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"]))),
    ];
    facts.map(|(name, value)| format!("- {name}: {}\n", value.trim())).concat()
}

/// Returns what a tool says of itself; that it is missing is a fact, too.
fn tool_version(command: &mut Command) -> String {
    let text = read(command).unwrap_or_default();
    text.lines().next().unwrap_or("unknown").to_owned()
}

fn processor() -> String {
    let text = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name"));
    name.map_or("unknown", |name| name.trim_start_matches(['\t', ' ', ':'])).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fact_has_a_value() {
        let text = describe("true".as_ref());
        assert_eq!(text.lines().count(), 7);
        assert!(
            text.lines().all(|line| line.split_once(": ").is_some_and(|(_, v)| !v.is_empty())),
            "{text}"
        );
    }
}
