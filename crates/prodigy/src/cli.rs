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
    Run(commands::run::RunArgs),
    #[command(visible_alias = "resume-job")]
    Resume(commands::resume::ResumeArgs),
    Plan(commands::plan::PlanArgs),
    Simulate(commands::simulate::SimulateArgs),
    Exec(commands::exec::ExecArgs),
    Batch(commands::batch::BatchArgs),
    Validate(commands::validate::ValidateArgs),
    #[command(subcommand)]
    Schema(commands::schema::SchemaCommand),
    #[command(subcommand)]
    Worktree(commands::worktree::WorktreeCommand),
    #[command(subcommand)]
    Dlq(commands::dlq::DlqCommand),
    #[command(subcommand)]
    Audit(commands::audit::AuditCommand),
    #[command(subcommand)]
    Policy(commands::policy::PolicyCommand),
    Doctor(commands::doctor::DoctorArgs),
    Events(commands::events::EventsArgs),
    #[command(visible_alias = "sessions")]
    Jobs(commands::jobs::JobsArgs),
    Logs(commands::logs::LogsArgs),
    Pause(commands::pause::PauseArgs),
    Stop(commands::stop::StopArgs),
    Verify(commands::verify::VerifyArgs),
    Repair(commands::repair::RepairArgs),
    Purge(commands::purge::PurgeArgs),
    #[command(subcommand)]
    Config(commands::config::ConfigCommand),
    Trust(commands::trust::TrustArgs),
    Init(commands::init::InitArgs),
    Completions(commands::completions::CompletionsArgs),
    Man(commands::man::ManArgs),
    #[command(name = "__reference", hide = true)]
    Reference(commands::reference::ReferenceArgs),
    #[command(name = "__supervise", hide = true)]
    Supervise(commands::supervise::SuperviseArgs),
    #[command(name = "__simulate", hide = true)]
    SimulateAgent(commands::simulate_agent::SimulateAgentArgs),
}
