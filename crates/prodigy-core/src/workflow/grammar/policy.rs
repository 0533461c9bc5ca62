//! Trying again, and what to do about items that fail.

use super::{
    shape::{Choice, KeyNames, KeyShape, LARGEST, RecordShape, Shape, TaggedShape},
    step::STEPS,
};
use crate::failure::ReasonCode;

const GROWTHS: &[&str] = &["fixed", "linear", "exponential", "fibonacci"];

const COUNT: Shape = Shape::Integer { min: 1, max: LARGEST };

static JITTER: KeyShape = KeyShape::new(
    "jitter",
    Shape::Bool,
    "Varies each wait at random between half and the whole of it.",
)
.or("`false`");
static MAX_DELAY: KeyShape =
    KeyShape::new("max_delay", Shape::Duration, "The longest wait.").or("no limit");
static RETRY_ON: KeyShape = KeyShape::new(
    "retry_on",
    Shape::List(&Shape::Word(ReasonCode::CODES)),
    "The failures worth another try, by their [codes](failure-codes.md).",
)
.or("all");

/// The retry policy of a step.
pub static RETRY: RecordShape = RecordShape {
    name: "retry",
    title: "`retry`",
    doc: "How a step is tried again.",
    groups: &[
        &[
            KeyShape::new("attempts", COUNT, "How often the step is tried in all.").or("3"),
            KeyShape::new(
                "backoff",
                Shape::OneOf(&[Shape::Word(GROWTHS), Shape::Tagged(&BACKOFF)]),
                "How the wait grows.",
            )
            .or("`exponential`"),
            KeyShape::new(
                "initial_delay",
                Shape::Duration,
                "The first wait, if `backoff` is only a word.",
            )
            .or("`1s`"),
        ],
        std::slice::from_ref(&MAX_DELAY),
        std::slice::from_ref(&JITTER),
        std::slice::from_ref(&RETRY_ON),
    ],
    choice: None,
    rule: None,
};

/// The retry policy of an item.
pub static RETRY_CONFIG: RecordShape = RecordShape {
    name: "retry_config",
    title: "`retry_config`",
    doc: "How an item is tried again before it counts as failed.",
    groups: &[
        &[
            KeyShape::new("max_attempts", COUNT, "How often an item is tried in all.").or("3"),
            KeyShape::new("backoff", Shape::Tagged(&BACKOFF), "How long to wait in between.")
                .or("`{type: exponential, initial: 1s}`"),
        ],
        std::slice::from_ref(&MAX_DELAY),
        std::slice::from_ref(&JITTER),
        std::slice::from_ref(&RETRY_ON),
    ],
    choice: None,
    rule: None,
};

/// The growth of the waits between attempts.
pub static BACKOFF: TaggedShape = TaggedShape {
    name: "backoff",
    tag: "type",
    variants: &[
        ("fixed", &BACKOFF_FIXED),
        ("linear", &BACKOFF_LINEAR),
        ("exponential", &BACKOFF_EXPONENTIAL),
        ("fibonacci", &BACKOFF_FIBONACCI),
    ],
};

static INITIAL: KeyShape =
    KeyShape::new("initial", Shape::Duration, "The part of the wait that the growth starts from.")
        .or("`1s`");

const fn kind(word: &'static [&'static str]) -> KeyShape {
    KeyShape::new("type", Shape::Word(word), "How the wait grows.").require()
}

static BACKOFF_FIXED: RecordShape = RecordShape {
    name: "backoff_fixed",
    title: "`backoff` of type `fixed`",
    doc: "The same wait every time.",
    groups: &[&[kind(&["fixed"]), KeyShape::new("delay", Shape::Duration, "The wait.").or("`1s`")]],
    choice: None,
    rule: None,
};

static BACKOFF_LINEAR: RecordShape = RecordShape {
    name: "backoff_linear",
    title: "`backoff` of type `linear`",
    doc: "Retry n waits `initial` + n × `increment`.",
    groups: &[
        &[
            kind(&["linear"]),
            KeyShape::new("increment", Shape::Duration, "The part of the wait that grows.")
                .or("`initial`"),
        ],
        std::slice::from_ref(&INITIAL),
    ],
    choice: None,
    rule: None,
};

static BACKOFF_EXPONENTIAL: RecordShape = RecordShape {
    name: "backoff_exponential",
    title: "`backoff` of type `exponential`",
    doc: "Retry n waits `initial` × `multiplier`^(n-1).",
    groups: &[
        &[
            kind(&["exponential"]),
            KeyShape::new(
                "multiplier",
                Shape::Number { min: 1.0, max: 1000.0 },
                "The growth per retry.",
            )
            .or("2"),
        ],
        std::slice::from_ref(&INITIAL),
    ],
    choice: None,
    rule: None,
};

static BACKOFF_FIBONACCI: RecordShape = RecordShape {
    name: "backoff_fibonacci",
    title: "`backoff` of type `fibonacci`",
    doc: "Retry n waits `initial` × fib(n): 1, 1, 2, 3, 5.",
    groups: &[&[kind(&["fibonacci"])], std::slice::from_ref(&INITIAL)],
    choice: None,
    rule: None,
};

/// The policy for failed items.
pub static ERROR_POLICY: RecordShape = RecordShape {
    name: "error_policy",
    title: "`error_policy`",
    doc: "What to do when items fail.",
    groups: &[
        POLICY,
        &[
            KeyShape::new(
                "handlers",
                Shape::Table { names: KeyNames::Free, value: &STEPS },
                "The steps of `on_item_failure: custom:NAME`.",
            ),
            KeyShape::new(
                "min_items",
                Shape::Integer { min: 0, max: LARGEST },
                "How many items must have finished before `failure_threshold` is judged.",
            )
            .or("10"),
            KeyShape::new(
                "preserve_worktrees",
                Shape::Word(&["failed", "always", "never"]),
                "Which worktrees are kept for a look.",
            )
            .or("`failed`"),
            KeyShape::new(
                "systemic_stop",
                Shape::Integer { min: 2, max: LARGEST },
                "Stops the job at this many failed items in a row with the same error signature.",
            )
            .or("off"),
        ],
    ],
    choice: None,
    rule: None,
};

/// The keys that may also stand at the top of a MapReduce workflow.
pub(super) static POLICY: &[KeyShape] = &[
    KeyShape::new(
        "on_item_failure",
        Shape::WordOr { words: &["dlq", "retry", "skip", "stop"], prefix: "", rest: "HANDLER" },
        "What becomes of an item whose attempts are used up. `custom:NAME` or just the name runs that handler of `error_policy.handlers`.",
    )
    .or("`dlq`"),
    KeyShape::new("continue_on_failure", Shape::Bool, "Goes on with other items after a failure.")
        .or("`true`"),
    KeyShape::new("max_failures", COUNT, "Stops the job at this many failed items.").or("no limit"),
    KeyShape::new(
        "failure_threshold",
        Shape::Number { min: 0.0, max: 1.0 },
        "Stops the job at this share of failed items.",
    )
    .or("no limit"),
    KeyShape::new(
        "error_collection",
        Shape::OneOf(&[
            Shape::WordOr {
                words: &["aggregate", "immediate", "batched"],
                prefix: "batched:",
                rest: "N",
            },
            Shape::Record(&BATCHED),
        ]),
        "When failures are reported: at the end, as they happen, or some at a time.",
    )
    .or("`aggregate`"),
    KeyShape::new(
        "circuit_breaker",
        Shape::Record(&CIRCUIT_BREAKER),
        "Holds items back while everything fails.",
    ),
    KeyShape::new(
        "retry_config",
        Shape::Record(&RETRY_CONFIG),
        "How items are tried again before they count as failed.",
    ),
];

static BATCHED: RecordShape = RecordShape {
    name: "error_collection",
    title: "`error_collection`",
    doc: "Failures reported some at a time.",
    groups: &[&[
        KeyShape::new("batched", Shape::Record(&BATCH), "Says how many at a time.").require()
    ]],
    choice: None,
    rule: None,
};

static BATCH: RecordShape = RecordShape {
    name: "batched",
    title: "`batched`",
    doc: "How many failures are reported at a time.",
    groups: &[&[KeyShape::new("size", COUNT, "How many.").require()]],
    choice: None,
    rule: None,
};

/// Holds items back while everything fails.
pub static CIRCUIT_BREAKER: RecordShape = RecordShape {
    name: "circuit_breaker",
    title: "`circuit_breaker`",
    doc: "Holds items back while everything fails; they wait and are not lost.",
    groups: &[&[
        KeyShape::new("failure_threshold", COUNT, "How many failures in a row open the circuit.")
            .or("5"),
        KeyShape::new(
            "success_threshold",
            COUNT,
            "How many successes close it again; at most `half_open_requests`.",
        )
        .or("2, or `half_open_requests` if that is fewer"),
        KeyShape::new(
            "timeout",
            Shape::Duration,
            "How long it stays open before probes are let through.",
        )
        .or("`30s`"),
        KeyShape::new(
            "half_open_requests",
            COUNT,
            "How many probes are let through before it closes or opens again; one that ends without a verdict does not count.",
        )
        .or("3"),
    ]],
    choice: None,
    rule: None,
};

/// Limits of what a job may cost.
pub static BUDGET: RecordShape = RecordShape {
    name: "budget",
    title: "`budget`",
    doc: "Limits of what a job may cost.",
    groups: &[&[
        KeyShape::new("item_usd", USD, "The most one item may cost.").or("no limit"),
        KeyShape::new("job_usd", USD, "The most the job may cost.").or("no limit"),
        KeyShape::new("day_usd", USD, "The most all jobs of a day may cost.").or("no limit"),
        KeyShape::new("on_exceeded", Shape::Word(&["pause", "stop"]), "What happens at the limit.")
            .or("`pause`"),
        KeyShape::new(
            "on_unknown",
            Shape::Word(&["ignore", "stop"]),
            "The consequence of an agent whose cost is unknown: a warning, or no further agent starts.",
        )
        .or("`ignore`"),
    ]],
    choice: Some(Choice {
        what: "limit",
        alternatives: &[&["item_usd", "job_usd", "day_usd"]],
        required: true,
    }),
    rule: None,
};

const USD: Shape = Shape::Number { min: 0.0, max: f64::MAX };

/// The policy for an agent's usage limit.
pub static QUOTA: RecordShape = RecordShape {
    name: "quota",
    title: "`quota`",
    doc: "What to do at the usage limit of an agent.",
    groups: &[&[
        KeyShape::new(
            "on_limit",
            Shape::Word(&["wait", "stop"]),
            "Waits for the limit to be reset, or stops.",
        )
        .or("`wait`"),
        KeyShape::new("max_wait", Shape::Duration, "The longest wait.").or("8d"),
        KeyShape::new(
            "throttle_at",
            Shape::Number { min: 0.0, max: 1.0 },
            "Starts fewer items from this share of the limit on.",
        )
        .or("off"),
        KeyShape::new(
            "max_restarts",
            Shape::Integer { min: 0, max: LARGEST },
            "How often a limit may cut an item or a step off without a further finished step.",
        )
        .or("5"),
    ]],
    choice: None,
    rule: None,
};
