//! Every hostile value in every accepted context, in dash and in bash.

use std::sync::atomic::{AtomicUsize, Ordering};

use prodigy_core::template::{BoundScript, Script};

use super::{
    contexts::{CONTEXTS, Context},
    probe::{Folder, SHELLS, Shell, accepted, names, records, vars},
    values::{big, hostile, impossible, long},
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
fn a_value_too_big_for_the_environment_arrives_whole() {
    let folder = Folder::new("big");
    let values = big();
    let fits = |context: &Context| !context.matches_slowly && !context.hands_on();
    let batches = SHELLS.map(|shell| Batch::select(shell, fits));
    // Each template starts a script once, too: there the values are read first.
    let single = |shell: Shell| {
        let chosen = contexts(shell).into_iter().filter(fits);
        chosen.map(move |context| Batch::new(shell, vec![context]))
    };
    let alone: Vec<Batch> = SHELLS.into_iter().flat_map(single).collect();
    let mut jobs = Vec::new();
    for batch in &batches {
        assert!(batch.contexts.len() >= 40);
        jobs.extend(values.iter().map(|value| (batch, value)));
    }
    for (number, batch) in alone.iter().enumerate() {
        let chosen = |at: usize| is_full() || at == number % values.len();
        jobs.extend(
            values.iter().enumerate().filter(|(at, _)| chosen(*at)).map(|(_, v)| (batch, v)),
        );
    }
    in_parallel(&jobs, |(batch, value)| check(&folder, batch, value));
}

#[test]
fn a_big_value_does_not_keep_programs_from_starting() {
    let folder = Folder::new("programs");
    for shell in SHELLS {
        let script = accepted("x=${item.v}; sh -c 'echo started'; env", shell.dialect());
        // As if an outer script had exported the variable.
        let mut bound = script.bind(&vars("x".repeat(200 * 1024))).unwrap();
        bound.env.push(("PRODIGY_P1".to_owned(), String::new()));
        let seen = String::from_utf8(folder.run(shell, &bound, "")).unwrap();
        assert!(seen.starts_with("started\n"));
        assert!(!seen.contains("PRODIGY_P1="), "{seen}");
    }
}

/// Returns what a script prints to its standard error, with its exit code.
fn complaint(shell: Shell, bound: &BoundScript, value_file: &str) -> String {
    let output = std::process::Command::new(shell.program())
        .args(["-c", &bound.text, "step"])
        .env("PRODIGY_P1_FILE", value_file)
        .output()
        .unwrap();
    let code = output.status.code().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    format!("{code}: {}", String::from_utf8_lossy(&output.stderr))
}

#[test]
fn reading_a_big_value_changes_nothing_else_about_the_script() {
    let folder = Folder::new("lines");
    let file = folder.file("value\n");
    let big = format!("{}\n", "x".repeat(200 * 1024));
    let mut seen = Vec::new();
    for shell in SHELLS {
        let source = "#!/bin/sh\necho \"status $?\" >&2\nset -eu\ncd ./missing\necho ${item.v}";
        let bound = accepted(source, shell.dialect()).bind(&vars(big.as_str())).unwrap();
        seen.push(complaint(shell, &bound, file.to_str().unwrap()));
        // A script whose value is lost does not start.
        seen.push(complaint(shell, &bound, "missing"));
    }
    insta::assert_snapshot!(seen.concat(), @"
    2: status 0
    step: 4: cd: can't cd to ./missing
    1: cat: missing: No such file or directory
    1: status 0
    step: line 4: cd: ./missing: No such file or directory
    1: cat: missing: No such file or directory
    ");
    let bound = accepted("echo '${item.v}' \"${item.v}\"", Shell::Dash.dialect());
    let texts = [big.trim_end(), &big].map(|value| bound.bind(&vars(value)).unwrap().text);
    insta::assert_snapshot!(texts.join("\n"), @r#"
    unset PRODIGY_P1; PRODIGY_P1=$(cat "${PRODIGY_P1_FILE}") || exit; echo ''"${PRODIGY_P1}"'' "${PRODIGY_P1}"
    unset PRODIGY_P1; PRODIGY_P1=$(cat "${PRODIGY_P1_FILE}" && printf .) || exit; PRODIGY_P1=${PRODIGY_P1%.}; echo ''"${PRODIGY_P1}"'' "${PRODIGY_P1}"
    "#);
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
    insta::assert_snapshot!(errors.join("\n"), @"the value of `${item.v}` contains a NUL byte, which no argument or variable can hold; use the filter `file`");
}

#[test]
fn what_cannot_travel_by_file_keeps_its_limit() {
    let long = "x".repeat(96 * 1024 + 1);
    let dialect = Shell::Dash.dialect();
    let raw = Script::parse("echo ${item.v|raw}", &names(), dialect, true).unwrap();
    let words = accepted("echo ${item.v|words}", dialect);
    let errors = [raw, words].map(|script| script.bind(&vars(long.as_str())).unwrap_err().message);
    insta::assert_snapshot!(errors.join("\n"), @"
    the value of `${item.v}` is too big for a word or for the text of a script (over 96 KiB); use the filter `file`
    the value of `${item.v}` is too big for a word or for the text of a script (over 96 KiB); use the filter `file`
    ");
    let many = accepted("echo ${files|words}", dialect);
    let mut vars = vars("");
    vars.set("files", vec!["x".repeat(96 * 1024); 12]);
    insta::assert_snapshot!(many.bind(&vars).unwrap_err(), @"the words of this script are too big together (over 1 MiB); use the filter `file` instead of `words` for the big ones");
}

#[test]
fn values_too_big_together_make_room_for_each_other() {
    let folder = Folder::new("room");
    let source: Vec<String> = (0..14).map(|n| format!("${{files[{n}]}}")).collect();
    let values: Vec<String> = (0..14).map(|n| "v\n".repeat((34 + n) * 1024)).collect();
    for shell in SHELLS {
        let script = accepted(&format!("probe {} ${{n}}", source.join(" ")), shell.dialect());
        let mut vars = vars("");
        vars.set("files", values.clone());
        let bound = script.bind(&vars).unwrap();
        let moved: Vec<&str> = bound.files.iter().map(|(name, _)| name.as_str()).collect();
        insta::allow_duplicates! {
            insta::assert_snapshot!(moved.join(" "), @"PRODIGY_P13_FILE PRODIGY_P14_FILE");
        }
        let in_env: usize = bound.env.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(in_env <= 1024 * 1024);
        let wanted = values.iter().map(String::as_str).chain(["7"]);
        let wanted: Vec<Vec<u8>> = wanted.map(|value| value.as_bytes().to_vec()).collect();
        assert!(records(&folder.run(shell, &bound, "")) == [wanted]);
    }
}
