//! Any program.

use std::collections::BTreeMap;

use crate::failure::ReasonCode;

/// An agent that is any program.
///
/// Its output is its answer, and its exit code says whether it succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandAgent {
    /// The program and its arguments. With `prompt: argument`, the prompt is added at the end.
    pub command: Vec<String>,
    /// The way the prompt reaches it.
    pub prompt: PromptBy,
    /// The meaning of its exit codes; the others mean what they mean for any agent.
    pub exit_codes: BTreeMap<i32, ExitMeaning>,
    /// The file that has its answer, relative to where it runs; without it, what it prints.
    pub result_file: Option<String>,
}

/// The meaning of a program's exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitMeaning {
    /// The work is done.
    Success,
    /// It is not, for this reason.
    Failure(ReasonCode),
}

/// The way a prompt reaches a program.
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

impl CommandAgent {
    /// Makes an agent of a program that reads prompts from standard input.
    pub fn new(command: Vec<String>) -> Self {
        Self { command, prompt: PromptBy::Stdin, exit_codes: BTreeMap::new(), result_file: None }
    }
}
