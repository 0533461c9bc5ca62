//! The ruling over one entry.

use super::{
    ApprovalState, EntryFacts, EvaluationContext, NextAction, ReplayAction, ReplayDecision,
    ReplayGoal, ReplayPolicy, ReplayRule, ReplayTrigger, ReplayVerdict,
    decision::{DecisionReason, QuarantineReason, ReachedLimit, RuleClause},
    facts::ExternalState,
};
use crate::{Timestamp, dlq::EntryStatus, failure::ReasonClass};

/// The end of a decision: the verdict, and the need that would move the entry on.
type EvaluationResult = (ReplayVerdict, Option<NextAction>);

/// A ruling in the making.
struct Evaluation<'s, 'a> {
    subject: &'s EntryFacts<'s>,
    situation: &'s EvaluationContext<'a>,
    policy: &'a ReplayPolicy,
    rule: &'a ReplayRule,
    outside: ExternalState,
    action: ReplayAction,
    goal: Option<ReplayGoal>,
    not_before: Option<Timestamp>,
    because: Vec<DecisionReason>,
}

/// Decides whether an entry may be replayed.
///
/// Nothing is looked up: the same facts always give the same ruling. The order is: the record
/// is intact, the entry is open, what is known of its effects, quarantine, the rule and the
/// floor below it, the counters, whether something is running, agreement, and time.
pub fn evaluate<'a>(
    subject: &EntryFacts<'_>,
    situation: &EvaluationContext<'a>,
) -> ReplayDecision<'a> {
    let policy = situation.policy;
    let rule = policy.rule(subject);
    let mut judge = Evaluation {
        subject,
        situation,
        policy,
        rule,
        outside: ExternalState::from_facts(subject),
        action: rule.action,
        goal: None,
        not_before: None,
        because: Vec::new(),
    };
    let (verdict, needs) = judge.verdict();
    let Evaluation { action, goal, not_before, because, .. } = judge;
    ReplayDecision {
        verdict,
        rule,
        snapshot: policy.snapshot(),
        action,
        not_before,
        goal,
        needs,
        because,
    }
}

impl Evaluation<'_, '_> {
    fn verdict(&mut self) -> EvaluationResult {
        if let Some(end) = self.entry() {
            return end;
        }
        self.resolve();
        if let Some(end) = self.quarantine() {
            return end;
        }
        let goal = match self.goal() {
            Ok(goal) => goal,
            Err(end) => return end,
        };
        self.goal = Some(goal);
        self.counters(goal)
            .or_else(|| self.running())
            .or_else(|| self.approval())
            .or_else(|| self.time(goal))
            .unwrap_or(match goal {
                ReplayGoal::Replay => (ReplayVerdict::Replay, None),
                ReplayGoal::Adopt => (ReplayVerdict::Adopt, None),
            })
    }

    /// Returns true if the rule is lenient and a user asked, which waives its limit and backoff.
    fn is_let(&self) -> bool {
        self.rule.is_lenient && self.situation.asked != ReplayTrigger::Unasked
    }

    fn is_forced(&self) -> bool {
        self.situation.asked == ReplayTrigger::Forced
    }

    /// Ends the decision if the record is damaged or the entry is not open.
    fn entry(&mut self) -> Option<EvaluationResult> {
        if !self.subject.is_intact {
            self.because.push(DecisionReason::Damaged);
            return Some((ReplayVerdict::Damaged, Some(NextAction::Fsck)));
        }
        match self.subject.status {
            EntryStatus::Open => None,
            EntryStatus::Replaying => {
                self.because.push(DecisionReason::Replaying);
                Some((ReplayVerdict::Running, Some(NextAction::Idle)))
            }
            EntryStatus::Resolved | EntryStatus::Dropped => {
                self.because.push(DecisionReason::Closed {
                    is_resolved: self.subject.status == EntryStatus::Resolved,
                });
                Some((ReplayVerdict::Closed, None))
            }
        }
    }

    /// Finds what the rule wants done, with what is known of the effects.
    fn resolve(&mut self) {
        self.because.push(DecisionReason::Rule);
        if self.outside != ExternalState::Clear || self.rule.action == ReplayAction::CheckThenReplay
        {
            let (outside, evidence) = (self.outside, self.subject.effect);
            self.because.push(DecisionReason::Effects { outside, evidence });
        }
        if self.rule.action != ReplayAction::CheckThenReplay {
            return;
        }
        let (action, clause) = match self.outside {
            ExternalState::Clear | ExternalState::Mixed => {
                (self.rule.on_absent, RuleClause::OnAbsent)
            }
            ExternalState::Committed => (self.rule.on_committed, RuleClause::OnCommitted),
            ExternalState::Partial => (self.rule.on_partial, RuleClause::OnPartial),
            ExternalState::Unknown if self.subject.can_check => return,
            ExternalState::Unknown => (ReplayAction::ManualReview, RuleClause::CannotCheck),
            ExternalState::Unknowable => (ReplayAction::ManualReview, RuleClause::CannotTell),
        };
        self.action = action;
        self.because.push(DecisionReason::Clause(clause, action));
    }

    /// Ends the decision if the entry is quarantined, not released, and nothing has changed.
    fn quarantine(&mut self) -> Option<EvaluationResult> {
        let EntryFacts { is_quarantined, is_released, is_changed, .. } = *self.subject;
        let by_rule = self.action == ReplayAction::Quarantine;
        if !by_rule && !is_quarantined {
            return None;
        }
        if is_released || is_changed {
            let changed = self.subject.changed.join(", ");
            self.because.push(if is_released {
                DecisionReason::Quarantine(QuarantineReason::Released)
            } else {
                DecisionReason::Quarantine(QuarantineReason::Changed(changed))
            });
            if by_rule {
                self.action = ReplayAction::AutoReplay;
            }
            return None;
        }
        // What somebody put away, somebody takes out. A poisonous item has to be another one.
        let is_poison = self.subject.reason_code.class() == ReasonClass::Poison;
        let (held, need) = match (is_quarantined, is_poison) {
            (true, _) => (QuarantineReason::ByPerson, NextAction::Release),
            (false, true) => (QuarantineReason::Unchanged, NextAction::Edit),
            (false, false) => (QuarantineReason::Unchanged, NextAction::Release),
        };
        self.because.push(DecisionReason::Quarantine(held));
        Some((ReplayVerdict::Quarantine, Some(need)))
    }

    /// Returns the goal of the action, or a verdict against it; no policy lowers this floor.
    fn goal(&mut self) -> Result<ReplayGoal, EvaluationResult> {
        let is_forced = self.is_forced();
        let is_unfit = match self.action {
            ReplayAction::Never => return Err((ReplayVerdict::Never, Some(NextAction::Drop))),
            ReplayAction::ManualReview => true,
            ReplayAction::Adopt => self.outside != ExternalState::Committed,
            // Nothing to look for is left: only a rule that asks for a check twice gets here.
            ReplayAction::CheckThenReplay => !self.outside.is_uncertain(),
            // A quarantine that holds has ended before, and one that was lifted is no more.
            ReplayAction::Quarantine | ReplayAction::AutoReplay | ReplayAction::RequireApproval => {
                false
            }
        };
        if is_forced {
            let is_lifted = is_unfit || self.outside.is_uncertain();
            if is_lifted || self.outside == ExternalState::Committed {
                self.because.push(DecisionReason::Forced {
                    is_committed: self.outside == ExternalState::Committed,
                });
            }
            return Ok(ReplayGoal::Replay);
        }
        if is_unfit {
            return Err((ReplayVerdict::Review, Some(self.way_on())));
        }
        if self.outside.is_uncertain() {
            let is_checkable = self.outside == ExternalState::Unknown && self.subject.can_check;
            if self.rule.action != ReplayAction::CheckThenReplay || !is_checkable {
                self.because.push(DecisionReason::Floor { can_check: is_checkable });
            }
            if is_checkable {
                return Err(self
                    .running()
                    .unwrap_or((ReplayVerdict::Check, Some(NextAction::Check))));
            }
            return Err((ReplayVerdict::Review, Some(NextAction::Force)));
        }
        if self.outside != ExternalState::Committed {
            return Ok(ReplayGoal::Replay);
        }
        if self.action != ReplayAction::Adopt {
            self.because.push(DecisionReason::NotAgain);
        }
        Ok(ReplayGoal::Adopt)
    }

    /// Returns the first action that is open to a reviewer.
    fn way_on(&self) -> NextAction {
        match self.outside {
            // Who could not tell may be able to by now.
            ExternalState::Unknown | ExternalState::Unknowable if self.subject.can_check => {
                NextAction::Check
            }
            ExternalState::Committed => NextAction::Adopt,
            ExternalState::Clear
            | ExternalState::Mixed
            | ExternalState::Partial
            | ExternalState::Unknown
            | ExternalState::Unknowable => NextAction::Force,
        }
    }

    /// Ends the decision if a limit on replays or their cost is reached, unless it is forced.
    fn counters(&mut self, goal: ReplayGoal) -> Option<EvaluationResult> {
        let limits = self.policy.limits;
        let replays = self.subject.replays;
        let counters = self.situation.counters;
        let is_reached = |most: Option<u32>, count: u32| most.filter(|most| count >= *most);
        let bound = if let Some(most) =
            is_reached(self.rule.max_replays.filter(|_| !self.is_let()), replays)
        {
            ReachedLimit::Rule { replays, most }
        } else if let Some(most) = is_reached(limits.replays_per_item, replays) {
            ReachedLimit::Item { replays, most }
        } else if let Some(most) =
            is_reached(limits.replays_per_signature, counters.signature_replays)
        {
            ReachedLimit::Signature { replays: counters.signature_replays, most }
        } else if let Some(most) = limits.cost_usd.filter(|most| counters.cost_usd >= *most) {
            ReachedLimit::Cost { cost: counters.cost_usd, most }
        } else {
            return None;
        };
        if goal == ReplayGoal::Adopt {
            return None;
        }
        self.because.push(DecisionReason::Limit { bound, is_forced: self.is_forced() });
        (!self.is_forced()).then_some((ReplayVerdict::Limit, Some(NextAction::Force)))
    }

    /// Ends the decision if another run works on the job, or the item is in flight.
    fn running(&mut self) -> Option<EvaluationResult> {
        if !self.situation.is_running {
            return None;
        }
        self.because.push(DecisionReason::Running);
        Some((ReplayVerdict::Running, Some(NextAction::Idle)))
    }

    /// Ends the decision if the rule requires an approval that is not granted.
    fn approval(&mut self) -> Option<EvaluationResult> {
        if self.action != ReplayAction::RequireApproval {
            return None;
        }
        if self.policy.group_without_members(self.rule).is_some() {
            self.because.push(DecisionReason::NoMembers);
            return Some((ReplayVerdict::Approval, Some(NextAction::Members)));
        }
        let state = self.subject.approval;
        let group = self.policy.group(self.rule);
        self.because.push(DecisionReason::Approval { state, needed: group.min_approvals.get() });
        match state {
            Some(ApprovalState::Granted) => None,
            Some(ApprovalState::Rejected) => Some((ReplayVerdict::Never, Some(NextAction::Drop))),
            Some(ApprovalState::Pending { .. } | ApprovalState::SelfApproval) => {
                Some((ReplayVerdict::Approval, Some(NextAction::Approve)))
            }
            Some(ApprovalState::Expired | ApprovalState::Void) | None => {
                Some((ReplayVerdict::Approval, Some(NextAction::Ask)))
            }
        }
    }

    /// Ends the decision if the backoff after a failed replay has not passed, unless it is forced.
    fn time(&mut self, goal: ReplayGoal) -> Option<EvaluationResult> {
        let wait = self.rule.backoff.delay(self.subject.item, self.subject.replays);
        if goal == ReplayGoal::Adopt || wait.is_zero() || self.is_let() {
            return None;
        }
        // A moment that no calendar has is as good as never.
        let until = self.subject.last_attempt.checked_add(wait).unwrap_or(Timestamp::MAX);
        self.not_before = Some(until);
        if until <= self.situation.now {
            return None;
        }
        self.because.push(DecisionReason::Wait { until, is_forced: self.is_forced() });
        (!self.is_forced()).then_some((ReplayVerdict::Later, Some(NextAction::Wait(until))))
    }
}
