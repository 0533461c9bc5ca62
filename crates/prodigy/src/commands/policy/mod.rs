//! `prodigy policy`.

mod confirm;
mod explain;
mod lint;
pub(crate) mod policy_file;
mod show;
mod test;

use crate::{cli::Cli, error::CliError, exit::Exit, render::console::Console};

/// Check and try out the rules that decide over dead letters
///
/// The rules stand in `.prodigy/replay-policy.yml` in the root of the repository. Without that file,
/// each dead letter is decided over by what its reason code says.
#[derive(clap::Subcommand, Debug)]
pub(crate) enum PolicyCommand {
    Lint(lint::PolicyLintArgs),
    Test(test::PolicyTestArgs),
    Show(show::PolicyShowArgs),
    Explain(explain::PolicyExplainArgs),
    Confirm(confirm::PolicyConfirmArgs),
}

pub(super) fn run(
    args: &Cli,
    command: &PolicyCommand,
    out: &mut Console,
) -> Result<Exit, CliError> {
    match command {
        PolicyCommand::Lint(command) => lint::run(command, out),
        PolicyCommand::Test(command) => test::run(command, out),
        PolicyCommand::Show(command) => show::run(command, out),
        PolicyCommand::Explain(command) => explain::run(args, command, out),
        PolicyCommand::Confirm(command) => confirm::run(args, command, out),
    }
}
