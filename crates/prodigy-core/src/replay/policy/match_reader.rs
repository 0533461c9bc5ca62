//! Reading which entries a rule is for.

use std::collections::BTreeSet;

use super::{
    reader::{PolicyReader, read_u32, read_word, text},
    words::CLASSES,
};
use crate::{
    diagnostic::Diagnostic,
    failure::{ReasonClass, ReasonCode},
    nearest::{did_you_mean, nearest},
    replay::RuleMatch,
    wildcard::matches_wildcard,
    yaml::YamlNode,
};

/// The number of digits of an error signature.
const DIGITS: usize = 16;

/// Reads which entries a rule is for.
pub(crate) fn read_match(reader: &mut PolicyReader, node: &YamlNode) -> RuleMatch {
    RuleMatch {
        reason_codes: reason_codes(reader, node),
        step: step(reader, node),
        attempts_gte: read_u32(node.get("attempts_gte")),
        signature: signature(reader, node),
    }
}

/// One value or a list of them.
fn several(node: &YamlNode) -> &[YamlNode] {
    node.as_sequence().unwrap_or(std::slice::from_ref(node))
}

/// Returns the reasons that a rule is for: those that fit a pattern and are of a class.
fn reason_codes(reader: &mut PolicyReader, node: &YamlNode) -> Option<BTreeSet<ReasonCode>> {
    let classes: Option<Vec<ReasonClass>> = node.get("class").map(|node| {
        several(node).iter().filter_map(|node| read_word(Some(node), CLASSES)).collect()
    });
    let is_class =
        |kind: ReasonCode| classes.as_ref().is_none_or(|classes| classes.contains(&kind.class()));
    let Some(patterns) = node.get("reason_code") else {
        let all = || ReasonCode::ALL.iter().copied();
        return classes.as_ref().map(|_| all().filter(|kind| is_class(*kind)).collect());
    };
    let mut codes = BTreeSet::new();
    for pattern in several(patterns) {
        let Some(text) = pattern.scalar_text() else { continue };
        let fitting = || ReasonCode::ALL.iter().filter(|kind| matches_wildcard(&text, kind.code()));
        if fitting().next().is_none() {
            unknown(reader, pattern, &text);
        } else if !fitting().any(|kind| is_class(*kind)) {
            let message = format!("`{text}` is of another class, so it never matches");
            let help = "take it out of the rule, or take out `class`";
            reader.diagnostics.push(Diagnostic::warning(pattern.span, message).help(help));
        }
        codes.extend(fitting().filter(|kind| is_class(**kind)));
    }
    Some(codes)
}

fn unknown(reader: &mut PolicyReader, node: &YamlNode, text: &str) {
    let message = if text.contains('*') {
        format!("no reason code fits `{text}`")
    } else {
        format!("there is no reason code `{text}`")
    };
    // The beginning of a code is near the beginnings of others, not to whole codes.
    let beginnings = || {
        ReasonCode::CODES
            .iter()
            .flat_map(|code| code.match_indices('_').filter_map(|(at, _)| code.get(..=at)))
    };
    let help = match text.strip_suffix('*') {
        Some(start) => nearest(start, beginnings()).map(|near| format!("did you mean `{near}*`?")),
        None => did_you_mean(text.trim_matches('*'), ReasonCode::CODES.iter().copied()),
    };
    let help =
        help.unwrap_or_else(|| "`prodigy schema dlq-item` lists the reason codes".to_owned());
    reader.error(node.span, message, Some(help));
}

fn step(reader: &mut PolicyReader, node: &YamlNode) -> Option<String> {
    let node = node.get("step")?;
    let step = text(Some(node))?;
    if step.trim().is_empty() {
        reader.error(node.span, "`step` is empty", Some("name a step, or take it out".to_owned()));
    }
    Some(step)
}

/// Returns what the error signature has to begin with.
///
/// A signature may be cut short, and then end as people and shells show that.
fn signature(reader: &mut PolicyReader, node: &YamlNode) -> Option<String> {
    let node = node.get("signature")?;
    let written = text(Some(node))?;
    let is_open = written.ends_with(['*', '…']);
    let digits = written.trim_end_matches(['*', '…']).to_ascii_lowercase();
    let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_hex || digits.len() > DIGITS || (digits.is_empty() && !is_open) {
        let message = format!("`signature` must be up to {DIGITS} hexadecimal digits");
        let help = "`prodigy dlq show` tells the signature of an entry".to_owned();
        reader.error(node.span, message, Some(help));
    } else if digits.is_empty() {
        let message = format!("every signature begins like `{written}`");
        reader.diagnostics.push(
            Diagnostic::warning(node.span, message).help("write its first digits, or take it out"),
        );
    }
    Some(digits).filter(|digits| !digits.is_empty())
}
