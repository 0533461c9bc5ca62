//! The scenarios: what goes wrong, and what must hold all the same.

use std::{fs, io, time::Duration, time::Instant};

use super::{
    findings::DrillReport,
    stage::{DrillWorkspace, JOB, pause, wait},
    texts::{self, CRASH, DENIED, DOWN, GONE, INVALID, ITEM, InjectedFault},
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
    stage.write("workflow.yml", &texts::workflow(trouble))?;
    stage.write(".prodigy/replay-policy.yml", &texts::policy(ttl, 2))?;
    stage.commit()?;
    Ok(stage.prodigy("ann", &["run", "workflow.yml", "-y", "--job-id", JOB])?.code)
}

/// Looks at what must hold at every end: one effect, a closed entry, an unbroken trail.
pub(super) fn end(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    findings.see("effects", 1, stage.effects()?);
    findings.see("entry", "resolved", stage.entry("status")?);
    let seen = stage.prodigy("ann", &["audit", "verify"])?;
    findings.see("audit verify", 0, seen.code);
    Ok(())
}

fn denied_replay(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    begin(stage, InjectedFault { before: INVALID, ..InjectedFault::default() }, "30m")?;
    let denied = stage.prodigy("ben", RETRY)?;
    findings.see("replay is denied", Exit::ReplayDenied.code(), denied.code);
    findings.see("entry stays", "open", stage.entry("status")?);
    findings.see("effects so far", 0, stage.effects()?);
    findings.see("denials in the audit trail", 1, stage.audited("replay", "denied")?);
    stage.touch("mended")?;
    let release = ["dlq", "release", JOB, ITEM, "--reason", "the adapter is mended"];
    findings.see("release", 0, stage.prodigy("ben", &release)?.code);
    findings.see("replay", 0, stage.prodigy("ben", RETRY)?.code);
    end(stage, findings)
}

fn crash_before_effect(
    stage: &mut DrillWorkspace,
    findings: &mut DrillReport,
) -> Result<(), CliError> {
    crash(stage, findings, InjectedFault { about_to: CRASH, ..InjectedFault::default() }, 0)?;
    findings.see("replay", 0, stage.prodigy("ben", RETRY)?.code);
    findings.see("replays in the audit trail", 1, stage.audited("replay", "intended")?);
    end(stage, findings)
}

fn crash_after_effect(
    stage: &mut DrillWorkspace,
    findings: &mut DrillReport,
) -> Result<(), CliError> {
    crash(stage, findings, InjectedFault { just_done: CRASH, ..InjectedFault::default() }, 1)?;
    findings.see("adoption", 0, stage.prodigy("ben", RETRY)?.code);
    findings.see("replays in the audit trail", 0, stage.audited("replay", "intended")?);
    findings.see("adoptions in the audit trail", 1, stage.audited("adopt", "done")?);
    end(stage, findings)
}

/// Lets prodigy die around the effect and takes the job up again.
fn crash(
    stage: &mut DrillWorkspace,
    findings: &mut DrillReport,
    trouble: InjectedFault,
    effects: usize,
) -> Result<(), CliError> {
    findings.see("prodigy is killed", 128 + 9, begin(stage, trouble, "30m")?);
    findings.see("effects when it died", effects, stage.effects()?);
    stage.prodigy("ann", &["resume", JOB, "-y"])?;
    findings.see("resume repeats nothing", effects, stage.effects()?);
    findings.see("reason", "unknown_commit_state", stage.entry("reason_code")?);
    findings.see("what is known", "unknown", stage.entry("commit_state")?);
    Ok(())
}

fn racing_replayers(
    stage: &mut DrillWorkspace,
    findings: &mut DrillReport,
) -> Result<(), CliError> {
    begin(stage, InjectedFault { before: DOWN, ..InjectedFault::default() }, "30m")?;
    findings.see("entry", "open", stage.entry("status")?);
    stage.touch("mended")?;
    let (one, other) = (stage.start("ben", RETRY)?, stage.start("carol", RETRY)?);
    let ends = [wait(one)?.code, wait(other)?.code];
    findings.see("one of them replays", true, ends.contains(&0));
    findings.see("replays", 1, stage.entry("replays")?);
    findings.see("replays in the audit trail", 1, stage.audited("replay", "intended")?);
    end(stage, findings)
}

/// Asks for a replay that somebody has to agree to; returns what they agree to.
pub(super) fn ask(
    stage: &mut DrillWorkspace,
    findings: &mut DrillReport,
) -> Result<String, CliError> {
    let asked = stage.prodigy("ben", RETRY)?;
    findings.see("replay waits", Exit::AwaitingApproval.code(), asked.code);
    stage.told(&["dlq", "approvals", JOB, "--json"], "digest")
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
    let digest = ask(stage, findings)?;
    let asked = Instant::now();
    while asked.elapsed() < Duration::from_millis(1500) {
        pause();
    }
    let (code, text) = approve(stage, "carol", &digest)?;
    findings.see("too late", true, text.contains("expired"));
    findings.see("approval is refused", Exit::Failure.code(), code);
    findings.see("effects so far", 0, stage.effects()?);
    findings.see("refusals in the audit trail", 1, stage.audited("approve", "refused")?);
    stage.write(".prodigy/replay-policy.yml", &texts::policy("30m", 2))?;
    stage.commit()?;
    agree_and_replay(stage, findings)
}

fn self_approval(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    begin(stage, InjectedFault { before: DENIED, ..InjectedFault::default() }, "30m")?;
    let digest = ask(stage, findings)?;
    let (code, text) = approve(stage, "ben", &digest)?;
    findings.see("their own", true, text.contains("self_approval"));
    findings.see("approval is refused", Exit::Failure.code(), code);
    let (code, text) = approve(stage, "eve", &digest)?;
    findings.see("a stranger's", true, text.contains("not_in_group"));
    findings.see("approval is refused", Exit::Failure.code(), code);
    let denied = stage.prodigy("ben", RETRY)?;
    findings.see("replay still waits", Exit::AwaitingApproval.code(), denied.code);
    findings.see("effects so far", 0, stage.effects()?);
    agree_and_replay(stage, findings)
}

fn policy_changed(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    begin(stage, InjectedFault { before: DENIED, ..InjectedFault::default() }, "30m")?;
    let digest = ask(stage, findings)?;
    findings.see("somebody agrees", 0, approve(stage, "carol", &digest)?.0);
    stage.write(".prodigy/replay-policy.yml", &texts::policy("30m", 1))?;
    stage.commit()?;
    let void = stage.prodigy("ben", RETRY)?;
    findings.see("the agreement is void", Exit::AwaitingApproval.code(), void.code);
    findings.see("effects so far", 0, stage.effects()?);
    let (code, _) = approve(stage, "carol", &digest)?;
    findings.see("the old digest is refused", Exit::Failure.code(), code);
    agree_and_replay(stage, findings)
}

/// Asks, lets somebody else agree, and replays.
pub(super) fn agree_and_replay(
    stage: &mut DrillWorkspace,
    findings: &mut DrillReport,
) -> Result<(), CliError> {
    let digest = ask(stage, findings)?;
    findings.see("somebody else agrees", 0, approve(stage, "carol", &digest)?.0);
    findings.see("replay", 0, stage.prodigy("ben", RETRY)?.code);
    findings.see("approvals in the audit trail", true, stage.audited("approve", "done")? > 0);
    end(stage, findings)
}

fn missing_input(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    begin(stage, InjectedFault { before: GONE, ..InjectedFault::default() }, "30m")?;
    findings.see("reason", "input_missing", stage.entry("reason_code")?);
    let denied = stage.prodigy("ben", RETRY)?;
    findings.see("replay is denied", Exit::ReplayDenied.code(), denied.code);
    findings.see("effects so far", 0, stage.effects()?);
    let edit = ["dlq", "edit", JOB, ITEM, "--set", "file=readme.md", "--reason", "it was renamed"];
    findings.see("edit", 0, stage.prodigy("ben", &edit)?.code);
    findings.see("replay", 0, stage.prodigy("ben", RETRY)?.code);
    findings.see("edits in the audit trail", 1, stage.audited("edit", "done")?);
    end(stage, findings)
}

fn cut_audit_tail(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    begin(stage, InjectedFault { before: INVALID, ..InjectedFault::default() }, "30m")?;
    stage.prodigy("ben", RETRY)?;
    stage.touch("mended")?;
    let path = stage.audit_file()?;
    let whole = fs::read_to_string(&path).map_err(broken)?;
    let last = whole.trim_end().rfind('\n').map_or(0, |at| at + 1);
    fs::File::options()
        .write(true)
        .open(&path)
        .and_then(|file| file.set_len(last as u64))
        .map_err(broken)?;
    let verified = stage.prodigy("ann", &["audit", "verify"])?;
    findings.see("audit verify", Exit::Failure.code(), verified.code);
    findings.see("it says why", true, verified.text.contains("truncated"));
    let release = ["dlq", "release", JOB, ITEM, "--reason", "the adapter is mended"];
    findings.see("release is refused", false, stage.prodigy("ben", &release)?.code == 0);
    findings.see("effects so far", 0, stage.effects()?);
    prodigy_engine::store::write_atomic(&path, whole.as_bytes())
        .map_err(|error| CliError::new(Exit::Failure, error.to_string()))?;
    findings.see("release with the whole trail", 0, stage.prodigy("ben", &release)?.code);
    findings.see("replay", 0, stage.prodigy("ben", RETRY)?.code);
    end(stage, findings)
}

fn broken(error: io::Error) -> CliError {
    CliError::new(Exit::Failure, "the audit trail cannot be cut").because(error)
}
