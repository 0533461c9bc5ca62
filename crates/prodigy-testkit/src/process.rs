//! Programs that are not waited for forever.

use std::{
    process::{Command, Output, Stdio},
    sync::{Arc, Once, atomic::AtomicBool, mpsc},
    thread,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};

/// Longer than anything that a test waits for, also on a slow machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs a program to its end and returns what it printed; one that hangs is killed, so that its
/// test fails and shows what it printed until then.
pub fn run_bounded(command: &mut Command) -> Output {
    output_within(command, LIMIT)
}

fn output_within(command: &mut Command, limit: Duration) -> Output {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let pid = Pid::from_child(&child);
    let (over, is_over) = mpsc::channel::<()>();
    let watchman = thread::spawn(move || {
        if is_over.recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Timeout) {
            // It may have ended this moment, which is as good.
            kill_process(pid, Signal::KILL).ok();
        }
    });
    let output = child.wait_with_output().unwrap();
    drop(over);
    watchman.join().unwrap();
    output
}

/// Makes sure that programs which are started from here hear the signals that stop a run.
///
/// A test that runs in the background of a script was itself started to ignore some of them, and
/// what is ignored is inherited. A signal that has a handler is not ignored, and begins with its
/// default in a new program. The handlers do what the default does.
pub(crate) fn restore_default_signals() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
            let always = Arc::new(AtomicBool::new(true));
            signal_hook::flag::register_conditional_default(signal.as_raw(), always).unwrap();
        }
    });
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_hangs_is_killed_and_what_it_printed_is_kept() {
        let began = Instant::now();
        let mut hanging = Command::new("sh");
        hanging.args(["-c", "echo begun; exec sleep 60"]);
        let output = output_within(&mut hanging, Duration::from_millis(300));
        assert_eq!((output.status.code(), &*output.stdout), (None, &b"begun\n"[..]));
        assert!(began.elapsed() < Duration::from_secs(30));
    }
}
