//! The reply of a behaviour to one request, in whatever API.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;

use super::script::ModelBehaviour;

/// The command that nobody allows: the port is never listened on.
const NOT_ALLOWED: &str = "curl -s http://127.0.0.1:9/";

/// The maximum number of tool calls in a turn, even in an endless one.
const MOST_TOOLS: usize = 200;

/// One answer of the model.
#[derive(Debug)]
pub(super) enum ModelReply {
    /// It says or wants something.
    Say {
        /// The parts, in this order.
        parts: Vec<ReplyPart>,
        /// The number of output tokens.
        written: u64,
        /// The silence before the answer.
        wait: Duration,
    },
    /// It will not do it.
    Refuse,
    /// It cannot answer.
    Fault(ModelFault),
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
pub(super) enum ReplyPart {
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
pub(super) enum ModelFault {
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
pub(super) fn reply(behaviour: &ModelBehaviour, item: &str, results: usize) -> ModelReply {
    match behaviour {
        ModelBehaviour::Answer(text) => single_part_reply(ReplyPart::Text(text.clone())),
        ModelBehaviour::Commit => single_part_reply(commit_part(item, results)),
        ModelBehaviour::CommitAs(name) => single_part_reply(commit_part(name, results)),
        ModelBehaviour::Slow(wait) => {
            ModelReply::Say { parts: vec![commit_part(item, results)], written: 20, wait: *wait }
        }
        ModelBehaviour::Edit => {
            single_part_reply(nth_part(results, vec![write_part(item)], "edited"))
        }
        ModelBehaviour::Shell(command) => {
            single_part_reply(nth_part(results, vec![ReplyPart::Shell(command.clone())], "done"))
        }
        ModelBehaviour::Denied => {
            let asked = vec![ReplyPart::Shell(NOT_ALLOWED.to_owned())];
            single_part_reply(nth_part(
                results,
                asked,
                "I was not allowed to do that, so I left everything alone.",
            ))
        }
        ModelBehaviour::DeniedThenWorks => single_part_reply(match results.checked_sub(1) {
            None => ReplyPart::Shell(NOT_ALLOWED.to_owned()),
            Some(results) => commit_part(item, results),
        }),
        ModelBehaviour::Kill => ModelReply::Kill,
        ModelBehaviour::Endless => endless(results, 20),
        ModelBehaviour::Costly(written) => endless(results, *written),
        ModelBehaviour::Structured(value) => single_part_reply(ReplyPart::Result(value.clone())),
        ModelBehaviour::Huge(paragraphs) => {
            let text = "All work and no play. ".repeat(200);
            let parts = (0..*paragraphs).map(|number| ReplyPart::Text(format!("{number} {text}")));
            ModelReply::Say { parts: parts.collect(), written: 20, wait: Duration::ZERO }
        }
        ModelBehaviour::Hang => ModelReply::Nothing,
        ModelBehaviour::Refusal => ModelReply::Refuse,
        ModelBehaviour::Malformed => ModelReply::Garbage,
        ModelBehaviour::Cut => ModelReply::Cut,
        ModelBehaviour::RateLimited => ModelReply::Fault(ModelFault::Rate),
        ModelBehaviour::Limit(until) => ModelReply::Fault(ModelFault::Limit(*until)),
        ModelBehaviour::LimitFor(wait) => ModelReply::Fault(ModelFault::Limit(seconds_in(*wait))),
        ModelBehaviour::CommitThenLimit(wait) => match results {
            0 | 1 => single_part_reply(commit_part(item, results)),
            _ => ModelReply::Fault(ModelFault::Limit(seconds_in(*wait))),
        },
        ModelBehaviour::EditThenLimit(wait) => match results {
            0 => single_part_reply(write_part(item)),
            _ => ModelReply::Fault(ModelFault::Limit(seconds_in(*wait))),
        },
        ModelBehaviour::Overloaded => ModelReply::Fault(ModelFault::Overloaded),
        ModelBehaviour::ServerError => ModelReply::Fault(ModelFault::Server),
        ModelBehaviour::Unauthorised => ModelReply::Fault(ModelFault::Key),
        ModelBehaviour::NoCredit => ModelReply::Fault(ModelFault::Credit),
        ModelBehaviour::ContextOverflow => ModelReply::Fault(ModelFault::Overflow),
    }
}

/// Returns the time, in whole seconds since 1970, when a wait from now on is over.
fn seconds_in(wait: Duration) -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now + wait + Duration::from_millis(999)).as_secs()
}

fn single_part_reply(part: ReplyPart) -> ModelReply {
    ModelReply::Say { parts: vec![part], written: 20, wait: Duration::ZERO }
}

/// Writes the item's file, commits it, and says so.
fn commit_part(item: &str, results: usize) -> ReplyPart {
    // Two programs in one command: a rule that allows both allows them together, too.
    let commit = format!("git add {item}.txt && git commit -q -m 'Work on {item}'");
    nth_part(results, vec![write_part(item), ReplyPart::Shell(commit)], "done")
}

fn write_part(item: &str) -> ReplyPart {
    ReplyPart::Write(format!("{item}.txt"), format!("{item} is done\n"))
}

/// Returns the step that comes after so many results; after the last one, the closing words.
fn nth_part(results: usize, steps: Vec<ReplyPart>, last: &str) -> ReplyPart {
    steps.into_iter().nth(results).unwrap_or_else(|| ReplyPart::Text(last.to_owned()))
}

fn endless(results: usize, written: u64) -> ModelReply {
    let part = if results < MOST_TOOLS {
        ReplyPart::Shell("git status".to_owned())
    } else {
        ReplyPart::Text("enough".to_owned())
    };
    ModelReply::Say { parts: vec![part], written, wait: Duration::ZERO }
}
