//! Which dead letters are meant: what every command that takes several of them shares.

use std::{fmt::Display, num::NonZeroUsize};

use prodigy_core::{
    Timestamp,
    dlq::{DeadLetteredItem, EntryStatus},
    expr::{Expr, ExprContext},
    failure::{ReasonClass, ReasonCode},
    ids::{ItemId, JobId},
    vars::Vars,
};
use prodigy_engine::store::dlq::{DeadLetterStore, DeadLetterSummary};
use serde_json::{Value, value::RawValue};

use super::{labels::class_name, queue_error};
use crate::{commands::jobs::events::parse_since, error::CliError, exit::Exit};

/// The names that an expression may use without the entry being opened.
const HEADING: &[&str] = &[
    "item_id",
    "status",
    "reason_code",
    "class",
    "error_signature",
    "error_pattern",
    "attempts",
    "replays",
    "last_attempt",
    "reprocess_eligible",
    "manual_review_required",
];

/// The other names that an expression may use.
const ENTRY: &[&str] = &[
    "item",
    "item_data",
    "job_id",
    "topic",
    "replay_status",
    "cause_code",
    "reason",
    "first_attempt",
    "failure_count",
    "failure_history",
    "worktree_artifacts",
    "commit_state",
    "effects",
    "not_before",
    "owner",
    "closed",
    "correlation_id",
    "idempotency_key",
    "input_hash",
    "workflow_hash",
    "policy_snapshot",
    "schema_version",
    "revision",
    "journal_seq",
    "record_hash",
];

/// The flags that choose dead letters.
#[derive(clap::Args, Debug)]
pub(crate) struct EntryFilterArgs {
    /// Take only entries for which this is true
    ///
    /// The expression is one as in `filter` of a workflow. It may use the fields of the
    /// entry and, below `item`, the data of the item: `item.priority >= 5 && attempts > 2`.
    #[arg(long, value_name = "EXPR")]
    filter: Option<String>,

    /// Take only entries that failed with this reason code (can be repeated)
    #[arg(long = "reason", value_name = "CODE", value_delimiter = ',')]
    reasons: Vec<String>,

    /// Take only entries whose reason is of this class (can be repeated)
    #[arg(long = "class", value_name = "CLASS", value_delimiter = ',')]
    classes: Vec<String>,

    /// Take only entries of this cause, by the first digits of its signature (can be repeated)
    #[arg(long = "signature", value_name = "HEX", value_delimiter = ',')]
    signatures: Vec<String>,

    /// Take only entries that failed last since a time, or in the last while, e.g. `2h`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Take only the newest N of them
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<NonZeroUsize>,
}

impl EntryFilterArgs {
    /// Chooses by an expression, by causes and by number.
    pub(crate) fn of(
        filter: Option<String>,
        signatures: Vec<String>,
        limit: Option<NonZeroUsize>,
    ) -> Self {
        let (reasons, classes) = (Vec::new(), Vec::new());
        Self { filter, reasons, classes, signatures, since: None, limit }
    }

    /// Makes sense of the flags.
    pub(crate) fn to_filter(&self) -> Result<EntryFilter, CliError> {
        let signatures = self.signatures.iter().map(|text| parse_signature(text));
        Ok(EntryFilter {
            filter: self.filter.as_deref().map(EntryExpression::read).transpose()?,
            reasons: self
                .reasons
                .iter()
                .map(|code| parse_reason(code))
                .collect::<Result<_, _>>()?,
            classes: self.classes.iter().map(|name| parse_class(name)).collect::<Result<_, _>>()?,
            signatures: signatures.collect::<Result<_, _>>()?,
            since: self.since.as_deref().map(parse_since).transpose()?,
            limit: self.limit.map(NonZeroUsize::get),
        })
    }
}

/// Which entries are meant.
#[derive(Debug)]
pub(crate) struct EntryFilter {
    filter: Option<EntryExpression>,
    reasons: Vec<ReasonCode>,
    classes: Vec<ReasonClass>,
    signatures: Vec<String>,
    since: Option<Timestamp>,
    /// The most entries to select.
    pub(crate) limit: Option<usize>,
}

impl EntryFilter {
    /// Returns whether any entry will do, as far as the flags go.
    pub(crate) fn is_unfiltered(&self) -> bool {
        self.filter.is_none()
            && self.reasons.is_empty()
            && self.classes.is_empty()
            && self.signatures.is_empty()
            && self.since.is_none()
    }

    /// Returns the entries of a job that are meant, the newest first; with items, only those
    /// of them, in their order.
    ///
    /// Entries are read one by one, and opened only if the filter asks for what their
    /// headings do not say. The limit is left to the caller, who may have several jobs. One
    /// entry that cannot be read is an error in its place; the others follow.
    pub(crate) fn select<'a>(
        &'a self,
        queue: &'a DeadLetterStore,
        items: &'a [ItemId],
        statuses: &'a [EntryStatus],
    ) -> impl Iterator<Item = Result<DeadLetterSummary, CliError>> + 'a {
        let headings: Box<dyn Iterator<Item = Result<DeadLetterSummary, CliError>> + 'a> =
            if items.is_empty() {
                Box::new(queue.summaries().map(|heading| heading.map_err(queue_error)))
            } else {
                Box::new(items.iter().filter_map(|item| {
                    let entry = queue.entry(item).map_err(queue_error).transpose()?;
                    Some(entry.map(|entry| DeadLetterSummary::from(&entry)))
                }))
            };
        headings.filter_map(move |heading| match heading {
            Ok(heading) => match self.matches(queue, &heading, statuses) {
                Ok(true) => Some(Ok(heading)),
                Ok(false) => None,
                Err(error) => Some(Err(error)),
            },
            Err(error) => Some(Err(error)),
        })
    }

    fn matches(
        &self,
        queue: &DeadLetterStore,
        heading: &DeadLetterSummary,
        statuses: &[EntryStatus],
    ) -> Result<bool, CliError> {
        let is_one_of = |signature: &String| heading.error_signature.starts_with(signature);
        let matches = statuses.contains(&heading.status)
            && (self.reasons.is_empty() || self.reasons.contains(&heading.reason_code))
            && (self.classes.is_empty() || self.classes.contains(&heading.class))
            && (self.signatures.is_empty() || self.signatures.iter().any(is_one_of))
            && self.since.is_none_or(|since| heading.last_attempt >= since);
        match &self.filter {
            Some(filter) if matches => filter.evaluate(queue, heading),
            Some(_) | None => Ok(matches),
        }
    }
}

/// An expression over entries.
#[derive(Debug)]
struct EntryExpression {
    expression: Expr,
    /// It asks for more than a heading says.
    opens: bool,
}

impl EntryExpression {
    fn read(source: &str) -> Result<Self, CliError> {
        let expression = Expr::parse(source, ExprContext::When).map_err(|fault| {
            let place = fault.range.start + 1;
            let message = format!("`--filter` at character {place}: {}", fault.message);
            let error = CliError::new(Exit::Usage, message);
            match fault.help {
                Some(help) => error.with_hint(help),
                None => error,
            }
        })?;
        let mut opens = false;
        for (path, _) in expression.references() {
            let root = path.root.as_str();
            if !HEADING.contains(&root) && !ENTRY.contains(&root) {
                let message = format!("an entry has no field `{root}`");
                return Err(CliError::new(Exit::Usage, message).with_hint(format!(
                    "write `item.{root}` for the item's data; the entry's fields are {}",
                    list(HEADING.iter().chain(ENTRY.iter().skip(1)))
                )));
            }
            opens |= ENTRY.contains(&root);
        }
        Ok(Self { expression, opens })
    }

    fn evaluate(
        &self,
        queue: &DeadLetterStore,
        heading: &DeadLetterSummary,
    ) -> Result<bool, CliError> {
        if !self.opens {
            return Ok(self.expression.is_true(&summary_variables(heading)));
        }
        let entry = queue.entry(&heading.item_id).map_err(queue_error)?;
        Ok(entry.is_some_and(|entry| self.expression.is_true(&entry_variables(entry))))
    }
}

/// Returns what a heading says as variables.
fn summary_variables(heading: &DeadLetterSummary) -> Vars {
    variables_from(serde_json::to_value(heading).unwrap_or_default())
}

/// Returns an entry's fields as variables, and the item as `item`.
///
/// An item that holds what no value can, such as half a character, counts as `null`.
fn entry_variables(mut entry: DeadLetteredItem) -> Vars {
    let item: Value = serde_json::from_str(entry.item_data.get()).unwrap_or_default();
    entry.item_data = RawValue::NULL.to_owned();
    // The rest of an entry is plain.
    let mut vars = variables_from(serde_json::to_value(entry).unwrap_or_default());
    vars.set("item_data", item.clone());
    vars.set("item", item);
    vars
}

fn variables_from(value: Value) -> Vars {
    let mut vars = Vars::default();
    if let Value::Object(fields) = value {
        for (name, value) in fields {
            vars.set(name, value);
        }
    }
    vars
}

/// Returns the items that are meant by ids or keys; each has to have an entry.
pub(crate) fn resolve_items(
    queue: &DeadLetterStore,
    job: &JobId,
    items: &[String],
) -> Result<Vec<ItemId>, CliError> {
    items.iter().map(|item| Ok(require_entry(queue, job, item)?.item_id)).collect()
}

/// Returns the entry of an item that is meant by its id or its key.
pub(crate) fn require_entry(
    queue: &DeadLetterStore,
    job: &JobId,
    named: &str,
) -> Result<DeadLetteredItem, CliError> {
    let by_id = named.parse().ok();
    for item in by_id.into_iter().chain([ItemId::from_key(named)]) {
        if let Some(entry) = queue.entry(&item).map_err(queue_error)? {
            return Ok(entry);
        }
    }
    Err(entry_not_found(job, named))
}

/// Says that an item has no entry.
pub(crate) fn entry_not_found(job: &JobId, named: &str) -> CliError {
    CliError::new(Exit::Usage, format!("job `{job}` has no dead letter of item `{named}`"))
        .with_hint(format!("`prodigy dlq list {job} --all` lists those it has"))
}

fn parse_reason(code: &str) -> Result<ReasonCode, CliError> {
    ReasonCode::ALL.iter().copied().find(|kind| kind.code() == code).ok_or_else(|| {
        CliError::new(Exit::Usage, format!("there is no reason code `{code}`"))
            .with_hint(format!("the codes are {}", list(ReasonCode::ALL)))
    })
}

fn parse_class(name: &str) -> Result<ReasonClass, CliError> {
    serde_json::from_value(Value::String(name.to_owned())).map_err(|_| {
        let mut classes: Vec<_> = ReasonCode::ALL.iter().map(|kind| kind.class()).collect();
        classes.dedup();
        CliError::new(Exit::Usage, format!("there is no class `{name}`"))
            .with_hint(format!("the classes are {}", list(classes.into_iter().map(class_name))))
    })
}

fn parse_signature(text: &str) -> Result<String, CliError> {
    let text = text.to_ascii_lowercase();
    if !text.is_empty() && text.len() <= 16 && text.chars().all(|c| c.is_ascii_hexdigit()) {
        return Ok(text);
    }
    Err(CliError::new(Exit::Usage, format!("`{text}` is not a signature"))
        .with_hint("a signature has up to 16 hexadecimal digits; `prodigy dlq analyze` lists them"))
}

fn list(words: impl IntoIterator<Item = impl Display>) -> String {
    words.into_iter().map(|word| word.to_string()).collect::<Vec<_>>().join(", ")
}
