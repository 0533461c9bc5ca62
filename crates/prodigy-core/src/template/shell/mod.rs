//! Reading a shell script: which quotes a reference stands in, and whether a
//! value can be put there at all.
//!
//! The reader follows quotes, substitutions, here-documents and just enough of
//! the grammar to find the words of each command. Its mistakes are harmless: a
//! value only ever reaches the shell as the result of an expansion, which no
//! shell parses again, so the worst outcome is a wrong word. What remains are the
//! places where a *program* parses its arguments again; `rules` refuses those, and
//! `variables` follows values there that go through the variables of the script.

mod expansion;
mod found;
mod grammar;
mod heredoc;
mod interpreter;
mod options;
mod outside;
mod replaced;
mod rules;
mod scanner;
mod special;
mod tools;
mod variables;
mod word;

pub(super) use self::{
    found::{QuoteStyle, ScriptParam, ScriptPart},
    scanner::{ScannedScript, scan},
};

pub use self::outside::ExternalCommand;
