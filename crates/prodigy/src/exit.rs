//! Exit codes. They are an interface: scripts test for them.

use std::process::ExitCode;

/// The exit code of `prodigy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Exit {
    /// Everything asked for was done.
    Success = 0,
    /// The job failed, none of its items succeeded, or something unforeseen went wrong.
    Failure = 1,
    /// The request made no sense.
    Usage = 2,
    /// The job is done, and `--fail-on-dlq` was given and items are in the dead letter queue; or a
    /// replay resolved nothing.
    DeadLetters = 3,
    /// No items were selected, and `--no-items fail` was given.
    NoItems = 4,
    /// The error policy stopped the job.
    StoppedByPolicy = 5,
    /// No money or no access: a budget is spent, or the account of an agent cannot be used.
    Budget = 6,
    /// The work is done and waits to be merged.
    MergeOutstanding = 7,
    /// The requested replays need approval.
    AwaitingApproval = 8,
    /// A workflow or configuration file is invalid, or the repository is not trusted.
    Invalid = 9,
    /// Nothing of what was to be replayed may be replayed.
    ReplayDenied = 10,
    /// A usage limit was reached, or another process holds the job; try again later.
    TryLater = 75,
    /// Ctrl-C.
    Interrupted = 130,
    /// SIGTERM or SIGHUP.
    Terminated = 143,
}

impl Exit {
    /// Every code, in the order of the documentation.
    const ALL: &[Self] = &[
        Self::Success,
        Self::Failure,
        Self::Usage,
        Self::DeadLetters,
        Self::NoItems,
        Self::StoppedByPolicy,
        Self::Budget,
        Self::MergeOutstanding,
        Self::AwaitingApproval,
        Self::Invalid,
        Self::ReplayDenied,
        Self::TryLater,
        Self::Interrupted,
        Self::Terminated,
    ];

    /// Returns the code itself.
    pub(crate) fn code(self) -> i32 {
        i32::from(self as u8)
    }

    /// Returns what the code means, for the reference.
    fn meaning(self) -> &'static str {
        match self {
            Self::Success => {
                "Everything asked for was done. A job of which some items failed and at least one \
                 succeeded counts as done, and so does one for which no items were selected."
            }
            Self::Failure => {
                "The job failed, its items ran and none of them succeeded (they failed or were left \
                 out), or something unforeseen went wrong; standard error says what."
            }
            Self::Usage => {
                "The request made no sense: an unknown flag, a missing file, a job that does not exist, a \
                 directory without a repository."
            }
            Self::DeadLetters => {
                "The job is done, some of its items are in the dead letter queue, and \
                 `--fail-on-dlq` was given. Or `prodigy dlq retry` replayed dead letters and resolved \
                 none of them; 8 and 10 come first."
            }
            Self::NoItems => "No items were selected, and `--no-items fail` was given.",
            Self::StoppedByPolicy => {
                "The error policy stopped the job. The items that are left wait, and the job \
                 can be resumed."
            }
            Self::Budget => {
                "No money or no access: the budget is spent, or the account of an agent has no credit left or \
                 cannot be used, e.g. because its key expired. The items that are left wait, and the job can be resumed."
            }
            Self::MergeOutstanding => {
                "The work is done and safe on its branch, but not merged into the branch it \
                 started from. The command to do so is printed."
            }
            Self::AwaitingApproval => {
                "A replay needs approval. `prodigy dlq approvals` lists what is pending."
            }
            Self::Invalid => {
                "A workflow or configuration file is invalid, or asks for something that this \
                 version cannot do. Every mistake is listed with its place. Or the repository brings in \
                 programs or permissions that are not trusted: `prodigy trust` shows them."
            }
            Self::ReplayDenied => {
                "Dead letters were to be replayed, and the policy allows none of them. They are \
                 listed with why, and what would help."
            }
            Self::TryLater => {
                "Try again later. Either another process holds the job, and nothing was changed. Or an \
                 agent reached a usage limit and the run was not to wait for it (`--no-wait`, \
                 `on_limit: stop`, `max_wait`): the job is paused and can be resumed."
            }
            Self::Interrupted => "Ctrl-C. The job is paused and can be resumed.",
            Self::Terminated => {
                "SIGTERM or SIGHUP. The job is paused and can be resumed. A signal that was ignored \
                 when prodigy was started (`nohup`) stays ignored."
            }
        }
    }
}

/// Returns the reference page of exit codes, in Markdown.
pub(crate) fn exit_codes_page() -> String {
    let mut page = "# Exit codes\n\n\
        Scripts may rely on these. A code has one meaning in every command, with one exception below.\n\n\
        | code | meaning |\n|---|---|\n"
        .to_owned();
    for exit in Exit::ALL {
        page.extend(["| ", &(*exit as u8).to_string(), " | ", exit.meaning(), " |\n"]);
    }
    page.push_str(
        "\n`prodigy simulate` ends with the code that the run would end with. `prodigy resume` of a job \
         that is already completed repeats its code: 0, or 1 if none of its items succeeded.\n\
         \n`prodigy dlq status --check` ends as monitoring systems expect it: 0 if all is well, 1 if \
         there is an alert, 2 if nobody knows what happened.\n\
         \nA command whose reader goes away (`prodigy events JOB | head`) ends quietly with 0.\n",
    );
    page
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit as u8)
    }
}
