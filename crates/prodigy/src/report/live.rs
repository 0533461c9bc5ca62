//! The line at the bottom of a terminal that shows what is going on now.

use std::{
    io::{self, Write as _},
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{RecvTimeoutError, Sender, channel},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use prodigy_core::{duration, event::Record, job::Job};
use prodigy_engine::run::Reporter;

use super::lines::{StepNames, line};
use crate::output::{one_line, plain_text};

/// The pictures of the spinner.
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Shows a run on a terminal.
pub(super) struct Live {
    screen: Arc<Mutex<Screen>>,
    names: StepNames,
    color: bool,
    ticker: Option<(Sender<()>, JoinHandle<()>)>,
}

/// What stands in the live line.
#[derive(Default)]
struct Screen {
    text: String,
    since: Option<Instant>,
    frame: usize,
    drawn: bool,
}

impl Live {
    pub(super) fn new(color: bool) -> Self {
        let screen = Arc::new(Mutex::new(Screen::default()));
        let (stop, stopped) = channel::<()>();
        let shared = Arc::clone(&screen);
        let ticker = std::thread::spawn(move || {
            while stopped.recv_timeout(Duration::from_millis(100)) == Err(RecvTimeoutError::Timeout)
            {
                let mut screen = shared.lock().unwrap_or_else(PoisonError::into_inner);
                screen.frame = screen.frame.wrapping_add(1);
                screen.draw();
            }
        });
        Self { screen, names: StepNames::default(), color, ticker: Some((stop, ticker)) }
    }

    fn print(&self, text: &str) {
        let mut screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        screen.clear();
        // A terminal that went away must not stop the work.
        writeln!(io::stderr(), "{text}").ok();
        screen.draw();
    }
}

impl Reporter for Live {
    fn record(&mut self, record: &Record, job: &Job) {
        self.names.record(record);
        if let Some(line) = line(record, job, &self.names) {
            self.print(&format!("{} {}", line.sign.show(self.color), one_line(&line.text)));
        }
        self.names.forget(record);
        let mut screen = self.screen.lock().unwrap_or_else(PoisonError::into_inner);
        let text = self.names.newest().map(|(path, name)| {
            let cost = if job.cost_usd > 0.0 {
                format!(" · ${:.2}", job.cost_usd)
            } else {
                String::new()
            };
            format!("{}/{}{cost} · {path} {}", job.done, job.steps_in_all(), one_line(name))
        });
        let text = text.unwrap_or_default();
        if text != screen.text {
            screen.text = text;
            screen.since = Some(Instant::now());
        }
        if job.end.is_some() {
            screen.text.clear();
            screen.clear();
        }
    }

    fn note(&mut self, note: &str) {
        self.print(&plain_text(note));
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        if let Some((stop, ticker)) = self.ticker.take() {
            drop(stop);
            // A ticker that panicked has nothing left to draw.
            ticker.join().ok();
        }
        self.screen.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Screen {
    /// Takes the line away.
    fn clear(&mut self) {
        if self.drawn {
            write!(io::stderr(), "\r\x1b[2K").ok();
            self.drawn = false;
        }
    }

    /// Draws the line, cut to the width of the terminal.
    fn draw(&mut self) {
        self.clear();
        if self.text.is_empty() {
            return;
        }
        let frame = FRAMES.get(self.frame % FRAMES.len()).copied().unwrap_or("·");
        let elapsed = self.since.map(|since| duration::show(whole_seconds(since.elapsed())));
        let elapsed = elapsed.unwrap_or_default();
        let room = usize::from(width()).saturating_sub(elapsed.chars().count() + 5);
        let text = shortened(&self.text, room);
        write!(io::stderr(), "{frame} {text}  {elapsed}").ok();
        io::stderr().flush().ok();
        self.drawn = true;
    }
}

/// Returns a duration without the part of a second that would flicker.
fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

/// Returns text that fits into some columns.
fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// Returns the width of the terminal.
fn width() -> u16 {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    size.map_or(80, |size| size.ws_col).max(20)
}
