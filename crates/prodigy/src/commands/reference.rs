//! `prodigy schema`, `man`, `completions`, and the pages of `docs/reference`.

use std::path::{Path, PathBuf};

use clap::CommandFactory as _;
use prodigy_core::{reference_docs, replay, workflow::grammar};

use super::workflow::flags;
use crate::{
    cli::Cli,
    error::CliError,
    exit::{self, Exit},
    render::console::Console,
};

/// The width of the help texts, whatever the terminal of the person who makes the page.
const WIDTH: usize = 100;

/// Print a page of the reference
#[derive(clap::Args, Debug)]
pub(crate) struct ReferenceArgs {
    /// Which page
    page: ReferencePage,
}

/// A generated page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum ReferencePage {
    Audit,
    Checkpoint,
    Cli,
    DeadLetters,
    Events,
    ExitCodes,
    FailureCodes,
    Faults,
    Flags,
    Policy,
    Workflow,
}

pub(super) fn run(
    _args: &Cli,
    command: &ReferenceArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let page = match command.page {
        ReferencePage::Audit => reference_docs::audit_markdown(),
        ReferencePage::Checkpoint => reference_docs::checkpoint_markdown(),
        ReferencePage::Cli => cli_page(),
        ReferencePage::DeadLetters => reference_docs::dead_letters_markdown(),
        ReferencePage::Events => reference_docs::events_markdown(),
        ReferencePage::ExitCodes => exit::exit_codes_page(),
        ReferencePage::FailureCodes => reference_docs::failure_codes_markdown(),
        ReferencePage::Faults => grammar::faults_markdown(),
        ReferencePage::Flags => flags::markdown(),
        ReferencePage::Policy => replay::policy_markdown(),
        ReferencePage::Workflow => grammar::reference_markdown(),
    };
    out.raw(page.as_bytes())?;
    Ok(Exit::Success)
}

/// Returns the help of `prodigy` and of every command below it.
fn cli_page() -> String {
    let mut page = "# Command line\n\n\
        What `--help` says, for every command. `--home` and `--help` work with each of them and\n\
        are shown once.\n"
        .to_owned();
    let mut program = Cli::command().term_width(WIDTH).disable_help_subcommand(true);
    program.build();
    section(&program, &mut page);
    page
}

/// Adds the help of a command and of the commands below it.
fn section(command: &clap::Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let is_program = !name.contains(' ');
    let mut shown = command.clone().term_width(WIDTH);
    if !is_program {
        let everywhere = ["home", "help", "version"];
        shown = shown.mut_args(|arg| {
            let hide = everywhere.iter().any(|id| arg.get_id() == id);
            if hide { arg.hide(true) } else { arg }
        });
    }
    let help = shown.render_long_help().to_string();
    // Clap leaves blanks at the ends of lines between paragraphs.
    let help: Vec<&str> = help.trim_end().lines().map(str::trim_end).collect();
    page.extend(["\n## `", &name, "`\n\n```text\n", &help.join("\n"), "\n```\n"]);
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        if below.get_name() != "help" {
            section(below, page);
        }
    }
}

/// Print the JSON Schema of a file format
///
/// The schema is made from the same tables and types that prodigy reads and writes with.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum SchemaCommand {
    /// Workflow files
    ///
    /// Editors use it to complete and check keys, e.g. with the line
    /// `# yaml-language-server: $schema=workflow.schema.json` in a workflow.
    Workflow,
    /// Replay policies: `.prodigy/replay-policy.yml`
    Policy,
    /// Files of faults, for `prodigy simulate --faults`
    Faults,
    /// Records of the journal, as `prodigy events --json` prints them
    Event,
    /// Files of dead letters, as `prodigy dlq show --json` prints them
    DlqItem,
    /// The checkpoint of a job: `checkpoint.json`
    Checkpoint,
    /// Records of the audit trail: `audit.jsonl`
    AuditRecord,
}

pub(super) fn run_schema(
    _args: &Cli,
    command: &SchemaCommand,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let schema = match command {
        SchemaCommand::Workflow => grammar::json_schema(),
        SchemaCommand::Policy => replay::policy_schema(),
        SchemaCommand::Faults => grammar::faults_schema(),
        SchemaCommand::Event => reference_docs::event_schema(),
        SchemaCommand::DlqItem => reference_docs::dlq_item_schema(),
        SchemaCommand::Checkpoint => reference_docs::checkpoint_schema(),
        SchemaCommand::AuditRecord => reference_docs::audit_record_schema(),
    };
    out.raw(format!("{schema:#}\n").as_bytes())?;
    Ok(Exit::Success)
}

/// Print the manual page, or write all pages to a directory
#[derive(clap::Args, Debug)]
pub(crate) struct ManArgs {
    /// Write one page per command to this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

pub(super) fn run_man(_args: &Cli, command: &ManArgs, out: &mut Console) -> Result<Exit, CliError> {
    if let Some(directory) = &command.dir {
        std::fs::create_dir_all(directory)
            .and_then(|()| clap_mangen::generate_to(Cli::command(), directory))
            .map_err(|error| cannot_write(directory, error))?;
        out.note(format_args!("wrote the manual pages to `{}`", directory.display()));
    } else {
        let mut page = Vec::new();
        let command = Cli::command().disable_help_subcommand(true);
        clap_mangen::Man::new(command).render(&mut page).map_err(|error| {
            CliError::new(Exit::Failure, "cannot make the manual page").with_source(error)
        })?;
        out.raw(&page)?;
    }
    Ok(Exit::Success)
}

fn cannot_write(directory: &Path, error: std::io::Error) -> CliError {
    let message = format!("cannot write manual pages to `{}`", directory.display());
    CliError::new(Exit::Failure, message).with_source(error)
}

/// Print a completion script for a shell
#[derive(clap::Args, Debug)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    shell: clap_complete::Shell,
}

pub(super) fn run_completions(
    _args: &Cli,
    command: &CompletionsArgs,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let mut script = Vec::new();
    clap_complete::generate(command.shell, &mut visible(), "prodigy", &mut script);
    out.raw(&script)?;
    Ok(Exit::Success)
}

/// Returns the command line without hidden commands, which the generator would offer.
fn visible() -> clap::Command {
    let all = Cli::command();
    let shown = all.get_subcommands().filter(|command| !command.is_hide_set());
    clap::Command::new("prodigy")
        .version(env!("CARGO_PKG_VERSION"))
        .args(all.get_arguments().cloned())
        .subcommands(shown.cloned())
}
