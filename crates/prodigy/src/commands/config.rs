//! `prodigy config`.

use std::time::Duration;

use prodigy_core::{duration, workflow::AgentConfig};
use prodigy_engine::store::Durability;
use serde_json::{Map, Value, json};

use crate::{
    cli::Cli,
    config::{Config, ConfigOrigin, ConfigValue, repo_root, show_size},
    error::CliError,
    exit::Exit,
    render::console::Console,
    trust::{self, RepoContent},
};

/// Show the configuration
#[derive(clap::Subcommand, Debug)]
pub(crate) enum ConfigCommand {
    /// Show the effective configuration, after flags, variables and files
    Show(ConfigShowArgs),
}

#[derive(clap::Args, Debug)]
pub(crate) struct ConfigShowArgs {
    /// Show where each value comes from
    #[arg(long)]
    origin: bool,

    /// Print JSON: durations in seconds, sizes in bytes, always with origins
    #[arg(long, conflicts_with = "origin")]
    json: bool,
}

pub(super) fn run(
    args: &Cli,
    command: &ConfigCommand,
    out: &mut Console,
) -> Result<Exit, CliError> {
    let ConfigCommand::Show(show) = command;
    let here = std::env::current_dir().map_err(|error| {
        CliError::new(Exit::Failure, "cannot tell the current directory").with_source(error)
    })?;
    let root = repo_root(&here);
    let config = Config::load(args, root.as_deref())?;
    if let Some(root) = root.filter(|_| !config.withheld.is_empty()) {
        trust::note_untrusted(&RepoContent::read(&root), out);
    }
    let rows = rows(&config);
    if show.json {
        out.line(document(rows))?;
        return Ok(Exit::Success);
    }
    let width = rows.iter().map(|row| row.key.len()).max().unwrap_or_default();
    for row in &rows {
        let line = format!("{:width$}  {}", row.key, row.shown);
        if show.origin {
            out.line(format_args!("{line}  ({})", row.origin))?;
        } else {
            out.line(line)?;
        }
    }
    Ok(Exit::Success)
}

/// One setting as it is shown.
struct ConfigRow {
    key: String,
    /// For people.
    shown: String,
    /// For programs.
    value: Value,
    origin: ConfigOrigin,
}

fn rows(config: &Config) -> Vec<ConfigRow> {
    fn row<T>(key: &str, setting: &ConfigValue<T>, shown: String, value: Value) -> ConfigRow {
        ConfigRow { key: key.to_owned(), shown, value, origin: setting.origin.clone() }
    }
    let Config {
        home,
        grace,
        idle_timeout,
        durability,
        log_cap,
        disk_floor,
        retention,
        agents,
        withheld: _,
    } = config;
    let path = home.value.display().to_string();
    let survives = match durability.value {
        Durability::Full => "full",
        Durability::Relaxed => "relaxed",
    };
    let idle = idle_timeout.value.map_or_else(|| "none".to_owned(), format_exact_duration);
    let mut rows = vec![
        row("home", home, path.clone(), json!(path)),
        row("grace", grace, format_exact_duration(grace.value), json!(grace.value.as_secs_f64())),
        row(
            "idle_timeout",
            idle_timeout,
            idle,
            json!(idle_timeout.value.map(|idle| idle.as_secs_f64())),
        ),
        row("durability", durability, survives.to_owned(), json!(survives)),
        row("log_cap", log_cap, show_size(log_cap.value), json!(log_cap.value)),
        row("disk_floor", disk_floor, show_size(disk_floor.value), json!(disk_floor.value)),
    ];
    let ages = [("dlq", &retention.dlq), ("events", &retention.events), ("logs", &retention.logs)];
    rows.extend(ages.iter().map(|(name, age)| {
        let shown = age.value.map_or_else(|| "none".to_owned(), format_exact_duration);
        let value = json!(age.value.map(|age| age.as_secs_f64()));
        row(&format!("retention.{name}"), age, shown, value)
    }));
    rows.extend(agents.iter().map(|(name, agent)| {
        let (shown, value) = match &agent.value {
            AgentConfig::Claude(claude) => {
                (claude.command.join(" "), format_agent_program("claude", &claude.command))
            }
            AgentConfig::Codex(codex) => {
                (codex.command.join(" "), format_agent_program("codex", &codex.command))
            }
            AgentConfig::Command(command) => {
                (command.command.join(" "), format_agent_program("command", &command.command))
            }
            AgentConfig::Simulated(agent) => {
                let count = agent.rules.len();
                let shown = format!("simulated, {count} rule{}", if count == 1 { "" } else { "s" });
                (shown, json!({"type": "simulated", "rules": count}))
            }
        };
        row(&format!("agents.{name}"), agent, shown, value)
    }));
    rows
}

/// Shows an agent that is a program.
fn format_agent_program(kind: &str, command: &[String]) -> Value {
    json!({"type": kind, "command": command})
}

/// Shows a duration in full, also one that would be rounded elsewhere.
fn format_exact_duration(value: Duration) -> String {
    let shown = duration::format(value);
    if duration::parse(&shown) == Ok(value) { shown } else { format!("{}s", value.as_secs_f64()) }
}

fn document(rows: Vec<ConfigRow>) -> Value {
    let settings: Map<String, Value> = rows
        .into_iter()
        .map(|row| (row.key, json!({"value": row.value, "origin": row.origin.to_string()})))
        .collect();
    json!({"schema_version": 1, "settings": settings})
}
