//! What a step in the sandbox does not see.

use std::{ffi::OsString, path::Path};

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
}
