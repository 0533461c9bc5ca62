//! Saying yes or no to a replay: what those commands share.

use std::path::PathBuf;

use prodigy_core::{
    audit::AuditAction,
    dlq::{DeadLetteredItem, EntryStatus},
    ids::JobId,
    replay::approval::{FEWEST_DIGITS, Vote, is_digest_prefix},
};
use prodigy_engine::{
    clock,
    identity::{self, SigningKey},
    run::{VoteError, VoteOutcome, VoteRequest},
    store::{JobLock, dlq::DeadLetterStore},
};

use super::ApprovalView;
use crate::{
    cli::Cli,
    commands::{
        dlq::{
            actions::require_open,
            decision::replay_context::{ReplayContext, amend_error},
            entries::{
                entry_filter::{entry_not_found, require_entry},
                queue_error,
            },
        },
        lookup::{find_job, job_error},
    },
    error::{CliError, error_chain},
    exit::Exit,
    render::console::Console,
};

/// The approval to answer, and the key to sign with.
#[derive(clap::Args, Debug)]
pub(crate) struct VoteArgs {
    /// The job
    pub(crate) job: JobId,

    /// The item, by id or by key
    item: String,

    /// The digest of what you were shown, or at least its first 12 digits
    #[arg(long, value_name = "DIGEST")]
    expect: String,

    /// Sign it with a key of ssh
    #[arg(long)]
    sign: bool,

    /// The key to sign with [default: the one that git signs commits with]
    #[arg(long, value_name = "FILE", requires = "sign")]
    key: Option<PathBuf>,
}

/// An answer that was taken, with what it was about and whose it is.
pub(crate) struct VoteReceipt {
    pub(crate) entry: DeadLetteredItem,
    pub(crate) answered: VoteOutcome,
    pub(crate) by: String,
}

impl VoteArgs {
    /// Shows what the answer is about, and records it if it counts.
    pub(crate) fn cast_vote(
        &self,
        args: &Cli,
        vote: Vote,
        reason: &str,
        out: &mut Console,
    ) -> Result<VoteReceipt, CliError> {
        if !is_digest_prefix(&self.expect) {
            let message = format!("`{}` is not the digest of a request", self.expect);
            return Err(CliError::new(Exit::Usage, message).with_hint(format!(
                "it is `sha256:` and at least {FEWEST_DIGITS} hexadecimal digits; `prodigy dlq \
                 approvals {}` shows it",
                self.job
            )));
        }
        let (layout, job) = find_job(args, &self.job)?;
        let authority = ReplayContext::load(args, &layout, &job, out)?;
        let action = match vote {
            Vote::Approve => AuditAction::Approve,
            Vote::Reject => AuditAction::Reject,
        };
        authority.refuse_automation(action, std::slice::from_ref(&self.item))?;
        let key = self.key(&authority)?;
        let lock = JobLock::take(&layout, &job).map_err(|error| job_error(&job, error))?;
        let queue = DeadLetterStore::open_locked(&layout, &job, &lock).map_err(queue_error)?;
        let entry = require_entry(&queue, &job, &self.item)?;
        if entry.status != EntryStatus::Open && !is_used_up(&entry) {
            require_open(&entry)?;
        }
        let bench = authority.approval_evaluator(&queue)?;
        if let Some(request) = ApprovalView::load(&bench, &entry, clock::now()) {
            request.show(out)?;
            out.flush()?;
        }
        let answer = VoteRequest {
            item: &entry.item_id,
            vote,
            expect: &self.expect,
            key: key.as_ref(),
            signers: &authority.policy.signers,
        };
        let audit = authority.audit_trail()?;
        let mut trail = |records| audit.append(records, clock::now()).map(drop);
        let reason = authority.mask_secrets(reason);
        let asking = authority.approval_service(&queue, &bench, &reason);
        let answered = asking.vote(&lock, answer, &mut trail);
        let answered = answered.map_err(|error| answer_error(error, vote, &job))?;
        Ok(VoteReceipt { entry, answered, by: authority.by.clone() })
    }

    /// Returns the key to sign with, if the answer is signed.
    fn key(&self, authority: &ReplayContext) -> Result<Option<SigningKey>, CliError> {
        match &self.key {
            Some(path) => Ok(Some(SigningKey::File(path.clone()))),
            None if self.sign => SigningKey::from_git_config(&authority.repo)
                .map(Some)
                .map_err(|error| identity_error(&error)),
            None => Ok(None),
        }
    }
}

/// Returns whether a replay has used up what people agreed to.
fn is_used_up(entry: &DeadLetteredItem) -> bool {
    entry.approval.as_ref().is_some_and(|approval| approval.consumed)
}

/// Turns an error about an answer into one for people.
fn answer_error(error: VoteError, vote: Vote, job: &JobId) -> CliError {
    match error {
        VoteError::Refused(refusal) => {
            let word = match vote {
                Vote::Approve => "approval",
                Vote::Reject => "rejection",
            };
            let message = format!("the {word} is refused ({}): {refusal}", refusal.code());
            CliError::new(Exit::Failure, message)
        }
        VoteError::NoEntry(item) => entry_not_found(job, item.as_str()),
        VoteError::Identity(error) => identity_error(&error),
        VoteError::Amend(error) => amend_error(error),
    }
}

/// Turns an error about signatures into one for people.
fn identity_error(error: &identity::Error) -> CliError {
    let shown = CliError::new(Exit::Failure, error_chain(error));
    match error.hint() {
        Some(hint) => shown.with_hint(hint),
        None => shown,
    }
}
