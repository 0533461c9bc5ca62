//! Asking running programs to end.

use std::time::Duration;

use tokio::{sync::watch, time::timeout};

/// The longest delay with which a signal to all processes reaches us after others.
const MOMENT: Duration = Duration::from_millis(50);

/// A request to end what is running. Clones share it, and it cannot be taken back.
#[derive(Clone, Debug, Default)]
pub struct StopToken {
    urgency: watch::Sender<StopUrgency>,
}

/// The urgency of a stop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum StopUrgency {
    /// Nobody asked.
    #[default]
    None,
    /// Programs are asked to end, and made to after their grace.
    Soon,
    /// Programs are made to end.
    Now,
}

impl StopToken {
    /// Creates a request that nobody has made yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Asks programs to end, and makes them end after their grace.
    pub fn request(&self) {
        self.raise(StopUrgency::Soon);
    }

    /// Makes programs end at once.
    pub fn request_now(&self) {
        self.raise(StopUrgency::Now);
    }

    /// Returns whether anybody asked.
    pub fn is_requested(&self) -> bool {
        *self.urgency.borrow() > StopUrgency::None
    }

    /// Returns whether anybody asked, or does within a moment.
    ///
    /// A signal to many processes ends some of them before we hear of it.
    pub async fn is_requested_soon(&self) -> bool {
        self.is_requested() || timeout(MOMENT, self.wait_requested()).await.is_ok()
    }

    /// Waits until somebody asks.
    pub async fn wait_requested(&self) {
        self.wait_for_more_urgent(StopUrgency::None).await;
    }

    /// Waits until there is more of a hurry than `known`, and returns how much.
    pub(crate) async fn wait_for_more_urgent(&self, known: StopUrgency) -> StopUrgency {
        let mut urgency = self.urgency.subscribe();
        let reached = urgency.wait_for(|urgency| *urgency > known).await.map(|urgency| *urgency);
        match reached {
            Ok(urgency) => urgency,
            // We hold a sender, so the channel is not closed; if it were, nobody could ask any more.
            Err(_) => std::future::pending().await,
        }
    }

    fn raise(&self, urgency: StopUrgency) {
        self.urgency.send_if_modified(|current| {
            let raised = urgency > *current;
            *current = urgency.max(*current);
            raised
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_request_reaches_every_clone_and_only_grows() {
        let stop = StopToken::new();
        let clone = stop.clone();
        assert!(!clone.is_requested());
        stop.request_now();
        stop.request();
        clone.wait_requested().await;
        assert!(clone.is_requested());
        assert_eq!(clone.wait_for_more_urgent(StopUrgency::Soon).await, StopUrgency::Now);
    }
}
