//! The rules for every work queue, whatever it is made of.
//!
//! A queue passes if [`check_queue_conformance`] returns; a rule that it breaks panics with its name.
//! Everything is bounded: a wake-up that is lost fails within seconds.
#![expect(clippy::panic, reason = "a rule that is broken fails the test")]

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    time::Duration,
};

use prodigy_core::{
    effect::EffectLedger,
    failure::{Failure, ReasonCode},
    ids::AgentId,
};
use prodigy_engine::queue::{
    Assignment, AttemptOutcome, Claim, FinishResponse, FinishedAttempt, WorkQueue,
};

/// The time by which an expected event has happened, even on a busy machine.
const LONG: Duration = Duration::from_secs(30);
/// The time to wait for an event that must not happen.
const SHORT: Duration = Duration::from_millis(30);

const AGENTS: u32 = 12;
const ROUNDS: u32 = 60;

/// Checks every rule, each on a queue of its own.
pub async fn check_queue_conformance<Q: WorkQueue>(make: impl Fn() -> Q) {
    an_attempt_is_claimed_once(make()).await;
    claims_wait_for_what_is_submitted(make()).await;
    a_finish_waits_until_it_is_settled(make()).await;
    an_old_claim_counts_for_nothing(make()).await;
    a_handler_has_a_claim_of_its_own(make()).await;
    what_is_finished_comes_in_order(make()).await;
    the_snapshot_shows_what_is_held(make()).await;
    closing_lets_everybody_go(make()).await;
    nothing_is_lost_among_many(make()).await;
}

/// Waits for what has to happen.
async fn within_timeout<T>(rule: &str, future: impl Future<Output = T>) -> T {
    let answer = tokio::time::timeout(LONG, future).await;
    answer.unwrap_or_else(|_| panic!("{rule}: nothing came"))
}

fn agent(number: u32) -> AgentId {
    AgentId::new(number)
}

fn attempt(of: u32, item: u32) -> Assignment {
    Assignment {
        agent: agent(of),
        item,
        attempt: 1,
        ledger: EffectLedger::default(),
        may_repeat: false,
        allowance: None,
        setbacks: Vec::new(),
        conflict: None,
        handler: None,
        suspended: None,
    }
}

fn failure() -> Failure {
    Failure::new(ReasonCode::CommandFailed, "exit code 1")
}

fn failed() -> AttemptOutcome {
    AttemptOutcome::Failed {
        step: None,
        failure: failure(),
        duration_ms: 1,
        cost_usd: 0.0,
        secured: false,
    }
}

async fn expect_claim<Q: WorkQueue>(queue: &Q, rule: &str, of: u32) -> Claim {
    within_timeout(rule, queue.claim(agent(of)))
        .await
        .unwrap_or_else(|| panic!("{rule}: the queue is closed"))
}

async fn an_attempt_is_claimed_once<Q: WorkQueue>(queue: Q) {
    let rule = "an attempt that is submitted twice is claimed once";
    queue.submit(attempt(1, 7));
    queue.submit(attempt(1, 7));
    let claim = expect_claim(&queue, rule, 1).await;
    assert_eq!(claim.assignment, attempt(1, 7), "{rule}");
    queue.submit(attempt(1, 7));
    let second = tokio::time::timeout(SHORT, queue.claim(agent(1))).await;
    assert!(second.is_err(), "{rule}: {second:?}");
    let other = tokio::time::timeout(SHORT, queue.claim(agent(2))).await;
    assert!(other.is_err(), "an attempt is only for its agent: {other:?}");
    assert!(queue.renew(&claim), "{rule}");
}

async fn claims_wait_for_what_is_submitted<Q: WorkQueue>(queue: Q) {
    let rule = "of two claims by one agent, one gets the attempt and the other waits";
    let mut claims: Vec<_> = (0..2)
        .map(|_| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.claim(agent(1)).await })
        })
        .collect();
    tokio::time::sleep(SHORT).await;
    assert!(claims.iter().all(|claim| !claim.is_finished()), "{rule}");
    queue.submit(attempt(1, 1));
    let (first, waiting) = within_timeout(rule, async {
        loop {
            if let Some(at) = claims.iter().position(tokio::task::JoinHandle::is_finished) {
                let done = claims.swap_remove(at);
                return (done.await.unwrap(), claims.swap_remove(0));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert!(first.is_some_and(|claim| claim.assignment == attempt(1, 1)), "{rule}");
    tokio::time::sleep(SHORT).await;
    assert!(!waiting.is_finished(), "{rule}");
    queue.close();
    assert_eq!(within_timeout(rule, waiting).await.unwrap(), None, "{rule}");
}

async fn a_finish_waits_until_it_is_settled<Q: WorkQueue>(queue: Q) {
    let rule = "finishing an attempt waits until the loop has settled it";
    queue.submit(attempt(1, 1));
    let claim = expect_claim(&queue, rule, 1).await;
    let finishing = {
        let queue = queue.clone();
        tokio::spawn(async move { queue.finish(claim, failed()).await })
    };
    let heard = within_timeout(rule, queue.next_finished()).await;
    assert_eq!(heard, FinishedAttempt { assignment: attempt(1, 1), outcome: failed() }, "{rule}");
    assert!(queue.try_next_finished().is_none(), "{rule}: it is told once");
    tokio::time::sleep(SHORT).await;
    assert!(!finishing.is_finished(), "{rule}");
    queue.release(agent(1), true);
    assert_eq!(
        within_timeout(rule, finishing).await.unwrap(),
        FinishResponse::Released { failed: true },
        "{rule}"
    );
    // The agent is free for the next one.
    queue.submit(attempt(1, 2));
    assert_eq!(expect_claim(&queue, rule, 1).await.assignment, attempt(1, 2), "{rule}");
}

async fn an_old_claim_counts_for_nothing<Q: WorkQueue>(queue: Q) {
    let rule = "a claim that is not current any more is fenced";
    queue.submit(attempt(1, 1));
    let old = expect_claim(&queue, rule, 1).await;
    queue.release(agent(1), false);
    assert!(!queue.renew(&old), "{rule}: after it was settled");
    queue.submit(attempt(1, 1));
    let new = expect_claim(&queue, rule, 1).await;
    assert!(!queue.renew(&old) && queue.renew(&new), "{rule}");
    assert_eq!(
        within_timeout(rule, queue.finish(old, failed())).await,
        FinishResponse::Fenced,
        "{rule}"
    );
    assert!(queue.try_next_finished().is_none(), "{rule}: the loop does not hear of it");
    assert!(queue.renew(&new), "{rule}: the current one is not touched");
}

async fn a_handler_has_a_claim_of_its_own<Q: WorkQueue>(queue: Q) {
    let rule = "a handler runs under a new claim for the same attempt";
    queue.submit(attempt(1, 1));
    let claim = expect_claim(&queue, rule, 1).await;
    let finishing = {
        let queue = queue.clone();
        tokio::spawn(async move { queue.finish(claim, failed()).await })
    };
    within_timeout(rule, queue.next_finished()).await;
    queue.run_handler(agent(1), "rescue".to_owned(), failure());
    let settled = within_timeout(rule, finishing).await.unwrap();
    let FinishResponse::Handle { claim, name, failure: why } = settled else {
        panic!("{rule}: {settled:?}");
    };
    assert_eq!((name.as_str(), why), ("rescue", failure()), "{rule}");
    assert_eq!(claim.assignment, attempt(1, 1), "{rule}");
    assert!(queue.renew(&claim), "{rule}");
    let handled = AttemptOutcome::Handled { failure: failure(), handler: None };
    let finishing = {
        let (queue, handled) = (queue.clone(), handled.clone());
        tokio::spawn(async move { queue.finish(claim, handled).await })
    };
    assert_eq!(within_timeout(rule, queue.next_finished()).await.outcome, handled, "{rule}");
    queue.release(agent(1), true);
    assert_eq!(
        within_timeout(rule, finishing).await.unwrap(),
        FinishResponse::Released { failed: true },
        "{rule}"
    );
}

async fn what_is_finished_comes_in_order<Q: WorkQueue>(queue: Q) {
    let rule = "attempts are heard of in the order in which they finished";
    let mut finishing = Vec::new();
    for number in (1..=5).rev() {
        queue.submit(attempt(number, number));
        let claim = expect_claim(&queue, rule, number).await;
        let other = queue.clone();
        finishing.push(tokio::spawn(async move { other.finish(claim, failed()).await }));
        // It has been told before the next one is.
        within_timeout(rule, async {
            while queue.in_flight().iter().any(|held| !held.claimed) {
                tokio::task::yield_now().await;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        })
        .await;
    }
    for number in (1..=5).rev() {
        assert_eq!(
            within_timeout(rule, queue.next_finished()).await.assignment.item,
            number,
            "{rule}"
        );
        queue.release(agent(number), false);
    }
    for finishing in finishing {
        within_timeout(rule, finishing).await.unwrap();
    }
}

async fn the_snapshot_shows_what_is_held<Q: WorkQueue>(queue: Q) {
    let rule = "the snapshot shows what is submitted and not settled";
    let held = |queue: &Q| -> BTreeMap<u32, bool> {
        queue.in_flight().into_iter().map(|held| (held.assignment.item, held.claimed)).collect()
    };
    assert!(held(&queue).is_empty(), "{rule}");
    queue.submit(attempt(1, 1));
    queue.submit(attempt(2, 2));
    assert_eq!(held(&queue), BTreeMap::from([(1, false), (2, false)]), "{rule}");
    let claim = expect_claim(&queue, rule, 2).await;
    assert_eq!(held(&queue), BTreeMap::from([(1, false), (2, true)]), "{rule}");
    let finishing = {
        let queue = queue.clone();
        tokio::spawn(async move { queue.finish(claim, AttemptOutcome::Released).await })
    };
    within_timeout(rule, queue.next_finished()).await;
    assert_eq!(held(&queue), BTreeMap::from([(1, false), (2, true)]), "{rule}: not settled yet");
    queue.release(agent(2), false);
    within_timeout(rule, finishing).await.unwrap();
    assert_eq!(held(&queue), BTreeMap::from([(1, false)]), "{rule}");
}

async fn closing_lets_everybody_go<Q: WorkQueue>(queue: Q) {
    let rule = "closing lets waiting agents go and voids every claim";
    let waiting: Vec<_> = (1..=3)
        .map(|number| {
            let queue = queue.clone();
            tokio::spawn(async move { queue.claim(agent(number)).await })
        })
        .collect();
    queue.submit(attempt(4, 4));
    let current = expect_claim(&queue, rule, 4).await;
    queue.submit(attempt(5, 5));
    let ended = expect_claim(&queue, rule, 5).await;
    let finishing = {
        let queue = queue.clone();
        tokio::spawn(async move { queue.finish(ended, failed()).await })
    };
    within_timeout(rule, queue.next_finished()).await;
    queue.close();
    for waiting in waiting {
        assert_eq!(within_timeout(rule, waiting).await.unwrap(), None, "{rule}");
    }
    assert!(!queue.renew(&current), "{rule}");
    assert_eq!(
        within_timeout(rule, queue.finish(current, failed())).await,
        FinishResponse::Fenced,
        "{rule}"
    );
    assert_eq!(within_timeout(rule, finishing).await.unwrap(), FinishResponse::Fenced, "{rule}");
    assert!(queue.in_flight().is_empty(), "{rule}");
    queue.submit(attempt(6, 6));
    assert_eq!(
        within_timeout(rule, queue.claim(agent(6))).await,
        None,
        "{rule}: nothing is handed out"
    );
}

/// Has many agents make many attempts at once; every tenth one needs a handler.
async fn nothing_is_lost_among_many<Q: WorkQueue>(queue: Q) {
    let rule = "no attempt and no wake-up is lost among many agents";
    let agents: Vec<_> = (1..=AGENTS)
        .map(|number| {
            let queue = queue.clone();
            tokio::spawn(async move { work(queue, number).await })
        })
        .collect();
    let heard = within_timeout(rule, distribute(&queue)).await;
    queue.close();
    let mut made = BTreeSet::new();
    for agent in agents {
        for item in within_timeout(rule, agent).await.unwrap() {
            assert!(made.insert(item), "{rule}: {item} was made twice");
        }
    }
    let all: BTreeSet<u32> = (0..AGENTS * ROUNDS).collect();
    assert_eq!(made, all, "{rule}");
    assert_eq!(heard, all, "{rule}");
    assert!(queue.try_next_finished().is_none(), "{rule}");
}

/// Takes attempts until the queue is closed; returns the items.
async fn work<Q: WorkQueue>(queue: Q, number: u32) -> Vec<u32> {
    let mut made = Vec::new();
    while let Some(claim) = queue.claim(agent(number)).await {
        made.push(claim.assignment.item);
        assert!(queue.renew(&claim), "a claim that was just given is current");
        if number.is_multiple_of(3) {
            tokio::task::yield_now().await;
        }
        let mut settled = queue.finish(claim, failed()).await;
        if let FinishResponse::Secure { claim, .. } = settled {
            settled = queue.finish(claim, failed().secured()).await;
        }
        if let FinishResponse::Handle { claim, failure, .. } = settled {
            settled = queue.finish(claim, AttemptOutcome::Handled { failure, handler: None }).await;
        }
        assert_eq!(settled, FinishResponse::Released { failed: true });
    }
    made
}

/// Hands out all attempts, one at a time to each agent, and returns the items that ended.
async fn distribute<Q: WorkQueue>(queue: &Q) -> BTreeSet<u32> {
    let mut next: BTreeMap<AgentId, u32> = BTreeMap::new();
    for number in 1..=AGENTS {
        queue.submit(attempt(number, (number - 1) * ROUNDS));
        next.insert(agent(number), 1);
    }
    let mut heard = BTreeSet::new();
    while u32::try_from(heard.len()).is_ok_and(|heard| heard < AGENTS * ROUNDS) {
        let FinishedAttempt { assignment, outcome } = queue.next_finished().await;
        if outcome == failed() {
            queue.secure(assignment.agent, assignment.item.is_multiple_of(10));
            continue;
        }
        if matches!(outcome, AttemptOutcome::Failed { .. }) && assignment.item.is_multiple_of(10) {
            queue.run_handler(assignment.agent, "rescue".to_owned(), failure());
            continue;
        }
        assert!(heard.insert(assignment.item), "{} ended twice", assignment.item);
        queue.release(assignment.agent, true);
        let done = next.entry(assignment.agent).or_default();
        if *done < ROUNDS {
            let number = assignment.agent.number();
            queue.submit(attempt(number, (number - 1) * ROUNDS + *done));
            *done += 1;
        }
    }
    heard
}
