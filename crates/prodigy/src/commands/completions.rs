//! `prodigy completions`.

use clap::CommandFactory as _;

use crate::{cli::Cli, error::CliError, exit::Exit, output::Console};

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
