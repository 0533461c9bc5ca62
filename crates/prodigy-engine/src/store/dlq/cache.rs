//! The letters of items that have not come to their end, in bounded memory.
//!
//! A hundred thousand items may wait to be tried again, each with a history. Only the newest
//! of their letters are held; the others lie in a file without a name until they are needed.

use std::{
    collections::HashMap, fs::File, io::Write as _, os::unix::fs::FileExt as _, path::PathBuf,
};

use prodigy_core::{dlq::DeadLetterState, ids::ItemId};

/// The most letters held in memory.
const HELD: usize = 1024;

/// The letters of items that have not come to their end.
pub(crate) struct DeadLetterCache {
    directory: PathBuf,
    slots: HashMap<ItemId, CacheSlot>,
    held: usize,
    file: Option<(File, u64)>,
    limit: usize,
}

/// Where a letter is.
enum CacheSlot {
    Held(Box<DeadLetterState>),
    Stored { at: u64, length: usize },
}

impl DeadLetterCache {
    /// Begins with none; what is too much goes to a file in a directory that is there.
    pub(crate) fn new(directory: PathBuf) -> Self {
        Self { directory, slots: HashMap::new(), held: 0, file: None, limit: HELD }
    }

    /// Takes a letter out.
    ///
    /// A letter that cannot be read back is lost, as if the item had just been heard of.
    pub(crate) fn take(&mut self, item: &ItemId) -> Option<DeadLetterState> {
        match self.slots.remove(item)? {
            CacheSlot::Held(letter) => {
                self.held -= 1;
                Some(*letter)
            }
            CacheSlot::Stored { at, length } => {
                let (file, _) = self.file.as_ref()?;
                let mut text = vec![0; length];
                file.read_exact_at(&mut text, at).ok()?;
                serde_json::from_slice(&text).ok()
            }
        }
    }

    /// Puts a letter in.
    pub(crate) fn insert(&mut self, letter: DeadLetterState) {
        let item = letter.item_id().clone();
        if !matches!(
            self.slots.insert(item, CacheSlot::Held(Box::new(letter))),
            Some(CacheSlot::Held(_))
        ) {
            self.held += 1;
        }
        if self.held > self.limit {
            self.store();
        }
    }

    /// Returns whether there is a letter of an item.
    pub(crate) fn contains(&self, item: &ItemId) -> bool {
        self.slots.contains_key(item)
    }

    /// Returns the items that there are letters of.
    pub(crate) fn items(&self) -> impl Iterator<Item = &ItemId> {
        self.slots.keys()
    }

    /// Moves all letters that are held to the file; if that fails, they stay.
    fn store(&mut self) {
        if self.file.is_none() {
            self.file = tempfile::tempfile_in(&self.directory).ok().map(|file| (file, 0));
        }
        let Some((file, end)) = &mut self.file else {
            self.limit = self.limit.saturating_mul(2);
            return;
        };
        let mut text = Vec::new();
        let mut places = Vec::new();
        for (item, slot) in &self.slots {
            if let CacheSlot::Held(letter) = slot {
                let start = text.len();
                if serde_json::to_writer(&mut text, letter).is_ok() {
                    places.push((item.clone(), start, text.len() - start));
                }
            }
        }
        if file.write_all(&text).is_err() {
            // What was written of it is passed over: the next goes behind it.
            *end = file.metadata().map_or(*end, |meta| meta.len());
            self.limit = self.limit.saturating_mul(2);
            return;
        }
        self.held -= places.len();
        for (item, start, length) in places {
            let at = *end + u64::try_from(start).unwrap_or_default();
            self.slots.insert(item, CacheSlot::Stored { at, length });
        }
        *end += u64::try_from(text.len()).unwrap_or_default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_come_back_from_the_file_and_only_a_few_are_held() {
        let directory = tempfile::tempdir().unwrap();
        let mut letters = DeadLetterCache::new(directory.path().to_owned());
        let letter = |number| {
            DeadLetterState::new("job".parse().unwrap(), ItemId::from_position(number, 5000))
        };
        for number in 1..=5000 {
            letters.insert(letter(number));
            assert!(letters.held <= HELD);
        }
        assert_eq!(letters.items().count(), 5000);
        for number in [1, 4999, 2500] {
            assert_eq!(letters.take(&ItemId::from_position(number, 5000)), Some(letter(number)));
            assert_eq!(letters.take(&ItemId::from_position(number, 5000)), None);
        }
        letters.insert(letter(1));
        assert_eq!(letters.take(&ItemId::from_position(1, 5000)), Some(letter(1)));
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[test]
    fn without_a_file_the_letters_stay_in_memory() {
        let mut letters = DeadLetterCache::new("/nowhere".into());
        let letter = |number| {
            DeadLetterState::new("job".parse().unwrap(), ItemId::from_position(number, 5000))
        };
        for number in 1..=5000 {
            letters.insert(letter(number));
        }
        assert!(
            (1..=5000).all(|number| letters.take(&ItemId::from_position(number, 5000)).is_some())
        );
    }
}
