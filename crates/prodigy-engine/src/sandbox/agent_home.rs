//! The files of an agent in the sandbox: its settings, its account and its sessions.
//!
//! Programs of agents keep them in one directory, together with what says which programs they
//! run. Whoever can make a file there gets out of the sandbox the next time. So an agent sees an
//! empty place with what is there, read-only, and everything it makes is gone with it. Its
//! account it may write, since keys are renewed; its sessions are the job's own.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
};

use prodigy_core::workflow::AgentKind;

use super::{mounts::MountTable, variable};

/// The files that an agent program keeps in its directory.
struct AgentHomeLayout {
    /// The variable that names the directory.
    variable: &'static str,
    /// The directory, below the home, if it is not set.
    directory: &'static str,
    /// A file with settings that is beside the directory if the variable is not set.
    beside: Option<&'static str>,
    /// The account.
    account: &'static str,
    /// The directory of its sessions.
    sessions: &'static str,
    /// The other files in it.
    rest: HomeVisibility,
}

/// The visible files of an agent's directory, besides its account and its sessions.
enum HomeVisibility {
    /// All is shown but what it writes while it works, which is made anew each time: nothing in
    /// it is a setting, and sockets in it lead to programs outside.
    AllBut(&'static [&'static str]),
    /// Only its settings are shown. It writes so many other things that a new release would
    /// soon run into one that is read-only.
    Only(&'static [&'static str]),
}

const CLAUDE: AgentHomeLayout = AgentHomeLayout {
    variable: "CLAUDE_CONFIG_DIR",
    directory: ".claude",
    beside: Some(".claude.json"),
    account: ".credentials.json",
    sessions: "projects",
    rest: HomeVisibility::AllBut(&[
        ".claude.json.backup",
        "active-time.json",
        "api-dumps",
        "backups",
        "bridge-spawn",
        "cache",
        "ccr",
        "chrome",
        "computer-use.lock",
        "daemon",
        "debug",
        "downloads",
        "dump-prompts",
        "feedback",
        "feedback-bundles",
        "file-history",
        "file-transfers",
        "gh-pr-status-cache.json",
        "history.jsonl",
        "ide",
        "image-cache",
        "jobs",
        "logs",
        "mcp-discovery-cache",
        "mcp-needs-auth-cache.json",
        "paste-cache",
        "plans",
        "remote",
        "remote-control",
        "scratch",
        "server-sessions.json",
        "server.lock",
        "session-env",
        "sessions",
        "shares",
        "shell-snapshots",
        "startup-perf",
        "state",
        "stats-cache.json",
        "statsig",
        "storage-v2",
        "tasks",
        "teams",
        "telemetry",
        "todos",
        "traces",
        "uploads",
        "usage-data",
    ]),
};

const CODEX: AgentHomeLayout = AgentHomeLayout {
    variable: "CODEX_HOME",
    directory: ".codex",
    beside: None,
    account: "auth.json",
    sessions: "sessions",
    rest: HomeVisibility::Only(&[
        "AGENTS.md",
        "AGENTS.override.md",
        "agents",
        "config.toml",
        "hooks",
        "hooks.json",
        "instructions.md",
        "managed_config.toml",
        "memories",
        "plugins",
        "policy",
        "prompts",
        "requirements.toml",
        "rules",
        "skills",
        "themes",
    ]),
};

/// Returns what a kind of agent keeps.
fn keeps(kind: AgentKind) -> Option<&'static AgentHomeLayout> {
    match kind {
        AgentKind::Claude => Some(&CLAUDE),
        AgentKind::Codex => Some(&CODEX),
        AgentKind::Command | AgentKind::Simulated => None,
    }
}

/// An agent that keeps something of its own.
#[derive(Clone, Debug)]
pub struct AgentHome {
    /// Its kind.
    pub kind: AgentKind,
    /// Its directory.
    pub directory: PathBuf,
    /// Where its sessions are, instead of there.
    pub sessions: PathBuf,
}

/// Returns the directory below that of an agent which holds its sessions.
pub fn sessions_dir(kind: AgentKind) -> Option<&'static str> {
    keeps(kind).map(|keeps| keeps.sessions)
}

/// Hides what agents keep: it is theirs.
pub(crate) fn hide_agent_homes(
    view: &mut MountTable,
    env: &[(OsString, OsString)],
    others: &[PathBuf],
) {
    let home = variable(env, "HOME").map(Path::new);
    for keeps in [&CLAUDE, &CODEX] {
        let below_home = [Some(keeps.directory), keeps.beside];
        for name in below_home.into_iter().flatten() {
            if let Some(home) = home {
                view.blank(&home.join(name));
            }
        }
        if let Some(named) = variable(env, keeps.variable) {
            view.blank(Path::new(named));
        }
    }
    for directory in others {
        view.blank(directory);
    }
}

/// Shows an agent what it keeps.
pub(crate) fn mount_agent_home(
    view: &mut MountTable,
    env: &[(OsString, OsString)],
    own: &AgentHome,
) {
    let Some(keeps) = keeps(own.kind) else { return };
    // It would make it itself. If it cannot be made, there is nothing to show.
    fs::create_dir_all(&own.directory).ok();
    let Ok(place) = own.directory.canonicalize() else { return };
    view.blank(&place);
    for entry in fs::read_dir(&place).into_iter().flatten().flatten() {
        // Many people have links there, to a repository with all their settings.
        let Ok(from) = entry.path().canonicalize() else { continue };
        // A socket leads out, also where it is read-only.
        if !from.is_file() && !from.is_dir() {
            continue;
        }
        let name = entry.file_name();
        if name == keeps.account {
            view.bind_writable(entry.path(), from);
        } else if name != keeps.sessions && keeps.rest.is_shown(&name) {
            view.bind_read_only(entry.path(), from);
        }
    }
    view.bind_writable(place.join(keeps.sessions), own.sessions.clone());
    let home = variable(env, "HOME").map(Path::new);
    if let (Some(beside), Some(home)) = (keeps.beside, home)
        && own.directory == home.join(keeps.directory)
    {
        view.read(&home.join(beside));
    }
}

impl HomeVisibility {
    /// Returns whether something of that name is shown.
    fn is_shown(&self, name: &OsStr) -> bool {
        let name = name.to_string_lossy();
        match self {
            Self::AllBut(state) => !state.contains(&&*name),
            // A profile of Codex is a file of its own.
            Self::Only(settings) => settings.contains(&&*name) || name.ends_with(".config.toml"),
        }
    }
}
