//! Choice of the simulated agent's work for one prompt.

use std::{borrow::Cow, num::NonZeroU32};

use regex::Regex;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::{
    SIMULATED_MODEL, SimulatedAgent, SimulatedEdit, SimulatedEnd, SimulatedFault, SimulatedRule,
    SimulatedTrouble, SimulatedTurn, SimulatedWhen, SimulatedWork, USUAL_ANSWER, sample,
};
use crate::{
    capture::CaptureFormat,
    ids::{OWN_STEPS, safe_name},
    json_schema::OutputSchema,
    wildcard,
};

/// The message of the simulated agent for a prompt that nobody thought of.
const NO_RULE: &str = "no rule of the simulated agent matches the prompt";
/// The file that is in the way of everybody else.
const SHARED_FILE: &str = "simulated-conflict.txt";

/// A prompt for the simulated agent, and what the step that gives it wants.
#[derive(Clone, Copy, Debug, Default)]
pub struct SimulatedRequest<'a> {
    /// The prompt.
    pub prompt: &'a str,
    /// The item's id, or the name that stands for the job's own steps.
    pub item: &'a str,
    /// The step's path.
    pub step: &'a str,
    /// The step's id, if it has one.
    pub id: Option<&'a str>,
    /// Which attempt this is, from 1.
    pub attempt: u32,
    /// Which judgement of the step this is, from 1; 0 if nobody counts them.
    pub judgement: u32,
    /// The name of the conversation.
    pub session: &'a str,
    /// Set if the step fails without a commit.
    pub commit_required: bool,
    /// The format in which the answer is read.
    pub format: CaptureFormat,
    /// The JSON Schema that the answer must satisfy.
    pub schema: Option<&'a OutputSchema>,
    /// The model to use.
    pub model: Option<&'a str>,
    /// The most turns.
    pub max_turns: Option<NonZeroU32>,
    /// The most money.
    pub max_budget_usd: Option<f64>,
}

impl SimulatedRequest<'_> {
    /// Returns the step's path as people see it: that of an item's step names its phase.
    pub(super) fn display_step(&self) -> Cow<'_, str> {
        if self.item == OWN_STEPS { self.step.into() } else { format!("map.{}", self.step).into() }
    }
}

impl SimulatedAgent {
    /// Decides what the agent does for a prompt.
    pub fn decide_turn(&self, request: &SimulatedRequest<'_>) -> SimulatedTurn {
        let Some((mut work, trouble)) = self.decided(request) else {
            let answer = Some(NO_RULE.to_owned());
            let work = SimulatedWork { answer, ..SimulatedWork::default() };
            let turn = self.filled(&work, request);
            return SimulatedTurn { end: SimulatedEnd::Error, ..turn };
        };
        let is_told = trouble.is_some_and(|trouble| trouble.fault.has_error_message());
        let is_said = work.answer.is_some() || work.result.is_some();
        if trouble.is_some_and(|it| it.fault == SimulatedFault::NotSatisfied) && !is_said {
            work.result = Some(sample::incomplete());
        }
        let work = if self.otherwise.is_some() && !is_told {
            sample::with_sample_values(work, request)
        } else {
            work
        };
        let unfit =
            sample::sample_violation(&work, request).filter(|_| !is_said && trouble.is_none());
        if let Some(answer) = unfit {
            let work = SimulatedWork { answer: Some(answer), result: None, ..work };
            let mut turn = self.filled(&work, request);
            do_nothing(&mut turn);
            return SimulatedTurn { end: SimulatedEnd::Error, ..turn };
        }
        let mut turn = self.filled(&work, request);
        if work.answer.is_none() && work.result.is_none() && !is_told {
            USUAL_ANSWER.clone_into(&mut turn.answer);
        }
        match trouble {
            Some(trouble) => strike(trouble, &mut turn, request),
            None => hold_to_limits(&mut turn, request),
        }
        turn
    }

    /// Returns what is to be done and what goes wrong, if a rule says so.
    fn decided(
        &self,
        request: &SimulatedRequest<'_>,
    ) -> Option<(SimulatedWork, Option<&SimulatedTrouble>)> {
        let mut rules = self.rules.iter().enumerate().filter(|(_, rule)| rule.when.fits(request));
        let struck = |(at, rule): &(usize, &SimulatedRule)| {
            let Some(trouble) = &rule.trouble else { return false };
            let turn = trouble.turn(request);
            let counted = SimulatedRequest { attempt: turn.unwrap_or_default(), ..*request };
            let luck = luck(self.seed, &format!("rule {at}"), &counted);
            turn.is_some_and(|turn| trouble.strikes(luck, turn))
        };
        if let Some(otherwise) = &self.otherwise {
            let rule = rules.find(|rule| rule.1.trouble.is_none() || struck(rule));
            return Some(match rule {
                Some((_, rule)) => (rule.work.clone(), rule.trouble.as_ref()),
                None => ((**otherwise).clone(), None),
            });
        }
        if self.rules.is_empty() {
            return Some((SimulatedWork::default(), None));
        }
        let found = rules.next()?;
        let trouble = found.1.trouble.as_ref();
        let mut work = found.1.work.clone();
        if struck(&found) {
            return Some((work, trouble));
        }
        if trouble.is_some_and(|trouble| trouble.fault == SimulatedFault::Slow) {
            (work.delay_ms, work.jitter_ms) = (0, 0);
        }
        Some((work, None))
    }

    /// Fills everything in.
    fn filled(&self, work: &SimulatedWork, request: &SimulatedRequest<'_>) -> SimulatedTurn {
        let fill =
            |text: &str| text.replace("{item}", request.item).replace("{prompt}", request.prompt);
        let (prompt, item) = (safe_name(request.prompt), safe_name(request.item));
        let edits = work.edits.iter().map(|edit| SimulatedEdit {
            path: edit.path.replace("{item}", &item).replace("{prompt}", &prompt),
            content: fill(&edit.content),
            append: edit.append,
        });
        let answer = work.answer.as_deref().map(fill);
        let result = work.result.clone().or_else(|| {
            let answer = answer.as_deref().filter(|_| request.schema.is_some())?;
            serde_json::from_str(answer).ok()
        });
        let answer = answer.or_else(|| result.as_ref().map(Value::to_string));
        SimulatedTurn {
            session_id: request.session.to_owned(),
            model: work.model.as_deref().or(request.model).unwrap_or(SIMULATED_MODEL).to_owned(),
            answer: answer.unwrap_or_default(),
            result,
            delay_ms: work
                .delay_ms
                .saturating_add(share(work.jitter_ms, luck(self.seed, "jitter", request))),
            edits: edits.collect(),
            commit: work.commit.as_deref().map(fill),
            cost_usd: work.cost_usd,
            tokens: work.tokens,
            turns: work.turns,
            noise: 0,
            end: SimulatedEnd::Well,
        }
    }
}

impl SimulatedWhen {
    fn fits(&self, request: &SimulatedRequest<'_>) -> bool {
        // An expression that does not compile was refused when the file was read.
        let is_prompt = |rule: &String| Regex::new(rule).is_ok_and(|r| r.is_match(request.prompt));
        let is_step = |pattern: &String| {
            let shown = request.display_step();
            let names = request.id.into_iter().chain([request.step, &*shown]);
            names.into_iter().any(|name| wildcard::matches_wildcard(pattern, name))
        };
        self.prompt.as_ref().is_none_or(is_prompt)
            && self
                .item
                .as_ref()
                .is_none_or(|pattern| wildcard::matches_wildcard(pattern, request.item))
            && self.step.as_ref().is_none_or(is_step)
            && self.attempt.is_none_or(|attempt| attempt == request.attempt)
    }
}

impl SimulatedTrouble {
    /// Returns the number that `times` is about, if it can go wrong at all.
    fn turn(&self, request: &SimulatedRequest<'_>) -> Option<u32> {
        let is_judgement = self.fault == SimulatedFault::NotSatisfied;
        match request.judgement {
            0 if is_judgement => None,
            judgement if is_judgement => Some(judgement),
            _ => Some(request.attempt),
        }
    }

    fn strikes(&self, luck: f64, turn: u32) -> bool {
        self.times.is_none_or(|times| turn <= times) && luck < self.probability
    }
}

/// Lets something go wrong.
fn strike(trouble: &SimulatedTrouble, turn: &mut SimulatedTurn, request: &SimulatedRequest<'_>) {
    let end = match trouble.fault {
        SimulatedFault::Crash => SimulatedEnd::Crash,
        SimulatedFault::Hang => SimulatedEnd::Hang,
        SimulatedFault::Error => SimulatedEnd::Error,
        SimulatedFault::PermissionDenied | SimulatedFault::DeniedWorkedAround => {
            SimulatedEnd::Denied
        }
        SimulatedFault::RateLimited => SimulatedEnd::Status(429),
        SimulatedFault::Overloaded => SimulatedEnd::Status(529),
        SimulatedFault::ServerError => SimulatedEnd::Status(500),
        SimulatedFault::AuthFailed => SimulatedEnd::Status(401),
        SimulatedFault::OutOfCredits => SimulatedEnd::Status(400),
        SimulatedFault::UsageLimit => SimulatedEnd::UsageLimit(trouble.reset),
        SimulatedFault::Refusal => SimulatedEnd::Refusal,
        SimulatedFault::MaxTurns => SimulatedEnd::MaxTurns,
        SimulatedFault::OverBudget => SimulatedEnd::OverBudget,
        SimulatedFault::Garbage => SimulatedEnd::Garbage,
        SimulatedFault::Lie
        | SimulatedFault::ZeroTurns
        | SimulatedFault::Partial
        | SimulatedFault::NoCommit
        | SimulatedFault::Conflict
        | SimulatedFault::SchemaMismatch
        | SimulatedFault::NotSatisfied
        | SimulatedFault::Slow
        | SimulatedFault::Huge => SimulatedEnd::Well,
    };
    turn.end = end;
    spoil(trouble, turn, request);
}

/// Takes away from the work what a fault leaves undone, or adds what it does besides.
fn spoil(trouble: &SimulatedTrouble, turn: &mut SimulatedTurn, request: &SimulatedRequest<'_>) {
    match trouble.fault {
        SimulatedFault::Crash
        | SimulatedFault::Hang
        | SimulatedFault::DeniedWorkedAround
        | SimulatedFault::UsageLimit
        | SimulatedFault::Garbage
        | SimulatedFault::NotSatisfied
        | SimulatedFault::Slow => {}
        SimulatedFault::Lie
        | SimulatedFault::Error
        | SimulatedFault::PermissionDenied
        | SimulatedFault::RateLimited
        | SimulatedFault::Overloaded
        | SimulatedFault::ServerError
        | SimulatedFault::AuthFailed
        | SimulatedFault::OutOfCredits
        | SimulatedFault::Refusal => do_nothing(turn),
        SimulatedFault::ZeroTurns => {
            do_nothing(turn);
            (turn.turns, turn.answer, turn.result) = (0, String::new(), None);
        }
        SimulatedFault::MaxTurns => {
            turn.turns = request.max_turns.map_or(turn.turns, NonZeroU32::get);
            turn.commit = None;
        }
        SimulatedFault::OverBudget => {
            turn.cost_usd = request.max_budget_usd.unwrap_or(turn.cost_usd);
            turn.commit = None;
        }
        SimulatedFault::Partial | SimulatedFault::NoCommit => {
            if turn.edits.is_empty() {
                turn.edits.push(sample::sample_edit(request));
            }
            if trouble.fault == SimulatedFault::Partial {
                turn.edits.truncate(1);
            }
            turn.commit = None;
        }
        SimulatedFault::Conflict => {
            let content = format!("{}\n{}\n", request.item, request.prompt);
            let path = SHARED_FILE.to_owned();
            turn.edits.push(SimulatedEdit { path, content, append: false });
            turn.commit.get_or_insert_with(|| format!("Simulated change for {}", request.item));
        }
        SimulatedFault::SchemaMismatch => {
            let wrong = sample::invalid_sample(request.schema);
            turn.answer = wrong.to_string();
            turn.result = Some(wrong);
        }
        SimulatedFault::Huge => turn.noise = u64::from(trouble.megabytes) << 20,
    }
}

fn do_nothing(turn: &mut SimulatedTurn) {
    turn.edits.clear();
    turn.commit = None;
}

/// Ends a turn that needs more than the step allows.
fn hold_to_limits(turn: &mut SimulatedTurn, request: &SimulatedRequest<'_>) {
    if request.max_turns.is_some_and(|most| turn.turns > most.get()) {
        strike(&SimulatedTrouble::always(SimulatedFault::MaxTurns), turn, request);
    } else if request.max_budget_usd.is_some_and(|most| turn.cost_usd > most) {
        strike(&SimulatedTrouble::always(SimulatedFault::OverBudget), turn, request);
    }
}

/// Returns a number from 0 to just below 1 that depends on nothing but the arguments.
fn luck(seed: u64, what: &str, request: &SimulatedRequest<'_>) -> f64 {
    let digest = digest(seed, what, request);
    let number = digest.iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    f64::from(number) / 4_294_967_296.0
}

fn digest(seed: u64, what: &str, request: &SimulatedRequest<'_>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for part in [
        &seed.to_be_bytes()[..],
        what.as_bytes(),
        request.step.as_bytes(),
        request.item.as_bytes(),
        &request.attempt.to_be_bytes(),
        request.prompt.as_bytes(),
    ] {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    hash.finalize().into()
}

/// Returns a share of a time, which is small enough to be counted exactly.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a part of a number fits where the number does, and a millisecond more is no matter"
)]
fn share(of: u64, share: f64) -> u64 {
    (of as f64 * share) as u64
}
