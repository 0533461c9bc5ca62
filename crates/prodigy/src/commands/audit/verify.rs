//! `prodigy audit verify`.

use prodigy_core::audit::AuditVerification;
use prodigy_engine::store::{
    Layout,
    audit::{self, TrailReview, anchor_ref},
};
use serde_json::{Value, json};

use super::{SCHEMA_VERSION, audit_error};
use crate::{
    cli::Cli,
    commands::context::{self, shell_quote},
    error::{CliError, error_chain},
    exit::Exit,
    progress::plural,
    render::console::Console,
};

/// Check that no record of the audit trail was changed, added or removed
///
/// The check finds what was done without prodigy. It cannot find what somebody did who may
/// write both the file and the repository and makes the whole trail anew, its anchor included.
/// The journals of the repository are read too: a replay that they hold and the trail does not is missing
/// in it, also if the trail was deleted with its anchor. Records that are earlier than the one before them
/// are noted: a clock was set back.
///
/// Exit codes: 1 if the audit trail is not what was recorded.
#[derive(clap::Args, Debug)]
pub(crate) struct AuditVerifyArgs {
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// The result of a verification, in words.
struct AuditView {
    status: &'static str,
    line: String,
    /// More lines: the remains of an interrupted append, and the irregularities of a review.
    left: Vec<String>,
    is_whole: bool,
}

pub(super) fn run(
    args: &Cli,
    command: &AuditVerifyArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let repo = context::repo(None)?;
    let layout = context::layout(&context::resolve_home(args)?, &repo)?;
    let (mut finding, mut details) = match audit::verify_trail(&layout, &repo) {
        Ok(verified) => (describe_trail(&verified), details(&verified)),
        // An anchor that holds something else is a finding, and the worst of them.
        Err(error @ audit::Error::NoHead { .. }) => {
            let reason = error_chain(&error);
            (broken_trail("broken", format!("broken: {reason}")), json!({ "reason": reason }))
        }
        Err(error) => return Err(audit_error(error)),
    };
    let review = audit::review(&layout).map_err(audit_error)?;
    add_review(&review, &mut finding, &mut details);
    if command.json {
        let mut document = json!({ "schema_version": SCHEMA_VERSION, "status": finding.status });
        if let (Value::Object(fields), Value::Object(details)) = (&mut document, details) {
            fields.extend(details);
            fields.insert("file".to_owned(), json!(layout.audit_file().display().to_string()));
            fields.insert("anchor".to_owned(), json!(anchor_ref(&layout)));
        }
        out.raw(format!("{document:#}\n").as_bytes())?;
    } else {
        out.line(&finding.line)?;
        finding.left.iter().try_for_each(|line| out.line(line))?;
        out.flush()?;
        if !finding.is_whole {
            print_recovery(&layout, out);
        }
    }
    Ok(if finding.is_whole { Exit::Success } else { Exit::Failure })
}

/// Adds what the clock and the journals say about the trail.
fn add_review(review: &TrailReview, finding: &mut AuditView, details: &mut Value) {
    let TrailReview { backwards, unrecorded } = review;
    if let Value::Object(details) = details {
        details.insert("backwards".to_owned(), json!(backwards));
        let missing =
            unrecorded.iter().map(|(job, replays)| json!({ "job": job, "replays": replays }));
        details.insert("unrecorded".to_owned(), missing.collect());
    }
    for record in backwards {
        finding.left.push(format!(
            "  record {record} is earlier than the one before it: a clock was set back"
        ));
    }
    if unrecorded.is_empty() {
        return;
    }
    if finding.is_whole {
        let left = std::mem::take(&mut finding.left);
        let line = "broken: records are missing that the journals hold".to_owned();
        *finding = AuditView { left, ..broken_trail("missing", line) };
    }
    for (job, replays) in unrecorded {
        let replays = plural(*replays, "replay");
        finding.left.push(format!("  the journal of job `{job}` holds {replays} more"));
    }
}

/// Puts what was found into words.
fn describe_trail(verified: &AuditVerification) -> AuditView {
    match verified {
        AuditVerification::Whole { head, unanchored, torn } => {
            let line = match head.seq {
                0 => "ok: nothing is recorded yet".to_owned(),
                seq => format!("ok: {}, the last one is {}", plural(seq, "record"), head.hash),
            };
            let mut left = Vec::new();
            if *unanchored > 0 {
                left.push(format!(
                    "  {} not anchored: an append was cut off, and nothing was done \
                     because of it; the next append anchors it",
                    format_count_at_end(*unanchored, "record")
                ));
            }
            if *torn > 0 {
                left.push(format!(
                    "  {} no record: an append was cut off; the next append puts that \
                     aside",
                    format_count_at_end(*torn, "byte")
                ));
            }
            AuditView { status: "ok", line, left, is_whole: true }
        }
        AuditVerification::Broken { line, why } => {
            broken_trail("broken", format!("broken at line {line}: {why}"))
        }
        AuditVerification::Truncated { have, anchored } => {
            let missing = plural(anchored - have, "record");
            let line =
                format!("truncated: {missing} missing at the end, {have} of {anchored} left");
            broken_trail("truncated", line)
        }
        AuditVerification::Unanchored { records } => {
            let there = plural(*records, "record");
            let line =
                format!("broken: the anchor in git is gone, and {there} cannot be relied on");
            broken_trail("unanchored", line)
        }
    }
}

fn broken_trail(status: &'static str, line: String) -> AuditView {
    AuditView { status, line, left: Vec::new(), is_whole: false }
}

fn format_count_at_end(number: u64, thing: &str) -> String {
    let is = if number == 1 { "is" } else { "are" };
    format!("{} at the end {is}", plural(number, thing))
}

fn details(verified: &AuditVerification) -> Value {
    match verified {
        AuditVerification::Whole { head, unanchored, torn } => json!({
            "records": head.seq,
            "head": head.hash,
            "unanchored_records": unanchored,
            "torn_bytes": torn,
        }),
        AuditVerification::Broken { line, why } => {
            json!({ "line": line, "reason": why.to_string() })
        }
        AuditVerification::Truncated { have, anchored } => {
            json!({ "records": have, "anchored_records": anchored, "missing": anchored - have })
        }
        AuditVerification::Unanchored { records } => json!({ "records": records }),
    }
}

/// Says how to go on with a trail that cannot be relied on.
fn print_recovery(layout: &Layout, out: &mut Console) {
    let file = shell_quote(&layout.audit_file());
    out.note(format_args!(
        "\nWhat the records say cannot be relied on. Put {file} back from a backup; if there is"
    ));
    out.note(
        "none, `prodigy audit restart --reason TEXT` keeps what is left and begins a new trail",
    );
}
