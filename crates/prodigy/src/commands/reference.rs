//! `prodigy __reference`: the pages of `docs/reference`, for `cargo xtask docs`.

use clap::CommandFactory as _;
use prodigy_core::{reference, replay, workflow::grammar};

use super::flags;
use crate::{cli::Cli, error::CliError, exit, exit::Exit, output::Console};

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
        ReferencePage::Audit => reference::audit_markdown(),
        ReferencePage::Checkpoint => reference::checkpoint_markdown(),
        ReferencePage::Cli => cli_page(),
        ReferencePage::DeadLetters => reference::dead_letters_markdown(),
        ReferencePage::Events => reference::events_markdown(),
        ReferencePage::ExitCodes => exit::exit_codes_page(),
        ReferencePage::FailureCodes => reference::failure_codes_markdown(),
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
