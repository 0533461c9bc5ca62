//! Which dead letters are tried again, and how fast.

use std::{
    collections::{BTreeMap, BTreeSet},
    num::NonZeroU32,
};

use crate::{
    Timestamp,
    event::{Event, EventRecord, PhaseName},
    failure::signature::ErrorSignature,
    job::{ItemStage, Job, MapState},
    replay::ReplayVelocity,
};

/// So many replays of the last wave have to end before their failures are weighed.
const ENOUGH: u32 = 5;

/// Dead letters that are to be tried again in a run.
///
/// They are claimed one by one, when there is room for them: a run that is cut off leaves the
/// others as they were. What is left to do follows from the records of the run, and from what
/// was refused when it was about to be claimed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ReplayScheduler {
    /// True if only dead letters run, and unfinished items do not.
    pub only: bool,
    /// The name of the person who asked for the replay.
    pub by: String,
    /// The reason that they gave.
    pub reason: Option<String>,
    velocity: ReplayVelocity,
    causes: Vec<CauseRollout>,
    /// The places of those that may be claimed now, each with the number of its cause.
    ready: BTreeMap<u32, usize>,
    /// The places of those that were claimed and have not ended.
    under_way: BTreeMap<u32, usize>,
    /// The number of dead letters that are not claimed yet.
    left: u32,
    /// The number of claimed dead letters.
    claimed: u32,
}

/// The dead letters of one cause. They are tried in waves: the next one begins when all of
/// the one before have ended.
#[derive(Clone, Debug, PartialEq)]
struct CauseRollout {
    signature: String,
    pattern: String,
    /// The places of those that belong to no wave yet.
    rest: BTreeSet<u32>,
    /// The number of the wave, from 0; behind the canaries there is one for all that is left.
    wave: usize,
    /// The number of dead letters of the wave that may be claimed or are in flight.
    open: u32,
    ended: u32,
    failed: u32,
    stopped: Option<AbortedCause>,
}

/// The reason why no more dead letters of a cause are replayed, and their number.
#[derive(Clone, Debug, PartialEq)]
pub struct AbortedCause {
    /// The signature of the cause.
    pub signature: String,
    /// The same for people.
    pub pattern: String,
    /// The number of dead letters that were not replayed.
    pub untried: u32,
    /// The reason of the stop.
    pub why: AbortReason,
}

/// The reason why no more dead letters of a cause are replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AbortReason {
    /// One of the first failed with the error that they have in common.
    Canary,
    /// Too large a share failed.
    Failures {
        /// The number of failed replays.
        failed: u32,
        /// Of how many.
        ended: u32,
        /// The share that is too large.
        ratio: f64,
    },
}

impl ReplayScheduler {
    /// Begins with none; `only` leaves the items alone that were never finished.
    pub fn new(only: bool, by: String, reason: Option<String>, velocity: ReplayVelocity) -> Self {
        Self { only, by, reason, velocity, ..Self::default() }
    }

    /// Adds dead letters: their places, each with its cause, which has a signature and a form
    /// for people.
    pub fn add<'a>(&mut self, wanted: impl IntoIterator<Item = (u32, &'a str, &'a str)>) {
        let known = self.causes.iter().map(|cause| cause.signature.clone());
        let mut numbers: BTreeMap<String, usize> = known.zip(0..).collect();
        for (place, signature, pattern) in wanted {
            let known = numbers.get(signature).copied();
            let number = known.unwrap_or(self.causes.len());
            if known.is_none() {
                numbers.insert(signature.to_owned(), number);
                self.causes.push(CauseRollout::new(signature, pattern));
            }
            if let Some(cause) = self.causes.get_mut(number)
                && cause.rest.insert(place)
            {
                self.left += 1;
            }
        }
        for number in 0..self.causes.len() {
            self.fill(number);
        }
    }

    /// Returns whether all were claimed, refused, or given up.
    pub fn is_drained(&self) -> bool {
        self.left == 0
    }

    /// Returns how many were claimed.
    pub fn claimed(&self) -> u32 {
        self.claimed
    }

    /// Returns the causes of which no more are tried, and why.
    pub fn aborted(&self) -> impl Iterator<Item = &AbortedCause> {
        self.causes.iter().filter_map(|cause| cause.stopped.as_ref())
    }

    /// Returns the places of those that may be claimed now, if nothing else is short, in order.
    pub(crate) fn claimable<'a>(
        &'a self,
        map: &MapState,
        now: Timestamp,
    ) -> impl Iterator<Item = u32> + 'a {
        let room = match (self.velocity.concurrency, self.not_before(map)) {
            (_, Some(at)) if at > now => 0,
            // How soon the next one may start is known once this one has.
            (concurrency, Some(_)) => room(concurrency, map).min(1),
            (concurrency, None) => room(concurrency, map),
        };
        self.ready.keys().copied().take(usize::try_from(room).unwrap_or(usize::MAX))
    }

    /// Returns when the next one may be claimed, if it is only time that is missing.
    pub(crate) fn next_wake(&self, map: &MapState) -> Option<Timestamp> {
        let is_room = room(self.velocity.concurrency, map) > 0;
        self.not_before(map).filter(|_| is_room && !self.ready.is_empty())
    }

    /// Returns when the next one may be claimed, if there is a rate.
    fn not_before(&self, map: &MapState) -> Option<Timestamp> {
        let gap = self.velocity.rate?.interval();
        let last = map.last_replay.unwrap_or(Timestamp::MIN);
        Some(last.checked_add(gap).unwrap_or(Timestamp::MAX))
    }

    /// Applies a record of the run; `map` must have applied it before.
    pub fn apply(&mut self, record: &EventRecord, map: &MapState) {
        let Some((at, item)) = record.item_id.as_ref().and_then(|id| map.find(id)) else { return };
        if let Event::ReplayStarted { .. } = record.event {
            if let Some(number) = self.ready.remove(&at) {
                self.under_way.insert(at, number);
                self.left = self.left.saturating_sub(1);
                self.claimed += 1;
            }
            return;
        }
        let failed = match item.stage {
            ItemStage::Successful => false,
            ItemStage::DeadLettered | ItemStage::Skipped => true,
            ItemStage::Pending
            | ItemStage::Waiting { .. }
            | ItemStage::Running { .. }
            | ItemStage::Handling { .. }
            | ItemStage::Unhandled(_)
            | ItemStage::Merging(_)
            | ItemStage::Conflicted(_)
            | ItemStage::Resolving { .. } => return,
        };
        let Some(number) = self.under_way.remove(&at) else { return };
        let signature = if let Event::ItemDeadLettered { failure, .. } = &record.event {
            Some(ErrorSignature::of(failure, &item.id).hash)
        } else {
            None
        };
        self.end(number, failed, signature.as_deref());
    }

    /// Removes a dead letter that must not be replayed.
    pub fn reject(&mut self, place: u32) {
        let Some(number) = self.ready.remove(&place) else { return };
        self.left = self.left.saturating_sub(1);
        if let Some(cause) = self.causes.get_mut(number) {
            cause.open = cause.open.saturating_sub(1);
        }
        self.fill(number);
    }

    /// Applies the end of a replay.
    fn end(&mut self, number: usize, failed: bool, signature: Option<&str>) {
        let canaries = self.velocity.canary.len();
        let ratio = self.velocity.abort_failure_ratio;
        let Some(cause) = self.causes.get_mut(number) else { return };
        cause.open = cause.open.saturating_sub(1);
        cause.ended += 1;
        cause.failed += u32::from(failed);
        let is_canary = cause.wave < canaries;
        let is_weighed = if is_canary { cause.open == 0 } else { cause.ended >= ENOUGH };
        let share = f64::from(cause.failed) / f64::from(cause.ended);
        if is_canary && failed && signature == Some(cause.signature.as_str()) {
            self.stop(number, AbortReason::Canary);
        } else if let Some(ratio) = ratio.filter(|ratio| is_weighed && share > *ratio) {
            let (failed, ended) = (cause.failed, cause.ended);
            self.stop(number, AbortReason::Failures { failed, ended, ratio });
        } else {
            self.fill(number);
        }
    }

    /// Gives up all dead letters of a cause that were not claimed.
    fn stop(&mut self, number: usize, why: AbortReason) {
        let Some(cause) = self.causes.get_mut(number) else { return };
        let before = self.ready.len();
        self.ready.retain(|_, of| *of != number);
        let untried = std::mem::take(&mut cause.rest).len() + before - self.ready.len();
        let untried = u32::try_from(untried).unwrap_or(u32::MAX);
        self.left = self.left.saturating_sub(untried);
        let (signature, pattern) = (cause.signature.clone(), cause.pattern.clone());
        cause.stopped.get_or_insert(AbortedCause { signature, pattern, untried, why });
    }

    /// Lets dead letters of a cause be claimed: as many as its wave has room for, and those of
    /// the next wave once all of this one have ended.
    fn fill(&mut self, number: usize) {
        let canary = &self.velocity.canary;
        let size_of = |wave: usize| canary.get(wave).map_or(u32::MAX, |size| size.get());
        let Some(cause) = self.causes.get_mut(number) else { return };
        if cause.open == 0 && cause.ended >= size_of(cause.wave) {
            (cause.wave, cause.ended, cause.failed) = (cause.wave + 1, 0, 0);
        }
        let size = size_of(cause.wave);
        while cause.open.saturating_add(cause.ended) < size
            && let Some(place) = cause.rest.pop_first()
        {
            cause.open += 1;
            self.ready.insert(place, number);
        }
    }
}

impl CauseRollout {
    fn new(signature: &str, pattern: &str) -> Self {
        Self {
            signature: signature.to_owned(),
            pattern: pattern.to_owned(),
            rest: BTreeSet::new(),
            wave: 0,
            open: 0,
            ended: 0,
            failed: 0,
            stopped: None,
        }
    }
}

/// Returns how many more replays may be under way.
fn room(concurrency: Option<NonZeroU32>, map: &MapState) -> u32 {
    concurrency.map_or(u32::MAX, |most| most.get().saturating_sub(map.replaying()))
}

impl Job {
    /// Returns whether a resumed run may try dead letters again without being asked to.
    ///
    /// Once only the merge is left it may not: whoever resumes such a job wants it merged as
    /// it is.
    pub fn allows_auto_replay(&self) -> bool {
        self.next_phase().is_some_and(|phase| phase != PhaseName::Merge)
    }
}
