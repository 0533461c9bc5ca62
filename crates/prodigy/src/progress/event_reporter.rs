//! A run told event by event, for `-v`.

use std::io::{self, Write as _};

use prodigy_core::{
    event::{Event, EventRecord},
    job::Job,
};
use prodigy_engine::run::Reporter;

use crate::render::{
    console::{escape_controls, one_line},
    event_line::EventFormatter,
};

/// Shows every event of a run as `prodigy events` does, and the end of what failed steps printed.
#[derive(Default)]
pub(crate) struct EventReporter {
    lines: EventFormatter,
    /// The day that was shown last.
    day: String,
}

impl Reporter for EventReporter {
    fn record(&mut self, record: &EventRecord, _job: &Job) {
        self.lines.observe(record);
        let (day, line) = self.lines.format(record);
        if day != self.day {
            print(&day);
            self.day = day;
        }
        print(&one_line(&line));
        if let Event::StepFailed { failure, .. } = &record.event {
            for line in failure.output_tail.lines() {
                print(&format!("    {}", one_line(line)));
            }
        }
    }

    fn note(&mut self, note: &str) {
        print(&escape_controls(note));
    }
}

fn print(text: &str) {
    // A reader that went away must not stop the work.
    writeln!(io::stderr(), "{text}").ok();
}
