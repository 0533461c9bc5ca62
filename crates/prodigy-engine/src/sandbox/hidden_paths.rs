//! The paths that are hidden from a step in the sandbox.

use std::{ffi::OsString, path::Path};

use super::{SandboxAccess, mounts::MountTable, variable};

/// Places that are empty in the sandbox: what others left there is no business of a step, and
/// the sockets in `/run` lead to programs that act with all rights.
const BLANK: &[&str] = &["/tmp", "/var/tmp", "/run"];

/// The paths below them that stay visible: name resolution, and the programs of NixOS.
const NEEDED: &[&str] = &[
    "/run/systemd/resolve",
    "/run/NetworkManager/resolv.conf",
    "/run/resolvconf",
    "/run/current-system",
    "/run/wrappers",
];

/// Where people keep secrets, below their home. The guide lists them all.
const SECRETS: &[&str] = &[
    // Keys and stores of passwords.
    ".ssh",
    ".gnupg",
    ".age",
    ".config/age",
    ".config/sops",
    ".password-store",
    ".pki",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".local/share/python_keyring",
    ".config/op",
    ".config/1Password",
    ".config/Bitwarden",
    ".config/keepassxc",
    // Accounts of clouds.
    ".aws",
    ".azure",
    ".oci",
    ".boto",
    ".s3cfg",
    ".config/gcloud",
    ".config/rclone",
    ".config/doctl",
    ".config/hcloud",
    ".config/scw",
    ".config/heroku",
    ".config/netlify",
    ".config/stripe",
    ".config/ngrok",
    ".ngrok2",
    ".cloudflared",
    ".fly",
    ".databrickscfg",
    ".snowflake",
    ".snowsql",
    // Clusters and infrastructure.
    ".kube",
    ".minikube",
    ".docker",
    ".config/containers/auth.json",
    ".config/helm/registry",
    ".config/argocd",
    ".terraform.d",
    ".terraformrc",
    ".pulumi",
    ".chef",
    ".vault-token",
    ".wrangler",
    ".config/.wrangler",
    // Accounts of code and of the web.
    ".netrc",
    ".authinfo",
    ".authinfo.gpg",
    ".git-credentials",
    ".config/git/credentials",
    ".config/gh",
    ".config/hub",
    ".config/glab-cli",
    ".config/github-copilot",
    ".subversion/auth",
    // Data.
    ".pgpass",
    ".my.cnf",
    ".mylogin.cnf",
    ".dbt/profiles.yml",
    ".kaggle",
    ".cache/huggingface/token",
    ".cache/huggingface/stored_tokens",
    ".huggingface",
    // Registries of packages.
    ".npmrc",
    ".yarnrc.yml",
    ".pypirc",
    ".pip/pip.conf",
    ".config/pip/pip.conf",
    ".config/pypoetry/auth.toml",
    ".cargo/credentials",
    ".cargo/credentials.toml",
    ".gem/credentials",
    ".local/share/gem/credentials",
    ".bundle/config",
    ".composer/auth.json",
    ".config/composer/auth.json",
    // Builds.
    ".m2/settings.xml",
    ".m2/settings-security.xml",
    ".gradle/gradle.properties",
    ".ivy2/.credentials",
    ".sbt/credentials",
    ".sbt/.credentials",
    ".nuget/NuGet/NuGet.Config",
    ".hex/hex.config",
    ".config/dart/pub-credentials.json",
    // Mail, browsers and chats.
    ".smbcredentials",
    ".davfs2",
    ".msmtprc",
    ".config/msmtp",
    ".mbsyncrc",
    ".fetchmailrc",
    ".thunderbird",
    ".mozilla",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    ".config/Signal",
    ".config/Slack",
    ".config/discord",
    // Sockets that lead to programs outside, and what opens them.
    ".Xauthority",
    ".ICEauthority",
    ".1password",
    ".colima",
    ".lima",
    ".orbstack",
    ".rd",
    // Wallets.
    ".bitcoin",
    ".ethereum",
    ".electrum",
    ".config/solana",
    // What was typed.
    ".bash_history",
    ".zsh_history",
    ".local/share/fish/fish_history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    ".sqlite_history",
    ".rediscli_history",
];

/// Where the machine keeps them. Root could read them also in the sandbox.
const OF_THE_MACHINE: &[&str] =
    &["/etc/shadow", "/etc/gshadow", "/etc/ssl/private", "/etc/kubernetes", "/etc/wireguard"];

/// Hides what no step needs.
pub(crate) fn hide_secrets(
    view: &mut MountTable,
    env: &[(OsString, OsString)],
    needs: &SandboxAccess<'_>,
) {
    for path in BLANK.iter().chain(OF_THE_MACHINE) {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_hidden_is_in_the_guide() {
        let guide = include_str!("../../../../docs/guide/limits-cost-safety.md");
        let named: Vec<_> = guide.split_whitespace().collect();
        for secret in SECRETS {
            assert!(named.contains(&&*format!("~/{secret}")), "{secret}");
        }
        for path in OF_THE_MACHINE {
            assert!(named.contains(path), "{path}");
        }
    }
}
