//! The evaluator of replays of a job's entries, built from stored state.

use std::{
    collections::{HashMap, HashSet},
    sync::{Arc, OnceLock},
};

use prodigy_core::{
    Timestamp,
    audit::AuditAction,
    dlq::{DeadLetteredItem, EntryStatus, RunFingerprint},
    effect::EffectState,
    ids::JobId,
    replay::{
        self, ApprovalState, EffectEvidence, EntryFacts, EvaluationContext, ReplayCounters,
        ReplayDecision, ReplayPolicy, ReplayTrigger,
        approval::{self, Approval, ApprovalScope, ApproverRules},
    },
};

use crate::{
    run::ReplayBase,
    store::{
        Layout, audit,
        dlq::{DeadLetterStore, DeadLetterSummary, Error},
    },
};

/// The evaluator of replays of a job's entries: the policy, the run facts of a replay, and the
/// replays counted so far.
#[derive(Clone, Debug)]
pub struct ReplayEvaluator {
    policy: Arc<ReplayPolicy>,
    run: Option<RunFingerprint>,
    /// The fingerprints of the workflow, the programs and the variables of a replay.
    fingerprints: Option<[String; 2]>,
    /// The workflow that would run if somebody asked for the newest.
    newest_workflow: Option<String>,
    /// The person who started the job.
    submitter: Option<String>,
    /// The person who is about to replay.
    replayer: Option<String>,
    /// The commit that a replay would run on.
    base: Option<ReplayBase>,
    replays: HashMap<String, u32>,
    cost_usd: f64,
    is_running: bool,
    /// The layout and the job, to look approvals up in the audit trail.
    layout: Layout,
    job: JobId,
    /// The digests of the approvals that replays were announced with, once they were looked up;
    /// `None` if the audit trail cannot be read.
    announced: OnceLock<Option<HashSet<String>>>,
}

/// The approval of an entry, and its state.
#[derive(Clone, Debug)]
pub struct ApprovalProgress<'a> {
    /// The approval that was requested.
    pub approval: &'a Approval,
    /// The facts that a person would be shown now.
    pub shown: ApprovalScope,
    /// The state of the approval.
    pub state: ApprovalState,
    /// Those whose own agreement does not count.
    pub involved: Vec<String>,
}

/// The facts about an entry that a list does not have.
#[derive(Clone, Copy, Default)]
struct EntryDetails<'a> {
    is_changed: bool,
    changed: &'a [&'a str],
    approval: Option<ApprovalState>,
    is_damaged: bool,
}

impl ReplayEvaluator {
    /// Counts the replays that there were. Without knowing what a replay would run with,
    /// nothing counts as changed.
    pub fn new(
        policy: Arc<ReplayPolicy>,
        run: Option<RunFingerprint>,
        queue: &DeadLetterStore,
    ) -> Result<Self, Error> {
        let mut bench = Self {
            policy,
            fingerprints: run.as_ref().map(RunFingerprint::fingerprints),
            run,
            newest_workflow: None,
            submitter: None,
            replayer: None,
            base: None,
            replays: HashMap::new(),
            cost_usd: 0.0,
            is_running: false,
            layout: queue.layout().clone(),
            job: queue.job().clone(),
            announced: OnceLock::new(),
        };
        let limits = bench.policy.limits;
        if limits.replays_per_signature.is_some() || limits.cost_usd.is_some() {
            for heading in queue.summaries_with_deleted() {
                let heading = heading?;
                if heading.replays > 0 {
                    *bench.replays.entry(heading.error_signature).or_default() += heading.replays;
                    bench.cost_usd += heading.standing.replay_cost_usd;
                }
            }
        }
        Ok(bench)
    }

    /// Returns the same while another run works on the job.
    #[must_use]
    pub fn with_running_job(self, is_running: bool) -> Self {
        Self { is_running, ..self }
    }

    /// Returns the same for a job that somebody started, and entries that somebody is about to
    /// replay: their own agreement may not count.
    #[must_use]
    pub fn with_people(self, submitter: Option<String>, replayer: Option<String>) -> Self {
        Self { submitter, replayer, ..self }
    }

    /// Returns the same for replays that would run on a commit. Without one, nothing counts as
    /// changed.
    #[must_use]
    pub fn with_base(self, base: ReplayBase) -> Self {
        Self { base: Some(base), ..self }
    }

    /// Returns the same for people who look at what they are asked: they may have been asked
    /// about the newest workflow instead of the job's own.
    #[must_use]
    pub fn with_newest_workflow(self, newest_workflow: Option<String>) -> Self {
        Self { newest_workflow, ..self }
    }

    /// Returns the policy.
    pub fn policy(&self) -> &Arc<ReplayPolicy> {
        &self.policy
    }

    /// Counts a replay of an entry with this signature.
    pub fn count_replay(&mut self, signature: &str) {
        *self.replays.entry(signature.to_owned()).or_default() += 1;
    }

    /// Adds the cost of a replay.
    pub fn add_cost(&mut self, cost_usd: f64) {
        self.cost_usd += cost_usd;
    }

    /// Decides over an entry by what a list says of it, and opens it only if somebody was asked
    /// to agree.
    pub fn evaluate_summary(
        &self,
        queue: &DeadLetterStore,
        heading: &DeadLetterSummary,
        asked: ReplayTrigger,
        now: Timestamp,
    ) -> ReplayDecision<'_> {
        if heading.standing.has_approval && heading.status == EntryStatus::Open {
            return match queue.entry(&heading.item_id) {
                Ok(Some(entry)) => self.evaluate(&entry, asked, now),
                Ok(None) | Err(_) => self.evaluate_damaged(heading, now),
            };
        }
        let known =
            EntryDetails { is_changed: self.is_changed(heading), ..EntryDetails::default() };
        self.rule(heading, known, asked, now)
    }

    /// Decides over an entry by all that it says.
    pub fn evaluate(
        &self,
        entry: &DeadLetteredItem,
        asked: ReplayTrigger,
        now: Timestamp,
    ) -> ReplayDecision<'_> {
        let heading = DeadLetterSummary::from(entry);
        let changed = self.changed(entry, &heading);
        let is_changed = !changed.is_empty();
        let known = EntryDetails { is_changed, changed: &changed, ..EntryDetails::default() };
        let ruling = self.rule(&heading, known, asked, now);
        match self.approval_progress(entry, &ruling, now) {
            None => ruling,
            Some(agreement) => {
                let approval = Some(agreement.state);
                self.rule(&heading, EntryDetails { approval, ..known }, asked, now)
            }
        }
    }

    /// Returns the ruling over an entry that cannot be read.
    pub fn evaluate_damaged(
        &self,
        heading: &DeadLetterSummary,
        now: Timestamp,
    ) -> ReplayDecision<'_> {
        let known = EntryDetails { is_damaged: true, ..EntryDetails::default() };
        self.rule(heading, known, ReplayTrigger::Asked, now)
    }

    /// Returns what somebody is shown who is to agree to what a ruling wants done.
    pub fn approval_scope(
        &self,
        entry: &DeadLetteredItem,
        ruling: &ReplayDecision<'_>,
        expires_at: Timestamp,
    ) -> ApprovalScope {
        let asked = entry.approval.as_ref().map_or("", |approval| approval.commit.as_str());
        let commit = self.base.as_ref().map_or(asked, |base| base.commit_since(asked));
        ApprovalScope::of(entry, ruling, self.workflow(entry), commit, expires_at)
    }

    /// Returns what somebody is shown who is asked now, whatever they were asked before.
    pub(crate) fn new_approval_scope(
        &self,
        entry: &DeadLetteredItem,
        ruling: &ReplayDecision<'_>,
        expires_at: Timestamp,
    ) -> ApprovalScope {
        let commit = self.base.as_ref().map_or("", ReplayBase::commit);
        ApprovalScope::of(entry, ruling, self.workflow(entry), commit, expires_at)
    }

    /// Returns the workflow that would run.
    pub(crate) fn workflow<'a>(&'a self, entry: &'a DeadLetteredItem) -> &'a str {
        let asked = entry.approval.as_ref().map(|approval| approval.workflow_hash.as_str());
        let newest = self.newest_workflow.as_deref();
        if let Some(newest) = newest.filter(|newest| asked == Some(newest)) {
            return newest;
        }
        match &self.run {
            Some(run) => &run.workflow_hash,
            // What cannot be told counts as unchanged.
            None => asked.filter(|asked| !asked.is_empty()).unwrap_or(&entry.workflow_hash),
        }
    }

    /// Returns what was asked about an entry and how far that has come, if somebody was asked.
    pub fn approval_progress<'e>(
        &self,
        entry: &'e DeadLetteredItem,
        ruling: &ReplayDecision<'_>,
        now: Timestamp,
    ) -> Option<ApprovalProgress<'e>> {
        let approval = entry.approval.as_ref()?;
        if self.is_approval_used(approval) {
            return None;
        }
        let shown = self.approval_scope(entry, ruling, approval.expires_at);
        let replayers = std::iter::once(approval.requested_by.as_str());
        let replayers: Vec<_> = replayers.chain(self.replayer.as_deref()).collect();
        let group = self.policy.group(ruling.rule);
        let involved = approval::involved_people(group, self.submitter.as_deref(), &replayers);
        let rules = ApproverRules::of(&self.policy, ruling.rule, &involved);
        let state = approval::approval_state(approval, &shown.digest(), &rules, now)?;
        Some(ApprovalProgress { approval, shown, state, involved })
    }

    /// Returns whether a replay was announced with an approval.
    ///
    /// The journal says so in the record that claims the entry. The audit trail said so before,
    /// and still does if that record is lost: one approval is never good for two replays.
    pub(crate) fn is_approval_used(&self, approval: &Approval) -> bool {
        if approval.consumed {
            return true;
        }
        let announced = self.announced.get_or_init(|| self.read_used_approvals().ok());
        announced.as_ref().is_none_or(|digests| digests.contains(&approval.digest))
    }

    /// Reads from the audit trail which approvals replays of the job were announced with.
    fn read_used_approvals(&self) -> Result<HashSet<String>, audit::Error> {
        let mut digests = HashSet::new();
        for record in audit::read_trail(&self.layout)? {
            let said = match record {
                Ok(record) => record.said,
                Err(audit::Error::Unreadable { .. }) => continue,
                Err(error) => return Err(error),
            };
            if said.job == self.job && said.action == AuditAction::Replay {
                digests.extend(said.digest);
            }
        }
        Ok(digests)
    }

    fn rule(
        &self,
        heading: &DeadLetterSummary,
        known: EntryDetails<'_>,
        asked: ReplayTrigger,
        now: Timestamp,
    ) -> ReplayDecision<'_> {
        let EntryDetails { is_changed, changed, approval, is_damaged } = known;
        let standing = &heading.standing;
        let subject = EntryFacts {
            item: heading.item_id.as_str(),
            status: heading.status,
            reason_code: heading.reason_code,
            topic: &standing.topic,
            step: &standing.step,
            attempts: heading.attempts,
            replays: heading.replays,
            signature: &heading.error_signature,
            last_attempt: heading.last_attempt,
            commit_state: standing.commit_state,
            effect: standing.effect.map_or(EffectEvidence::None, evidence),
            can_check: standing.can_check,
            is_intact: !is_damaged,
            is_quarantined: standing.is_quarantined,
            is_released: standing.is_released,
            is_changed,
            changed,
            approval,
        };
        let signature_replays = self.replays.get(&heading.error_signature).copied();
        let counters = ReplayCounters {
            signature_replays: signature_replays.unwrap_or_default(),
            cost_usd: self.cost_usd,
        };
        let (policy, is_running) = (&*self.policy, self.is_running);
        replay::evaluate(&subject, &EvaluationContext { policy, counters, asked, now, is_running })
    }

    /// Returns whether a replay would find something else than the last attempt did.
    fn is_changed(&self, heading: &DeadLetterSummary) -> bool {
        let standing = &heading.standing;
        // What somebody put away is not let out by something that was changed elsewhere.
        let is_elsewhere = !standing.is_quarantined && !self.has_run(&standing.ran_with);
        standing.is_edited || is_elsewhere
    }

    /// Returns whether an attempt ran with what a replay would run with, as far as is known.
    fn has_run(&self, ran_with: &str) -> bool {
        let is_known = |names: &[String; 2]| names.iter().any(|name| name == ran_with);
        ran_with.is_empty() || self.fingerprints.as_ref().is_none_or(is_known)
    }

    /// Returns what a replay would find other than the last attempt did, for people.
    fn changed(&self, entry: &DeadLetteredItem, heading: &DeadLetterSummary) -> Vec<&'static str> {
        let mut changed = Vec::new();
        if heading.standing.is_edited {
            changed.push("the item's data");
        }
        let standing = &heading.standing;
        let is_elsewhere = !standing.is_quarantined && !self.has_run(&standing.ran_with);
        if let Some(run) = self.run.as_ref().filter(|_| is_elsewhere) {
            let found = &run.found;
            let pairs = [
                ("the workflow", &entry.workflow_hash, &run.workflow_hash),
                ("the tools", &entry.tool_hash, &found.tool_hash),
                ("the environment", &entry.env_hash, &found.env_hash),
            ];
            let other = pairs.iter().filter(|(_, then, now)| !then.is_empty() && then != now);
            changed.extend(other.map(|(what, ..)| *what));
        }
        changed
    }
}

/// Returns what is known of an effect, in the words of a ruling.
fn evidence(state: EffectState) -> EffectEvidence {
    match state {
        EffectState::Prepared => EffectEvidence::Prepared,
        EffectState::Committed => EffectEvidence::Committed,
        EffectState::Absent | EffectState::Compensated => EffectEvidence::Absent,
        EffectState::Partial => EffectEvidence::Partial,
        EffectState::Indeterminate => EffectEvidence::Indeterminate,
    }
}
