//! The retention of dead letters, journals and logs of finished jobs.

use std::time::Duration;

use prodigy_core::{
    diagnostic::Diagnostic,
    duration,
    workflow::grammar::{KeyShape, RecordShape, Shape},
    yaml::YamlNode,
};
use prodigy_engine::store::PurgeKind;

use super::{ConfigOrigin, ConfigValue};

/// The ages from which on parts of finished jobs may be purged.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Retention {
    /// The closed dead letters.
    pub(crate) dlq: ConfigValue<Option<Duration>>,
    /// The journals.
    pub(crate) events: ConfigValue<Option<Duration>>,
    /// The output of steps.
    pub(crate) logs: ConfigValue<Option<Duration>>,
    /// The ages that the repository wants, for the same three.
    wanted: [Option<Duration>; 3],
}

/// The places that can say how long something is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ConfigLayer {
    /// The user's own file.
    User,
    /// The file of the repository, which may only lengthen what the user says.
    Repository,
}

/// The grammar of `retention` in a configuration file.
pub(super) static RETENTION: RecordShape = RecordShape {
    name: "retention",
    title: "the retention",
    doc: "Is how long what finished jobs left is kept; `prodigy purge` deletes what is older.",
    groups: &[&[
        KeyShape::new("dlq", Shape::Duration, "Is the age of closed dead letters.").or("none"),
        KeyShape::new("events", Shape::Duration, "Is the age of journals.").or("none"),
        KeyShape::new("logs", Shape::Duration, "Is the age of the output of steps.").or("none"),
    ]],
    choice: None,
    rule: None,
};

impl Default for Retention {
    fn default() -> Self {
        let none = ConfigValue { value: None, origin: ConfigOrigin::Default };
        Self { dlq: none.clone(), events: none.clone(), logs: none, wanted: [None; 3] }
    }
}

impl Retention {
    /// Returns the age from which on a part of a job may go, if there is one.
    pub(crate) fn age(&self, kind: PurgeKind) -> Option<Duration> {
        match kind {
            PurgeKind::Dlq => self.dlq.value,
            PurgeKind::Logs => self.logs.value,
            PurgeKind::Events => self.events.value,
            PurgeKind::Jobs => None,
        }
    }

    /// Returns the age that the repository wants a part of a job to have at least.
    pub(crate) fn minimum_age(&self, kind: PurgeKind) -> Option<Duration> {
        let [dlq, events, logs] = self.wanted;
        match kind {
            PurgeKind::Dlq => dlq,
            PurgeKind::Events => events,
            PurgeKind::Logs => logs,
            // With the job goes all of it.
            PurgeKind::Jobs => [dlq, events, logs].into_iter().flatten().max(),
        }
    }

    /// Applies the settings of a file.
    pub(super) fn read(
        &mut self,
        node: &YamlNode,
        layer: ConfigLayer,
        origin: &dyn Fn(&str) -> ConfigOrigin,
        problems: &mut Vec<Diagnostic>,
    ) {
        let Self { dlq, events, logs, wanted } = self;
        let [dlq_wanted, events_wanted, logs_wanted] = wanted;
        let settings = [
            ("dlq", dlq, dlq_wanted),
            ("events", events, events_wanted),
            ("logs", logs, logs_wanted),
        ];
        for (name, setting, wanted) in settings {
            let Some(value) = node.get(name) else { continue };
            let Some(text) = value.scalar_text() else { continue };
            let age = match duration::parse(&text) {
                Ok(age) => Some(age),
                Err(_) if text == "none" => None,
                Err(problem) => {
                    problems.push(Diagnostic::error(value.span, problem));
                    continue;
                }
            };
            let origin = origin(name);
            match layer {
                ConfigLayer::User => *setting = ConfigValue { value: age, origin },
                ConfigLayer::Repository => {
                    *wanted = age;
                    // Without an age it is kept for good, which nothing lengthens.
                    if setting.value.is_some_and(|own| age.is_none_or(|age| age > own)) {
                        *setting = ConfigValue { value: age, origin };
                    }
                }
            }
        }
    }
}
