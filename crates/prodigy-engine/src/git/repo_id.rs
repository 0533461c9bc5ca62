//! The id of a repository, which stays when the repository is moved.

use std::{fs, io, os::unix::fs::PermissionsExt as _, path::Path};

use prodigy_core::ids::hex;

use super::{Error, Repo, isolation::isolated_git_dir::read_regular_or_empty};

/// The file in the directory that all working trees share.
pub(super) const ID_FILE: &str = "prodigy.id";

/// The number of random bytes of an id.
const BYTES: usize = 16;

impl Repo {
    /// Returns the repository's id; `None` if it has had no job yet.
    pub fn id(&self) -> Result<Option<String>, Error> {
        let text = read_regular_or_empty(&self.common_dir().join(ID_FILE))?;
        let text = String::from_utf8_lossy(&text).trim_end().to_owned();
        let is_id = text.len() == 2 * BYTES && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        Ok(is_id.then_some(text))
    }

    /// Gives the repository an id; a new one if none is given.
    pub fn set_id(&self, id: Option<&str>) -> Result<String, Error> {
        let path = self.common_dir().join(ID_FILE);
        let id = match id {
            Some(id) => id.to_owned(),
            None => new_id().map_err(Error::file("write", &path))?,
        };
        write(self.common_dir(), &path, &id).map_err(Error::file("write", &path))?;
        Ok(id)
    }
}

fn new_id() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    Ok(hex(&bytes))
}

/// Puts the file in its place in one step, for us alone.
fn write(directory: &Path, path: &Path, id: &str) -> io::Result<()> {
    let file = tempfile::NamedTempFile::new_in(directory)?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o600))?;
    io::Write::write_all(&mut file.as_file(), format!("{id}\n").as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    fs::File::open(directory)?.sync_all()
}
