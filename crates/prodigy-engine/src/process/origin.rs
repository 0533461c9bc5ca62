//! The process that asks: as whom it runs, where, and whether a running step started it.

use std::{fs, sync::OnceLock};

use prodigy_core::audit::RecordOrigin;
use rustix::process::getuid;

use super::orphans::{is_supervisor, ourselves};

/// The variable that every process of a step has.
pub const AUTOMATION: &str = "PRODIGY_AUTOMATION";

/// The process that asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessOrigin {
    /// The name of the user that it runs as, or its number.
    pub os_user: String,
    /// The name of the machine.
    pub host: String,
    /// Set if a running step started it.
    ///
    /// A step can take the variable out of the environment of what it starts. It cannot leave the
    /// processes below its supervisor, which adopts whatever is cut off.
    pub is_automation: bool,
}

impl ProcessOrigin {
    /// Returns that of this process; it stays the same for the life of the process.
    pub fn of_process() -> &'static Self {
        static ORIGIN: OnceLock<ProcessOrigin> = OnceLock::new();
        ORIGIN.get_or_init(|| {
            let uid = getuid().as_raw();
            let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
            let is_marked = std::env::var_os(AUTOMATION).is_some_and(|value| value == "true");
            let is_automation = is_marked || ourselves().into_iter().any(is_supervisor);
            let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
            Self { os_user: user_name(&users, uid), host, is_automation }
        })
    }

    /// Returns what a record of the audit trail says of it.
    pub fn record(&self) -> RecordOrigin {
        RecordOrigin {
            os_user: Some(self.os_user.clone()),
            host: Some(self.host.clone()),
            automation: Some(self.is_automation),
        }
    }
}

/// Returns the name of a user by the list of users, or else the number.
fn user_name(users: &str, uid: u32) -> String {
    let number = uid.to_string();
    let name = users.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == number).then(|| name.to_owned())
    });
    name.unwrap_or(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_have_a_name_or_a_number() {
        let users = "root:x:0:0:root:/root:/bin/sh\nbroken\nada:x:1000:1000::/home/ada:/bin/sh\n";
        assert_eq!([0, 1000, 7].map(|uid| user_name(users, uid)), ["root", "ada", "7"]);
    }
}
