//! Laying one file over another.
//!
//! Mappings are merged key by key, everything else is replaced; the file that lies on
//! top wins. A mapping whose keys exclude each other is replaced as a whole, because
//! half of one and half of the other would be neither.

use crate::yaml::{YamlKey, YamlNode, YamlValue};

/// Mappings that are one of several things.
const WHOLE: &[&str] = &["backoff", "error_collection", "input"];

/// Tables whose entries are one of several things.
const WHOLE_ENTRIES: &[&str] = &["agents", "parameters", "secrets"];

/// Keys with several names; the one on top removes the others below it.
const ALIASES: &[&[&str]] =
    &[&["agent_timeout", "agent_timeout_secs", "timeout_per_agent"], &["commands", "steps"]];

/// Settings of `error_policy` that may also stand at the top of the file.
const CONVENIENCE: &[&str] = &[
    "circuit_breaker",
    "continue_on_failure",
    "error_collection",
    "failure_threshold",
    "max_failures",
    "on_item_failure",
    "retry_config",
];

/// Lays the entries of one file over those of another.
pub(super) fn overlay(
    mut below: Vec<(YamlKey, YamlNode)>,
    above: Vec<(YamlKey, YamlNode)>,
) -> Vec<(YamlKey, YamlNode)> {
    settle_policy(&mut below, &above);
    merge(below, above, "")
}

fn merge(
    mut below: Vec<(YamlKey, YamlNode)>,
    above: Vec<(YamlKey, YamlNode)>,
    parent: &str,
) -> Vec<(YamlKey, YamlNode)> {
    for (key, value) in above {
        below.retain(|(other, _)| !are_aliases(&key.text, &other.text));
        let replaced = WHOLE.contains(&key.text.as_str()) || WHOLE_ENTRIES.contains(&parent);
        match below.iter_mut().find(|(other, _)| other.text == key.text) {
            Some(entry) if replaced => *entry = (key, value),
            Some((other, node)) => {
                let old = std::mem::replace(node, value);
                if let (YamlValue::Mapping(lower), YamlValue::Mapping(upper)) =
                    (old.value, &mut node.value)
                {
                    *upper = merge(lower, std::mem::take(upper), &key.text);
                }
                *other = key;
            }
            None => below.push((key, value)),
        }
    }
    below
}

fn are_aliases(left: &str, right: &str) -> bool {
    left != right && ALIASES.iter().any(|names| names.contains(&left) && names.contains(&right))
}

/// Removes the settings below that the file on top gives in the other place.
fn settle_policy(below: &mut Vec<(YamlKey, YamlNode)>, above: &[(YamlKey, YamlNode)]) {
    let in_policy = |name: &str| {
        above.iter().any(|(key, node)| key.text == "error_policy" && node.get(name).is_some())
    };
    let convenient = |name: &str| CONVENIENCE.contains(&name);
    below.retain(|(key, _)| !(convenient(&key.text) && in_policy(&key.text)));
    let policy = below.iter_mut().find(|(key, _)| key.text == "error_policy");
    if let Some((_, YamlNode { value: YamlValue::Mapping(entries), .. })) = policy {
        entries.retain(|(key, _)| {
            !(convenient(&key.text) && above.iter().any(|(other, _)| other.text == key.text))
        });
    }
}
