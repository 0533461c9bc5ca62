//! The reasons for which an approval is refused.

use crate::Timestamp;

/// The reason that an approval was refused, and the way out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    /// Nobody asked for an approval.
    #[error("no approval was requested for this entry; `prodigy dlq retry` requests one")]
    NothingRequested,
    /// A replay has used it up.
    #[error(
        "the approval was used up by a replay; if the entry is open again, request a new one \
         with `prodigy dlq retry`"
    )]
    Consumed,
    /// Somebody is against it.
    #[error(
        "{by} has rejected this; change what they object to, or close the entry with \
         `prodigy dlq drop`"
    )]
    Rejected {
        /// The name of the person who rejected it.
        by: String,
    },
    /// Its time is over.
    #[error("the request has expired at {at}; request a new approval with `prodigy dlq retry`")]
    Expired {
        /// When.
        at: Timestamp,
    },
    /// The policy was changed since it was requested.
    #[error(
        "the policy was changed since the approval was requested; request a new one with \
         `prodigy dlq retry`"
    )]
    PolicyMismatch,
    /// The content to approve is not the content that was shown.
    #[error("{}", if *is_changed {
        "what was shown has changed since the approval was requested; request a new one with \
         `prodigy dlq retry`"
    } else {
        "the digest is not that of the request; look at it again with `prodigy dlq approvals` \
         and pass the digest that is shown there"
    })]
    DigestMismatch {
        /// True if the entry has changed; otherwise another digest was passed.
        is_changed: bool,
    },
    /// Somebody wants to approve what they do themselves.
    #[error("{approver} takes part in this and cannot approve it; ask somebody else")]
    SelfApproval {
        /// The approver's name.
        approver: String,
    },
    /// Somebody is not one of those who may.
    #[error("{approver} is not a member of the group `{group}`; ask somebody who is")]
    NotInGroup {
        /// The approver's name.
        approver: String,
        /// The group.
        group: String,
    },
    /// The group has no members, so nobody may.
    #[error(
        "group `{group}` has no members, so nobody may approve; name them in \
         `.prodigy/replay-policy.yml` and commit it: `approver_groups: {{ {group}: {{ members: \
         [alice@example.com] }} }}`"
    )]
    NoMembers {
        /// The group.
        group: String,
    },
    /// Somebody has said so before.
    #[error("{approver} has approved this already, and counts once; ask somebody else")]
    AlreadyApproved {
        /// The approver's name.
        approver: String,
    },
    /// The group takes only words that are signed.
    #[error("the group takes only signed words; pass `--sign`")]
    NotSigned,
    /// The signature is not good.
    #[error("the signature is not good: {why}")]
    BadSignature {
        /// The reason.
        why: String,
    },
}

impl ApprovalError {
    /// Returns its name, for scripts and for the audit trail.
    pub fn code(&self) -> &'static str {
        match self {
            Self::NothingRequested => "nothing_requested",
            Self::Consumed => "consumed",
            Self::Rejected { .. } => "rejected",
            Self::Expired { .. } => "expired",
            Self::PolicyMismatch => "policy_mismatch",
            Self::DigestMismatch { .. } => "digest_mismatch",
            Self::SelfApproval { .. } => "self_approval",
            Self::NotInGroup { .. } => "not_in_group",
            Self::NoMembers { .. } => "no_members",
            Self::AlreadyApproved { .. } => "already_approved",
            Self::NotSigned => "not_signed",
            Self::BadSignature { .. } => "bad_signature",
        }
    }
}
