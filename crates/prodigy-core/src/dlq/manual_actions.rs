//! Manual changes of a DLQ entry: approvals, edits, quarantine, removal.

use super::{EntryClosure, EntryStatus, InputEdit, ManualAction, state::DeadLetterState};
use crate::{
    event::{ApprovalRequest, EntryChange, EntryRemoval, Event, EventRecord},
    replay::approval::{Approval, ApprovalGrant, ApprovalRejection},
};

impl DeadLetterState {
    /// Returns the agreement to what has a digest, if that is what was asked for.
    pub(crate) fn approval_of(&mut self, digest: &str) -> Option<&mut Approval> {
        self.approval.as_mut().filter(|approval| approval.digest == digest)
    }

    /// Applies an approval event: the request, a grant or a denial.
    pub(crate) fn apply_approval(&mut self, record: &EventRecord) {
        let at = record.timestamp;
        if let Event::ApprovalRequested(request) = &record.event {
            let ApprovalRequest { digest, by, policy_snapshot, workflow_hash, commit, .. } =
                (**request).clone();
            self.approval = Some(Approval {
                digest,
                policy_snapshot,
                workflow_hash,
                commit,
                forced: request.forced,
                group: request.group.clone(),
                needed: request.needed,
                requested_by: by,
                requested_at: at,
                expires_at: request.expires_at,
                grants: Vec::new(),
                rejection: None,
                consumed: false,
            });
        } else if let Event::ApprovalGranted { digest, by, identity, .. } = &record.event {
            if let Some(approval) = self.approval_of(digest) {
                approval.grants.push(ApprovalGrant { by: by.clone(), identity: *identity, at });
            }
        } else if let Event::ApprovalDenied { digest, by, reason, .. } = &record.event
            && let Some(approval) = self.approval_of(digest)
        {
            let (by, reason) = (by.clone(), reason.clone());
            approval.rejection.get_or_insert(ApprovalRejection { by, reason, at });
        }
    }

    /// Applies a manual change of the entry.
    pub(crate) fn apply_change(&mut self, change: &EntryChange, mark: ManualAction) {
        if let EntryChange::Edited { input_hash } = change {
            let ManualAction { at, by, reason } = mark.clone();
            self.lineage.push(InputEdit { at, by, reason, input_hash: input_hash.clone() });
        }
        self.revise(|death| match change {
            EntryChange::Quarantined { owner } => {
                (death.quarantine, death.released) = (Some(mark), None);
                death.owner.clone_from(owner);
            }
            EntryChange::Released => (death.quarantine, death.released) = (None, Some(mark)),
            EntryChange::Edited { .. } => {}
        });
    }

    /// Applies the removal of the entry without a replay.
    pub(crate) fn apply_removal(&mut self, how: EntryRemoval, closed: EntryClosure) {
        self.revise(|death| {
            death.is_cleared = how == EntryRemoval::Cleared;
            if death.status == EntryStatus::Open {
                death.status = match how {
                    EntryRemoval::Dropped | EntryRemoval::Cleared => EntryStatus::Dropped,
                    EntryRemoval::Adopted => EntryStatus::Resolved,
                };
                death.closed = Some(closed);
            }
        });
    }
}
