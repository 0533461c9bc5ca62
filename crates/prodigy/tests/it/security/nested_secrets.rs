//! Secrets in documents that stand inside other documents.

use std::{fmt::Write as _, fs};

use crate::fixture::workflow::{run, world};

/// A secret with letters and signs that writers of JSON escape.
const SECRET: &str = r#"pä"ss/wört<€>😀"#;

/// Writes text as it stands between quotes, with these characters escaped by their number.
fn written(text: &str, is_escaped: fn(char) -> bool, slash: bool) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let inner = quoted.strip_prefix('"').and_then(|text| text.strip_suffix('"')).unwrap();
    let mut out = String::new();
    for c in inner.chars() {
        if is_escaped(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                write!(out, "\\u{unit:04x}").unwrap();
            }
        } else {
            out.push(c);
        }
    }
    if slash { out.replace('/', "\\/") } else { out }
}

#[test]
fn a_secret_is_masked_in_a_document_inside_a_document() {
    let writers: [fn(&str) -> String; 5] = [
        |text| written(text, |_| false, false),
        |text| written(text, |c| !c.is_ascii(), false),
        |text| written(text, |c| !c.is_ascii(), true),
        |text| written(text, |c| "<>&".contains(c), false),
        |text| written(text, |c| !c.is_ascii() || "<>&".contains(c), false),
    ];
    let mut spellings = String::new();
    for (inner, write_inner) in writers.iter().enumerate() {
        for (outer, write_outer) in writers.iter().enumerate() {
            let text = write_outer(&write_inner(SECRET));
            writeln!(spellings, "{inner} in {outer}: {text}|").unwrap();
        }
    }
    let world = world("- shell: 'true'\n");
    let text =
        "secrets:\n  TOKEN: { command: cat ROOT/token }\nsteps:\n  - shell: cat ROOT/spellings\n";
    world.write("workflow.yml", text.replace("ROOT", &world.root().display().to_string()));
    world.commit_all("Print it");
    fs::write(world.root().join("token"), SECRET).unwrap();
    fs::write(world.root().join("spellings"), &spellings).unwrap();
    let seen = run(&world);
    assert!(seen.contains("completed"), "{seen}");
    let printed = world.home().join("logs/repo/job/workflow/attempt-1.out");
    let printed = fs::read_to_string(printed).unwrap();
    let shown: Vec<_> = printed.lines().filter(|line| !line.ends_with(": ***|")).collect();
    assert_eq!(shown, [""; 0]);
    assert_eq!(printed.lines().count(), 25);
}
