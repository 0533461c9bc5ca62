//! Saying what agents did well, but not without something that a person should know.

use prodigy_core::job::{AgentWarning, AgentWarnings};

use crate::{
    progress::line::plural,
    render::console::{Console, one_line},
};

/// The most messages that the end of a run tells.
const TOLD: usize = 5;
/// The most places that are named behind one message.
const NAMED: usize = 5;

/// Says in one line what is to be known of an agent at a place.
pub(crate) fn line(place: &str, agent: &str, message: &str) -> String {
    format!("{place}: warning about {agent}: {message}")
}

/// Returns how many warnings there are, if there are any.
pub(crate) fn warning_count(warnings: &AgentWarnings) -> Option<String> {
    let items = match warnings.items.len() {
        0 => String::new(),
        items => format!(" about {}", plural(u64::try_from(items).unwrap_or(u64::MAX), "item")),
    };
    (warnings.in_all > 0).then(|| format!("{}{items}", warnings.in_all))
}

/// Returns the first warnings, one line for each message, with the places behind it.
pub(crate) fn lines(warnings: &AgentWarnings) -> Vec<String> {
    let mut groups: Vec<(&str, Vec<String>)> = Vec::new();
    for warning in &warnings.first {
        match groups.iter_mut().find(|(message, _)| *message == warning.message) {
            Some((_, places)) => places.push(warning_subject(warning)),
            None => groups.push((&warning.message, vec![warning_subject(warning)])),
        }
    }
    let shown = groups.iter().take(TOLD).map(|(message, places)| {
        let named: Vec<_> = places.iter().take(NAMED).map(String::as_str).collect();
        let more = match places.len().saturating_sub(NAMED) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("{}  {}{more}", one_line(message), named.join(", "))
    });
    shown.collect()
}

/// Says at the end of a run what is to be known, with the command that tells all of it.
pub(crate) fn show(warnings: &AgentWarnings, tells_all: Option<&str>, out: &mut Console) {
    let Some(in_all) = warning_count(warnings) else { return };
    let more = tells_all.map(|command| format!("; `{command}` tells all")).unwrap_or_default();
    out.note(format_args!("warnings: {in_all}{more}"));
    for line in lines(warnings) {
        out.note(format_args!("  {line}"));
    }
}

/// Returns what a warning is about.
fn warning_subject(warning: &AgentWarning) -> String {
    match &warning.item_id {
        Some(item) => item.to_string(),
        None => format!("step {}", warning.step),
    }
}

#[cfg(test)]
mod tests {
    use prodigy_core::ids::ItemId;

    use super::*;

    #[test]
    fn the_same_message_is_told_once_with_the_first_items() {
        let mut warnings = AgentWarnings::default();
        for number in 0..70_u64 {
            let item: ItemId = format!("item-{number}").parse().unwrap();
            let message = if number < 9 { "the same".to_owned() } else { format!("no. {number}") };
            warnings.in_all += 1;
            warnings.items.insert(item.clone());
            let (step, agent) = ("1".to_owned(), "claude".to_owned());
            warnings.first.push(AgentWarning { item_id: Some(item), step, agent, message });
        }
        insta::assert_snapshot!(warning_count(&warnings).unwrap(), @"70 about 70 items");
        insta::assert_snapshot!(lines(&warnings).join("\n"), @"
        the same  item-0, item-1, item-2, item-3, item-4 and 4 more
        no. 9  item-9
        no. 10  item-10
        no. 11  item-11
        no. 12  item-12
        ");
        assert_eq!(warning_count(&AgentWarnings::default()), None);
    }
}
