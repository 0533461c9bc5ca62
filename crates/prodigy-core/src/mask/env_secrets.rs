//! Which variables of an environment hold secrets that nobody declared.
//!
//! A key that prodigy was started with reaches every step, and a step that prints its
//! environment would write it to a log. Names say what is meant to be secret; what a value
//! looks like says whether it can be: hiding a path or a word would make logs unreadable.
//! Only values that are known are ever hidden, never what merely looks like a key.

/// The shortest value that is taken for a secret.
const SHORTEST: usize = 16;

/// The longest; what is longer is a document, and its parts would be looked for everywhere.
const LONGEST: usize = 4096;

/// The most that all of them may be together, so that looking for them stays quick.
const MOST: usize = 8192;

/// Names that never hold anything else.
const NAMES: &[&str] = &[
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CODEX_API_KEY",
    "GEMINI_API_KEY",
    "GH_TOKEN",
    "GITHUB_TOKEN",
    "GITLAB_TOKEN",
    "NPM_TOKEN",
    "OPENAI_API_KEY",
];

/// The suffixes of the names of passwords; any text can be a password.
const PASSWORDS: &[&str] = &["_PASSWORD", "_SECRET"];

/// The suffixes of the names of keys. Keys of tables and caches are called so, too.
const KEYS: &[&str] = &["_KEY", "_TOKEN"];

/// The least bits that a character of a key carries.
const LEAST_ENTROPY: f64 = 3.0;

/// Returns the values of variables that are hidden although nobody declared them.
///
/// A value that is part of one of `plain` is not: events could not be read any more.
pub fn env_secrets<'v>(
    variables: impl IntoIterator<Item = (&'v str, &'v str)>,
    plain: &[&str],
) -> Vec<String> {
    let is_plain = |value: &str| plain.iter().any(|plain| plain.contains(value));
    let mut values: Vec<&str> = variables
        .into_iter()
        .filter(|(name, value)| is_secret(name, value) && !is_plain(value.trim()))
        .map(|(_, value)| value)
        .collect();
    values.sort_by_key(|value| (value.len(), *value));
    values.dedup();
    let mut length = 0;
    values.retain(|value| {
        length += value.len();
        length <= MOST
    });
    values.into_iter().map(str::to_owned).collect()
}

/// Returns whether a variable holds a secret, by its name and by what its value looks like.
fn is_secret(name: &str, value: &str) -> bool {
    let value = value.trim();
    if !(SHORTEST..=LONGEST).contains(&value.len()) {
        return false;
    }
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    if value.starts_with("-----BEGIN ") {
        return NAMES.contains(&name) || ends(PASSWORDS) || ends(KEYS);
    }
    let is_word = !value.contains(char::is_whitespace) && !value.contains("://");
    if NAMES.contains(&name) {
        return is_word;
    }
    !is_path(value) && (ends(PASSWORDS) || (ends(KEYS) && is_word && is_random(value)))
}

/// Returns whether a text is a path, rather than a key in base64 that begins with a slash.
fn is_path(text: &str) -> bool {
    let is_rooted = ["/", "./", "../", "~/"].iter().any(|root| text.starts_with(root));
    is_rooted && !text.contains(['+', '='])
}

/// Returns whether a text looks like it was drawn at random: letters and digits mixed, and few
/// of them repeated.
fn is_random(text: &str) -> bool {
    let has = |is: fn(&u8) -> bool| text.as_bytes().iter().any(is);
    has(u8::is_ascii_digit) && has(u8::is_ascii_alphabetic) && entropy(text) >= LEAST_ENTROPY
}

/// Returns how many bits a character of a text carries (Shannon).
fn entropy(text: &str) -> f64 {
    let mut counts = [0_u32; 256];
    for byte in text.bytes() {
        if let Some(count) = counts.get_mut(usize::from(byte)) {
            *count += 1;
        }
    }
    let length = f64::from(u32::try_from(text.len()).unwrap_or(u32::MAX));
    let seen = counts.into_iter().filter(|count| *count > 0);
    seen.map(|count| f64::from(count) / length).map(|share| -share * share.log2()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_decide_together() {
        let variables = [
            ("ANTHROPIC_API_KEY", "sk-ant-api03-aaaaaaaaaaaaaaaa"),
            ("ANTHROPIC_API_KEY", "short"),
            ("GITHUB_TOKEN", "ghp_0123456789abcdefghijABCDEFGHIJ012345"),
            ("AWS_SECRET_ACCESS_KEY", "/Jalr/XUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"),
            ("STRIPE_KEY", "rk_live_4eC39HqLyjWDarjtT1zdp7dc"),
            ("DEPLOY_TOKEN", "0f1e2d3c4b5a69788796a5b4c3d2e1f0"),
            ("DB_PASSWORD", "correct-horse-battery-staple"),
            ("DB_PASSWORD", "correct horse battery staple"),
            ("DB_PASSWORD", "hunter2"),
            (
                "SIGNING_KEY",
                "-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----",
            ),
            ("DEPLOY_SECRET", "/run/secrets/deploy-token"),
            ("SSH_KEY", "/home/ann/.ssh/id_ed25519_2024"),
            ("SSH_KEY", "~/keys/id_ed25519_2024"),
            ("PUBLIC_KEY", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0 ann@example.com"),
            ("SORT_KEY", "created_at_descending"),
            ("CACHE_KEY", "aaaaaaaaaaaaaaaa1111"),
            ("CALLBACK_TOKEN", "https://example.com/token/1234567890"),
            ("KEYBOARD", "0f1e2d3c4b5a69788796a5b4c3d2e1f0"),
            ("TOKENS", "0f1e2d3c4b5a69788796a5b4c3d2e1f0"),
        ];
        let lines = variables.map(|(name, value)| {
            let is = if is_secret(name, value) { "secret" } else { "plain " };
            format!("{is} {name} {}", value.escape_debug())
        });
        insta::assert_snapshot!(lines.join("\n"), @r"
        secret ANTHROPIC_API_KEY sk-ant-api03-aaaaaaaaaaaaaaaa
        plain  ANTHROPIC_API_KEY short
        secret GITHUB_TOKEN ghp_0123456789abcdefghijABCDEFGHIJ012345
        secret AWS_SECRET_ACCESS_KEY /Jalr/XUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY
        secret STRIPE_KEY rk_live_4eC39HqLyjWDarjtT1zdp7dc
        secret DEPLOY_TOKEN 0f1e2d3c4b5a69788796a5b4c3d2e1f0
        secret DB_PASSWORD correct-horse-battery-staple
        secret DB_PASSWORD correct horse battery staple
        plain  DB_PASSWORD hunter2
        secret SIGNING_KEY -----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg\n-----END PRIVATE KEY-----
        plain  DEPLOY_SECRET /run/secrets/deploy-token
        plain  SSH_KEY /home/ann/.ssh/id_ed25519_2024
        plain  SSH_KEY ~/keys/id_ed25519_2024
        plain  PUBLIC_KEY ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0 ann@example.com
        plain  SORT_KEY created_at_descending
        plain  CACHE_KEY aaaaaaaaaaaaaaaa1111
        plain  CALLBACK_TOKEN https://example.com/token/1234567890
        plain  KEYBOARD 0f1e2d3c4b5a69788796a5b4c3d2e1f0
        plain  TOKENS 0f1e2d3c4b5a69788796a5b4c3d2e1f0
        ");
    }

    #[test]
    fn what_stands_in_every_event_is_not_hidden() {
        let commit = "0123456789abcdef0123456789abcdef01234567";
        let variables =
            [("CACHE_KEY", "0123456789abcdef01234567"), ("A_SECRET", "sixteen-or-more-x")];
        assert_eq!(env_secrets(variables, &["/home/ann", commit]), ["sixteen-or-more-x"]);
    }

    #[test]
    fn many_and_long_values_are_not_all_hidden() {
        let values: Vec<String> = (0..100).map(|n| format!("{n:03}-{}", "x".repeat(200))).collect();
        let variables = values.iter().map(|value| ("A_PASSWORD", value.as_str()));
        assert_eq!(env_secrets(variables, &[]).len(), 40);
        assert_eq!(env_secrets([("A_PASSWORD", "x".repeat(5000).as_str())], &[]), [""; 0]);
        let same = [("A_SECRET", "the-same-for-both"), ("B_SECRET", "the-same-for-both")];
        assert_eq!(env_secrets(same, &[]).len(), 1);
    }
}
