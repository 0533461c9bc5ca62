//! The part of a repository's file that brings in programs or permissions.

use prodigy_core::yaml::{self, YamlNode};

/// The keys that bring in no program and no permission, so that they hold in a repository's file
/// without trust. Every other key needs trust, also one that a later version adds.
pub(crate) const INERT: &[&str] =
    &["grace", "idle_timeout", "durability", "log_cap", "disk_floor", "retention"];

/// Returns what the text of a file brings in, one line each; nothing if it needs no trust.
pub(crate) fn trust_claims(text: &str) -> Vec<String> {
    if is_blank(text) {
        return Vec::new();
    }
    match yaml::parse(text, 0) {
        Ok(root) => claims_of(&root),
        Err(_) => vec!["cannot be read as YAML".to_owned()],
    }
}

/// Returns whether a file has nothing but comments.
pub(crate) fn is_blank(text: &str) -> bool {
    let is_comment = |line: &str| line.trim().is_empty() || line.trim().starts_with('#');
    text.trim_start_matches('\u{feff}').lines().all(is_comment)
}

fn claims_of(root: &YamlNode) -> Vec<String> {
    let Some(keys) = root.as_mapping() else {
        return vec!["is not a mapping".to_owned()];
    };
    let needy = keys.iter().filter(|(key, _)| !INERT.contains(&key.text.as_str()));
    let lines = needy.flat_map(|(key, node)| match node.as_mapping() {
        Some(inner) => {
            let line =
                |name: &str, node: &YamlNode| format!("{}.{name}: {}", key.text, node.to_json());
            inner.iter().map(|(name, node)| line(&name.text, node)).collect()
        }
        None => vec![format!("{}: {}", key.text, node.to_json())],
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::setting::FILE;

    #[test]
    fn every_key_is_inert_or_brings_in_something() {
        let keys = FILE.groups.iter().flat_map(|group| group.iter()).map(|key| key.name);
        let needy: Vec<_> = keys.filter(|key| !INERT.contains(key)).collect();
        assert_eq!(needy, ["agents"]);
    }

    #[test]
    fn only_inert_keys_need_no_trust() {
        assert_eq!(trust_claims(""), Vec::<String>::new());
        assert_eq!(trust_claims("# agents: {}\n"), Vec::<String>::new());
        assert_eq!(trust_claims("grace: 5s\nretention: { logs: 2h }\n"), Vec::<String>::new());
        assert_eq!(trust_claims("later: yes\ngrace: 5s\n").len(), 1);
        assert_eq!(trust_claims("- grace\n"), ["is not a mapping"]);
        assert_eq!(trust_claims("grace: 'open\n"), ["cannot be read as YAML"]);
        let agents =
            "agents:\n  claude: { type: command, command: [./x] }\n  b: { type: simulated }\n";
        assert_eq!(
            trust_claims(agents),
            [
                r#"agents.claude: {"type":"command","command":["./x"]}"#,
                r#"agents.b: {"type":"simulated"}"#
            ]
        );
    }
}
