//! Facts of a stream for people, besides its notices.

use super::{
    StreamDialect, StreamState,
    json::{self, partial},
};

partial! {
    /// The field that every event has.
    EventHead { kind = "type" }
}

impl StreamDialect {
    /// Returns the dialect that a line is written in, if the line shows it.
    pub fn detect(line: &[u8]) -> Option<Self> {
        let event: EventHead<'_> = serde_json::from_slice(line).ok()?;
        match &*json::text(event.kind)? {
            "system" | "assistant" | "user" | "result" => Some(Self::Claude),
            kind if kind.contains('.') => Some(Self::Codex),
            _ => None,
        }
    }
}

impl StreamState {
    /// Returns how often it was the agent's turn, which comes with a result.
    pub fn turns(&self) -> Option<u32> {
        self.turns
    }

    /// Returns the last answer, if there is one.
    pub fn answer(&self) -> Option<&str> {
        self.ending.as_ref().filter(|ending| ending.trouble.is_none()).map(|ending| &*ending.answer)
    }

    /// Returns what went wrong, in the agent's words: as its result says, or before there is one.
    pub fn error_text(&self) -> Option<String> {
        let trouble = match &self.ending {
            Some(ending) => ending.trouble.as_ref(),
            None => self.trouble.as_ref(),
        };
        trouble.map(|trouble| match trouble.kind {
            Some(kind) if trouble.text.trim().is_empty() => kind.to_string(),
            Some(_) | None => trouble.text.clone(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_shows_who_wrote_it() {
        let of = |line: &str| StreamDialect::detect(line.as_bytes());
        assert_eq!(of(r#"{"type":"system","subtype":"init"}"#), Some(StreamDialect::Claude));
        assert_eq!(of(r#"{"type":"thread.started","thread_id":"1"}"#), Some(StreamDialect::Codex));
        assert_eq!(of(r#"{"type":"error","message":"no"}"#), None);
        assert_eq!(of(r#"{"type":7}"#), None);
        assert_eq!(of("no event"), None);
    }

    #[test]
    fn a_result_has_turns_and_either_an_answer_or_trouble() {
        let mut heard = StreamState::new(StreamDialect::Claude);
        assert_eq!((heard.turns(), heard.answer(), heard.error_text()), (None, None, None));
        heard.handle_line(br#"{"type":"result","is_error":false,"result":"done","num_turns":2}"#);
        assert_eq!(
            (heard.turns(), heard.answer(), heard.error_text()),
            (Some(2), Some("done"), None)
        );
        heard.handle_line(br#"{"type":"result","subtype":"error_max_turns","is_error":true}"#);
        let trouble = Some("turn_limit".to_owned());
        assert_eq!((heard.turns(), heard.answer(), heard.error_text()), (Some(2), None, trouble));
    }
}
