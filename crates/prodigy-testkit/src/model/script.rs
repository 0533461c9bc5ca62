//! The script of the model: its behaviours, and when each applies.

use std::{
    collections::HashMap,
    time::{Duration, SystemTime},
};

use serde_json::Value;

/// A behaviour of the model when an agent sends a request.
#[derive(Clone, Debug, PartialEq)]
pub enum ModelBehaviour {
    /// Answers with this text, and does nothing.
    Answer(String),
    /// Writes a file named after the item and commits it.
    Commit,
    /// Writes a file of this name and commits it.
    CommitAs(String),
    /// Writes a file named after the item with the tool for files, and leaves it uncommitted.
    Edit,
    /// Runs this command with the tool for commands, then answers.
    Shell(String),
    /// Asks for a command that nobody allowed, and gives up politely.
    Denied,
    /// Asks for a command that nobody allowed, and then does the work without it.
    DeniedThenWorks,
    /// Never answers. Ends with the connection, at the latest when the server is dropped.
    Hang,
    /// Is silent for so long at each request, then commits.
    Slow(Duration),
    /// Too many requests: 429 without a word about a limit of the account.
    RateLimited,
    /// The account's limit: 429 with the time, in seconds since 1970, at which it is lifted.
    Limit(u64),
    /// The same, lifted when so much time has passed from the request on.
    LimitFor(Duration),
    /// Commits as [`ModelBehaviour::Commit`] does, then runs into the account's limit, which is lifted
    /// when so much time has passed.
    CommitThenLimit(Duration),
    /// The same with a file that is left uncommitted.
    EditThenLimit(Duration),
    /// The servers have too much to do: 529.
    Overloaded,
    /// The servers are broken: 500.
    ServerError,
    /// The key is wrong: 401.
    Unauthorised,
    /// There is no money left: 400.
    NoCredit,
    /// Will not do it.
    Refusal,
    /// Asks for one tool after the other and never comes to an end.
    Endless,
    /// The same, with so many tokens written each time.
    Costly(u64),
    /// Gives this as its structured result, whatever schema was asked for.
    Structured(Value),
    /// Sends a stream of events that nobody can read.
    Malformed,
    /// Cuts the connection in the middle of the answer.
    Cut,
    /// There is no room for the conversation: 400.
    ContextOverflow,
    /// Answers with so many paragraphs of a few kilobytes each.
    Huge(usize),
    /// Kills the agent that asks.
    Kill,
}

impl ModelBehaviour {
    /// Returns the behaviour with a name, as in `mode=NAME` in a prompt.
    pub fn from_name(name: &str) -> Option<Self> {
        Some(match name {
            "text" => Self::Answer("done".to_owned()),
            "commit" => Self::Commit,
            "edit" => Self::Edit,
            "denied" => Self::Denied,
            "denied_then_works" => Self::DeniedThenWorks,
            "hang" => Self::Hang,
            "slow" => Self::Slow(Duration::from_secs(2)),
            "429" => Self::RateLimited,
            "limit" => Self::LimitFor(Duration::from_secs(3600)),
            "529" => Self::Overloaded,
            "500" => Self::ServerError,
            "401" => Self::Unauthorised,
            "credit" => Self::NoCredit,
            "refusal" => Self::Refusal,
            "endless" => Self::Endless,
            "costly" => Self::Costly(100_000),
            "structured" => Self::Structured(serde_json::json!({ "ok": true })),
            "malformed" => Self::Malformed,
            "cut" => Self::Cut,
            "overflow" => Self::ContextOverflow,
            "huge" => Self::Huge(500),
            "kill" => Self::Kill,
            _unknown => return None,
        })
    }

    /// Does this for the first `times` turns of an item; go on with [`BehaviourSequence::then`].
    pub fn times(self, times: u32) -> BehaviourSequence {
        BehaviourSequence(vec![(self, BehaviourLimit::Times(times))])
    }

    /// Does this until an instant; go on with [`BehaviourSequence::then`].
    pub fn until(self, instant: SystemTime) -> BehaviourSequence {
        BehaviourSequence(vec![(self, BehaviourLimit::Instant(instant))])
    }
}

/// The behaviours of the model for one item, turn by turn; the last act goes on for ever.
#[derive(Clone, Debug)]
pub struct BehaviourSequence(Vec<(ModelBehaviour, BehaviourLimit)>);

/// The end of an act: after some turns, at an instant, or never.
#[derive(Clone, Copy, Debug)]
enum BehaviourLimit {
    Times(u32),
    Instant(SystemTime),
    Ever,
}

impl BehaviourSequence {
    /// Does this afterwards.
    #[must_use]
    pub fn then(mut self, next: impl Into<Self>) -> Self {
        self.0.extend(next.into().0);
        self
    }

    /// Returns what is done in an item's turn, when `turns` were begun before it.
    fn behaviour_at(&self, mut turns: u32, now: SystemTime) -> Option<&ModelBehaviour> {
        for (behaviour, until) in &self.0 {
            match until {
                BehaviourLimit::Times(times) if turns < *times => return Some(behaviour),
                BehaviourLimit::Times(times) => turns -= times,
                BehaviourLimit::Instant(instant) if now < *instant => return Some(behaviour),
                BehaviourLimit::Instant(_) => {}
                BehaviourLimit::Ever => return Some(behaviour),
            }
        }
        self.0.last().map(|(behaviour, _)| behaviour)
    }

    /// Returns what is done now whatever the turn, because only time ends it.
    fn timed_behaviour(&self, now: SystemTime) -> Option<&ModelBehaviour> {
        match self.0.first() {
            Some((behaviour, BehaviourLimit::Instant(instant))) if now < *instant => {
                Some(behaviour)
            }
            Some(_) | None => None,
        }
    }
}

impl From<ModelBehaviour> for BehaviourSequence {
    fn from(behaviour: ModelBehaviour) -> Self {
        Self(vec![(behaviour, BehaviourLimit::Ever)])
    }
}

/// Which prompt leads to which behaviour.
///
/// The first text that stands in the prompt decides. Without one, `mode=NAME` in the prompt
/// does, and without that the default. Turns are counted for each item: the word behind
/// `item=` in the prompt.
#[derive(Clone, Debug)]
pub struct ModelScript {
    rules: Vec<(String, BehaviourSequence)>,
    otherwise: BehaviourSequence,
    window: Option<(u32, Duration)>,
}

impl ModelScript {
    /// Makes a script that always does one thing.
    pub fn new(otherwise: impl Into<BehaviourSequence>) -> Self {
        Self { rules: Vec::new(), otherwise: otherwise.into(), window: None }
    }

    /// Serves only so many turns until so much time has passed from the first that was refused.
    #[must_use]
    pub fn window(mut self, turns: u32, wait: Duration) -> Self {
        self.window = Some((turns, wait));
        self
    }

    /// Does something else where the prompt has a text.
    #[must_use]
    pub fn on(mut self, text: &str, acts: impl Into<BehaviourSequence>) -> Self {
        self.rules.push((text.to_owned(), acts.into()));
        self
    }

    /// Returns the acts for a prompt and the name under which turns are counted.
    fn behaviours_for(&self, prompt: &str) -> Option<(String, BehaviourSequence)> {
        if let Some((text, acts)) = self.rules.iter().find(|(text, _)| prompt.contains(text)) {
            return Some((text.clone(), acts.clone()));
        }
        let mode = word_after(prompt, "mode=")?;
        ModelBehaviour::from_name(&mode).map(|behaviour| (format!("mode={mode}"), behaviour.into()))
    }
}

/// Where a script stands: the turns that were begun, and what each session is in.
#[derive(Debug, Default)]
pub(super) struct ScriptProgress {
    begun: HashMap<(String, String), u32>,
    sessions: HashMap<String, ModelBehaviour>,
    /// The turns of the window that were served, and when it ends if it is used up.
    served: u32,
    until: Option<SystemTime>,
}

impl ScriptProgress {
    /// Returns what is done at a request, and remembers it for the rest of the turn.
    ///
    /// `prompts` are all that the user said in the session, the oldest first.
    pub(super) fn choose(
        &mut self,
        script: &ModelScript,
        session: &str,
        prompts: &[String],
        begins: bool,
        now: SystemTime,
    ) -> ModelBehaviour {
        let (rule, acts) = prompts
            .iter()
            .rev()
            .find_map(|prompt| script.behaviours_for(prompt))
            .unwrap_or_else(|| (String::new(), script.otherwise.clone()));
        if let Some(limit) = self.limit(script.window.filter(|_| begins), now) {
            return limit;
        }
        if let Some(behaviour) = acts.timed_behaviour(now) {
            return behaviour.clone();
        }
        if let (false, Some(behaviour)) = (begins, self.sessions.get(session)) {
            return behaviour.clone();
        }
        let turns = self.begun.entry((rule, item(prompts))).or_default();
        let behaviour = acts.behaviour_at(*turns, now).cloned().unwrap_or(ModelBehaviour::Commit);
        *turns += 1;
        self.sessions.insert(session.to_owned(), behaviour.clone());
        behaviour
    }
}

impl ScriptProgress {
    /// Returns the limit of the account, if its window is used up.
    fn limit(
        &mut self,
        window: Option<(u32, Duration)>,
        now: SystemTime,
    ) -> Option<ModelBehaviour> {
        let (most, wait) = window?;
        if self.until.is_some_and(|until| until <= now) {
            (self.until, self.served) = (None, 0);
        }
        if self.served < most {
            self.served += 1;
            return None;
        }
        let until = *self.until.get_or_insert(now + wait);
        let until = until.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Some(ModelBehaviour::Limit((until + Duration::from_millis(999)).as_secs()))
    }
}

/// Returns the item that a conversation is about: the word behind `item=`.
pub(super) fn item(prompts: &[String]) -> String {
    let named = prompts.iter().rev().find_map(|prompt| word_after(prompt, "item="));
    named.unwrap_or_else(|| "work".to_owned())
}

/// Returns the word that follows the last such mark in a text.
fn word_after(text: &str, mark: &str) -> Option<String> {
    let (_, rest) = text.rsplit_once(mark)?;
    let word: String =
        rest.chars().take_while(|c| c.is_alphanumeric() || "._-".contains(*c)).collect();
    (!word.is_empty()).then_some(word)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use super::*;

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(1000)
    }

    fn turns(script: &ModelScript, prompts: &[&str]) -> Vec<ModelBehaviour> {
        let mut progress = ScriptProgress::default();
        let choose =
            |prompt: &&str| progress.choose(script, "s", &[(*prompt).to_owned()], true, now());
        prompts.iter().map(choose).collect()
    }

    #[test]
    fn turns_are_counted_for_each_item() {
        let script = ModelScript::new(ModelBehaviour::Hang)
            .on("flaky", ModelBehaviour::Overloaded.times(1).then(ModelBehaviour::Commit));
        let did = turns(&script, &["flaky item=a", "flaky item=b", "flaky item=a", "flaky item=a"]);
        let ModelBehaviour::Overloaded = did[1] else { panic!("{did:?}") };
        assert_eq!(did[2..], [ModelBehaviour::Commit, ModelBehaviour::Commit]);
    }

    #[test]
    fn a_rule_comes_before_a_mode_and_a_mode_before_the_default() {
        let script = ModelScript::new(ModelBehaviour::Hang).on("x.py", ModelBehaviour::Edit);
        let did = turns(&script, &["x.py mode=529", "y.py mode=529", "y.py mode=none"]);
        assert_eq!(did, [ModelBehaviour::Edit, ModelBehaviour::Overloaded, ModelBehaviour::Hang]);
    }

    #[test]
    fn what_time_ends_holds_for_the_rest_of_a_turn_too() {
        let limit = ModelBehaviour::Limit(1010).until(now() + Duration::from_secs(10));
        let script = ModelScript::new(limit.then(ModelBehaviour::Commit));
        let mut progress = ScriptProgress::default();
        let prompts = ["go on".to_owned()];
        let mut at = |begins, seconds| {
            let instant = now() + Duration::from_secs(seconds);
            progress.choose(&script, "s", &prompts, begins, instant)
        };
        assert_eq!(at(true, 0), ModelBehaviour::Limit(1010));
        assert_eq!(at(false, 9), ModelBehaviour::Limit(1010));
        assert_eq!(at(false, 10), ModelBehaviour::Commit);
    }

    #[test]
    fn a_resumed_session_is_known_by_what_was_said_first() {
        let script = ModelScript::new(ModelBehaviour::Hang).on("alpha", ModelBehaviour::Edit);
        let prompts = ["do alpha item=a".to_owned(), "go on".to_owned()];
        let did = ScriptProgress::default().choose(&script, "s", &prompts, true, now());
        assert_eq!((did, item(&prompts).as_str()), (ModelBehaviour::Edit, "a"));
    }
}
