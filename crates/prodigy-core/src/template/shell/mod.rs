//! Reading a shell script: which quotes a reference stands in, and whether a
//! value can be put there at all.
//!
//! The reader follows quotes, substitutions, here-documents and just enough of
//! the grammar to find the words of each command. Its mistakes are harmless: a
//! value only ever reaches the shell as the result of an expansion, which no
//! shell parses again, so the worst outcome is a wrong word. What remains are the
//! places where a *program* parses its arguments again; `rules` refuses those, and
//! `variables` follows values there that go through the variables of the script.

mod analysis;
mod arguments;
mod builtins;
mod commands;
mod expansion;
mod external;
mod heredoc;
mod inserted_arguments;
mod interpreter;
mod options;
mod programs;
mod scanner;
mod variables;
mod word;

pub(super) use self::scanner::{ScannedScript, scan};
pub(super) use analysis::{QuoteStyle, ScriptParam, ScriptPart};
pub use external::ExternalCommand;
