//! Every workflow of the documentation that this grammar grew from still loads.

use std::path::Path;

use prodigy_core::workflow::{Loaded, Rejected, load};

use crate::support::show;

/// What a fragment of a MapReduce workflow leaves out.
const REST: &str = "mode: mapreduce
map:
  input: items.json
  agent_template:
    - shell: test ${item.path}
";

fn fixtures(directory: &str) -> Vec<(String, String)> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/seeds").join(directory);
    let mut files: Vec<_> = std::fs::read_dir(directory)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = String::from_utf8(std::fs::read(&path).unwrap()).unwrap();
            (path.file_name().unwrap().to_str().unwrap().to_owned(), text)
        })
        .collect();
    files.sort();
    files
}

/// Loads a text and returns its warnings.
fn warnings(name: &str, text: &str) -> String {
    let loaded = load(name, &mut |path| match path {
        "rest.yml" => Ok(REST.to_owned()),
        path if path == name => Ok(text.to_owned()),
        path => Err(format!("there is no `{path}`")),
    });
    match loaded {
        Ok(Loaded { sources, warnings, .. }) => show(&sources, &warnings),
        Err(Rejected { sources, diagnostics }) => {
            panic!("{name} is rejected:\n{}", show(&sources, &diagnostics))
        }
    }
}

#[test]
fn lists_of_steps_load() {
    let files = fixtures("steps");
    assert_eq!(files.len(), 10);
    let warnings: String = files.iter().map(|(name, text)| warnings(name, text)).collect();
    insta::assert_snapshot!(warnings, @"");
}

#[test]
fn parts_of_mapreduce_workflows_load() {
    let files = fixtures("mapreduce");
    assert_eq!(files.len(), 12);
    let warnings: String = files
        .iter()
        .map(|(name, text)| warnings(name, &format!("extends: rest.yml\n{text}")))
        .collect();
    insta::assert_snapshot!(warnings, @"
    nested-commands.yml:5:5: warning: `commands` is deprecated
        put the steps directly under `agent_template`
    nested-commands.yml:8:3: warning: `commands` is not needed here
        put the steps directly under `reduce`
    ");
}

#[test]
fn backoffs_load() {
    let files = fixtures("backoff");
    assert_eq!(files.len(), 4);
    let warnings: String = files
        .iter()
        .map(|(name, text)| {
            let text = text.replace('\n', "\n  ");
            warnings(name, &format!("extends: rest.yml\nretry_config:\n  {text}"))
        })
        .collect();
    insta::assert_snapshot!(warnings, @"");
}
