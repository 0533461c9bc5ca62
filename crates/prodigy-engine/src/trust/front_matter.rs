//! The front matter of Markdown files that Claude Code reads: commands, skills and agents.

/// The keys that bring in no program and no permission. Every other key does, as far as is known
/// here: what a later version makes of a new one is not known.
const INERT: &[&str] = &[
    "argument-hint",
    "arguments",
    "author",
    "category",
    "color",
    "date",
    "description",
    "disable-model-invocation",
    "disallowed-tools",
    "disallowedtools",
    "effort",
    "license",
    "maxturns",
    "model",
    "name",
    "tags",
    "title",
    "user-invocable",
    "version",
    "when-to-use",
    "when_to_use",
];

/// Returns whether a Markdown file brings in programs or permissions: tools that are allowed
/// without asking, hooks, servers, or a key that is not known.
pub(super) fn is_active(content: &[u8]) -> bool {
    let text = String::from_utf8_lossy(content);
    let text = text.trim_start_matches('\u{feff}').trim_start();
    let Some(rest) = text.strip_prefix("---") else { return false };
    // The rest of the first line is empty, or it is no front matter; both are looked at.
    let lines = rest.lines().map(str::trim_end);
    let mut keys = lines.take_while(|line| !line.starts_with("---")).filter(|line| {
        // What is indented belongs to the key above it.
        !(line.is_empty() || line.starts_with([' ', '\t', '#']))
    });
    keys.any(|line| !is_inert(line))
}

/// Returns whether a line sets a key that brings in nothing.
fn is_inert(line: &str) -> bool {
    let Some((key, _)) = line.split_once(':') else { return false };
    let key = key.trim().trim_matches(['"', '\'']).to_ascii_lowercase();
    INERT.contains(&key.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_is_not_active() {
        let prose = [
            "",
            "Fix it.\n",
            "Fix it.\n---\nallowed-tools: Bash\n---\n",
            "---\n---\nallowed-tools: Bash\n",
            "---\ndescription: fixes: it\nargument-hint: \"[file]\"\n\n# why\n---\nallowed-tools: x\n",
            "---\ndescription: >\n  allowed-tools: none\n---\n",
        ];
        for text in prose {
            assert!(!is_active(text.as_bytes()), "{text:?}");
        }
    }

    #[test]
    fn tools_hooks_and_unknown_keys_are_active() {
        let active = [
            "---\nallowed-tools: Bash\n---\n",
            "\u{feff}---\r\nAllowed-Tools: Bash\r\n---\r\n",
            "\n---\n\"allowed-tools\": Bash\n---\n",
            "---\nname: x\nhooks:\n  PreToolUse: []\n---\n",
            "---\n{allowed-tools: Bash}\n---\n",
            "---\n? allowed-tools\n: Bash\n---\n",
            "---\n- Bash\n---\n",
            "---\nnew-key: 1\n",
        ];
        for text in active {
            assert!(is_active(text.as_bytes()), "{text:?}");
        }
    }
}
