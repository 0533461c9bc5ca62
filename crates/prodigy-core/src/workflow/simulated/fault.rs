//! Faults of the simulated agent.

/// Defines the faults once: for the type, the words, their meaning and what they lead to.
macro_rules! faults {
    ($($(#[doc = $doc:literal])+ $fault:ident = $word:literal ($code:literal);)*) => {
        /// A fault of the simulated agent.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum SimulatedFault {
            $($(#[doc = $doc])+ $fault,)*
        }

        impl SimulatedFault {
            /// The words for them, in the order of the documentation.
            pub const WORDS: &[&str] = &[$($word),*];

            /// The words and what they stand for, in the same order.
            pub const TABLE: &[(&str, Self)] = &[$(($word, Self::$fault)),*];

            /// Returns what it means, for people.
            pub fn meaning(self) -> &'static str {
                match self {
                    $(Self::$fault => concat!($($doc),+).trim_ascii_start(),)*
                }
            }

            /// Returns the reason code that it leads to, for people.
            pub fn leads_to(self) -> &'static str {
                match self {
                    $(Self::$fault => $code,)*
                }
            }
        }
    };
}

faults! {
    /// It ends by a signal, half done: the first edit is made, nothing else is.
    Crash = "crash" ("`agent_crashed`");
    /// It never answers; only a time limit ends it.
    Hang = "hang" ("`timeout` or `stalled`");
    /// It says it succeeded and did nothing.
    Lie = "lie" ("none; `commit_required` finds out: `no_commit`");
    /// It reports an error of its own, with `answer` as the message, and did nothing.
    Error = "error" ("`agent_error`");
    /// It is denied a tool, does nothing, and says so politely.
    PermissionDenied = "permission_denied" ("`permission_denied`");
    /// It is denied a tool, and does the work without it.
    DeniedWorkedAround = "denied_worked_around" ("none, if it made a commit");
    /// The provider asks for fewer requests: status 429.
    RateLimited = "rate_limited" ("`rate_limited`");
    /// The provider has no room: status 529.
    Overloaded = "overloaded" ("`provider_overloaded`");
    /// The provider fails: status 500.
    ServerError = "server_error" ("`dependency_unavailable`");
    /// The provider refuses the credential: status 401.
    AuthFailed = "auth_failed" ("none; the job stops with exit code 6");
    /// The usage limit of the account is reached, for every attempt of the job until it is reset.
    UsageLimit = "usage_limit" ("none; the job waits for the reset");
    /// The account has no money left: status 400.
    OutOfCredits = "out_of_credits" ("none; the job stops with exit code 6");
    /// It declines to do the work.
    Refusal = "refusal" ("`agent_refused`");
    /// It uses all its turns.
    MaxTurns = "max_turns" ("`turn_limit`");
    /// It spends all the money that it may.
    OverBudget = "over_budget" ("`budget_exceeded`");
    /// Its output at the end cannot be read.
    Garbage = "garbage" ("`output_unparseable`");
    /// It says it succeeded, without having taken a turn.
    ZeroTurns = "zero_turns" ("`agent_error`");
    /// It makes the first edit, leaves it uncommitted, and says it succeeded.
    Partial = "partial" ("none; `commit_required` finds out: `no_commit`");
    /// It makes all edits, commits none of them, and says it succeeded.
    NoCommit = "no_commit" ("none; `commit_required` finds out: `no_commit`");
    /// It also writes a file that every item writes, each another text.
    Conflict = "conflict" ("`merge_conflict`, if another item was faster");
    /// Its answer does not satisfy the step's `output_schema`.
    SchemaMismatch = "schema_mismatch" ("`schema_invalid`");
    /// As a judge it finds the work incomplete, with `result` as its verdict. `times` counts
    /// judgements of one step of one item; where it judges nothing, it does not strike.
    NotSatisfied = "not_satisfied" ("`validation_failed`, unless `on_incomplete` fixes it in time");
    /// It takes its time: `delay` and `jitter` hold only when this strikes.
    Slow = "slow" ("none, or `timeout`");
    /// It prints very much, and then does its work.
    Huge = "huge" ("none");
}

impl SimulatedFault {
    /// Returns whether the answer of its rule is the message of an error.
    pub fn has_error_message(self) -> bool {
        let told = [
            Self::Error,
            Self::RateLimited,
            Self::Overloaded,
            Self::ServerError,
            Self::AuthFailed,
            Self::OutOfCredits,
            Self::Refusal,
        ];
        told.contains(&self)
    }
}
