//! Approvals: what somebody was shown, and whether their word still counts.
//!
//! An approver passes back the digest of what they were shown. If anything of it has changed
//! since, they have approved something else.

mod error;
mod scope;
#[cfg(test)]
mod tests;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ApprovalState, ApproverGroup, IdentityKind, ReplayPolicy, ReplayRole, ReplayRule};
use crate::Timestamp;

pub use error::ApprovalError;
pub use scope::ApprovalScope;

/// The prefix of a digest.
const DIGEST: &str = "sha256:";

/// The fewest digits of a digest that name it.
pub const FEWEST_DIGITS: usize = 12;

/// A request for approval and what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Approval {
    /// The digest of what is shown.
    pub digest: String,
    /// The policy in force when it was requested.
    pub policy_snapshot: String,
    /// The SHA-256 of the workflow that would run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub workflow_hash: String,
    /// The commit that the replay would run on.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub commit: String,
    /// Set if the requester forces the replay despite reasons against it.
    #[serde(default)]
    pub forced: bool,
    /// The group that may approve; anybody may if there is none.
    pub group: Option<String>,
    /// The number of different people who must approve.
    pub needed: u32,
    /// The requester's name.
    pub requested_by: String,
    /// When they asked.
    pub requested_at: Timestamp,
    /// When it ends.
    pub expires_at: Timestamp,
    /// The approvals so far.
    pub grants: Vec<ApprovalGrant>,
    /// The rejection, if there is one.
    pub rejection: Option<ApprovalRejection>,
    /// True once a replay has used the approval.
    pub consumed: bool,
}

/// The word of one approver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalGrant {
    /// The approver's name.
    pub by: String,
    /// The proof of the approver's identity: asserted or signed.
    pub identity: IdentityKind,
    /// When.
    pub at: Timestamp,
}

/// The word of somebody who is against it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRejection {
    /// The name of the person who rejected the request.
    pub by: String,
    /// The reason of the rejection.
    pub reason: String,
    /// When.
    pub at: Timestamp,
}

/// The rules on who may approve.
#[derive(Clone, Copy, Debug)]
pub struct ApproverRules<'a> {
    /// The members of the group; without a group, anybody may approve who has no part in it.
    pub members: Option<&'a [String]>,
    /// Those who may not, because it is their own doing: who submitted, who replays.
    pub distinct_from: &'a [String],
    /// True if an approver must sign.
    pub signed: bool,
}

/// An approver's answer to a request.
#[derive(Clone, Copy, Debug)]
pub struct ApprovalResponse<'a> {
    /// Yes or no.
    pub vote: Vote,
    /// The digest of what they were shown, or its first digits.
    pub expect: &'a str,
    /// The approver.
    pub approver: Approver<'a>,
}

/// Somebody who is asked.
#[derive(Clone, Copy, Debug)]
pub struct Approver<'a> {
    /// The approver's name.
    pub name: &'a str,
    /// The proof of the approver's identity: asserted or signed.
    pub identity: IdentityKind,
}

/// Yes or no.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vote {
    /// Yes.
    Approve,
    /// No.
    Reject,
}

impl Vote {
    /// Returns the text that is signed to say this to what has the digest.
    pub fn signed_text(self, digest: &str) -> String {
        let word = match self {
            Self::Approve => "approve",
            Self::Reject => "reject",
        };
        format!("prodigy {word} {digest}\n")
    }
}

impl Approval {
    /// Returns how many different people approved before the end whose word counts.
    fn granted(&self, rules: &ApproverRules<'_>) -> u32 {
        let counts = |one: &&ApprovalGrant| {
            let is_signed = !rules.signed || one.identity == IdentityKind::Signed;
            one.at < self.expires_at && is_signed && rules.allows(&one.by)
        };
        let in_time: Vec<_> = self.grants.iter().filter(counts).collect();
        let first = |(at, one): &(usize, &&ApprovalGrant)| {
            !in_time.iter().take(*at).any(|other| is_same_person(&other.by, &one.by))
        };
        u32::try_from(in_time.iter().enumerate().filter(first).count()).unwrap_or(u32::MAX)
    }

    /// Returns how many different people have to approve: never nobody.
    fn needed(&self) -> u32 {
        self.needed.max(1)
    }
}

impl<'a> ApproverRules<'a> {
    /// Takes the rules from the group that a rule of the policy names. `involved` are those whose
    /// own agreement does not count.
    pub fn of(policy: &'a ReplayPolicy, rule: &ReplayRule, involved: &'a [String]) -> Self {
        let group = policy.group(rule);
        Self {
            members: rule.approver_group.is_some().then_some(group.members.as_slice()),
            distinct_from: involved,
            signed: group.identity == IdentityKind::Signed,
        }
    }

    /// Returns whether the word of a person counts.
    fn allows(&self, name: &str) -> bool {
        let is_member = self.members.is_none_or(|members| is_one_of(members, name));
        is_member && !is_one_of(self.distinct_from, name)
    }
}

/// Returns those whose own agreement does not count, because it is their own doing.
///
/// Of a job that does not say who started it, nobody is known to have.
pub fn involved_people(
    group: &ApproverGroup,
    submitter: Option<&str>,
    replayers: &[&str],
) -> Vec<String> {
    let names = group.distinct_from.iter().flat_map(|party| match party {
        ReplayRole::Submitter => submitter.as_slice(),
        ReplayRole::Replayer => replayers,
    });
    names.map(|name| (*name).to_owned()).collect()
}

/// Returns whether somebody may say something to a request, or why not.
///
/// `shown_now` is what would be shown to them now.
pub fn check_response(
    approval: Option<&Approval>,
    word: &ApprovalResponse<'_>,
    shown_now: &ApprovalScope,
    rules: &ApproverRules<'_>,
    now: Timestamp,
) -> Result<(), ApprovalError> {
    let Some(approval) = approval else { return Err(ApprovalError::NothingRequested) };
    if approval.consumed {
        return Err(ApprovalError::Consumed);
    }
    if let Some(rejection) = &approval.rejection {
        return Err(ApprovalError::Rejected { by: rejection.by.clone() });
    }
    if now >= approval.expires_at {
        return Err(ApprovalError::Expired { at: approval.expires_at });
    }
    if shown_now.policy_snapshot != approval.policy_snapshot {
        return Err(ApprovalError::PolicyMismatch);
    }
    if shown_now.digest() != approval.digest {
        return Err(ApprovalError::DigestMismatch { is_changed: true });
    }
    if !matches_digest(word.expect, &approval.digest) {
        return Err(ApprovalError::DigestMismatch { is_changed: false });
    }
    may_vote(approval, word, rules)
}

/// Returns whether the rules let somebody say that.
fn may_vote(
    approval: &Approval,
    word: &ApprovalResponse<'_>,
    rules: &ApproverRules<'_>,
) -> Result<(), ApprovalError> {
    let Approver { name, identity } = word.approver;
    let group = || approval.group.clone().unwrap_or_default();
    if rules.members.is_some_and(<[String]>::is_empty) {
        return Err(ApprovalError::NoMembers { group: group() });
    }
    // Whoever has a part in it may still be against it.
    if word.vote == Vote::Approve && is_one_of(rules.distinct_from, name) {
        return Err(ApprovalError::SelfApproval { approver: name.to_owned() });
    }
    if rules.members.is_some_and(|members| !is_one_of(members, name)) {
        return Err(ApprovalError::NotInGroup { approver: name.to_owned(), group: group() });
    }
    if rules.signed && identity != IdentityKind::Signed {
        return Err(ApprovalError::NotSigned);
    }
    let has_approved = approval.grants.iter().any(|one| is_same_person(&one.by, name));
    if word.vote == Vote::Approve && has_approved {
        return Err(ApprovalError::AlreadyApproved { approver: name.to_owned() });
    }
    Ok(())
}

/// Returns how an approval stands for what has this digest now; `None` if it was used up, which
/// is as if nobody had been asked. `rules` say whose agreement counts.
pub fn approval_state(
    approval: &Approval,
    digest_now: &str,
    rules: &ApproverRules<'_>,
    now: Timestamp,
) -> Option<ApprovalState> {
    if approval.consumed {
        return None;
    }
    // What was rejected is not what is there now: somebody can be asked anew.
    if digest_now != approval.digest {
        return Some(ApprovalState::Void);
    }
    if approval.rejection.is_some() {
        return Some(ApprovalState::Rejected);
    }
    if now >= approval.expires_at {
        return Some(ApprovalState::Expired);
    }
    let (granted, needed) = (approval.granted(rules), approval.needed());
    let with_involved = ApproverRules { distinct_from: &[], ..*rules };
    Some(if granted >= needed {
        ApprovalState::Granted
    } else if approval.granted(&with_involved) >= needed {
        ApprovalState::SelfApproval
    } else {
        ApprovalState::Pending { granted, needed }
    })
}

/// Returns whether a text names a digest: as a whole, or by its first digits.
pub fn matches_digest(text: &str, digest: &str) -> bool {
    is_digest_prefix(text) && digest.starts_with(&text.to_ascii_lowercase())
}

/// Returns whether a text can name a digest: `sha256:` and enough hexadecimal digits.
pub fn is_digest_prefix(text: &str) -> bool {
    let digits = text.strip_prefix(DIGEST).unwrap_or_default();
    digits.len() >= FEWEST_DIGITS && digits.chars().all(|digit| digit.is_ascii_hexdigit())
}

/// Returns whether a person is one of several.
fn is_one_of(names: &[String], name: &str) -> bool {
    names.iter().any(|other| is_same_person(other, name))
}

/// Returns whether two names are those of one person, however they are written.
///
/// One person must not count twice, and must not pass for somebody else.
fn is_same_person(a: &str, b: &str) -> bool {
    a.trim().to_lowercase() == b.trim().to_lowercase()
}
