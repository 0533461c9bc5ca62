//! Starting programs that a signal to our own process group does not reach.
//!
//! Ctrl-C in a terminal is a signal to every process of our group. A program of ours that has a
//! group of its own does not hear it, but it is born in ours: with `posix_spawn` the signal waits
//! until the group is set and then ends the program before its first instruction. Nothing has
//! happened by then, so it is started again, as often as it takes: on a busy machine a process
//! waits for its turn between being born and leaving our group, and every further Ctrl-C hits it.

use std::{
    fs, io,
    os::unix::process::ExitStatusExt as _,
    process::{Child, Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;

/// The most times that a program is started which is killed, or ended by something else that is
/// not sent to groups, before it has begun.
pub(crate) const TRIES: u32 = 20;

/// The signals that terminals and service managers send to whole groups.
const TO_GROUPS: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

/// The kernel's flag of a process that was forked and has not executed its program yet:
/// `PF_FORKNOEXEC`.
const UNBORN: u64 = 0x40;

/// The longest time between the end of `spawn` and the start of the program.
const BEING_BORN: Duration = Duration::from_secs(5);

/// Starts a program that has a process group of its own.
///
/// When this returns the program has begun, and no signal to our group reaches it.
pub(crate) fn spawn(command: &mut Command) -> io::Result<Child> {
    let mut child = command.spawn()?;
    let mut tries_left = TRIES - 1;
    while tries_left > 0 && died_before_exec(child.id()) {
        // Each time takes a further signal, so this ends when the signals do.
        if !is_group_signal(child.wait()?) {
            tries_left -= 1;
        }
        child = command.spawn()?;
    }
    Ok(child)
}

/// Returns whether a program was ended by a signal that is sent to whole groups.
fn is_group_signal(status: ExitStatus) -> bool {
    status.signal().is_some_and(|ended| TO_GROUPS.map(Signal::as_raw).contains(&ended))
}

/// Returns whether a child that is not reaped ended before it became its program.
fn died_before_exec(pid: u32) -> bool {
    let start = Instant::now();
    // Who becomes a program lets its parent go on a moment before it has.
    while start.elapsed() < BEING_BORN {
        match stage(pid) {
            Some(ExecStage::Unborn) => thread::yield_now(),
            Some(ExecStage::Stillborn) => return true,
            // Without `/proc` nobody can tell; then it is taken for what it nearly always is.
            Some(ExecStage::Born) | None => return false,
        }
    }
    false
}

/// The stage of a child between fork and exec.
#[derive(Debug, PartialEq, Eq)]
enum ExecStage {
    /// It is still a copy of us.
    Unborn,
    /// It ended as one.
    Stillborn,
    /// It is, or was, its program.
    Born,
}

fn stage(pid: u32) -> Option<ExecStage> {
    let stat = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // The name is in parentheses and may contain anything, parentheses too.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    // The ninth field of the file.
    let flags: u64 = fields.nth(5)?.parse().ok()?;
    Some(match (flags & UNBORN != 0, state) {
        (false, _) => ExecStage::Born,
        (true, "Z" | "X") => ExecStage::Stillborn,
        (true, _) => ExecStage::Unborn,
    })
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the tests need plain children")]
mod tests {
    use std::{
        os::unix::process::CommandExt as _,
        sync::{Arc, atomic::AtomicBool},
    };

    use rustix::process::{Pid, kill_process_group};

    use super::*;

    /// A time without signals, in which a process gets its turn on the busiest machine.
    const LULL: Duration = Duration::from_millis(250);

    #[test]
    fn a_program_that_has_begun_is_born_whether_it_has_ended_or_not() {
        let mut child = Command::new("sleep").arg("60").process_group(0).spawn().unwrap();
        assert!(!died_before_exec(child.id()));
        child.kill().unwrap();
        let deadline = Instant::now() + Duration::from_secs(10);
        while !fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap().contains(") Z ") {
            assert!(Instant::now() < deadline, "it does not end");
        }
        assert_eq!(stage(child.id()), Some(ExecStage::Born));
        child.wait().unwrap();
    }

    /// Starts programs and expects all of them to end well, whatever happens to its own group.
    #[test]
    #[ignore = "the test below runs this in a process group of its own"]
    fn starts_many() {
        signal_hook::flag::register(Signal::INT.as_raw(), Arc::new(AtomicBool::new(false)))
            .unwrap();
        // Only now may signals come.
        fs::write(std::env::var("READY").unwrap(), "").unwrap();
        for _ in 0..200 {
            let status = spawn(Command::new("true").process_group(0)).unwrap().wait().unwrap();
            assert!(status.success(), "{status}");
        }
    }

    #[test]
    fn a_signal_to_our_group_does_not_end_what_is_just_being_started() {
        let directory = tempfile::tempdir().unwrap();
        let ready = directory.path().join("ready");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "process::process_group::tests::starts_many", "--ignored"]);
        command.env("READY", &ready).stdout(std::process::Stdio::null());
        let mut child = command.process_group(0).spawn().unwrap();
        let deadline = Instant::now() + Duration::from_secs(120);
        // On a busy machine a storm hits every start. None is lost by it, but none gets through
        // either, so the storm has lulls.
        let lulls = (1_u32..).map(|number| number % 100 == 0);
        for is_lull in lulls {
            if let Some(status) = child.try_wait().unwrap() {
                assert!(status.success(), "{status}");
                break;
            }
            if Instant::now() > deadline {
                child.kill().unwrap();
            }
            if ready.exists() {
                kill_process_group(Pid::from_child(&child), Signal::INT).ok();
            }
            let pause = if is_lull { LULL } else { Duration::from_micros(300) };
            thread::sleep(pause);
        }
        assert!(ready.exists(), "the process that starts many ran no test");
    }
}
