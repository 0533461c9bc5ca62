//! A checked workflow: what the author meant, with no shorthand left.
//!
//! Old spellings, aliases and defaults end in `lower`. Behind it there is no
//! `Option` that means "default", and every template and expression is parsed.

use std::{collections::BTreeMap, num::NonZeroU32, time::Duration};

use crate::{
    capture::{CaptureFormat, CaptureStream},
    diagnostic::Span,
    expr::{Expr, SortBy},
    json_path::JsonPath,
    json_schema::OutputSchema,
    policy::{Backoff, Budget, QuotaPolicy, RetryPolicy},
    template::{Script, Template},
    workflow::{AgentConfig, AgentOptions, OnConflict, OnFailure, SandboxConfig},
};

/// A checked workflow file.
#[derive(Clone, Debug, PartialEq)]
pub struct Workflow {
    /// The name that the author gave it.
    pub name: Option<String>,
    /// The environment of every step, in the order written.
    pub env: Vec<EnvVar>,
    /// Files with more of the environment, relative to the workflow file.
    pub env_files: Vec<String>,
    /// Values that must never be seen.
    pub secrets: Vec<Secret>,
    /// Sets of environment variables chosen with `--profile`.
    pub profiles: BTreeMap<String, Vec<EnvVar>>,
    /// Values set with `--param`.
    pub parameters: Vec<Parameter>,
    /// The agents that steps may name.
    pub agents: BTreeMap<String, AgentConfig>,
    /// The spending limits.
    pub budget: Budget,
    /// The policy for an agent's usage limit.
    pub quota: QuotaPolicy,
    /// The sandbox of agents and of item steps.
    pub sandbox: Option<SandboxConfig>,
    /// The steps of the final merge; `None` merges with plain git.
    pub merge: Option<Phase>,
    /// The steps, or the phases of a MapReduce workflow.
    pub body: Body,
}

/// The two kinds of workflow.
#[derive(Clone, Debug, PartialEq)]
pub enum Body {
    /// Steps, one after the other.
    Sequential {
        /// The steps.
        steps: Vec<Step>,
        /// The way to deal with what they leave uncommitted.
        leftovers: Leftovers,
    },
    /// setup, then the same steps for many items, then reduce.
    MapReduce(Box<MapReduce>),
}

/// An environment variable that the author sets.
#[derive(Clone, Debug, PartialEq)]
pub struct EnvVar {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: Template,
}

/// A value that must never be seen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Secret {
    /// The environment variable that gets it.
    pub name: String,
    /// Where it comes from.
    pub source: SecretSource,
}

/// Where a secret comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretSource {
    /// An environment variable of prodigy itself.
    Env(String),
    /// A file, relative to the workflow file.
    File(String),
    /// The output of a command, run by `sh -c` in the directory of the workflow file.
    Command(String),
}

/// A value that the person who runs the workflow chooses.
#[derive(Clone, Debug, PartialEq)]
pub struct Parameter {
    /// Its name, as in `${params.NAME}`.
    pub name: String,
    /// The type that its value must have.
    pub kind: ParameterKind,
    /// Used when it is not given.
    pub default: Option<serde_json::Value>,
    /// Set if it must be given.
    pub required: bool,
    /// The only values allowed; empty means any.
    pub choices: Vec<serde_json::Value>,
    /// The description of its purpose.
    pub description: Option<String>,
}

/// The type of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParameterKind {
    /// Text.
    String,
    /// A number.
    Number,
    /// `true` or `false`.
    Boolean,
    /// A list, given as JSON.
    Array,
    /// A mapping, given as JSON.
    Object,
}

/// Some steps with a time limit for all of them together.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// The steps.
    pub steps: Vec<Step>,
    /// The limit.
    pub timeout: Option<Duration>,
}

/// One step: exactly one action, and what goes with it.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    /// Where it stands in the file.
    pub span: Span,
    /// The name in `${steps.ID.…}`.
    pub id: Option<String>,
    /// The name that progress shows; without it, the action.
    pub name: Option<String>,
    /// The action of the step.
    pub action: StepAction,
    /// Skipped unless true.
    pub when: Option<Expr>,
    /// The longest it may take.
    pub timeout: Option<Duration>,
    /// The longest it may print nothing.
    pub idle_timeout: Option<Duration>,
    /// More environment.
    pub env: Vec<EnvVar>,
    /// Where it runs, relative to the worktree.
    pub working_dir: Option<Template>,
    /// The variables made of its output.
    pub captures: Vec<Capture>,
    /// A file in the worktree that gets a copy of standard output.
    pub output_file: Option<Template>,
    /// HEAD must have moved.
    pub commit_required: bool,
    /// Which of the changes that are uncommitted after it are committed.
    pub auto_commit: AutoCommit,
    /// The handler that runs when it fails.
    pub on_failure: Option<OnFailure>,
    /// The steps to run when it succeeds: one, or two if `shell` and `claude` stood together.
    pub on_success: Vec<Self>,
    /// The steps to run for an exit code, before `on_failure` is considered.
    pub on_exit_code: BTreeMap<i32, Vec<Self>>,
    /// The retry policy of the step alone.
    pub retry: Option<RetryPolicy>,
    /// A failure is recorded and the next step runs.
    pub continue_on_error: bool,
    /// The judge that says whether the step is done.
    pub validate: Option<Box<Validate>>,
    /// The reach of its side effects.
    pub effects: Effects,
}

/// Which of the changes that are uncommitted after a step are committed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AutoCommit {
    /// None.
    #[default]
    Never,
    /// Those that the step made.
    StepChanges,
    /// Those that the step made, if its agent cannot commit by itself: Codex and other programs.
    ForAgent,
    /// All of them.
    Everything,
}

/// The reach of a step's side effects.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Effects {
    /// It changes nothing at all.
    None,
    /// It changes nothing but its worktree, which can be thrown away.
    #[default]
    Local,
    /// It changes something that stays changed when the worktree is thrown away.
    External(Box<ExternalEffect>),
}

/// The declared properties of a side effect outside of the worktree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ExternalEffect {
    /// Set if making the change twice does no harm.
    pub idempotent: bool,
    /// A command that finds out whether it was made, and changes nothing.
    pub check: Option<Script>,
    /// A command that undoes it.
    pub compensate: Option<Script>,
}

impl Step {
    /// Returns what is known of the change that the step makes outside, if it makes one.
    pub fn external_effect(&self) -> Option<&ExternalEffect> {
        match &self.effects {
            Effects::External(external) => Some(external),
            Effects::None | Effects::Local => None,
        }
    }

    /// Returns the shell that runs the commands of the step.
    pub fn shell_program(&self) -> &str {
        match &self.action {
            StepAction::Shell { program, .. } => program,
            StepAction::Agent { .. } | StepAction::WriteFile { .. } | StepAction::Foreach(_) => {
                "sh"
            }
        }
    }
}

/// The action of a step.
#[derive(Clone, Debug, PartialEq)]
pub enum StepAction {
    /// Run a shell command.
    Shell {
        /// The command.
        script: Script,
        /// The shell: `sh`, `bash`, or a path.
        program: String,
    },
    /// Give a prompt to an agent.
    Agent {
        /// The agent's name in `agents`.
        agent: String,
        /// The prompt.
        prompt: Template,
        /// The agent's options for this step.
        options: Box<AgentOptions>,
    },
    /// Write a file in the worktree.
    WriteFile {
        /// Its path, relative to the worktree.
        path: Template,
        /// Its content.
        content: Template,
        /// The format that the content must have.
        format: FileFormat,
        /// Its permissions, e.g. `0o644`.
        mode: Option<u32>,
        /// Set if missing directories are created.
        create_dirs: bool,
    },
    /// Run steps for each of some values.
    Foreach(Foreach),
}

/// The format of a written file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileFormat {
    /// Anything.
    Text,
    /// A JSON document; it is written with two spaces of indentation.
    Json,
    /// A YAML document.
    Yaml,
}

/// Steps for each of some values.
#[derive(Clone, Debug, PartialEq)]
pub struct Foreach {
    /// The values.
    pub input: ForeachInput,
    /// The maximum number of values processed at the same time.
    pub parallel: NonZeroU32,
    /// The steps; they see `${item}`, `${index}` (from 1) and `${total}`.
    pub steps: Vec<Step>,
    /// Set if the other values are still processed when one fails.
    pub continue_on_error: bool,
    /// The most values taken.
    pub max_items: Option<usize>,
}

/// Where the values of a loop come from.
#[derive(Clone, Debug, PartialEq)]
pub enum ForeachInput {
    /// They stand in the file. Text is a template.
    Values(Vec<ForeachValue>),
    /// Each non-empty line that a command prints.
    Command(Script),
}

/// One value of a loop.
#[derive(Clone, Debug, PartialEq)]
pub enum ForeachValue {
    /// Text.
    Text(Template),
    /// Anything else.
    Value(serde_json::Value),
}

/// A variable made of a step's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capture {
    /// Its name.
    pub name: String,
    /// The format in which the output is read.
    pub format: CaptureFormat,
    /// Which output.
    pub stream: CaptureStream,
}

/// A judge that says whether a step is done.
#[derive(Clone, Debug, PartialEq)]
pub struct Validate {
    /// The steps of the judge.
    pub steps: Vec<Step>,
    /// Where the judge leaves its result, relative to the worktree; without it, its output.
    pub result_file: Option<Template>,
    /// The percentage that counts as done.
    pub threshold: f64,
    /// The steps to run when it is not done, before each new judgement.
    pub on_incomplete: Vec<Step>,
    /// The maximum number of times that `on_incomplete` runs.
    pub max_attempts: NonZeroU32,
    /// Set if the step fails when it is still not done.
    pub fail_workflow: bool,
}

/// The rest of a MapReduce workflow.
#[derive(Clone, Debug, PartialEq)]
pub struct MapReduce {
    /// Runs once, first.
    pub setup: Option<Setup>,
    /// Runs for each item.
    pub map: Map,
    /// Runs once, when every item is final.
    pub reduce: Option<Phase>,
    /// The policy for failed items.
    pub error_policy: ErrorPolicy,
}

/// The setup phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Its steps and time limit.
    pub phase: Phase,
    /// Variables made of the output of its steps.
    pub captures: Vec<SetupCapture>,
}

/// A variable made of the output of a setup step.
#[derive(Clone, Debug, PartialEq)]
pub struct SetupCapture {
    /// Its name, as in `${setup.NAME}` and `${NAME}`.
    pub name: String,
    /// Which step, from 0.
    pub command_index: usize,
    /// The format in which the output is read.
    pub format: CaptureFormat,
    /// The part of a JSON output that is wanted.
    pub json_path: Option<JsonPath>,
    /// A regular expression whose first group (or whole match) is wanted.
    pub pattern: Option<String>,
    /// Used when there is nothing to capture.
    pub default: Option<serde_json::Value>,
}

/// The map phase.
#[derive(Clone, Debug, PartialEq)]
pub struct Map {
    /// Where the items come from.
    pub input: MapInput,
    /// Which part of a JSON input holds the items (RFC 9535).
    pub json_path: Option<JsonPath>,
    /// The steps for each item.
    pub steps: Vec<Step>,
    /// The maximum number of items in flight.
    pub max_parallel: NonZeroU32,
    /// Which items.
    pub filter: Option<Expr>,
    /// In which order.
    pub sort_by: Option<SortBy>,
    /// Only the first item for each value of this.
    pub distinct: Option<Expr>,
    /// The number of items to skip.
    pub offset: usize,
    /// The maximum number of items.
    pub max_items: Option<usize>,
    /// The longest one attempt may take.
    pub agent_timeout: Option<Duration>,
    /// A stable id for each item.
    pub item_key: Option<Expr>,
    /// The isolation of items: a worktree for each, or one that they share.
    pub isolation: Isolation,
    /// The steps and files that a new worktree needs.
    pub worktree: WorktreeConfig,
    /// The definition of the item's result.
    pub result: ResultConfig,
    /// The policy for an item whose commits conflict with what was merged meanwhile.
    pub on_conflict: OnConflict,
    /// The way to deal with what a successful item leaves uncommitted.
    pub leftovers: Leftovers,
}

/// The way to deal with what is left uncommitted at the end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Leftovers {
    /// Kept as a reference and a patch.
    #[default]
    Keep,
    /// Committed, unless it is too much.
    Commit,
    /// Thrown away.
    Discard,
}

/// Where items come from.
#[derive(Clone, Debug, PartialEq)]
pub enum MapInput {
    /// A string: a file if it exists or looks like a path, else a command.
    Guess(Template),
    /// A file.
    File(Template),
    /// A command's output.
    Command(Script),
    /// File names.
    Glob(Template),
    /// They stand in the workflow.
    Items(Vec<serde_json::Value>),
}

/// The isolation of items from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Isolation {
    /// Each item has its own worktree.
    Worktree,
    /// All items share the job's worktree.
    Shared,
}

/// The steps and files that a new worktree needs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct WorktreeConfig {
    /// Steps run once in each new worktree.
    pub setup: Vec<Step>,
    /// A file with patterns of ignored files to copy.
    pub include: Option<String>,
    /// Paths to copy from the user's checkout.
    pub copy: Vec<String>,
    /// Paths to link to the user's checkout.
    pub link: Vec<String>,
}

/// The definition of an item's result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultConfig {
    /// A file the item leaves.
    pub file: Option<String>,
    /// The part of it that is wanted.
    pub json_path: Option<JsonPath>,
    /// The JSON Schema that it must satisfy.
    pub schema: Option<OutputSchema>,
}

/// The policy for failed items.
#[derive(Clone, Debug, PartialEq)]
pub struct ErrorPolicy {
    /// The action for an item whose attempts are used up.
    pub on_item_failure: OnItemFailure,
    /// The steps of `custom:NAME`.
    pub handlers: BTreeMap<String, Vec<Step>>,
    /// Set if the job continues after a failed item.
    pub continue_on_failure: bool,
    /// Stops the job at this many failures.
    pub max_failures: Option<NonZeroU32>,
    /// Stops the job at this share of failures.
    pub failure_threshold: Option<f64>,
    /// Stops the job at this many failures of one kind in a row.
    pub systemic_stop: Option<NonZeroU32>,
    /// The number of items that must have finished before `failure_threshold` applies.
    pub min_items: u32,
    /// When failures are reported.
    pub error_collection: ErrorCollection,
    /// Holds items back while everything fails.
    pub circuit_breaker: Option<BreakerConfig>,
    /// The retry policy of items.
    pub retry: Option<RetryPolicy>,
    /// Which worktrees are kept.
    pub preserve_worktrees: Preserve,
}

/// The action for an item whose attempts are used up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OnItemFailure {
    /// Into the dead letter queue.
    Dlq,
    /// Tried again, then into the dead letter queue.
    Retry,
    /// Dropped.
    Skip,
    /// The job stops.
    Stop,
    /// The named handler runs.
    Custom(String),
}

/// When failures are reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorCollection {
    /// At the end.
    Aggregate,
    /// As they happen.
    Immediate,
    /// Some at a time.
    Batched {
        /// The number of failures in a batch.
        size: NonZeroU32,
    },
}

/// The `circuit_breaker` key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerConfig {
    /// Consecutive failures that open the circuit.
    pub failure_threshold: NonZeroU32,
    /// Successes that close it again.
    pub success_threshold: NonZeroU32,
    /// The time that it stays open.
    pub timeout: Duration,
    /// The maximum number of probes while it is half open.
    pub half_open_requests: NonZeroU32,
}

/// Which worktrees are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preserve {
    /// Those of failed items.
    Failed,
    /// All.
    Always,
    /// None.
    Never,
}

/// Returns the backoff used when a retry names none.
pub fn default_backoff() -> Backoff {
    Backoff::Exponential { initial: Duration::from_secs(1), multiplier: 2.0 }
}
