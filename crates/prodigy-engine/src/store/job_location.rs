//! The machine and the home that a job is worked on in.
//!
//! A home that is copied to another machine has the same jobs as the first one, and no lock
//! keeps the two apart. So every job knows where it was worked on last.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use prodigy_core::{
    Timestamp,
    ids::{JobId, hex},
};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{Error, Layout, create_dir, read_bounded, write_atomic};
use crate::clock;

/// The longest of these files that is read back.
const LIMIT: u64 = 1 << 20;
/// The number of random bytes of an id.
const BYTES: usize = 16;
/// Where a machine has its id.
const MACHINE_IDS: [&str; 2] = ["/etc/machine-id", "/var/lib/dbus/machine-id"];

/// The machine and the home that a job is worked on in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobLocation {
    /// The id of the home.
    pub home_id: String,
    /// A hash of the machine's id; machines and containers may have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine_id: Option<String>,
    /// The name of the host, for people.
    pub host: String,
    /// The path of the home, for people.
    pub home: String,
    /// The moment from which on it was this one.
    pub since: Timestamp,
}

/// The content of a home's identity file.
#[derive(Serialize, Deserialize)]
struct HomeFile {
    id: String,
    path: PathBuf,
}

impl JobLocation {
    /// Returns whether a job that was worked on here may be worked on in another place without
    /// asking: the name of the host and the path are nothing.
    fn is_same_as(&self, here: &Self) -> bool {
        // Jobs of containers without an id can be from anywhere.
        let is_machine = self.machine_id.is_none() || self.machine_id == here.machine_id;
        is_machine && self.home_id == here.home_id
    }
}

impl Layout {
    /// Returns this machine and home; a home without an id gets one.
    fn location(&self) -> Result<JobLocation, Error> {
        let name = rustix::system::uname();
        Ok(JobLocation {
            home_id: home_id(self.home())?,
            machine_id: machine_id(),
            host: name.nodename().to_string_lossy().into_owned(),
            home: self.home().display().to_string(),
            since: clock::now(),
        })
    }

    /// Returns where a job was worked on last, if that was not here.
    pub fn other_location(&self, job: &JobId) -> Result<Option<JobLocation>, Error> {
        // Jobs of older versions do not say.
        let Some(last) = self.locations(job)?.pop() else { return Ok(None) };
        let here = self.location()?;
        Ok(Some(last).filter(|last| !last.is_same_as(&here)))
    }

    /// Refuses a job that was worked on in another place.
    pub fn refuse_other_location(&self, job: &JobId) -> Result<(), Error> {
        match self.other_location(job)? {
            None => Ok(()),
            Some(JobLocation { host, home, .. }) => {
                Err(Error::Elsewhere { job: job.clone(), host, home })
            }
        }
    }

    /// Records that a job is worked on here from now on. The places before it are kept.
    pub fn record_location(&self, job: &JobId) -> Result<(), Error> {
        let mut places = self.locations(job)?;
        let here = self.location()?;
        if places.last().is_some_and(|last| last.is_same_as(&here) && last.host == here.host) {
            return Ok(());
        }
        places.push(here);
        let path = self.locations_file(job);
        let mut text = String::new();
        for place in &places {
            let line = serde_json::to_string(place)
                .map_err(|error| Error::io("write", &path, io::Error::other(error)))?;
            text.push_str(&line);
            text.push('\n');
        }
        create_dir(&self.state_dir(job))?;
        write_atomic(&path, text.as_bytes())
    }

    fn locations(&self, job: &JobId) -> Result<Vec<JobLocation>, Error> {
        let path = self.locations_file(job);
        let text = read_bounded(&path, LIMIT)?.unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        let mut places = Vec::new();
        for (line, number) in text.lines().zip(1..) {
            let place = serde_json::from_str(line).map_err(|error| Error::Damaged {
                path: path.clone(),
                line: number,
                reason: error.to_string(),
            })?;
            places.push(place);
        }
        Ok(places)
    }

    /// Returns the file that says where a job was worked on.
    pub fn locations_file(&self, job: &JobId) -> PathBuf {
        self.state_dir(job).join("places.jsonl")
    }
}

/// Returns the id of a home; one that has none, or is a copy of another one on this machine, gets
/// one of its own.
fn home_id(home: &Path) -> Result<String, Error> {
    let canonical = home.canonicalize().unwrap_or_else(|_| home.to_owned());
    let known = read_home(home)?;
    let id = match known {
        Some(known) if known.path == canonical => return Ok(known.id),
        Some(known) if !is_other_home(&known, &canonical) => known.id,
        Some(_) | None => new_id(home)?,
    };
    let path = home.join("home.json");
    let file = HomeFile { id: id.clone(), path: canonical };
    let text = serde_json::to_string(&file)
        .map_err(|error| Error::io("write", &path, io::Error::other(error)))?;
    write_atomic(&path, format!("{text}\n").as_bytes())?;
    Ok(id)
}

/// Returns whether the home that was known by an id is still in its place, and is not this one.
fn is_other_home(known: &HomeFile, here: &Path) -> bool {
    let place = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let there = read_home(&known.path).ok().flatten();
    there.is_some_and(|there| there.id == known.id) && place(&known.path) != place(here)
}

fn read_home(home: &Path) -> Result<Option<HomeFile>, Error> {
    let path = home.join("home.json");
    let Some(text) = read_bounded(&path, LIMIT)? else { return Ok(None) };
    let read = serde_json::from_slice(&text);
    read.map(Some).map_err(|error| Error::Damaged { path, line: 1, reason: error.to_string() })
}

fn new_id(home: &Path) -> Result<String, Error> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes)
        .map_err(|error| Error::io("make an id for", home, io::Error::other(error)))?;
    Ok(hex(&bytes))
}

/// Returns a hash of the machine's id, which is not for others to know.
fn machine_id() -> Option<String> {
    let ids = MACHINE_IDS.iter().filter_map(|path| fs::read_to_string(path).ok());
    let id = ids.map(|id| id.trim().to_owned()).find(|id| !id.is_empty())?;
    let hash = Sha256::digest(format!("prodigy {id}"));
    Some(hex(hash.get(..BYTES).unwrap_or_default()))
}
