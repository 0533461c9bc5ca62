//! The live view of a run on a terminal: lines that stay, and below them the current state.

use std::{
    io::{self, Write as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use jiff::tz::TimeZone;
use prodigy_core::{
    duration,
    event::EventRecord,
    job::{AgentActivity, Job},
};
use prodigy_engine::{clock, run::Reporter};
use unicode_width::UnicodeWidthStr as _;

use super::{
    item_reporter::ItemReporter,
    line::{ActiveSteps, LinePriority, ProgressLine, format_record},
    status_block::{TerminalSize, activity_text, line_endings, status_lines, truncate},
    ticker::Ticker,
    totals::whole_seconds,
};
use crate::render::console::{escape_controls, one_line};

/// The pictures of the spinner.
const FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];

/// Shows a run on a terminal.
pub(crate) struct LiveReporter {
    screen: Arc<Mutex<Screen>>,
    names: ActiveSteps,
    color: bool,
    ticker: Option<Ticker>,
}

impl LiveReporter {
    pub(crate) fn new(teller: ItemReporter, color: bool) -> Self {
        let screen = Arc::new(Mutex::new(Screen::new(teller)));
        let shared = Arc::clone(&screen);
        let ticker = Ticker::start(Duration::from_millis(100), move || {
            let mut screen = lock(&shared);
            screen.frame = screen.frame.wrapping_add(1);
            screen.draw("");
        });
        Self { screen, names: ActiveSteps::default(), color, ticker: Some(ticker) }
    }

    /// Shows a line that stays.
    fn show(&self, line: &ProgressLine) -> String {
        format!("{} {}\n", line.sign.show(self.color), one_line(&line.text))
    }
}

fn lock(screen: &Mutex<Screen>) -> MutexGuard<'_, Screen> {
    screen.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reporter for LiveReporter {
    fn record(&mut self, record: &EventRecord, job: &Job) {
        let mut screen = lock(&self.screen);
        let mut stays = String::new();
        if let Some(lines) = screen.teller.handle_record(record, job) {
            // The totals tell of the items that are done.
            let lines = lines.iter().filter(|line| line.weight == LinePriority::Important);
            lines.for_each(|line| stays.push_str(&self.show(line)));
        } else {
            self.names.record(record);
            if let Some(line) = format_record(record, job, &self.names) {
                stays = self.show(&line);
            }
            self.names.forget(record);
            screen.step(&self.names, job, record);
        }
        if job.end.is_some() {
            screen.clear();
            screen.draw(&stays);
        } else if !stays.is_empty() {
            screen.draw(&stays);
        }
    }

    fn note(&mut self, note: &str) {
        lock(&self.screen).draw(&format!("{}\n", escape_controls(note)));
    }
}

impl Drop for LiveReporter {
    fn drop(&mut self) {
        drop(self.ticker.take());
        let mut screen = lock(&self.screen);
        screen.clear();
        screen.teller.items = None;
        screen.draw("");
    }
}

/// The state at the bottom of the terminal.
struct Screen {
    /// The items, while they are worked on.
    teller: ItemReporter,
    /// The step that runs, if it is not one of an item.
    text: String,
    since: Option<Instant>,
    /// The latest activity of that step's agent.
    activity: Option<AgentActivity>,
    zone: TimeZone,
    frame: usize,
    /// The widths of the lines that stand there.
    drawn: Vec<usize>,
}

impl Screen {
    fn new(teller: ItemReporter) -> Self {
        Self {
            teller,
            text: String::new(),
            since: None,
            activity: None,
            zone: TimeZone::system(),
            frame: 0,
            drawn: vec![],
        }
    }

    /// Forgets what is going on.
    fn clear(&mut self) {
        self.text.clear();
        self.teller.hold = None;
    }

    /// Updates the running step.
    fn step(&mut self, names: &ActiveSteps, job: &Job, record: &EventRecord) {
        let text = names.newest().map(|(path, name)| {
            format!("{}/{} · {path} {}", job.done, job.total_steps(), one_line(name))
        });
        let text = text.unwrap_or_default();
        if text != self.text {
            self.text = text;
            self.since = Some(Instant::now());
            self.activity = None;
        }
        self.activity.get_or_insert_with(|| AgentActivity::new(record.timestamp)).apply(record);
    }

    /// Draws the lines afresh, below text that stays.
    ///
    /// Everything goes out in one piece and overwrites what was there, so nothing flickers.
    fn draw(&mut self, stays: &str) {
        let size = size();
        let lines = self.lines(size);
        if stays.is_empty() && lines.is_empty() && self.drawn.is_empty() {
            return;
        }
        let mut frame = self.home(size);
        if !stays.is_empty() {
            // It may take more rows than it has lines.
            frame.push_str("\x1b[J");
            frame.push_str(stays);
        }
        frame.push_str(&lines.join("\x1b[K\n"));
        frame.push_str("\x1b[J");
        self.drawn = lines.iter().map(|line| line.width()).collect();
        // A terminal that went away must not stop the work.
        io::stderr().write_all(frame.as_bytes()).ok();
        io::stderr().flush().ok();
    }

    /// Returns what brings the cursor to where the lines begin.
    ///
    /// In a terminal that has become narrower they take more rows than they did.
    fn home(&self, size: TerminalSize) -> String {
        let rows = self.drawn.iter().map(|width| width.div_ceil(size.width).max(1));
        match rows.sum::<usize>().saturating_sub(1) {
            0 if self.drawn.is_empty() => String::new(),
            0 => "\r".to_owned(),
            up => format!("\r\x1b[{}A", up.min(size.height.saturating_sub(1))),
        }
    }

    fn lines(&self, size: TerminalSize) -> Vec<String> {
        let frame = FRAMES.get(self.frame % FRAMES.len()).copied().unwrap_or("·");
        if let Some(items) = &self.teller.items {
            return status_lines(items, &self.teller, frame, (clock::now(), &self.zone), size);
        }
        let now = clock::now();
        let hold =
            self.teller.hold.filter(|hold| hold.is_blocking()).map(|it| it.show(now, &self.zone));
        if self.text.is_empty() && hold.is_none() {
            return Vec::new();
        }
        let elapsed = self.since.map(|since| duration::format(whole_seconds(since.elapsed())));
        let elapsed = elapsed.unwrap_or_default();
        let activity = self.activity.as_ref();
        let text = match (hold, activity) {
            (Some(hold), _) if self.text.is_empty() => hold,
            (Some(hold), _) => format!("{} · {hold}", self.text),
            (None, Some(activity)) => activity_text(self.text.clone(), activity),
            (None, None) => self.text.clone(),
        };
        let end = activity.map(|activity| {
            // What the job has cost says more than what this step did.
            let [end, ..] =
                line_endings(&AgentActivity { cost_usd: 0.0, ..activity.clone() }, now, &elapsed);
            end
        });
        let cost = self.teller.cost().map(|cost| format!("{cost} · ")).unwrap_or_default();
        let end = format!("{cost}{}", end.unwrap_or(elapsed));
        let room = size.width.saturating_sub(end.width() + 5);
        vec![format!("{frame} {}  {end}", truncate(&text, room))]
    }
}

/// Returns the size of the terminal.
fn size() -> TerminalSize {
    let size = rustix::termios::tcgetwinsize(io::stderr());
    let (width, height) = size.map_or((80, 24), |size| (size.ws_col, size.ws_row));
    // A terminal that does not know its size says 0.
    let known = |number: u16, otherwise| if number == 0 { otherwise } else { number };
    TerminalSize { width: known(width, 80).max(20).into(), height: known(height, 24).into() }
}
