//! `prodigy audit show`.

use std::{collections::VecDeque, num::NonZeroUsize};

use prodigy_core::{
    Timestamp,
    audit::{AuditAction, AuditRecord},
    ids::{ItemId, JobId},
};
use prodigy_engine::store::audit;

use super::audit_error;
use crate::{
    cli::Cli,
    commands::{
        dlq::{JsonListWriter, TextTable},
        jobs::events::parse_since,
        lookup::visible_layouts,
    },
    error::{CliError, error_chain},
    exit::Exit,
    progress::plural,
    render::console::Console,
};

/// Show what was done to dead letters, the newest last
///
/// The names of people are `asserted` by git or the operating system, or `signed` by a key
/// that was checked. The records themselves are not checked here; `prodigy audit verify` does.
///
/// Exit codes: 1 if there are records that cannot be read.
#[derive(clap::Args, Debug)]
pub(crate) struct AuditShowArgs {
    /// Show only what was done to dead letters of this job
    #[arg(long)]
    job: Option<JobId>,

    /// Show only what was done to this item, by id or by key
    #[arg(long, value_name = "ID")]
    item: Option<String>,

    /// Show only this action (can be repeated)
    #[arg(long = "action", value_name = "ACTION", value_delimiter = ',')]
    actions: Vec<String>,

    /// Show only what was recorded since a time, or in the last while, e.g. `2h`
    #[arg(long, value_name = "TIME")]
    since: Option<String>,

    /// Show only the last N of them
    #[arg(long, value_name = "N")]
    limit: Option<NonZeroUsize>,

    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Which records are asked for.
struct AuditFilter {
    job: Option<JobId>,
    item: Option<(String, ItemId)>,
    actions: Vec<AuditAction>,
    since: Option<Timestamp>,
}

/// Where the records go.
enum AuditListPrinter {
    Table(TextTable),
    Document(JsonListWriter),
}

pub(super) fn run(
    args: &Cli,
    command: &AuditShowArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let wanted = command.to_filter()?;
    let mut shown = if command.json {
        AuditListPrinter::Document(JsonListWriter::begin("records", out)?)
    } else {
        AuditListPrinter::Table(table())
    };
    let (mut rows, mut left_out) = (0_u64, UnreadableRecords::default());
    for layout in visible_layouts(args)? {
        let mut last = VecDeque::new();
        for record in audit::read_trail(&layout).map_err(audit_error)? {
            let Some(record) = left_out.accept_readable(record)? else { continue };
            if !wanted.matches(&record) {
                continue;
            }
            rows += 1;
            let Some(limit) = command.limit else {
                shown.push(&record, out)?;
                continue;
            };
            last.push_back(record);
            if last.len() > limit.get() {
                last.pop_front();
            }
        }
        last.iter().try_for_each(|record| shown.push(record, out))?;
    }
    shown.end(out)?;
    out.flush()?;
    if rows == 0 && !command.json {
        out.note(if wanted.is_unfiltered() {
            "nothing is recorded yet"
        } else {
            "no record matches"
        });
    }
    Ok(left_out.print_warning(out))
}

/// The lines that cannot be read.
#[derive(Default)]
struct UnreadableRecords {
    count: u64,
    /// The reason that the first of them cannot be read.
    first: Option<String>,
}

impl UnreadableRecords {
    /// Passes on a record that can be read.
    fn accept_readable(
        &mut self,
        record: Result<AuditRecord, audit::Error>,
    ) -> Result<Option<AuditRecord>, CliError> {
        match record {
            Ok(record) => Ok(Some(record)),
            Err(error @ audit::Error::Unreadable { .. }) => {
                self.count += 1;
                self.first.get_or_insert_with(|| error_chain(&error));
                Ok(None)
            }
            Err(error) => Err(audit_error(error)),
        }
    }

    /// Says what was left out.
    fn print_warning(self, out: &mut Console) -> Exit {
        let Some(first) = self.first else { return Exit::Success };
        out.note(format_args!("warning: {first}"));
        let lines = plural(self.count, "line");
        out.note(format_args!("{lines} left out; `prodigy audit verify` looks closer"));
        Exit::Failure
    }
}

impl AuditShowArgs {
    fn to_filter(&self) -> Result<AuditFilter, CliError> {
        Ok(AuditFilter {
            job: self.job.clone(),
            item: self.item.as_ref().map(|item| (item.clone(), ItemId::from_key(item))),
            actions: self
                .actions
                .iter()
                .map(|name| parse_action(name))
                .collect::<Result<_, _>>()?,
            since: self.since.as_deref().map(parse_since).transpose()?,
        })
    }
}

/// Returns the action of a name.
fn parse_action(name: &str) -> Result<AuditAction, CliError> {
    let found = AuditAction::ALL.iter().copied().find(|action| action.name() == name);
    found.ok_or_else(|| {
        let names: Vec<_> = AuditAction::ALL.iter().map(|action| action.name()).collect();
        CliError::new(Exit::Usage, format!("there is no action `{name}`"))
            .with_hint(format!("the actions are {}", names.join(", ")))
    })
}

impl AuditFilter {
    fn is_unfiltered(&self) -> bool {
        self.job.is_none() && self.item.is_none() && self.actions.is_empty() && self.since.is_none()
    }

    fn matches(&self, record: &AuditRecord) -> bool {
        let said = &record.said;
        self.job.as_ref().is_none_or(|job| *job == said.job)
            && self
                .item
                .as_ref()
                .is_none_or(|(id, of_key)| said.entry == *id || said.entry == of_key.as_str())
            && (self.actions.is_empty() || self.actions.contains(&said.action))
            && self.since.is_none_or(|since| record.ts >= since)
    }
}

impl AuditListPrinter {
    fn push(&mut self, record: &AuditRecord, out: &mut Console) -> Result<(), CliError> {
        match self {
            Self::Table(table) => table.row(&cells(record), out),
            Self::Document(list) => {
                list.push(&serde_json::to_value(record).unwrap_or_default(), out)
            }
        }
    }

    fn end(self, out: &mut Console) -> Result<(), CliError> {
        match self {
            Self::Table(mut table) => table.write(out),
            Self::Document(list) => list.end(&[], out),
        }
    }
}

fn table() -> TextTable {
    let head = ["NO", "TIME", "ACTOR", "IDENTITY", "ACTION", "OUTCOME", "JOB", "ITEM", "WHY"];
    TextTable::new(&head, &["JOB", "IDENTITY", "NO"], 0)
}

fn cells(record: &AuditRecord) -> Vec<String> {
    let said = &record.said;
    let entry = match said.entries {
        Some(entries) if said.entry.is_empty() => plural(entries, "item"),
        Some(_) | None => said.entry.clone(),
    };
    let decided = said.decision.as_ref().map(|decision| match &said.rule {
        Some(rule) => format!("{decision} by {rule}"),
        None => decision.clone(),
    });
    let why = [decided, said.reason.clone()];
    vec![
        record.seq.to_string(),
        record.ts.strftime("%Y-%m-%d %H:%M:%S").to_string(),
        said.actor.clone(),
        said.identity.to_string(),
        said.action.to_string(),
        said.outcome.to_string(),
        said.job.to_string(),
        entry,
        why.into_iter().flatten().collect::<Vec<_>>().join(": "),
    ]
}
