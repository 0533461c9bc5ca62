//! From the parser's character counts to bytes.

/// The number of characters between two marks.
const STRIDE: usize = 64;

/// Turns character counts into byte offsets without walking the text from its start each time.
pub(crate) struct CharOffsets<'t> {
    text: &'t str,
    /// The byte offset of every [`STRIDE`]th character; `None` if every character is one byte.
    marks: Option<Vec<usize>>,
}

impl<'t> CharOffsets<'t> {
    /// Walks the text once.
    pub(crate) fn new(text: &'t str) -> Self {
        let marks = (!text.is_ascii())
            .then(|| text.char_indices().step_by(STRIDE).map(|(byte, _)| byte).collect());
        Self { text, marks }
    }

    /// Returns the byte where a character starts, or the length of the text if it is beyond it.
    pub(crate) fn byte_of(&self, character: usize) -> usize {
        let Some(marks) = &self.marks else {
            return character.min(self.text.len());
        };
        let Some(&mark) = marks.get(character / STRIDE) else {
            return self.text.len();
        };
        let rest = self.text.get(mark..).unwrap_or_default();
        rest.char_indices().nth(character % STRIDE).map_or(self.text.len(), |(byte, _)| mark + byte)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_character_is_found(text in "[a-zé日𝄞\n]{0,300}") {
            let offsets = CharOffsets::new(&text);
            for (character, (byte, _)) in text.char_indices().enumerate() {
                prop_assert_eq!(offsets.byte_of(character), byte);
            }
            prop_assert_eq!(offsets.byte_of(text.chars().count()), text.len());
            prop_assert_eq!(offsets.byte_of(text.len() + 1), text.len());
        }
    }
}
