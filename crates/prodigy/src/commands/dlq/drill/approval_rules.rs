//! The scenarios about who may decide, and by what.

use std::fs;

use super::{
    fixtures::{self, DENIED, ITEM, InjectedFault},
    report::DrillReport,
    scenarios::{DrillScenario, RETRY, approve, approve_and_replay, begin, end, request_approval},
    workspace::{DrillWorkspace, JOB},
};
use crate::{error::CliError, exit::Exit};

const POLICY: &str = ".prodigy/replay-policy.yml";

/// The scenarios about who may decide, and by what.
pub(super) const SCENARIOS: &[DrillScenario] = &[
    DrillScenario {
        name: "no-members",
        about: "the approver group has no members",
        play: no_members,
    },
    DrillScenario {
        name: "uncommitted-policy",
        about: "somebody changes the policy and does not commit it",
        play: uncommitted_policy,
    },
    DrillScenario {
        name: "policy-by-job",
        about: "a job commits a policy that allows more",
        play: policy_by_job,
    },
    DrillScenario {
        name: "other-commit",
        about: "somebody commits to the branch after somebody agreed",
        play: other_commit,
    },
    DrillScenario {
        name: "step-approves",
        about: "a running step agrees to a replay",
        play: step_approves,
    },
];

/// Runs the job whose item has to be agreed to.
fn run_denied_job(stage: &mut DrillWorkspace) -> Result<(), CliError> {
    begin(stage, InjectedFault { before: DENIED, ..InjectedFault::default() }, "30m")?;
    Ok(())
}

fn no_members(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    run_denied_job(stage)?;
    let policy = fixtures::policy("30m", 2);
    let members = "    members: [ben@example.com, carol@example.com]\n";
    stage.write(POLICY, &policy.replace(members, ""))?;
    stage.commit()?;
    let waits = stage.prodigy("ben", RETRY)?;
    findings.expect("replay waits", Exit::AwaitingApproval.code(), waits.code);
    let (code, text) = approve(stage, "carol", &format!("sha256:{}", "0".repeat(64)))?;
    findings.expect("nobody may agree", true, text.contains("no_members"));
    findings.expect("approval is refused", Exit::Failure.code(), code);
    findings.expect("effects so far", 0, stage.effects()?);
    stage.write(POLICY, &policy)?;
    stage.commit()?;
    approve_and_replay(stage, findings)
}

fn uncommitted_policy(
    stage: &mut DrillWorkspace,
    findings: &mut DrillReport,
) -> Result<(), CliError> {
    run_denied_job(stage)?;
    let policy = fixtures::policy("30m", 2);
    stage.write(POLICY, &fixtures::lax_policy(&policy))?;
    let refused = stage.prodigy("ben", RETRY)?;
    findings.expect("replay is refused", Exit::Invalid.code(), refused.code);
    findings.expect("it says what to do", true, refused.text.contains("commit it"));
    findings.expect("effects so far", 0, stage.effects()?);
    stage.write(POLICY, &policy)?;
    approve_and_replay(stage, findings)
}

fn policy_by_job(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    run_denied_job(stage)?;
    stage.write("meddle.yml", fixtures::MEDDLE)?;
    stage.commit()?;
    findings.expect("another job", 0, stage.prodigy("ann", &["run", "meddle.yml", "-y"])?.code);
    let refused = stage.prodigy("ben", RETRY)?;
    findings.expect("replay is refused", Exit::Invalid.code(), refused.code);
    findings.expect("effects so far", 0, stage.effects()?);
    let shown = stage.prodigy("carol", &["policy", "confirm"])?;
    let digest = shown.text.lines().find_map(|line| line.strip_prefix("digest    "));
    let digest = digest.unwrap_or_default().to_owned();
    let confirmed = stage.prodigy("carol", &["policy", "confirm", "--expect", &digest])?;
    findings.expect("a person confirms it", 0, confirmed.code);
    findings.expect("replay", 0, stage.prodigy("ben", RETRY)?.code);
    findings.expect(
        "confirmations in the audit trail",
        1,
        stage.count_audit_records("confirm_policy", "done")?,
    );
    end(stage, findings)
}

fn other_commit(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    run_denied_job(stage)?;
    let digest = request_approval(stage, findings)?;
    findings.expect("somebody agrees", 0, approve(stage, "carol", &digest)?.0);
    stage.write("deploy.sh", "echo another way\n")?;
    stage.commit()?;
    let void = stage.prodigy("ben", RETRY)?;
    findings.expect("the agreement is void", Exit::AwaitingApproval.code(), void.code);
    findings.expect("effects so far", 0, stage.effects()?);
    approve_and_replay(stage, findings)
}

fn step_approves(stage: &mut DrillWorkspace, findings: &mut DrillReport) -> Result<(), CliError> {
    run_denied_job(stage)?;
    let digest = request_approval(stage, findings)?;
    let program = format!("{} --home {}", stage.program().display(), stage.home().display());
    stage.write("sly.yml", &fixtures::self_approving_workflow(&program, JOB, ITEM, &digest))?;
    findings.expect("another job", 0, stage.prodigy("carol", &["run", "sly.yml", "-y"])?.code);
    let said = fs::read_to_string(stage.outside_file("said")).unwrap_or_default();
    let code = said.lines().last().unwrap_or_default().to_owned();
    findings.expect("its step is refused", Exit::ReplayDenied.code(), code);
    findings.expect(
        "refusals in the audit trail",
        1,
        stage.count_audit_records("approve", "refused")?,
    );
    let waits = stage.prodigy("ben", RETRY)?;
    findings.expect("replay still waits", Exit::AwaitingApproval.code(), waits.code);
    findings.expect("effects so far", 0, stage.effects()?);
    approve_and_replay(stage, findings)
}
