//! The queue within one process.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use prodigy_core::{failure::Failure, ids::AgentId};
use tokio::sync::{Notify, oneshot};

use super::{
    Assignment, AttemptOutcome, Claim, FinishResponse, FinishedAttempt, InFlightAttempt, WorkQueue,
};

/// Hands attempts to agents that are tasks of this process.
#[derive(Clone, Default)]
pub struct LocalQueue {
    shared: Arc<LocalQueueShared>,
}

#[derive(Default)]
struct LocalQueueShared {
    state: Mutex<LocalQueueState>,
    /// An attempt ended.
    finished: Notify,
}

#[derive(Default)]
struct LocalQueueState {
    seats: BTreeMap<AgentId, AgentMailbox>,
    finished: VecDeque<FinishedAttempt>,
    tokens: u64,
    closed: bool,
}

/// One agent's place at the queue.
#[derive(Default)]
struct AgentMailbox {
    held: Option<AttemptLease>,
    /// An attempt was submitted, or the queue was closed.
    called: Arc<Notify>,
}

/// An attempt that was handed out.
struct AttemptLease {
    assignment: Assignment,
    /// The token of the claim that is current.
    token: Option<u64>,
    /// Where the agent waits for what becomes of it.
    waiting: Option<oneshot::Sender<FinishResponse>>,
}

impl LocalQueue {
    fn lock(&self) -> MutexGuard<'_, LocalQueueState> {
        // Nothing that panics is done while it is held.
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes on what was submitted, or returns what to wait for.
    fn try_claim(&self, agent: AgentId) -> Result<Option<Claim>, Arc<Notify>> {
        let mut state = self.lock();
        if state.closed {
            return Ok(None);
        }
        state.tokens += 1;
        let token = state.tokens;
        let seat = state.seats.entry(agent).or_default();
        match &mut seat.held {
            Some(held) if held.token.is_none() => {
                held.token = Some(token);
                Ok(Some(Claim { assignment: held.assignment.clone(), token }))
            }
            Some(_) | None => Err(Arc::clone(&seat.called)),
        }
    }
}

impl LocalQueueState {
    /// Returns the holding that a claim is current for.
    fn holding(&mut self, claim: &Claim) -> Option<&mut AttemptLease> {
        let held = self.seats.get_mut(&claim.assignment.agent)?.held.as_mut()?;
        (held.token == Some(claim.token)).then_some(held)
    }
}

impl LocalQueueState {
    /// Gives an agent a new claim for its attempt; returns where it waits, if it does.
    fn renew(&mut self, agent: AgentId) -> Option<(Claim, oneshot::Sender<FinishResponse>)> {
        self.tokens += 1;
        let token = self.tokens;
        let held = self.seats.get_mut(&agent)?.held.as_mut()?;
        held.token = Some(token);
        let claim = Claim { assignment: held.assignment.clone(), token };
        // An agent that does not wait any more is one that the run has ended.
        held.waiting.take().map(|waiting| (claim, waiting))
    }
}

impl WorkQueue for LocalQueue {
    fn submit(&self, assignment: Assignment) {
        let mut state = self.lock();
        let seat = state.seats.entry(assignment.agent).or_default();
        if seat.held.is_none() {
            seat.held = Some(AttemptLease { assignment, token: None, waiting: None });
            seat.called.notify_one();
        }
    }

    async fn claim(&self, agent: AgentId) -> Option<Claim> {
        loop {
            match self.try_claim(agent) {
                Ok(claim) => return claim,
                // A permit that was left by an earlier call only costs another look.
                Err(called) => called.notified().await,
            }
        }
    }

    fn renew(&self, claim: &Claim) -> bool {
        let mut state = self.lock();
        !state.closed && state.holding(claim).is_some()
    }

    async fn finish(&self, claim: Claim, outcome: AttemptOutcome) -> FinishResponse {
        let settled = {
            let mut state = self.lock();
            let Some(held) = state.holding(&claim) else { return FinishResponse::Fenced };
            if held.waiting.is_some() {
                return FinishResponse::Fenced;
            }
            let (sender, settled) = oneshot::channel();
            held.waiting = Some(sender);
            let assignment = claim.assignment;
            state.finished.push_back(FinishedAttempt { assignment, outcome });
            settled
        };
        self.shared.finished.notify_one();
        // A loop that is gone settles nothing any more.
        settled.await.unwrap_or(FinishResponse::Fenced)
    }

    async fn next_finished(&self) -> FinishedAttempt {
        loop {
            let heard = self.shared.finished.notified();
            if let Some(finished) = self.try_next_finished() {
                return finished;
            }
            heard.await;
        }
    }

    fn try_next_finished(&self) -> Option<FinishedAttempt> {
        self.lock().finished.pop_front()
    }

    fn release(&self, agent: AgentId, failed: bool) {
        let mut state = self.lock();
        let held = state.seats.get_mut(&agent).and_then(|seat| seat.held.take());
        if let Some(waiting) = held.and_then(|held| held.waiting) {
            // An agent that does not wait any more needs no answer.
            waiting.send(FinishResponse::Released { failed }).ok();
        }
    }

    fn secure(&self, agent: AgentId, goes_on: bool) {
        if let Some((claim, waiting)) = self.lock().renew(agent) {
            waiting.send(FinishResponse::Secure { claim, goes_on }).ok();
        }
    }

    fn run_handler(&self, agent: AgentId, name: String, failure: Failure) {
        if let Some((claim, waiting)) = self.lock().renew(agent) {
            waiting.send(FinishResponse::Handle { claim, name, failure }).ok();
        }
    }

    fn in_flight(&self) -> Vec<InFlightAttempt> {
        let state = self.lock();
        let held = state.seats.values().filter_map(|seat| seat.held.as_ref());
        held.map(|held| InFlightAttempt {
            assignment: held.assignment.clone(),
            claimed: held.token.is_some(),
        })
        .collect()
    }

    fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        for seat in state.seats.values_mut() {
            seat.held = None;
            seat.called.notify_one();
        }
    }
}
