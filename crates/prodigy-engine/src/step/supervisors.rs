//! The supervisors of a worktree, from one step to the next.

use std::sync::{Arc, Mutex, PoisonError};

use crate::process::SupervisorClient;

/// Supervisors that wait for the next step, each with the number of its log files.
#[derive(Clone, Default)]
pub struct SupervisorPool {
    idle: Arc<Mutex<IdleSupervisors>>,
}

#[derive(Default)]
struct IdleSupervisors {
    waiting: Vec<(u32, SupervisorClient)>,
    started: u32,
}

impl SupervisorPool {
    /// Takes a waiting supervisor, or the number for a new one.
    pub(super) fn acquire(&self) -> Result<(u32, SupervisorClient), u32> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.waiting.pop().ok_or_else(|| {
            let slot = idle.started;
            idle.started += 1;
            slot
        })
    }

    /// Gives a supervisor back.
    pub(super) fn release(&self, slot: u32, supervisor: SupervisorClient) {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.waiting.push((slot, supervisor));
        // The lowest slot is used first, so that most output is in one pair of files.
        idle.waiting.sort_by_key(|(slot, _)| std::cmp::Reverse(*slot));
    }

    /// Ends all supervisors that wait.
    pub async fn close(&self) {
        let waiting = {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut idle.waiting)
        };
        for (_, supervisor) in waiting {
            supervisor.close().await;
        }
    }
}
