//! What a step in the sandbox does not see, and what an agent may write of its own.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use super::{Needs, variable, view::View};

/// Places that are empty in the sandbox: what others left there is no business of a step, and
/// the sockets in `/run` lead to programs that act with all rights.
const BLANK: &[&str] = &["/tmp", "/var/tmp", "/run"];

/// What of them is needed to find out where names lead, and where programs are.
const NEEDED: &[&str] = &[
    "/run/systemd/resolve",
    "/run/NetworkManager/resolv.conf",
    "/run/resolvconf",
    "/run/current-system",
    "/run/wrappers",
];

/// Where people keep secrets, below their home.
const SECRETS: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/gcloud",
    ".config/op",
    ".config/rclone",
    ".config/google-chrome",
    ".config/chromium",
    ".mozilla",
    ".password-store",
    ".local/share/keyrings",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".npmrc",
    ".pypirc",
    ".terraform.d",
    ".vault-token",
    ".bash_history",
    ".zsh_history",
];

/// An agent program that keeps sessions and its account in a directory of its own.
struct Own {
    /// The variable that names the directory.
    variable: &'static str,
    /// The directory, below the home, if it is not set.
    directory: &'static str,
    /// The account.
    account: &'static str,
    /// What says which programs run; an agent that changes it gets out the next time.
    settings: &'static [&'static str],
}

const OWN: &[Own] = &[
    Own {
        variable: "CLAUDE_CONFIG_DIR",
        directory: ".claude",
        account: ".credentials.json",
        settings: &[
            "settings.json",
            "settings.local.json",
            "CLAUDE.md",
            "agents",
            "commands",
            "hooks",
            "output-styles",
            "plugins",
            "skills",
        ],
    },
    Own {
        variable: "CODEX_HOME",
        directory: ".codex",
        account: "auth.json",
        settings: &["config.toml", "AGENTS.md", "hooks.json", "prompts", "rules", "skills"],
    },
];

impl Own {
    fn place(&self, env: &[(OsString, OsString)], home: Option<&Path>) -> Option<PathBuf> {
        let named = variable(env, self.variable).map(PathBuf::from);
        named.or_else(|| Some(home?.join(self.directory)))
    }
}

/// Hides what no step needs.
pub(super) fn hide(view: &mut View, env: &[(OsString, OsString)], needs: &Needs<'_>) {
    for path in BLANK {
        view.blank(Path::new(path));
    }
    for path in NEEDED {
        view.read(Path::new(path));
    }
    view.blank(needs.home);
    let path = variable(env, "PATH").unwrap_or_default();
    for directory in std::env::split_paths(path) {
        view.read(&directory);
    }
    let home = variable(env, "HOME").map(Path::new);
    if let Some(home) = home {
        view.read(home);
        for secret in SECRETS {
            view.blank(&home.join(secret));
        }
    }
    for own in OWN {
        if let Some(place) = own.place(env, home) {
            view.read(&place);
            view.blank(&place.join(own.account));
        }
    }
}

/// Lets an agent keep its sessions, but not change what it runs.
pub(super) fn agents(view: &mut View, env: &[(OsString, OsString)]) {
    let home = variable(env, "HOME").map(Path::new);
    for own in OWN {
        let Some(place) = own.place(env, home) else { continue };
        view.write(&place);
        view.write(&place.join(own.account));
        for settings in own.settings {
            view.read(&place.join(settings));
        }
    }
}
