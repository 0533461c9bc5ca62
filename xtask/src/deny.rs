//! `cargo xtask deny`: licences, bans and advisories of the dependencies.

use crate::{
    error::Error,
    program::{cargo, read, run as run_program},
};

/// Check the dependencies with cargo-deny
///
/// Not part of `cargo xtask test`: it needs a tool and, for the advisories, the network.
#[derive(clap::Args, Debug)]
pub(crate) struct DenyArgs {
    /// Checks to run: advisories, bans, licenses, sources (can be repeated)
    #[arg(default_values = ["licenses", "bans", "sources"])]
    checks: Vec<String>,
}

pub(crate) fn run(args: &DenyArgs) -> Result<(), Error> {
    if read(&mut cargo(&["deny", "--version"])).is_err() {
        return Err(Error::Missing {
            tool: "cargo-deny",
            install: "cargo install --locked cargo-deny",
        });
    }
    run_program(cargo(&["deny", "--all-features", "check"]).args(&args.checks))
}
