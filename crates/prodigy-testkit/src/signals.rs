//! The signals that programs under test are started with.

use std::sync::{Arc, Once, atomic::AtomicBool};

use rustix::process::Signal;

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
