//! The decision over a dead letter at the moment in which it is claimed.
//!
//! The plan may be out of date by then. So the decision is made anew, from the stored entry and
//! the policy in force, and the intended action is in the audit trail before it is taken.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use prodigy_core::{
    Timestamp,
    audit::{AuditAction, AuditOutcome, IdentityKind, NewAuditRecord},
    dlq::{DeadLetteredItem, EntryStatus},
    event::{Event, EventRecord, ReplayAuthorization},
    ids::{ItemId, JobId},
    job::{AbortedCause, ItemInput, ItemStage, ItemState, JobInput},
    replay::{ReplayAction, ReplayDecision, ReplayTrigger, ReplayVerdict},
};

use super::replay_counts::{ReplayCounts, ReplayedItems};
use crate::{
    clock,
    governance::ActivePolicy,
    run::{Dispatcher, Error, ReplayEvaluator, RunSettings},
    store::{audit::AuditTrail, dlq::DeadLetterStore},
};

/// Decides over dead letters when they are about to be claimed.
pub(crate) struct ReplayGate {
    queue: DeadLetterStore,
    bench: ReplayEvaluator,
    policy: ActivePolicy,
    by: String,
    identity: IdentityKind,
    reason: Option<String>,
    asked: ReplayTrigger,
    forced: BTreeSet<ItemId>,
    /// The audit records of replays that were announced and have not ended.
    open: HashMap<ItemId, NewAuditRecord>,
    refused: Vec<ReplayRefusal>,
}

/// A dead letter that was planned to be replayed, and then was not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplayRefusal {
    /// The item.
    pub item: ItemId,
    /// The reason of the refusal.
    pub why: String,
}

/// The result of a run's replays of dead letters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplaySummary {
    /// The number of claimed dead letters.
    pub claimed: u32,
    /// The outcomes of the replays that the run claimed or found in flight.
    pub ends: ReplayCounts,
    /// Those that were not claimed after all.
    pub refused: Vec<ReplayRefusal>,
    /// The causes of which no more were tried.
    pub stopped: Vec<AbortedCause>,
}

/// The decision over a dead letter.
struct GateDecision {
    allowed: ReplayAuthorization,
    forced: bool,
    signature: String,
    record: NewAuditRecord,
}

impl ReplayGate {
    pub(crate) fn new(
        queue: DeadLetterStore,
        bench: ReplayEvaluator,
        policy: ActivePolicy,
    ) -> Self {
        Self {
            queue,
            bench,
            policy,
            by: String::new(),
            identity: IdentityKind::Asserted,
            reason: None,
            asked: ReplayTrigger::Unasked,
            forced: BTreeSet::new(),
            open: HashMap::new(),
            refused: Vec::new(),
        }
    }

    /// Says who asks, and why.
    pub(crate) fn with_requester(
        self,
        by: String,
        identity: IdentityKind,
        reason: Option<String>,
    ) -> Self {
        Self { by, identity, reason, ..self }
    }

    /// Says how much the replays are wanted, and which somebody takes on themselves.
    pub(crate) fn with_trigger(self, asked: ReplayTrigger, forced: BTreeSet<ItemId>) -> Self {
        Self { asked, forced, ..self }
    }

    /// Decides over a dead letter; says why if it must not be replayed.
    fn evaluate(
        &self,
        job: &JobId,
        item: &ItemState,
        now: Timestamp,
    ) -> Result<GateDecision, String> {
        if !self.policy.is_current().map_err(|error| error.to_string())? {
            return Err("the replay policy was changed meanwhile".to_owned());
        }
        let entry = self.entry(item)?;
        let forced = self.forced.contains(&item.id);
        let asked = if forced { ReplayTrigger::Forced } else { self.asked };
        let ruling = self.bench.evaluate(&entry, asked, now);
        if ruling.verdict != ReplayVerdict::Replay {
            return Err(ruling.explain().join("; "));
        }
        let wait = ruling.rule.backoff.delay(item.id.as_str(), entry.replays.saturating_add(1));
        let allowed = ReplayAuthorization {
            rule: ruling.rule.name.clone(),
            policy_snapshot: ruling.snapshot.to_owned(),
            approval: used(&entry, &ruling),
            wait_ms: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX),
        };
        let record = self.record(job, &entry, &ruling);
        Ok(GateDecision { allowed, forced, signature: entry.error_signature, record })
    }

    /// Reads the entry of an item; it has to say what the journal says.
    fn entry(&self, item: &ItemState) -> Result<DeadLetteredItem, String> {
        let read = self.queue.entry(&item.id).map_err(|error| error.to_string())?;
        let entry = read.ok_or_else(|| "its entry is missing".to_owned())?;
        let is_current = (entry.status, entry.replays, entry.attempts)
            == (EntryStatus::Open, item.replays, item.attempts);
        if is_current { Ok(entry) } else { Err("its entry is out of date".to_owned()) }
    }

    /// Returns what the audit trail says before the replay.
    fn record(
        &self,
        job: &JobId,
        entry: &DeadLetteredItem,
        ruling: &ReplayDecision<'_>,
    ) -> NewAuditRecord {
        let mut record =
            NewAuditRecord::new(&self.by, self.identity, AuditAction::Replay, job.clone());
        record.entry = entry.item_id.to_string();
        record.revision = entry.revision;
        record.decision = Some("replay".to_owned());
        record.rule = Some(ruling.rule.name.clone());
        record.policy_snapshot = Some(ruling.snapshot.to_owned());
        record.digest = used(entry, ruling);
        record.reason.clone_from(&self.reason);
        record
    }
}

impl Dispatcher {
    /// Decides over dead letters that are about to be claimed. The answers come before
    /// anything else, so that nothing can happen in between.
    pub(crate) async fn claim_replays(&mut self, places: Vec<u32>) -> Result<(), Error> {
        let now = clock::now();
        let mut admitted = Vec::new();
        let mut answers = Vec::new();
        for at in places {
            let item = self.job.map.as_ref().and_then(|map| map.item(at));
            let admission = match (&self.parts.gate, item) {
                (Some(gate), Some(item)) => gate.evaluate(&self.parts.id, item, now),
                (None, _) | (_, None) => Err("nobody can decide over it".to_owned()),
            };
            match (admission, item.map(|item| item.id.clone())) {
                (Ok(admission), Some(id)) => admitted.push((at, id, admission)),
                (Ok(_), None) => {}
                (Err(why), id) => {
                    self.refuse(at, id, why);
                    answers.push(JobInput::Item(ItemInput::Unclaimed { item: at }));
                }
            }
        }
        let records = admitted.iter().map(|(_, _, admission)| admission.record.clone());
        self.announce(records.collect(), now).await?;
        for (at, id, GateDecision { allowed, forced, signature, record }) in admitted {
            if let Some(gate) = &mut self.parts.gate {
                gate.bench.count_replay(&signature);
                gate.open.insert(id, record);
            }
            answers.push(JobInput::Item(ItemInput::Claimed { item: at, allowed, forced }));
        }
        for answer in answers.into_iter().rev() {
            self.inputs.push_front(answer);
        }
        Ok(())
    }

    fn refuse(&mut self, at: u32, item: Option<ItemId>, why: String) {
        Arc::make_mut(&mut self.parts.replays).reject(at);
        if let (Some(gate), Some(item)) = (&mut self.parts.gate, item) {
            gate.refused.push(ReplayRefusal { item, why });
        }
    }

    /// Appends to the audit trail, where it keeps nobody waiting.
    async fn announce(
        &mut self,
        records: Vec<NewAuditRecord>,
        now: Timestamp,
    ) -> Result<(), Error> {
        if records.is_empty() {
            return Ok(());
        }
        let audit = self.audit()?;
        let appended = tokio::task::spawn_blocking(move || audit.append(records, now)).await;
        match appended {
            Ok(appended) => appended.map(drop).map_err(Error::Audit),
            Err(error) => {
                let what = "the audit trail cannot be appended to".to_owned();
                Err(Error::Prepare { what, source: std::io::Error::other(error) })
            }
        }
    }

    /// Returns the audit trail, opened once.
    fn audit(&mut self) -> Result<Arc<AuditTrail>, Error> {
        if let Some(audit) = &self.parts.audit {
            return Ok(Arc::clone(audit));
        }
        let RunSettings { layout, repo, .. } = &self.parts.settings;
        let audit = Arc::new(AuditTrail::open(layout, repo).map_err(Error::Audit)?);
        self.parts.audit = Some(Arc::clone(&audit));
        Ok(audit)
    }

    /// Returns whether a record can be about a replay, before it is taken in.
    pub(crate) fn concerns_replay(&self, record: &EventRecord) -> Option<bool> {
        let map = self.job.map.as_ref()?;
        if map.replaying() == 0 && self.parts.replays.is_drained() {
            return None;
        }
        let (at, _) = map.find(record.item_id.as_ref()?)?;
        Some(map.is_replaying(at))
    }

    /// Applies a record that can be about a replay: its cost, and its outcome.
    pub(crate) fn apply_replay_record(&mut self, record: &EventRecord, was_replaying: bool) {
        let Some(map) = &self.job.map else { return };
        Arc::make_mut(&mut self.parts.replays).apply(record, map);
        let item = record.item_id.as_ref().and_then(|id| map.find(id));
        let Some((_, item)) = item.filter(|_| was_replaying) else { return };
        if let Some(gate) = &mut self.parts.gate {
            gate.bench.add_cost(cost(&record.event));
        }
        if let Some(outcome) = outcome(&item.stage) {
            self.parts.ended_replays.push((item.id.clone(), outcome));
        }
    }

    /// Adds how replays ended to the audit trail.
    pub(crate) async fn record_replay_outcomes(&mut self) {
        let ended = std::mem::take(&mut self.parts.ended_replays);
        if ended.is_empty() {
            return;
        }
        let mut records = Vec::new();
        for (item, outcome) in ended {
            let known = self.parts.gate.as_mut().and_then(|gate| gate.open.remove(&item));
            let record = known.unwrap_or_else(|| self.unannounced(&item));
            records.push(record.with_outcome(outcome));
        }
        if let Err(error) = self.announce(records, clock::now()).await {
            // What was done is in the journal; nothing more is claimed if this stays so.
            let cause = std::error::Error::source(&error).map(|cause| format!(": {cause}"));
            let cause = cause.unwrap_or_default();
            self.parts.note(&format!("warning: how replays ended is not recorded: {error}{cause}"));
        }
    }

    /// Returns what became of the dead letters that were to be replayed.
    pub(crate) fn replay_summary(&mut self) -> ReplaySummary {
        let replays = &self.parts.replays;
        let (claimed, stopped) = (replays.claimed(), replays.aborted().cloned().collect());
        let refused = self.parts.gate.as_mut().map(|gate| std::mem::take(&mut gate.refused));
        let ends = self.parts.replayed_before.counts_until(ReplayedItems::of(&self.job), claimed);
        ReplaySummary { claimed, ends, refused: refused.unwrap_or_default(), stopped }
    }

    /// Returns what is known of a replay that another run announced and did not finish.
    fn unannounced(&self, item: &ItemId) -> NewAuditRecord {
        let replays = &self.parts.replays;
        let by = if replays.by.is_empty() { "prodigy" } else { &replays.by };
        let job = self.parts.id.clone();
        let mut record = NewAuditRecord::new(by, IdentityKind::Asserted, AuditAction::Replay, job);
        record.entry = item.to_string();
        record
    }
}

/// Returns the agreement that a replay uses up.
fn used(entry: &DeadLetteredItem, ruling: &ReplayDecision<'_>) -> Option<String> {
    let is_needed = ruling.action == ReplayAction::RequireApproval;
    entry.approval.as_ref().filter(|_| is_needed).map(|approval| approval.digest.clone())
}

/// Returns what an event says that an agent cost, whatever becomes of its attempt.
fn cost(event: &Event) -> f64 {
    let Event::AgentUsage { cost_usd, .. } = event else { return 0.0 };
    cost_usd.unwrap_or_default()
}

/// Returns how a replay ended, if it did.
fn outcome(stage: &ItemStage) -> Option<AuditOutcome> {
    match stage {
        ItemStage::Successful => Some(AuditOutcome::Done),
        ItemStage::DeadLettered | ItemStage::Skipped => Some(AuditOutcome::Failed),
        ItemStage::Pending
        | ItemStage::Waiting { .. }
        | ItemStage::Running { .. }
        | ItemStage::Handling { .. }
        | ItemStage::Unhandled(_)
        | ItemStage::Merging(_)
        | ItemStage::Conflicted(_)
        | ItemStage::Resolving { .. } => None,
    }
}
