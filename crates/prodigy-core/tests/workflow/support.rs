//! Loading texts and showing what became of them.

use std::fmt::Write;

use prodigy_core::{
    diagnostic::{Diagnostic, Severity, Sources},
    duration,
    template::Template,
    workflow::{
        AutoCommit, Body, EnvVar, Foreach, ForeachInput, ForeachValue, Loaded, MapReduce,
        OnFailure, Rejected, Step, StepAction, Unrecovered, Validate, Workflow, load, step_label,
    },
};

/// Loads `main.yml` from some files.
pub(crate) fn load_files(files: &[(&str, &str)]) -> Result<Loaded, Rejected> {
    load("main.yml", &mut |path| {
        let file = files.iter().find(|(name, _)| *name == path);
        file.map(|(_, text)| (*text).to_owned()).ok_or_else(|| "no such file".to_owned())
    })
}

/// Shows each diagnostic on a line, its help on the next.
pub(crate) fn show(sources: &Sources, diagnostics: &[Diagnostic]) -> String {
    let mut text = String::new();
    for diagnostic in diagnostics {
        let path = &sources.get(diagnostic.span.file).unwrap().path;
        let (line, column) = sources.position(diagnostic.span).unwrap();
        let severity = match diagnostic.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        writeln!(text, "{path}:{line}:{column}: {severity}: {}", diagnostic.message).unwrap();
        if let Some(help) = &diagnostic.help {
            writeln!(text, "    {help}").unwrap();
        }
    }
    text
}

/// Loads some files that must be right.
pub(crate) fn workflow_of(files: &[(&str, &str)]) -> Workflow {
    match load_files(files) {
        Ok(loaded) => loaded.workflow,
        Err(Rejected { sources, diagnostics }) => panic!("{}", show(&sources, &diagnostics)),
    }
}

/// Loads a text that must be right.
pub(crate) fn workflow(text: &str) -> Workflow {
    workflow_of(&[("main.yml", text)])
}

/// Loads a text that must be right and shows its warnings.
pub(crate) fn warnings(text: &str) -> String {
    let Loaded { sources, warnings, .. } = load_files(&[("main.yml", text)]).unwrap();
    show(&sources, &warnings)
}

/// Loads some files that must be wrong and shows why they are.
pub(crate) fn errors_of(files: &[(&str, &str)]) -> String {
    let Rejected { sources, diagnostics } = load_files(files).unwrap_err();
    show(&sources, &diagnostics)
}

/// Loads a text that must be wrong and shows why it is.
pub(crate) fn errors(text: &str) -> String {
    errors_of(&[("main.yml", text)])
}

/// Loads a sequential workflow and shows its steps.
pub(crate) fn steps(text: &str) -> String {
    let workflow = workflow(text);
    let Body::Sequential { steps, .. } = &workflow.body else { panic!("not sequential") };
    outline(steps)
}

/// Loads a MapReduce workflow.
pub(crate) fn mapreduce(text: &str) -> MapReduce {
    let Body::MapReduce(body) = workflow(text).body else { panic!("not MapReduce") };
    *body
}

/// Shows steps, one to a line, with what goes with them below.
pub(crate) fn outline(steps: &[Step]) -> String {
    let mut text = String::new();
    for step in steps {
        outline_step(step, &mut text);
    }
    text
}

fn outline_step(step: &Step, out: &mut String) {
    writeln!(out, "{}", step_label(step)).unwrap();
    let mut line = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            let gap = if value.starts_with('\n') { "" } else { " " };
            writeln!(out, "  {name}:{gap}{value}").unwrap();
        }
    };
    match &step.action {
        StepAction::Shell { program, .. } => {
            line("program", Some(program.clone()).filter(|program| program != "sh"));
        }
        StepAction::Agent { .. } => {}
        StepAction::WriteFile { content, format, mode, create_dirs, .. } => {
            let mode = mode.map(|mode| format!("{mode:o}"));
            line(
                "content",
                Some(format!("{:?} {format:?} {mode:?} {create_dirs}", content.source())),
            );
        }
        StepAction::Foreach(inner) => line("foreach", Some(outline_foreach(inner))),
    }
    line("id", step.id.clone());
    line("when", step.when.as_ref().map(|when| when.source().to_owned()));
    line("timeout", step.timeout.map(duration::format));
    line("idle_timeout", step.idle_timeout.map(duration::format));
    line("env", Some(outline_env(&step.env)).filter(|env| !env.is_empty()));
    line("working_dir", step.working_dir.as_ref().map(|text| text.source().to_owned()));
    line("output_file", step.output_file.as_ref().map(|text| text.source().to_owned()));
    for capture in &step.captures {
        let text = format!("{} {:?} {:?}", capture.name, capture.format, capture.stream);
        line("capture", Some(text));
    }
    line("commit_required", step.commit_required.then(|| "true".to_owned()));
    let is_asked = step.auto_commit == AutoCommit::Everything;
    line("auto_commit", is_asked.then(|| "true".to_owned()));
    line("continue_on_error", step.continue_on_error.then(|| "true".to_owned()));
    line("retry", step.retry.as_ref().map(|retry| format!("{retry:?}")));
    line("on_failure", step.on_failure.as_ref().map(outline_handler));
    line("on_success", nested(&step.on_success));
    for (code, steps) in &step.on_exit_code {
        line(&format!("on_exit_code {code}"), nested(steps));
    }
    line("validate", step.validate.as_deref().map(outline_validate));
}

/// Shows steps below a line, two levels deeper.
fn nested(steps: &[Step]) -> Option<String> {
    let text = outline(steps);
    let lines = text.lines().flat_map(|line| ["\n    ", line]);
    Some(lines.collect::<String>()).filter(|text| !text.is_empty())
}

fn outline_handler(handler: &OnFailure) -> String {
    let mut text = format!("{:?}, {} attempts", handler.strategy, handler.max_attempts);
    match handler.unrecovered {
        Unrecovered::FailItem => {}
        Unrecovered::Fail => text.push_str(", fail_workflow"),
        Unrecovered::GoOn => text.push_str(", goes on"),
    }
    if handler.handler_failure_fatal {
        text.push_str(", handler_failure_fatal");
    }
    if let Some(timeout) = handler.timeout {
        write!(text, ", timeout {}", duration::format(timeout)).unwrap();
    }
    if !handler.captures.is_empty() {
        write!(text, ", captures {:?}", handler.captures).unwrap();
    }
    text + &nested(&handler.steps).unwrap_or_default()
}

fn outline_validate(validate: &Validate) -> String {
    let file = validate.result_file.as_ref().map(Template::source);
    let Validate { threshold, max_attempts, fail_workflow, .. } = validate;
    let head =
        format!("{threshold}% {file:?}, {max_attempts} attempts, fail_workflow {fail_workflow}");
    let incomplete = nested(&validate.on_incomplete);
    let incomplete = incomplete.map(|text| format!("\n    else{text}")).unwrap_or_default();
    head + &nested(&validate.steps).unwrap_or_default() + &incomplete
}

fn outline_foreach(inner: &Foreach) -> String {
    let input = match &inner.input {
        ForeachInput::Values(values) => {
            let texts: Vec<String> = values
                .iter()
                .map(|value| match value {
                    ForeachValue::Text(text) => format!("{:?}", text.source()),
                    ForeachValue::Value(value) => value.to_string(),
                })
                .collect();
            format!("[{}]", texts.join(", "))
        }
        ForeachInput::Command(script) => format!("$({})", script.source()),
    };
    let Foreach { parallel, continue_on_error, max_items, .. } = inner;
    let head = format!(
        "{input} parallel {parallel}, continue_on_error {continue_on_error}, max_items {max_items:?}"
    );
    head + &nested(&inner.steps).unwrap_or_default()
}

/// Shows environment variables on one line.
pub(crate) fn outline_env(env: &[EnvVar]) -> String {
    let texts: Vec<_> =
        env.iter().map(|var| format!("{}={}", var.name, var.value.source())).collect();
    texts.join(" ")
}
