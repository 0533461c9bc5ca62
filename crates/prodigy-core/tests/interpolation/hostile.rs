//! Every hostile value in every accepted context, in dash and in bash.

use std::sync::atomic::{AtomicUsize, Ordering};

use prodigy_core::template::Script;

use super::{
    contexts::{CONTEXTS, Context},
    probe::{Folder, SHELLS, Shell, accepted, records, vars},
    values::{hostile, impossible, long},
};

const WORKERS: usize = 4;

/// One value in this many meets the templates that start other programs.
const SAMPLE: usize = 4;

/// Whether nothing is to be left out.
pub(crate) fn is_full() -> bool {
    std::env::var_os("PRODIGY_FULL").is_some()
}

/// Runs jobs on a few threads; the first failure stops the test.
fn in_parallel<T: Sync>(jobs: &[T], run: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(job) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    run(job);
                }
            });
        }
    });
}

/// Templates that run one after the other in one shell.
struct Batch {
    shell: Shell,
    contexts: Vec<Context>,
    script: Script,
}

impl Batch {
    fn new(shell: Shell, contexts: Vec<Context>) -> Self {
        let source: Vec<&str> = contexts.iter().map(|context| context.template).collect();
        let script = accepted(&format!("{}\n", source.join("\n")), shell.dialect());
        Self { shell, contexts, script }
    }

    /// Takes all the templates of a shell that fit.
    fn select(shell: Shell, fits: impl Fn(&Context) -> bool) -> Self {
        Self::new(shell, contexts(shell).into_iter().filter(fits).collect())
    }
}

/// Runs a batch with a value and checks what each template received.
fn check(folder: &Folder, batch: &Batch, value: &str) {
    let Batch { shell, contexts, script } = batch;
    let bound = script.bind(&vars(value)).unwrap();
    let seen = records(&folder.run(*shell, &bound, value));
    let wanted: Vec<_> = contexts.iter().map(|context| context.expected(value)).collect();
    for (number, context) in contexts.iter().enumerate() {
        assert_eq!(
            seen.get(number).map(|arguments| lossy(arguments)),
            wanted.get(number).map(|arguments| lossy(arguments)),
            "{shell:?}: `{}` with {value:?}",
            context.template
        );
    }
    assert_eq!(seen, wanted, "{shell:?} with {value:?}");
    assert!(!folder.has_canary(), "{shell:?} ran {value:?} in one of {contexts:#?}");
}

fn lossy(arguments: &[Vec<u8>]) -> Vec<String> {
    arguments.iter().map(|argument| String::from_utf8_lossy(argument).into_owned()).collect()
}

fn contexts(shell: Shell) -> Vec<Context> {
    CONTEXTS.iter().filter(|context| context.runs_in(shell)).copied().collect()
}

#[test]
fn no_hostile_value_is_run_split_or_altered_anywhere() {
    let folder = Folder::new("together");
    let values = hostile();
    assert!(values.len() >= 300 && CONTEXTS.len() >= 25);
    let long = long();
    let light = SHELLS.map(|shell| Batch::select(shell, |context| !context.starts_programs()));
    let heavy = SHELLS.map(|shell| Batch::select(shell, Context::starts_programs));
    let quick = SHELLS.map(|shell| Batch::select(shell, |context| !context.matches_slowly));
    let mut jobs: Vec<(&Batch, &String)> = Vec::new();
    for (number, ((light, heavy), quick)) in light.iter().zip(&heavy).zip(&quick).enumerate() {
        jobs.extend(values.iter().map(|value| (light, value)));
        let is_chosen = |at: &usize| is_full() || at % SAMPLE == number;
        jobs.extend(
            values.iter().enumerate().filter(|(at, _)| is_chosen(at)).map(|(_, v)| (heavy, v)),
        );
        jobs.extend(long.iter().map(|value| (quick, value)));
    }
    in_parallel(&jobs, |(batch, value)| check(&folder, batch, value));
}

#[test]
fn a_template_on_its_own_behaves_the_same() {
    let folder = Folder::new("alone");
    let values = hostile();
    let single = |shell: Shell| {
        contexts(shell).into_iter().map(move |context| Batch::new(shell, vec![context]))
    };
    let batches: Vec<Batch> = SHELLS.into_iter().flat_map(single).collect();
    let mut jobs = Vec::new();
    for (number, batch) in batches.iter().enumerate() {
        for (at, value) in values.iter().enumerate() {
            // A sample that meets every template and every value.
            if is_full() || at % 61 == number % 61 {
                jobs.push((batch, value));
            }
        }
    }
    in_parallel(&jobs, |(batch, value)| check(&folder, batch, value));
}

#[test]
fn what_no_variable_can_hold_is_an_error_that_offers_a_file() {
    let script = accepted("probe ${item.v}", Shell::Dash.dialect());
    let by_file = accepted("cat ${item.v|file}", Shell::Dash.dialect());
    let mut errors: Vec<String> = Vec::new();
    for value in impossible() {
        errors.push(script.bind(&vars(value.as_str())).unwrap_err().to_string());
        let bound = by_file.bind(&vars(value.as_str())).unwrap();
        assert_eq!(bound.text, "cat \"${PRODIGY_P1}\"");
        assert_eq!(bound.env, []);
        assert_eq!(bound.files, [("PRODIGY_P1".to_owned(), value)]);
    }
    errors.dedup();
    insta::assert_snapshot!(errors.join("\n"), @"
    the value of `${item.v}` contains a NUL byte, which no argument or variable can hold; use the filter `file`
    the value of `${item.v}` is too big for an environment variable (over 96 KiB); use the filter `file`
    ");
    let many: Vec<String> = (0..12).map(|n| format!("${{files[{n}]}}")).collect();
    let many = accepted(&format!("probe {}", many.join(" ")), Shell::Dash.dialect());
    let mut vars = vars("");
    vars.set("files", vec!["x".repeat(96 * 1024); 12]);
    insta::assert_snapshot!(many.bind(&vars).unwrap_err(), @"the values of this script are too big together (over 1 MiB); use the filter `file` for the big ones");
}
