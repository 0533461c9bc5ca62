//! The scenarios: what goes wrong, and what must hold all the same.

use std::{
    fs, io,
    time::{Duration, Instant},
};

use super::{
    fixtures::{self, CRASH, DENIED, DOWN, GONE, INVALID, ITEM, InjectedFault},
    report::DrillReport,
    workspace::{DrillWorkspace, JOB, poll_delay, wait_for_exit},
};
use crate::{error::CliError, exit::Exit};

/// Something that can go wrong.
pub(super) struct DrillScenario {
    /// Its name.
    pub(super) name: &'static str,
    /// The description, for people.
    pub(super) about: &'static str,
    /// Plays it.
    pub(super) play: fn(&mut DrillWorkspace, &mut DrillReport) -> Result<(), CliError>,
}

impl std::fmt::Debug for DrillScenario {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(self.name)
    }
}

/// The scenarios about replays, crashes and records.
pub(super) const SCENARIOS: &[DrillScenario] = &[
    DrillScenario {
        name: "denied-replay",
        about: "the policy keeps an entry back until somebody releases it",
        play: denied_replay,
    },
    DrillScenario {
        name: "crash-before-effect",
        about: "prodigy dies right before something outside is changed",
        play: crash_before_effect,
    },
    DrillScenario {
        name: "crash-after-effect",
        about: "prodigy dies right after something outside was changed",
        play: crash_after_effect,
    },
    DrillScenario {
        name: "racing-replayers",
        about: "two replays of one entry are asked for at once",
        play: racing_replayers,
    },
    DrillScenario {
        name: "expired-approval",
        about: "somebody agrees when it is too late",
        play: expired_approval,
    },
    DrillScenario {
        name: "self-approval",
        about: "somebody agrees to their own replay",
        play: self_approval,
    },
    DrillScenario {
        name: "policy-changed",
        about: "the policy changes after somebody agreed",
        play: policy_changed,
    },
    DrillScenario {
        name: "missing-input",
        about: "the item's input is gone until somebody names another",
        play: missing_input,
    },
    DrillScenario {
        name: "cut-audit-tail",
        about: "the end of the audit trail is cut off",
        play: cut_audit_tail,
    },
];

pub(super) const RETRY: &[&str] = &["dlq", "retry", JOB, ITEM, "-y"];

/// Runs the job with a policy and something that goes wrong.
pub(super) fn begin(
    stage: &mut DrillWorkspace,
    trouble: InjectedFault,
    ttl: &str,
) -> Result<i32, CliError> {
    stage.write("workflow.yml", &fixtures::workflow(trouble))?;
    stage.write(".prodigy/replay-policy.yml", &fixtures::policy(ttl, 2))?;
    stage.commit()?;
    Ok(stage.prodigy("ann", &["run", "workflow.yml", "-y", "--job-id", JOB])?.code)
}

/// Looks at what must hold at every end: one effect, a closed entry, an unbroken trail.
pub(super) fn end(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    findings.expect("effects", 1, stage.effects()?);
    findings.expect("entry", "resolved", stage.entry("status")?);
    let seen = stage.prodigy("ann", &["audit", "verify"])?;
    findings.expect("audit verify", 0, seen.code);
    Ok(())
}

fn denied_replay(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    begin(stage, InjectedFault { before: INVALID, ..InjectedFault::default() }, "30m")?;
    let denied = stage.prodigy("ben", RETRY)?;
    findings.expect("replay is denied", Exit::ReplayDenied.code(), denied.code);
    findings.expect("entry stays", "open", stage.entry("status")?);
    findings.expect("effects so far", 0, stage.effects()?);
    findings.expect(
        "denials in the audit trail",
        1,
        stage.count_audit_records("replay", "denied")?,
    );
    stage.touch_outside("mended")?;
    let release = ["dlq", "release", JOB, ITEM, "--reason", "the adapter is mended"];
    findings.expect("release", 0, stage.prodigy("ben", &release)?.code);
    findings.expect("replay", 0, stage.prodigy("ben", RETRY)?.code);
    end(stage, findings)
}

fn crash_before_effect(
    stage: &mut DrillWorkspace,
    findings: &mut DrillReport,
) -> Result<(), CliError> {
    crash(stage, findings, InjectedFault { about_to: CRASH, ..InjectedFault::default() }, 0)?;
    findings.expect("replay", 0, stage.prodigy("ben", RETRY)?.code);
    findings.expect(
        "replays in the audit trail",
        1,
        stage.count_audit_records("replay", "intended")?,
    );
    end(stage, findings)
}

fn crash_after_effect(
    stage: &mut DrillWorkspace,
    findings: &mut DrillReport,
) -> Result<(), CliError> {
    crash(stage, findings, InjectedFault { just_done: CRASH, ..InjectedFault::default() }, 1)?;
    findings.expect("adoption", 0, stage.prodigy("ben", RETRY)?.code);
    findings.expect(
        "replays in the audit trail",
        0,
        stage.count_audit_records("replay", "intended")?,
    );
    findings.expect("adoptions in the audit trail", 1, stage.count_audit_records("adopt", "done")?);
    end(stage, findings)
}

/// Lets prodigy die around the effect and takes the job up again.
fn crash(
    stage: &mut DrillWorkspace,
    findings: &mut DrillReport,
    trouble: InjectedFault,
    effects: usize,
) -> Result<(), CliError> {
    findings.expect("prodigy is killed", 128 + 9, begin(stage, trouble, "30m")?);
    findings.expect("effects when it died", effects, stage.effects()?);
    stage.prodigy("ann", &["resume", JOB, "-y"])?;
    findings.expect("resume repeats nothing", effects, stage.effects()?);
    findings.expect("reason", "unknown_commit_state", stage.entry("reason_code")?);
    findings.expect("what is known", "unknown", stage.entry("commit_state")?);
    Ok(())
}

fn racing_replayers(
    stage: &mut DrillWorkspace,
    findings: &mut DrillReport,
) -> Result<(), CliError> {
    begin(stage, InjectedFault { before: DOWN, ..InjectedFault::default() }, "30m")?;
    findings.expect("entry", "open", stage.entry("status")?);
    stage.touch_outside("mended")?;
    let (one, other) = (stage.start("ben", RETRY)?, stage.start("carol", RETRY)?);
    let ends = [wait_for_exit(one)?.code, wait_for_exit(other)?.code];
    findings.expect("one of them replays", true, ends.contains(&0));
    findings.expect("replays", 1, stage.entry("replays")?);
    findings.expect(
        "replays in the audit trail",
        1,
        stage.count_audit_records("replay", "intended")?,
    );
    end(stage, findings)
}

/// Asks for a replay that somebody has to agree to; returns what they agree to.
pub(super) fn request_approval(
    stage: &mut DrillWorkspace,
    findings: &mut DrillReport,
) -> Result<String, CliError> {
    let asked = stage.prodigy("ben", RETRY)?;
    findings.expect("replay waits", Exit::AwaitingApproval.code(), asked.code);
    stage.query_field(&["dlq", "approvals", JOB, "--json"], "digest")
}

/// Agrees to what was shown, and returns how that ended.
pub(super) fn approve(
    stage: &mut DrillWorkspace,
    who: &str,
    digest: &str,
) -> Result<(i32, String), CliError> {
    let seen = stage.prodigy(who, &["dlq", "approve", JOB, ITEM, "--expect", digest])?;
    Ok((seen.code, seen.text))
}

fn expired_approval(
    stage: &mut DrillWorkspace,
    findings: &mut DrillReport,
) -> Result<(), CliError> {
    begin(stage, InjectedFault { before: DENIED, ..InjectedFault::default() }, "1s")?;
    let digest = request_approval(stage, findings)?;
    let asked = Instant::now();
    while asked.elapsed() < Duration::from_millis(1500) {
        poll_delay();
    }
    let (code, text) = approve(stage, "carol", &digest)?;
    findings.expect("too late", true, text.contains("expired"));
    findings.expect("approval is refused", Exit::Failure.code(), code);
    findings.expect("effects so far", 0, stage.effects()?);
    findings.expect(
        "refusals in the audit trail",
        1,
        stage.count_audit_records("approve", "refused")?,
    );
    stage.write(".prodigy/replay-policy.yml", &fixtures::policy("30m", 2))?;
    stage.commit()?;
    approve_and_replay(stage, findings)
}

fn self_approval(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    begin(stage, InjectedFault { before: DENIED, ..InjectedFault::default() }, "30m")?;
    let digest = request_approval(stage, findings)?;
    let (code, text) = approve(stage, "ben", &digest)?;
    findings.expect("their own", true, text.contains("self_approval"));
    findings.expect("approval is refused", Exit::Failure.code(), code);
    let (code, text) = approve(stage, "eve", &digest)?;
    findings.expect("a stranger's", true, text.contains("not_in_group"));
    findings.expect("approval is refused", Exit::Failure.code(), code);
    let denied = stage.prodigy("ben", RETRY)?;
    findings.expect("replay still waits", Exit::AwaitingApproval.code(), denied.code);
    findings.expect("effects so far", 0, stage.effects()?);
    approve_and_replay(stage, findings)
}

fn policy_changed(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    begin(stage, InjectedFault { before: DENIED, ..InjectedFault::default() }, "30m")?;
    let digest = request_approval(stage, findings)?;
    findings.expect("somebody agrees", 0, approve(stage, "carol", &digest)?.0);
    stage.write(".prodigy/replay-policy.yml", &fixtures::policy("30m", 1))?;
    stage.commit()?;
    let void = stage.prodigy("ben", RETRY)?;
    findings.expect("the agreement is void", Exit::AwaitingApproval.code(), void.code);
    findings.expect("effects so far", 0, stage.effects()?);
    let (code, _) = approve(stage, "carol", &digest)?;
    findings.expect("the old digest is refused", Exit::Failure.code(), code);
    approve_and_replay(stage, findings)
}

/// Asks, lets somebody else agree, and replays.
pub(super) fn approve_and_replay(
    stage: &mut DrillWorkspace,
    findings: &mut DrillReport,
) -> Result<(), CliError> {
    let digest = request_approval(stage, findings)?;
    findings.expect("somebody else agrees", 0, approve(stage, "carol", &digest)?.0);
    findings.expect("replay", 0, stage.prodigy("ben", RETRY)?.code);
    findings.expect(
        "approvals in the audit trail",
        true,
        stage.count_audit_records("approve", "done")? > 0,
    );
    end(stage, findings)
}

fn missing_input(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    begin(stage, InjectedFault { before: GONE, ..InjectedFault::default() }, "30m")?;
    findings.expect("reason", "input_missing", stage.entry("reason_code")?);
    let denied = stage.prodigy("ben", RETRY)?;
    findings.expect("replay is denied", Exit::ReplayDenied.code(), denied.code);
    findings.expect("effects so far", 0, stage.effects()?);
    let edit = ["dlq", "edit", JOB, ITEM, "--set", "file=readme.md", "--reason", "it was renamed"];
    findings.expect("edit", 0, stage.prodigy("ben", &edit)?.code);
    findings.expect("replay", 0, stage.prodigy("ben", RETRY)?.code);
    findings.expect("edits in the audit trail", 1, stage.count_audit_records("edit", "done")?);
    end(stage, findings)
}

fn cut_audit_tail(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    begin(stage, InjectedFault { before: INVALID, ..InjectedFault::default() }, "30m")?;
    stage.prodigy("ben", RETRY)?;
    stage.touch_outside("mended")?;
    let path = stage.audit_file()?;
    let whole = fs::read_to_string(&path).map_err(drill_error)?;
    let last = whole.trim_end().rfind('\n').map_or(0, |at| at + 1);
    fs::File::options()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(last as u64))
        .map_err(drill_error)?;
    let verified = stage.prodigy("ann", &["audit", "verify"])?;
    findings.expect("audit verify", Exit::Failure.code(), verified.code);
    findings.expect("it says why", true, verified.text.contains("truncated"));
    let release = ["dlq", "release", JOB, ITEM, "--reason", "the adapter is mended"];
    findings.expect("release is refused", false, stage.prodigy("ben", &release)?.code == 0);
    findings.expect("effects so far", 0, stage.effects()?);
    prodigy_engine::store::write_atomic(&path, whole.as_bytes())
        .map_err(|error| CliError::new(Exit::Failure, error.to_string()))?;
    findings.expect("release with the whole trail", 0, stage.prodigy("ben", &release)?.code);
    findings.expect("replay", 0, stage.prodigy("ben", RETRY)?.code);
    end(stage, findings)
}

fn drill_error(error: io::Error) -> CliError {
    CliError::new(Exit::Failure, "the audit trail cannot be cut").with_source(error)
}
