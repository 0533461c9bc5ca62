//! The items of a job, on the disk.
//!
//! The input may change or vanish while a job runs, so the chosen items are written
//! once, before the journal names them, and read from there ever after. Only their
//! places are kept in memory: an item is read when it is its turn.

use std::{
    fs::File,
    io::{BufRead as _, BufReader, Read, Result as IoResult},
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    sync::Arc,
};

use prodigy_core::{
    ids::{ItemId, hex},
    items::Item,
};
use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest as _, Sha256};

use super::{
    Error, ItemEdits,
    atomic_file::AtomicFile,
    files::{self, OpenMode},
};

/// The number of bytes read at once.
const CHUNK: usize = 256 * 1024;
/// The beginning of every line.
const START: &str = "{\"id\":\"";
/// As much of a line as can be needed to see the id, which is at most 120 characters.
const HEAD: usize = 160;

/// The items of a job, in a file with one line of JSON for each.
///
/// A line is `{"id":"item-001","index":0,"data":…}`. The data is what the input has,
/// digit for digit; only line breaks between its tokens become blanks.
#[derive(Clone, Debug)]
pub struct Spool(Arc<SpoolInner>, Arc<ItemEdits>);

#[derive(Debug)]
struct SpoolInner {
    path: PathBuf,
    file: File,
    sha256: String,
    /// Where each line starts, and at last where the file ends.
    offsets: Vec<u64>,
}

/// One item as it was stored.
#[derive(Clone, Debug)]
pub struct SpooledItem {
    /// Its name.
    pub id: ItemId,
    /// The item itself.
    pub data: Box<RawValue>,
}

/// A line of the file.
#[derive(Deserialize)]
struct SpoolLine<'a> {
    id: ItemId,
    index: usize,
    #[serde(borrow)]
    data: &'a RawValue,
}

impl Spool {
    /// Stores the items of a job. When this returns they survive a power failure.
    pub fn write<'a>(path: &Path, items: impl Iterator<Item = &'a Item>) -> Result<Self, Error> {
        let mut file = AtomicFile::create(path)?;
        let mut hash = Sha256::new();
        let mut offsets = vec![0];
        let mut end = 0;
        let mut line = Vec::new();
        for (index, item) in items.enumerate() {
            line.clear();
            line.extend_from_slice(START.as_bytes());
            // Nothing in the name of an item has to be escaped.
            line.extend_from_slice(item.id.as_str().as_bytes());
            line.extend_from_slice(format!("\",\"index\":{index},\"data\":").as_bytes());
            push_on_one_line(item.data.get().as_bytes(), &mut line);
            line.extend_from_slice(b"}\n");
            file.append(&line)?;
            hash.update(&line);
            end += u64::try_from(line.len()).unwrap_or_default();
            offsets.push(end);
        }
        file.commit()?;
        let file = files::open_regular(path, OpenMode::Read)?;
        let sha256 = hex(&hash.finalize());
        let inner = SpoolInner { path: path.to_owned(), file, sha256, offsets };
        Ok(Self(Arc::new(inner), Arc::default()))
    }

    /// Opens the items of a job again, which must be exactly those that were written.
    pub fn open(path: &Path, sha256: &str) -> Result<Self, Error> {
        let file = files::open_regular(path, OpenMode::Read)?;
        let hashed = HashingReader { file: &file, hash: Sha256::new() };
        let mut reader = BufReader::with_capacity(CHUNK, hashed);
        let mut offsets = vec![0];
        let mut end = 0;
        loop {
            let length = reader.skip_until(b'\n');
            let length = length.map_err(|error| Error::io("read", path, error))?;
            if length == 0 {
                break;
            }
            end += u64::try_from(length).unwrap_or_default();
            offsets.push(end);
        }
        let found = hex(&reader.into_inner().hash.finalize());
        if found != sha256 {
            return Err(Error::Altered { path: path.to_owned(), wanted: sha256.to_owned(), found });
        }
        offsets.shrink_to_fit();
        let inner = SpoolInner { path: path.to_owned(), file, sha256: found, offsets };
        Ok(Self(Arc::new(inner), Arc::default()))
    }

    /// Returns the same items, some of them with other data than what was chosen.
    #[must_use]
    pub fn with_edits(self, edits: ItemEdits) -> Self {
        Self(self.0, Arc::new(edits))
    }

    /// Returns the SHA-256 of the file, by which it is known when it is opened again.
    pub fn sha256(&self) -> &str {
        &self.0.sha256
    }

    /// Returns how many items there are.
    pub fn len(&self) -> usize {
        self.0.offsets.len() - 1
    }

    /// Returns whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads an item, the first with index 0.
    pub fn read(&self, index: usize) -> Result<SpooledItem, Error> {
        let text = self.text(index, usize::MAX)?;
        let line: SpoolLine<'_> = serde_json::from_slice(&text)
            .map_err(|error| self.damaged(index, &error.to_string()))?;
        if line.index != index {
            return Err(
                self.damaged(index, &format!("it holds the item with index {}", line.index))
            );
        }
        let data = match self.1.read(index) {
            Some(data) => data?,
            None => line.data.to_owned(),
        };
        Ok(SpooledItem { id: line.id, data })
    }

    /// Reads the names of the items in their order, and nothing else of them.
    pub fn ids(&self) -> impl Iterator<Item = Result<ItemId, Error>> {
        (0..self.len()).map(|index| {
            let head = self.text(index, HEAD)?;
            let head = String::from_utf8_lossy(&head);
            head.strip_prefix(START)
                .and_then(|rest| rest.split_once('"'))
                .and_then(|(id, _)| id.parse().ok())
                .ok_or_else(|| self.damaged(index, "it does not start with the name of an item"))
        })
    }

    /// Returns at most `most` bytes of the line of an item.
    fn text(&self, index: usize, most: usize) -> Result<Vec<u8>, Error> {
        let offsets = &self.0.offsets;
        let (Some(start), Some(end)) = (offsets.get(index), offsets.get(index.saturating_add(1)))
        else {
            return Err(self.damaged(index, "there are not that many items"));
        };
        let length = usize::try_from(end - start).unwrap_or(usize::MAX).min(most);
        let mut text = vec![0; length];
        let read = self.0.file.read_exact_at(&mut text, *start);
        read.map_err(|error| Error::io("read", &self.0.path, error))?;
        Ok(text)
    }

    fn damaged(&self, index: usize, reason: &str) -> Error {
        let line = u64::try_from(index).unwrap_or(u64::MAX).saturating_add(1);
        Error::Damaged { path: self.0.path.clone(), line, reason: reason.to_owned() }
    }
}

/// Appends JSON without the line breaks in it.
///
/// Inside a text a line break is escaped, so those that are left stand between tokens.
fn push_on_one_line(json: &[u8], line: &mut Vec<u8>) {
    let start = line.len();
    line.extend_from_slice(json);
    if json.contains(&b'\n') || json.contains(&b'\r') {
        for byte in line.iter_mut().skip(start) {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
}

/// A file that is hashed as it is read.
struct HashingReader<'a> {
    file: &'a File,
    hash: Sha256,
}

impl Read for HashingReader<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> IoResult<usize> {
        let count = self.file.read(buffer)?;
        self.hash.update(buffer.get(..count).unwrap_or_default());
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _, time::Instant};

    use proptest::prelude::*;
    use tempfile::TempDir;

    use super::*;

    /// A directory with the file of a spool.
    struct SpoolFixture {
        directory: TempDir,
        path: PathBuf,
    }

    impl SpoolFixture {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("items.jsonl");
            Self { directory, path }
        }

        /// Shows an error without the directory, which is different every time.
        fn show(&self, error: &Error) -> String {
            error.to_string().replace(self.directory.path().to_str().unwrap(), "$TMP")
        }
    }

    fn item(index: usize, data: &str) -> Item {
        let data = RawValue::from_string(data.to_owned()).unwrap();
        Item { id: ItemId::from_position(index + 1, 10), index: index + 1, data }
    }

    fn items(data: &[&str]) -> Vec<Item> {
        data.iter().enumerate().map(|(index, data)| item(index, data)).collect()
    }

    fn show(spool: &Spool) -> Vec<String> {
        let read = (0..spool.len()).map(|index| spool.read(index).unwrap());
        read.map(|item| format!("{} {}", item.id, item.data)).collect()
    }

    #[test]
    fn items_come_back_byte_for_byte() {
        let place = SpoolFixture::new();
        let written = items(&[
            r#"{"a":1.10,"big":123456789012345678901234567890,"e":1E+2}"#,
            r#""a \u0041 \n \"quoted\" \\ é""#,
            "{ \"pretty\": [\n  1,\r\n  2 ] }",
            "null",
        ]);
        let spool = Spool::write(&place.path, written.iter()).unwrap();
        insta::assert_snapshot!(fs::read_to_string(&place.path).unwrap(), @r#"
        {"id":"item-001","index":0,"data":{"a":1.10,"big":123456789012345678901234567890,"e":1E+2}}
        {"id":"item-002","index":1,"data":"a \u0041 \n \"quoted\" \\ é"}
        {"id":"item-003","index":2,"data":{ "pretty": [   1,    2 ] }}
        {"id":"item-004","index":3,"data":null}
        "#);
        insta::assert_snapshot!(show(&spool).join("\n"), @r#"
        item-001 {"a":1.10,"big":123456789012345678901234567890,"e":1E+2}
        item-002 "a \u0041 \n \"quoted\" \\ é"
        item-003 { "pretty": [   1,    2 ] }
        item-004 null
        "#);
        let again = Spool::open(&place.path, spool.sha256()).unwrap();
        assert_eq!((again.len(), show(&again)), (4, show(&spool)));
        assert_eq!(again.sha256(), spool.sha256());
        assert_eq!(again.sha256(), hex(&Sha256::digest(fs::read(&place.path).unwrap())));
        let ids: Vec<_> = again.ids().map(|id| id.unwrap().to_string()).collect();
        assert_eq!(ids, ["item-001", "item-002", "item-003", "item-004"]);
        let mode = fs::metadata(&place.path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        assert_eq!(fs::read_dir(place.directory.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_job_may_have_no_items() {
        let place = SpoolFixture::new();
        let spool = Spool::write(&place.path, [].iter()).unwrap();
        let spool = Spool::open(&place.path, spool.sha256()).unwrap();
        assert!(spool.is_empty());
        assert_eq!(spool.ids().count(), 0);
        insta::assert_snapshot!(place.show(&spool.read(0).unwrap_err()), @"`$TMP/items.jsonl` is damaged at line 1: there are not that many items");
    }

    #[test]
    fn a_changed_or_cut_file_is_refused_by_name() {
        let place = SpoolFixture::new();
        let spool = Spool::write(&place.path, items(&["1", "[2]"]).iter()).unwrap();
        let whole = fs::read(&place.path).unwrap();
        let refused = || place.show(&Spool::open(&place.path, spool.sha256()).unwrap_err());
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            for bytes in [&whole[..at], &changed] {
                files::write_projection(&place.path, bytes).unwrap();
                assert!(refused().starts_with("`$TMP/items.jsonl` is not what was written"));
            }
        }
        insta::assert_snapshot!(refused(), @"`$TMP/items.jsonl` is not what was written: its SHA-256 is e98f7602dee1fa665cd40a5d53b662c9b3906a175d741e251f2d158eba7f80e3 and should be 2196c4ec8ae160ba8f3a6fb4b193f7b72e518b9b467dbe76573aaa89419775a5");
        fs::remove_file(&place.path).unwrap();
        insta::assert_snapshot!(refused(), @"cannot open `$TMP/items.jsonl`");
    }

    #[test]
    fn a_file_that_changes_under_an_open_spool_gives_no_wrong_item() {
        let place = SpoolFixture::new();
        let spool = Spool::write(&place.path, items(&["1", "2"]).iter()).unwrap();
        let file = File::options().write(true).open(&place.path).unwrap();
        let text = fs::read_to_string(&place.path).unwrap();
        let line = text.lines().next().unwrap().to_owned() + "\n";
        file.write_all_at(line.as_bytes(), line.len() as u64).unwrap();
        let seen = |index: usize| place.show(&spool.read(index).unwrap_err());
        insta::assert_snapshot!(seen(1), @"`$TMP/items.jsonl` is damaged at line 2: it holds the item with index 0");
        file.write_all_at(b"x", 0).unwrap();
        insta::assert_snapshot!(seen(0), @"`$TMP/items.jsonl` is damaged at line 1: expected value at line 1 column 1");
        let unnamed = spool.ids().next().unwrap().unwrap_err();
        insta::assert_snapshot!(place.show(&unnamed), @"`$TMP/items.jsonl` is damaged at line 1: it does not start with the name of an item");
        file.set_len(3).unwrap();
        insta::assert_snapshot!(seen(1), @"cannot read `$TMP/items.jsonl`");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Whatever is in the items, they come back, and each takes one line.
        #[test]
        fn any_items_come_back(texts in prop::collection::vec(any::<String>(), 0..6)) {
            let place = SpoolFixture::new();
            let data: Vec<_> = texts.iter().map(|t| serde_json::to_string(t).unwrap()).collect();
            let written: Vec<_> = data.iter().enumerate().map(|(at, d)| item(at, d)).collect();
            let spool = Spool::write(&place.path, written.iter()).unwrap();
            let spool = Spool::open(&place.path, spool.sha256()).unwrap();
            prop_assert_eq!(spool.len(), texts.len());
            for (index, data) in data.iter().enumerate() {
                let read = spool.read(index).unwrap();
                prop_assert_eq!(read.data.get(), data);
                prop_assert_eq!(&read.id, &written[index].id);
            }
        }
    }

    #[test]
    #[ignore = "a measurement; run it alone and optimised"]
    fn how_long_a_hundred_thousand_items_take() {
        const ITEMS: usize = 100_000;
        let place = SpoolFixture::new();
        let data = format!("{{\"n\":1.10,\"text\":\"{}\"}}", "x".repeat(1000));
        let written: Vec<_> = (0..ITEMS).map(|index| item(index, &data)).collect();
        let start = Instant::now();
        let spool = Spool::write(&place.path, written.iter()).unwrap();
        println!("write {:?}", start.elapsed());
        let start = Instant::now();
        let spool = Spool::open(&place.path, spool.sha256()).unwrap();
        println!("open {:?}", start.elapsed());
        let start = Instant::now();
        assert_eq!(spool.ids().map(Result::unwrap).count(), ITEMS);
        println!("names {:?}", start.elapsed());
        let start = Instant::now();
        for index in 0..ITEMS {
            spool.read(index).unwrap();
        }
        println!("all items {:?}", start.elapsed());
    }
}
