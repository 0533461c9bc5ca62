//! The ruling over one entry.

use super::{
    ApprovalState, Asked, Goal, Need, Policy, ReplayAction, Rule, Ruling, Situation, Subject,
    Verdict,
    explain::{Because, Bound, Clause, Held},
    outside::Outside,
};
use crate::{Timestamp, dlq::EntryStatus, failure::Class};

/// The end of a decision: the verdict, and the need that would move the entry on.
type End = (Verdict, Option<Need>);

/// A ruling in the making.
struct Judge<'s, 'a> {
    subject: &'s Subject<'s>,
    situation: &'s Situation<'a>,
    policy: &'a Policy,
    rule: &'a Rule,
    outside: Outside,
    action: ReplayAction,
    goal: Option<Goal>,
    not_before: Option<Timestamp>,
    because: Vec<Because>,
}

/// Decides whether an entry may be replayed.
///
/// Nothing is looked up: the same facts always give the same ruling. The order is: the record
/// is intact, the entry is open, what is known of its effects, quarantine, the rule and the
/// floor below it, the counters, whether something is running, agreement, and time.
pub fn decide<'a>(subject: &Subject<'_>, situation: &Situation<'a>) -> Ruling<'a> {
    let policy = situation.policy;
    let rule = policy.rule(subject);
    let mut judge = Judge {
        subject,
        situation,
        policy,
        rule,
        outside: Outside::of(subject),
        action: rule.action,
        goal: None,
        not_before: None,
        because: Vec::new(),
    };
    let (verdict, needs) = judge.verdict();
    let Judge { action, goal, not_before, because, .. } = judge;
    Ruling { verdict, rule, snapshot: policy.snapshot(), action, not_before, goal, needs, because }
}

impl Judge<'_, '_> {
    fn verdict(&mut self) -> End {
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
                Goal::Replay => (Verdict::Replay, None),
                Goal::Adopt => (Verdict::Adopt, None),
            })
    }

    /// Returns true if the rule is lenient and a user asked, which waives its limit and backoff.
    fn is_let(&self) -> bool {
        self.rule.is_lenient && self.situation.asked != Asked::Unasked
    }

    fn is_forced(&self) -> bool {
        self.situation.asked == Asked::Forced
    }

    /// Ends the decision if the record is damaged or the entry is not open.
    fn entry(&mut self) -> Option<End> {
        if !self.subject.is_intact {
            self.because.push(Because::Damaged);
            return Some((Verdict::Damaged, Some(Need::Fsck)));
        }
        match self.subject.status {
            EntryStatus::Open => None,
            EntryStatus::Replaying => {
                self.because.push(Because::Replaying);
                Some((Verdict::Running, Some(Need::Idle)))
            }
            EntryStatus::Resolved | EntryStatus::Dropped => {
                self.because.push(Because::Closed {
                    is_resolved: self.subject.status == EntryStatus::Resolved,
                });
                Some((Verdict::Closed, None))
            }
        }
    }

    /// Finds what the rule wants done, with what is known of the effects.
    fn resolve(&mut self) {
        self.because.push(Because::Rule);
        if self.outside != Outside::Clear || self.rule.action == ReplayAction::CheckThenReplay {
            let (outside, evidence) = (self.outside, self.subject.effect);
            self.because.push(Because::Effects { outside, evidence });
        }
        if self.rule.action != ReplayAction::CheckThenReplay {
            return;
        }
        let (action, clause) = match self.outside {
            Outside::Clear | Outside::Mixed => (self.rule.on_absent, Clause::OnAbsent),
            Outside::Committed => (self.rule.on_committed, Clause::OnCommitted),
            Outside::Partial => (self.rule.on_partial, Clause::OnPartial),
            Outside::Unknown if self.subject.can_check => return,
            Outside::Unknown => (ReplayAction::ManualReview, Clause::CannotCheck),
            Outside::Unknowable => (ReplayAction::ManualReview, Clause::CannotTell),
        };
        self.action = action;
        self.because.push(Because::Clause(clause, action));
    }

    /// Ends the decision if the entry is quarantined, not released, and nothing has changed.
    fn quarantine(&mut self) -> Option<End> {
        let Subject { is_quarantined, is_released, is_changed, .. } = *self.subject;
        let by_rule = self.action == ReplayAction::Quarantine;
        if !by_rule && !is_quarantined {
            return None;
        }
        if is_released || is_changed {
            let changed = self.subject.changed.join(", ");
            self.because.push(if is_released {
                Because::Quarantine(Held::Released)
            } else {
                Because::Quarantine(Held::Changed(changed))
            });
            if by_rule {
                self.action = ReplayAction::AutoReplay;
            }
            return None;
        }
        // What somebody put away, somebody takes out. A poisonous item has to be another one.
        let is_poison = self.subject.reason_code.class() == Class::Poison;
        let (held, need) = match (is_quarantined, is_poison) {
            (true, _) => (Held::ByPerson, Need::Release),
            (false, true) => (Held::Unchanged, Need::Edit),
            (false, false) => (Held::Unchanged, Need::Release),
        };
        self.because.push(Because::Quarantine(held));
        Some((Verdict::Quarantine, Some(need)))
    }

    /// Returns the goal of the action, or a verdict against it; no policy lowers this floor.
    fn goal(&mut self) -> Result<Goal, End> {
        let is_forced = self.is_forced();
        let is_unfit = match self.action {
            ReplayAction::Never => return Err((Verdict::Never, Some(Need::Drop))),
            ReplayAction::ManualReview => true,
            ReplayAction::Adopt => self.outside != Outside::Committed,
            // Nothing to look for is left: only a rule that asks for a check twice gets here.
            ReplayAction::CheckThenReplay => !self.outside.is_uncertain(),
            // A quarantine that holds has ended before, and one that was lifted is no more.
            ReplayAction::Quarantine | ReplayAction::AutoReplay | ReplayAction::RequireApproval => {
                false
            }
        };
        if is_forced {
            let is_lifted = is_unfit || self.outside.is_uncertain();
            if is_lifted || self.outside == Outside::Committed {
                self.because
                    .push(Because::Forced { is_committed: self.outside == Outside::Committed });
            }
            return Ok(Goal::Replay);
        }
        if is_unfit {
            return Err((Verdict::Review, Some(self.way_on())));
        }
        if self.outside.is_uncertain() {
            let is_checkable = self.outside == Outside::Unknown && self.subject.can_check;
            if self.rule.action != ReplayAction::CheckThenReplay || !is_checkable {
                self.because.push(Because::Floor { can_check: is_checkable });
            }
            if is_checkable {
                return Err(self.running().unwrap_or((Verdict::Check, Some(Need::Check))));
            }
            return Err((Verdict::Review, Some(Need::Force)));
        }
        if self.outside != Outside::Committed {
            return Ok(Goal::Replay);
        }
        if self.action != ReplayAction::Adopt {
            self.because.push(Because::NotAgain);
        }
        Ok(Goal::Adopt)
    }

    /// Returns the first action that is open to a reviewer.
    fn way_on(&self) -> Need {
        match self.outside {
            // Who could not tell may be able to by now.
            Outside::Unknown | Outside::Unknowable if self.subject.can_check => Need::Check,
            Outside::Committed => Need::Adopt,
            Outside::Clear
            | Outside::Mixed
            | Outside::Partial
            | Outside::Unknown
            | Outside::Unknowable => Need::Force,
        }
    }

    /// Ends the decision if a limit on replays or their cost is reached, unless it is forced.
    fn counters(&mut self, goal: Goal) -> Option<End> {
        let limits = self.policy.limits;
        let replays = self.subject.replays;
        let counters = self.situation.counters;
        let is_reached = |most: Option<u32>, count: u32| most.filter(|most| count >= *most);
        let bound = if let Some(most) =
            is_reached(self.rule.max_replays.filter(|_| !self.is_let()), replays)
        {
            Bound::Rule { replays, most }
        } else if let Some(most) = is_reached(limits.replays_per_item, replays) {
            Bound::Item { replays, most }
        } else if let Some(most) =
            is_reached(limits.replays_per_signature, counters.signature_replays)
        {
            Bound::Signature { replays: counters.signature_replays, most }
        } else if let Some(most) = limits.cost_usd.filter(|most| counters.cost_usd >= *most) {
            Bound::Cost { cost: counters.cost_usd, most }
        } else {
            return None;
        };
        if goal == Goal::Adopt {
            return None;
        }
        self.because.push(Because::Limit { bound, is_forced: self.is_forced() });
        (!self.is_forced()).then_some((Verdict::Limit, Some(Need::Force)))
    }

    /// Ends the decision if another run works on the job, or the item is in flight.
    fn running(&mut self) -> Option<End> {
        if !self.situation.is_running {
            return None;
        }
        self.because.push(Because::Running);
        Some((Verdict::Running, Some(Need::Idle)))
    }

    /// Ends the decision if the rule requires an approval that is not granted.
    fn approval(&mut self) -> Option<End> {
        if self.action != ReplayAction::RequireApproval {
            return None;
        }
        if self.policy.group_without_members(self.rule).is_some() {
            self.because.push(Because::NoMembers);
            return Some((Verdict::Approval, Some(Need::Members)));
        }
        let state = self.subject.approval;
        let group = self.policy.group(self.rule);
        self.because.push(Because::Approval { state, needed: group.min_approvals.get() });
        match state {
            Some(ApprovalState::Granted) => None,
            Some(ApprovalState::Rejected) => Some((Verdict::Never, Some(Need::Drop))),
            Some(ApprovalState::Pending { .. } | ApprovalState::SelfApproval) => {
                Some((Verdict::Approval, Some(Need::Approve)))
            }
            Some(ApprovalState::Expired | ApprovalState::Void) | None => {
                Some((Verdict::Approval, Some(Need::Ask)))
            }
        }
    }

    /// Ends the decision if the backoff after a failed replay has not passed, unless it is forced.
    fn time(&mut self, goal: Goal) -> Option<End> {
        let wait = self.rule.backoff.delay(self.subject.item, self.subject.replays);
        if goal == Goal::Adopt || wait.is_zero() || self.is_let() {
            return None;
        }
        // A moment that no calendar has is as good as never.
        let until = self.subject.last_attempt.checked_add(wait).unwrap_or(Timestamp::MAX);
        self.not_before = Some(until);
        if until <= self.situation.now {
            return None;
        }
        self.because.push(Because::Wait { until, is_forced: self.is_forced() });
        (!self.is_forced()).then_some((Verdict::Later, Some(Need::Wait(until))))
    }
}
