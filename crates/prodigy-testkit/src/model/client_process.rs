//! Ending the program at the other end of a connection, as the system does when it is out of memory.

use std::{fs, net::SocketAddr};

use rustix::process::{Pid, Signal, kill_process};

/// Kills the program of this machine that a connection comes from; says whether there was one.
///
/// Only where `/proc` tells who has which connection, i.e. on Linux.
pub(crate) fn kill(peer: SocketAddr) -> bool {
    let found = socket_at(peer.port()).and_then(|socket| socket_owner(&socket));
    found.is_some_and(|pid| kill_process(pid, Signal::KILL).is_ok())
}

/// Returns the name of the socket that is bound to a port, as it stands in `/proc/PID/fd`.
fn socket_at(port: u16) -> Option<String> {
    let table = fs::read_to_string("/proc/net/tcp").ok()?;
    let ending = format!(":{port:04X}");
    table.lines().skip(1).find_map(|line| {
        let mut columns = line.split_whitespace();
        let is_ours = columns.nth(1)?.ends_with(&ending);
        // The socket is eight columns on, and has no number once it is closed.
        let inode = columns.nth(7).filter(|inode| is_ours && *inode != "0")?;
        Some(format!("socket:[{inode}]"))
    })
}

fn socket_owner(socket: &str) -> Option<Pid> {
    fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
        let files = fs::read_dir(entry.path().join("fd")).ok()?.flatten();
        let mut targets = files.filter_map(|file| fs::read_link(file.path()).ok());
        targets.any(|target| target.as_os_str() == socket).then(|| Pid::from_raw(pid)).flatten()
    })
}
