//! The agents that steps may name, and what the simulated one decides.

use regex::Regex;
use sha2::{Digest as _, Sha256};

use crate::ids::safe_name;

/// How an agent is run.
#[derive(Clone, Debug, PartialEq)]
pub enum AgentConfig {
    /// Any program.
    Command(CommandAgent),
    /// The agent that is built in.
    Simulated(SimulatedAgent),
}

/// An agent that is any program.
///
/// What it prints is its answer, and its exit code says whether it succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandAgent {
    /// The program and its arguments. With `prompt: argument`, the prompt is added at the end.
    pub command: Vec<String>,
    /// How the prompt reaches it.
    pub prompt: PromptBy,
}

/// How a prompt reaches a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptBy {
    /// On standard input. It is not seen in a listing of processes and may be of any length.
    Stdin,
    /// As the last argument.
    ///
    /// A prompt that begins with `-` gets a space in front, so that it can never be taken for an
    /// option of the program; not so behind a configured `--`, which says the same exactly.
    Argument,
}

/// The built-in agent: scripted answers, no tokens, no network.
///
/// Without rules it succeeds and does nothing. With rules, a prompt that none of them matches is
/// an error, because a rehearsal that passes over a step by accident proves nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimulatedAgent {
    /// Fixes what is random.
    pub seed: u64,
    /// What it does: the first rule that matches the prompt.
    pub rules: Vec<SimulatedRule>,
}

/// What the simulated agent does for some prompts.
///
/// `{prompt}` stands for the prompt in the answer, the commit message and the content of edits;
/// in a path it stands for a name made of the prompt that is safe in a path.
#[derive(Clone, Debug, PartialEq)]
pub struct SimulatedRule {
    /// A regular expression on the prompt; `None` matches every prompt.
    pub prompt: Option<String>,
    /// What it answers; for the fault `error`, the message.
    pub answer: String,
    /// How long it takes, in milliseconds.
    pub delay_ms: u64,
    /// Files it writes.
    pub edits: Vec<SimulatedEdit>,
    /// The message of the commit it makes of everything; no commit is made of nothing.
    pub commit: Option<String>,
    /// What it says it cost.
    pub cost_usd: f64,
    /// What goes wrong.
    pub fault: Option<SimulatedFault>,
    /// How likely that is for one attempt, from 0 to 1. The same seed, step, prompt and attempt
    /// always have the same luck.
    pub probability: f64,
    /// How many attempts, counted from the first, it may go wrong for; `None` is no limit.
    pub times: Option<u32>,
}

/// A file that the simulated agent writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct SimulatedEdit {
    /// The path, relative to where the agent runs and never outside of it.
    pub path: String,
    /// The text.
    pub content: String,
    /// Whether to append instead of replace.
    pub append: bool,
}

/// What goes wrong with the simulated agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SimulatedFault {
    /// It ends by a signal, half done: the first edit is made, nothing else is.
    Crash,
    /// It never answers.
    Hang,
    /// It says it succeeded and did nothing.
    Lie,
    /// It exits with code 1 and a message, and did nothing.
    Error,
    /// It is denied a tool, does nothing, and says so politely.
    PermissionDenied,
}

/// What the simulated agent does for one prompt: a rule with everything decided and filled in.
///
/// This is what its process reads, so that the process itself decides nothing.
#[derive(Clone, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
pub struct SimulatedTurn {
    /// What it answers, or the message of an error.
    pub answer: String,
    /// How long it takes, in milliseconds.
    pub delay_ms: u64,
    /// Files it writes.
    pub edits: Vec<SimulatedEdit>,
    /// The message of its commit.
    pub commit: Option<String>,
    /// What it says it cost.
    pub cost_usd: f64,
    /// What goes wrong this time.
    pub fault: Option<SimulatedFault>,
}

impl Default for SimulatedRule {
    /// A rule for every prompt that succeeds and does nothing; a fault added to it is certain.
    fn default() -> Self {
        Self {
            prompt: None,
            answer: String::new(),
            delay_ms: 0,
            edits: Vec::new(),
            commit: None,
            cost_usd: 0.0,
            fault: None,
            probability: 1.0,
            times: None,
        }
    }
}

impl SimulatedAgent {
    /// Decides what the agent does for a prompt in one attempt, counted from 1, of a step.
    pub fn turn(&self, prompt: &str, step: &str, attempt: u32) -> SimulatedTurn {
        let default = SimulatedRule::default();
        let rule = if self.rules.is_empty() {
            Some(&default)
        } else {
            self.rules.iter().find(|rule| rule.matches(prompt))
        };
        match rule {
            Some(rule) => rule.turn(prompt, rule.goes_wrong(self.seed, prompt, step, attempt)),
            None => SimulatedTurn {
                answer: "no rule of the simulated agent matches the prompt".to_owned(),
                fault: Some(SimulatedFault::Error),
                ..SimulatedTurn::default()
            },
        }
    }
}

impl SimulatedRule {
    fn matches(&self, prompt: &str) -> bool {
        // An expression that does not compile was refused when the workflow was read.
        self.prompt
            .as_ref()
            .is_none_or(|rule| Regex::new(rule).is_ok_and(|rule| rule.is_match(prompt)))
    }

    fn goes_wrong(&self, seed: u64, prompt: &str, step: &str, attempt: u32) -> bool {
        self.times.is_none_or(|times| attempt <= times)
            && luck(seed, prompt, step, attempt) < self.probability
    }

    fn turn(&self, prompt: &str, goes_wrong: bool) -> SimulatedTurn {
        let fill = |text: &str| text.replace("{prompt}", prompt);
        let name = safe_name(prompt);
        let edits = self.edits.iter().map(|edit| SimulatedEdit {
            path: edit.path.replace("{prompt}", &name),
            content: fill(&edit.content),
            append: edit.append,
        });
        SimulatedTurn {
            answer: fill(&self.answer),
            delay_ms: self.delay_ms,
            edits: edits.collect(),
            commit: self.commit.as_deref().map(fill),
            cost_usd: self.cost_usd,
            fault: self.fault.filter(|_| goes_wrong),
        }
    }
}

/// Returns a number from 0 to just below 1 that depends on nothing but the arguments.
fn luck(seed: u64, prompt: &str, step: &str, attempt: u32) -> f64 {
    let mut hash = Sha256::new();
    for part in
        [&seed.to_be_bytes()[..], step.as_bytes(), &attempt.to_be_bytes(), prompt.as_bytes()]
    {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part);
    }
    let digest = hash.finalize();
    let number = digest.iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    f64::from(number) / 4_294_967_296.0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agent(rules: Vec<SimulatedRule>) -> SimulatedAgent {
        SimulatedAgent { seed: 7, rules }
    }

    fn failing(probability: f64, times: Option<u32>) -> SimulatedAgent {
        let fault = Some(SimulatedFault::Crash);
        agent(vec![SimulatedRule { fault, probability, times, ..SimulatedRule::default() }])
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let rule = |prompt: Option<&str>, answer: &str| SimulatedRule {
            prompt: prompt.map(str::to_owned),
            answer: answer.to_owned(),
            ..SimulatedRule::default()
        };
        let agent = agent(vec![rule(Some("^fix"), "fixed"), rule(None, "other")]);
        assert_eq!(agent.turn("fix it", "1", 1).answer, "fixed");
        assert_eq!(agent.turn("do not fix it", "1", 1).answer, "other");
    }

    #[test]
    fn a_prompt_without_a_rule_is_an_error_unless_there_are_no_rules() {
        let rule = SimulatedRule { prompt: Some("^a$".to_owned()), ..SimulatedRule::default() };
        assert_eq!(agent(vec![rule]).turn("b", "1", 1).fault, Some(SimulatedFault::Error));
        assert_eq!(agent(vec![]).turn("b", "1", 1), SimulatedTurn::default());
    }

    #[test]
    fn the_prompt_is_filled_in_and_cannot_steer_a_path() {
        let rule = SimulatedRule {
            answer: "did {prompt}".to_owned(),
            edits: vec![SimulatedEdit {
                path: "notes/{prompt}.md".to_owned(),
                content: "{prompt}\n".to_owned(),
                append: true,
            }],
            commit: Some("{prompt}".to_owned()),
            ..SimulatedRule::default()
        };
        let turn = agent(vec![rule]).turn("../../x", "1", 1);
        assert_eq!(turn.answer, "did ../../x");
        assert_eq!(turn.commit.as_deref(), Some("../../x"));
        let edit = &turn.edits[0];
        assert_eq!(edit.content, "../../x\n");
        assert_eq!(edit.path, format!("notes/{}.md", safe_name("../../x")));
        assert_eq!(edit.path.matches('/').count(), 1);
    }

    #[test]
    fn a_fault_ends_after_its_times() {
        let agent = failing(1.0, Some(2));
        let faults: Vec<_> = (1..=4).map(|n| agent.turn("p", "1", n).fault.is_some()).collect();
        assert_eq!(faults, [true, true, false, false]);
    }

    #[test]
    fn luck_is_the_same_every_time_and_fair() {
        let count = |probability: f64| {
            let agent = failing(probability, None);
            (0..1000).filter(|n| agent.turn(&format!("p{n}"), "1", 1).fault.is_some()).count()
        };
        assert_eq!(count(0.0), 0);
        assert_eq!(count(1.0), 1000);
        let third = count(0.3);
        assert!((250..350).contains(&third), "{third}");
        assert_eq!(third, count(0.3));
    }

    #[test]
    fn another_attempt_step_or_seed_has_other_luck() {
        let base = luck(1, "p", "1", 1);
        for other in
            [luck(2, "p", "1", 1), luck(1, "q", "1", 1), luck(1, "p", "2", 1), luck(1, "p", "1", 2)]
        {
            assert!((base - other).abs() > f64::EPSILON);
        }
    }
}
