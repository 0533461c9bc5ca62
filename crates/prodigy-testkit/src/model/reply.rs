//! The reply of a behaviour to one request, in whatever API.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::script::Behaviour;

/// The command that nobody allows: the port is never listened on.
const NOT_ALLOWED: &str = "curl -s http://127.0.0.1:9/";

/// The maximum number of tool calls in a turn, even in an endless one.
const MOST_TOOLS: usize = 200;

/// One answer of the model.
#[derive(Debug)]
pub(super) enum Reply {
    /// It says or wants something.
    Say {
        /// The parts, in this order.
        parts: Vec<Part>,
        /// The number of output tokens.
        written: u64,
        /// The silence before the answer.
        wait: Duration,
    },
    /// It will not do it.
    Refuse,
    /// It cannot answer.
    Fault(Fault),
    /// It never says anything.
    Nothing,
    /// It says something that nobody can read.
    Garbage,
    /// It ends the program that asks.
    Kill,
    /// It begins to answer and is cut off.
    Cut,
}

/// A piece of an answer.
#[derive(Debug)]
pub(super) enum Part {
    /// Words.
    Text(String),
    /// A command to be run.
    Shell(String),
    /// A file to be written.
    Write(String, String),
    /// The result, in the form that was asked for.
    Result(Value),
}

/// The reason that there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// Too many requests.
    Rate,
    /// The account's limit, until a time in seconds since 1970.
    Limit(u64),
    /// Too much to do.
    Overloaded,
    /// Broken.
    Server,
    /// A wrong key.
    Key,
    /// No money.
    Credit,
    /// No room.
    Overflow,
}

/// Returns what a behaviour comes to once `results` tools have been run in the turn.
pub(super) fn reply(behaviour: &Behaviour, item: &str, results: usize) -> Reply {
    match behaviour {
        Behaviour::Answer(text) => say(Part::Text(text.clone())),
        Behaviour::Commit => say(work(item, results)),
        Behaviour::CommitAs(name) => say(work(name, results)),
        Behaviour::Slow(wait) => {
            Reply::Say { parts: vec![work(item, results)], written: 20, wait: *wait }
        }
        Behaviour::Edit => say(steps(results, vec![write(item)], "edited")),
        Behaviour::Shell(command) => {
            say(steps(results, vec![Part::Shell(command.clone())], "done"))
        }
        Behaviour::Denied => {
            let asked = vec![Part::Shell(NOT_ALLOWED.to_owned())];
            say(steps(results, asked, "I was not allowed to do that, so I left everything alone."))
        }
        Behaviour::DeniedThenWorks => say(match results.checked_sub(1) {
            None => Part::Shell(NOT_ALLOWED.to_owned()),
            Some(results) => work(item, results),
        }),
        Behaviour::Kill => Reply::Kill,
        Behaviour::Endless => endless(results, 20),
        Behaviour::Costly(written) => endless(results, *written),
        Behaviour::Structured(value) => say(Part::Result(value.clone())),
        Behaviour::Huge(paragraphs) => {
            let text = "All work and no play. ".repeat(200);
            let parts = (0..*paragraphs).map(|number| Part::Text(format!("{number} {text}")));
            Reply::Say { parts: parts.collect(), written: 20, wait: Duration::ZERO }
        }
        Behaviour::Hang => Reply::Nothing,
        Behaviour::Refusal => Reply::Refuse,
        Behaviour::Malformed => Reply::Garbage,
        Behaviour::Cut => Reply::Cut,
        Behaviour::RateLimited => Reply::Fault(Fault::Rate),
        Behaviour::Limit(until) => Reply::Fault(Fault::Limit(*until)),
        Behaviour::LimitFor(wait) => Reply::Fault(Fault::Limit(seconds_in(*wait))),
        Behaviour::CommitThenLimit(wait) => match results {
            0 | 1 => say(work(item, results)),
            _ => Reply::Fault(Fault::Limit(seconds_in(*wait))),
        },
        Behaviour::EditThenLimit(wait) => match results {
            0 => say(write(item)),
            _ => Reply::Fault(Fault::Limit(seconds_in(*wait))),
        },
        Behaviour::Overloaded => Reply::Fault(Fault::Overloaded),
        Behaviour::ServerError => Reply::Fault(Fault::Server),
        Behaviour::Unauthorised => Reply::Fault(Fault::Key),
        Behaviour::NoCredit => Reply::Fault(Fault::Credit),
        Behaviour::ContextOverflow => Reply::Fault(Fault::Overflow),
    }
}

/// Returns the time, in whole seconds since 1970, when a wait from now on is over.
fn seconds_in(wait: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now + wait + Duration::from_millis(999)).as_secs()
}

fn say(part: Part) -> Reply {
    Reply::Say { parts: vec![part], written: 20, wait: Duration::ZERO }
}

/// Writes the item's file, commits it, and says so.
fn work(item: &str, results: usize) -> Part {
    // Two programs in one command: a rule that allows both allows them together, too.
    let commit = format!("git add {item}.txt && git commit -q -m 'Work on {item}'");
    steps(results, vec![write(item), Part::Shell(commit)], "done")
}

fn write(item: &str) -> Part {
    Part::Write(format!("{item}.txt"), format!("{item} is done\n"))
}

/// Returns the step that comes after so many results; after the last one, the closing words.
fn steps(results: usize, steps: Vec<Part>, last: &str) -> Part {
    steps.into_iter().nth(results).unwrap_or_else(|| Part::Text(last.to_owned()))
}

fn endless(results: usize, written: u64) -> Reply {
    let part = if results < MOST_TOOLS {
        Part::Shell("git status".to_owned())
    } else {
        Part::Text("enough".to_owned())
    };
    Reply::Say { parts: vec![part], written, wait: Duration::ZERO }
}
