//! Damaged files are rejected with places that exist; nothing panics.

use prodigy_core::workflow::{Loaded, Rejected};
use proptest::prelude::*;

use crate::support::{load_files, show};

const WHOLE: &str = include_str!("../seeds/mapreduce/complete.yml");
const STEPS: &str = include_str!("../seeds/steps/on-failure-full.yml");

/// What happens to one line.
#[derive(Clone, Debug)]
enum Damage {
    Remove,
    Repeat,
    Indent(usize),
    Cut(usize),
    Replace(String),
}

fn damage() -> impl Strategy<Value = Damage> {
    prop_oneof![
        Just(Damage::Remove),
        Just(Damage::Repeat),
        (0_usize..8).prop_map(Damage::Indent),
        (0_usize..30).prop_map(Damage::Cut),
        "[ ]{0,6}[-:a-z${}|>\"'&*!é#]{0,12}".prop_map(Damage::Replace),
    ]
}

fn apply(text: &str, damages: &[(usize, Damage)]) -> String {
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (place, damage) in damages {
        if lines.is_empty() {
            break;
        }
        let place = place % lines.len();
        let line = lines[place].clone();
        match damage {
            Damage::Remove => drop(lines.remove(place)),
            Damage::Repeat => lines.insert(place, line),
            Damage::Indent(depth) => {
                lines[place] = format!("{}{}", " ".repeat(*depth), line.trim());
            }
            Damage::Cut(length) => lines[place] = line.chars().take(*length).collect(),
            Damage::Replace(text) => lines[place].clone_from(text),
        }
    }
    lines.join("\n") + "\n"
}

proptest! {
    #[test]
    fn a_damaged_file_is_read_or_rejected(
        is_whole in any::<bool>(),
        damages in proptest::collection::vec((0_usize..80, damage()), 1..6),
    ) {
        let text = apply(if is_whole { WHOLE } else { STEPS }, &damages);
        match load_files(&[("main.yml", &text)]) {
            Ok(Loaded { sources, warnings, .. }) => drop(show(&sources, &warnings)),
            Err(Rejected { sources, diagnostics }) => {
                prop_assert!(!diagnostics.is_empty());
                let shown = show(&sources, &diagnostics);
                prop_assert!(!shown.contains("no usable body"), "{shown}");
                prop_assert!(diagnostics.is_sorted_by_key(|found| found.span.start));
            }
        }
    }
}
