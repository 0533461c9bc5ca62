//! The settings, each with where it comes from.

use std::{
    collections::BTreeMap,
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use prodigy_core::{
    duration,
    workflow::{
        AgentConfig,
        grammar::{AGENT, KeyNames, KeyShape, RecordShape, Shape},
    },
};
use prodigy_engine::store::Durability;

use super::{
    byte_size,
    retention::{RETENTION, Retention},
};

/// The settings of every job.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    /// Where prodigy keeps its state.
    pub(crate) home: ConfigValue<PathBuf>,
    /// The time between asking a process to end and making it.
    pub(crate) grace: ConfigValue<Duration>,
    /// The longest that a step may print nothing, unless it says otherwise.
    pub(crate) idle_timeout: ConfigValue<Option<Duration>>,
    /// The failures that the journal survives.
    pub(crate) durability: ConfigValue<Durability>,
    /// The most that one step may add to a log file, in bytes.
    pub(crate) log_cap: ConfigValue<u64>,
    /// The least free disk space, in bytes.
    pub(crate) disk_floor: ConfigValue<u64>,
    /// The retention of what finished jobs leave on disk.
    pub(crate) retention: Retention,
    /// The agents that every workflow may name.
    pub(crate) agents: BTreeMap<String, ConfigValue<AgentConfig>>,
    /// The agents of the repository's file that do not hold, because it is not trusted.
    pub(crate) withheld: BTreeMap<String, ConfigValue<AgentConfig>>,
}

/// A value and where it comes from.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ConfigValue<T> {
    /// The value.
    pub(crate) value: T,
    /// Where it comes from.
    pub(crate) origin: ConfigOrigin,
}

/// Where a value comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ConfigOrigin {
    /// It is built in.
    Default,
    /// A line of a file.
    File {
        /// The path, as the user would type it.
        path: String,
        /// The line, from 1.
        line: usize,
    },
    /// An environment variable.
    Variable(&'static str),
    /// A flag.
    Flag(&'static str),
}

/// The keys that can be set in files and in the environment, with their variables.
pub(super) const KEYS: &[(&str, &str)] = &[
    ("grace", "PRODIGY_GRACE"),
    ("idle_timeout", "PRODIGY_IDLE_TIMEOUT"),
    ("durability", "PRODIGY_DURABILITY"),
    ("log_cap", "PRODIGY_LOG_CAP"),
    ("disk_floor", "PRODIGY_DISK_FLOOR"),
];

/// Returns whether a key is one of [`KEYS`].
pub(super) fn is_scalar(key: &str) -> bool {
    KEYS.iter().any(|(name, _)| *name == key)
}

/// The grammar of a configuration file.
pub(super) static FILE: RecordShape = RecordShape {
    name: "config",
    title: "the configuration",
    doc: "What holds for every job.",
    groups: &[&[
        KeyShape::new(
            "grace",
            Shape::Duration,
            "Is the time between asking a process to end and making it.",
        )
        .or("10s"),
        KeyShape::new(
            "idle_timeout",
            Shape::Duration,
            "Is the longest that a step may print nothing; `none` is no limit.",
        )
        .or("none"),
        KeyShape::new(
            "durability",
            Shape::Word(&["full", "relaxed"]),
            "Is what the journal survives: a power failure, or only a crash.",
        )
        .or("full"),
        KeyShape::new("log_cap", Shape::Text, "Is the most that one step may add to a log file.")
            .or("32MiB"),
        KeyShape::new("disk_floor", Shape::Text, "Is how much space must stay free.").or("200MiB"),
        KeyShape::new(
            "retention",
            Shape::Record(&RETENTION),
            "Is how long what finished jobs left is kept; the file of a repository can only lengthen it.",
        ),
        KeyShape::new(
            "agents",
            Shape::Table { names: KeyNames::Free, value: &Shape::Tagged(&AGENT) },
            "Are the agents that every workflow may name.",
        ),
    ]],
    choice: None,
    rule: None,
};

impl Config {
    /// Returns what holds if nobody says anything.
    pub(super) fn defaults(home: ConfigValue<PathBuf>) -> Self {
        fn built_in<T>(value: T) -> ConfigValue<T> {
            ConfigValue { value, origin: ConfigOrigin::Default }
        }
        Self {
            home,
            grace: built_in(Duration::from_secs(10)),
            idle_timeout: built_in(None),
            durability: built_in(Durability::Full),
            log_cap: built_in(32 << 20),
            disk_floor: built_in(200 << 20),
            retention: Retention::default(),
            agents: BTreeMap::new(),
            withheld: BTreeMap::new(),
        }
    }

    /// Returns the configuration as it would be if the repository were trusted, for commands that
    /// run nothing.
    pub(crate) fn if_trusted(mut self) -> Self {
        self.agents.append(&mut self.withheld);
        self
    }

    /// Sets one of [`KEYS`] to a value as written. The error is one line for people.
    pub(super) fn set(
        &mut self,
        key: &str,
        text: &str,
        origin: ConfigOrigin,
    ) -> Result<(), String> {
        match key {
            "grace" => self.grace = ConfigValue { value: duration::parse(text)?, origin },
            "idle_timeout" => {
                let value = if text == "none" { None } else { Some(duration::parse(text)?) };
                self.idle_timeout = ConfigValue { value, origin };
            }
            "durability" => self.durability = ConfigValue { value: durability(text)?, origin },
            "log_cap" => self.log_cap = ConfigValue { value: byte_size::parse(text)?, origin },
            "disk_floor" => {
                self.disk_floor = ConfigValue { value: byte_size::parse(text)?, origin }
            }
            unknown => return Err(format!("unknown key `{unknown}`")),
        }
        Ok(())
    }
}

fn durability(text: &str) -> Result<Durability, String> {
    match text {
        "full" => Ok(Durability::Full),
        "relaxed" => Ok(Durability::Relaxed),
        _ => Err(format!("expected `full` or `relaxed`, found `{text}`")),
    }
}

impl ConfigOrigin {
    /// Returns the origin of a value in a file.
    pub(super) fn file(path: &Path, line: usize) -> Self {
        Self::File { path: path.display().to_string(), line }
    }
}

impl fmt::Display for ConfigOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File { path, line } => write!(f, "{path}:{line}"),
            Self::Variable(name) | Self::Flag(name) => f.write_str(name),
        }
    }
}
