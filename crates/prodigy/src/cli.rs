//! The command line, as a tree of types.

use std::path::PathBuf;

use crate::commands;

/// Run workflows of AI coding agents unattended, and lose nothing
#[derive(clap::Parser, Debug)]
#[command(version, arg_required_else_help = true, propagate_version = true)]
pub(crate) struct Cli {
    /// Where prodigy keeps its state [default: ~/.prodigy]
    #[arg(long, global = true, value_name = "DIR", env = "PRODIGY_HOME", hide_env_values = true)]
    pub(crate) home: Option<PathBuf>,

    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(clap::Subcommand, Debug)]
pub(crate) enum Command {
    Run(commands::workflow::run::RunArgs),
    #[command(visible_alias = "resume-job")]
    Resume(commands::workflow::resume::ResumeArgs),
    Plan(commands::workflow::plan::PlanArgs),
    Simulate(commands::workflow::simulate::SimulateArgs),
    Exec(commands::workflow::exec::ExecArgs),
    Batch(commands::workflow::batch::BatchArgs),
    Validate(commands::workflow::validate::ValidateArgs),
    #[command(subcommand)]
    Schema(commands::reference::SchemaCommand),
    #[command(subcommand)]
    Worktree(commands::worktree::WorktreeCommand),
    #[command(subcommand)]
    Dlq(commands::dlq::DlqCommand),
    #[command(subcommand)]
    Audit(commands::audit::AuditCommand),
    #[command(subcommand)]
    Policy(commands::policy::PolicyCommand),
    Doctor(commands::doctor::DoctorArgs),
    Events(commands::jobs::events::EventsArgs),
    #[command(visible_alias = "sessions")]
    Jobs(commands::jobs::JobsArgs),
    Logs(commands::jobs::logs::LogsArgs),
    Pause(commands::jobs::control::PauseArgs),
    Stop(commands::jobs::control::StopArgs),
    Verify(commands::jobs::integrity::VerifyArgs),
    Repair(commands::jobs::integrity::repair::RepairArgs),
    Purge(commands::jobs::purge::PurgeArgs),
    #[command(subcommand)]
    Config(commands::config::ConfigCommand),
    Trust(commands::trust::TrustArgs),
    Init(commands::init::InitArgs),
    Completions(commands::reference::CompletionsArgs),
    Man(commands::reference::ManArgs),
    #[command(name = "__reference", hide = true)]
    Reference(commands::reference::ReferenceArgs),
    #[command(name = "__supervise", hide = true)]
    Supervise(commands::internal::SuperviseArgs),
    #[command(name = "__simulate", hide = true)]
    SimulateAgent(commands::internal::SimulateAgentArgs),
}
