//! The transcripts of Claude's sessions.
//!
//! Agents may write where they lie, so links among them are never followed: what an agent puts
//! there must not decide what is written elsewhere.

use std::{
    ffi::OsStr,
    fs::File,
    io,
    os::fd::{AsFd, OwnedFd},
    path::Path,
    time::SystemTime,
};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, mkdirat, openat, renameat, unlinkat};

/// Returns whether there is a transcript of a session, and puts a copy into the directory of a
/// project unless the last one is there.
///
/// `projects` holds a directory for each project; `wanted` is the name of one of them, if the
/// program would find a copy there.
pub(super) fn restore_transcript(projects: &Path, session: &str, wanted: Option<&str>) -> bool {
    let Ok(projects) = directory(CWD, projects.as_os_str(), OFlags::empty()) else { return false };
    let name = format!("{session}.jsonl");
    let Some((project, transcript)) = last(&projects, &name) else { return false };
    if let Some(wanted) = wanted.filter(|wanted| *wanted != project) {
        // Without the copy, the program may still find the one elsewhere.
        copy(transcript, &projects, wanted, &name).ok();
    }
    true
}

/// Returns the last of the transcripts of a session, and the project that it is in.
fn last(projects: &OwnedFd, name: &str) -> Option<(String, File)> {
    let entries = Dir::read_from(projects).ok()?.flatten();
    let found = entries.filter_map(|entry| {
        let project = entry.file_name().to_str().ok()?.to_owned();
        let inside = directory(projects, OsStr::new(&project), OFlags::NOFOLLOW).ok()?;
        let (transcript, modified) = transcript(&inside, name)?;
        Some((modified, project, transcript))
    });
    let last = found.max_by(|(first, ..), (second, ..)| first.cmp(second));
    last.map(|(_, project, transcript)| (project, transcript))
}

/// Opens a transcript, if it is a file, and says when it was changed.
fn transcript(project: &OwnedFd, name: &str) -> Option<(File, SystemTime)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(project, name, flags, Mode::empty()).ok()?);
    let meta = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    Some((file, meta.modified().ok()?))
}

/// Copies a transcript, in one go as others see it.
fn copy(mut from: File, projects: &OwnedFd, wanted: &str, name: &str) -> io::Result<()> {
    match mkdirat(projects, wanted, Mode::RWXU) {
        Ok(()) | Err(rustix::io::Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    let project = directory(projects, OsStr::new(wanted), OFlags::NOFOLLOW)?;
    let draft = format!("{name}.{}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let to = openat(&project, &draft, flags, Mode::RUSR | Mode::WUSR)?;
    let copied = io::copy(&mut from, &mut File::from(to))
        .and_then(|_| Ok(renameat(&project, &draft, &project, name)?));
    if copied.is_err() {
        unlinkat(&project, &draft, AtFlags::empty()).ok();
    }
    copied
}

fn directory(at: impl AsFd, name: &OsStr, more: OFlags) -> rustix::io::Result<OwnedFd> {
    openat(at, name, OFlags::DIRECTORY | OFlags::CLOEXEC | more, Mode::empty())
}
