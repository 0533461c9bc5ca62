//! Reading plain values: numbers, durations, words, lists.

use std::{num::NonZeroU32, time::Duration};

use super::context::Lower;
use crate::{diagnostic::Diagnostic, duration, yaml::YamlNode};

/// Makes a constant that cannot be zero.
pub(super) const fn at_least_one(number: u32) -> NonZeroU32 {
    match NonZeroU32::new(number) {
        Some(number) => number,
        None => NonZeroU32::MIN,
    }
}

impl Lower<'_> {
    /// Reads text; numbers and booleans are taken as they are written.
    pub(super) fn text(&mut self, node: &YamlNode) -> Option<String> {
        let text = node.scalar_text();
        if text.is_none() {
            self.wrong_kind(node, "text");
        }
        text
    }

    /// Reads text that must not be empty.
    pub(super) fn filled(&mut self, node: &YamlNode) -> Option<String> {
        let text = self.text(node)?;
        if text.trim().is_empty() {
            self.report(Diagnostic::error(node.span, "expected text, found nothing"));
            return None;
        }
        Some(text)
    }

    /// Reads `true` or `false`.
    pub(super) fn boolean(&mut self, node: &YamlNode) -> Option<bool> {
        let value = node.as_bool();
        if value.is_none() {
            self.wrong_kind(node, "`true` or `false`");
        }
        value
    }

    /// Reads a whole number from 0.
    pub(super) fn whole<T: TryFrom<i64>>(&mut self, node: &YamlNode) -> Option<T> {
        let value = node.as_i64().and_then(|number| T::try_from(number).ok());
        if value.is_none() {
            self.wrong_kind(node, "a whole number from 0");
        }
        value
    }

    /// Reads a whole number from 1.
    pub(super) fn count(&mut self, node: &YamlNode) -> Option<NonZeroU32> {
        let number = node.as_i64().and_then(|number| u32::try_from(number).ok());
        let value = number.and_then(NonZeroU32::new);
        if value.is_none() {
            self.wrong_kind(node, "a whole number from 1");
        }
        value
    }

    /// Reads a number within bounds, both included.
    pub(super) fn number(&mut self, node: &YamlNode, min: f64, max: f64) -> Option<f64> {
        let value = node.as_f64().filter(|number| (min..=max).contains(number));
        if value.is_none() {
            self.wrong_kind(node, &format!("a number from {min} to {max}"));
        }
        value
    }

    /// Reads a duration; a bare number is seconds.
    pub(super) fn duration(&mut self, node: &YamlNode) -> Option<Duration> {
        let text = self.text(node)?;
        match duration::parse(&text) {
            Ok(duration) => Some(duration),
            Err(message) => {
                self.report(Diagnostic::error(node.span, message));
                None
            }
        }
    }

    /// Reads a time limit, which cannot be zero.
    pub(super) fn limit(&mut self, node: &YamlNode) -> Option<Duration> {
        let limit = self.duration(node)?;
        if limit.is_zero() {
            let message = "a time limit of zero leaves no time at all";
            self.report(
                Diagnostic::error(node.span, message).help("leave the key out for no limit"),
            );
            return None;
        }
        Some(limit)
    }

    /// Reads one of some words.
    pub(super) fn word<T: Clone>(&mut self, node: &YamlNode, words: &[(&str, T)]) -> Option<T> {
        let text = self.text(node)?;
        if let Some((_, value)) = words.iter().find(|(word, _)| *word == text) {
            return Some(value.clone());
        }
        let words: Vec<_> = words.iter().map(|(word, _)| format!("`{word}`")).collect();
        self.wrong_kind(node, &format!("one of {}", words.join(", ")));
        None
    }

    /// Reads a list.
    pub(super) fn list<'n>(&mut self, node: &'n YamlNode) -> &'n [YamlNode] {
        node.as_sequence().unwrap_or_else(|| {
            self.wrong_kind(node, "a list");
            &[]
        })
    }

    /// Reads a list of texts.
    pub(super) fn texts(&mut self, node: &YamlNode) -> Vec<String> {
        self.list(node).iter().filter_map(|entry| self.filled(entry)).collect()
    }

    /// Reads a regular expression and returns it as written.
    pub(super) fn pattern(&mut self, node: &YamlNode) -> Option<String> {
        let text = self.text(node)?;
        match regex::Regex::new(&text) {
            Ok(_) => Some(text),
            Err(error) => {
                let reason = error.to_string();
                let reason = reason.lines().last().unwrap_or_default();
                let reason = reason.trim_start_matches("error: ").to_owned();
                let message = format!("`{text}` is not a regular expression: {reason}");
                self.report(Diagnostic::error(node.span, message));
                None
            }
        }
    }

    /// Reads a name that `${…}` can hold.
    pub(super) fn identifier(&mut self, node: &YamlNode) -> Option<String> {
        let text = self.text(node)?;
        if !is_identifier(&text) {
            let message = format!("`{text}` cannot be the name of a variable");
            let help = "a name has letters, digits and `_`, and starts with no digit";
            self.report(Diagnostic::error(node.span, message).help(help));
            return None;
        }
        Some(text)
    }
}

/// Returns true if text can stand in `${…}` as a name, in a shell text too.
fn is_identifier(text: &str) -> bool {
    let mut letters = text.chars();
    letters.next().is_some_and(|letter| letter.is_ascii_alphabetic() || letter == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}
